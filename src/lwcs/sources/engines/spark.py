"""Rows in a Spark DataFrame, classic or Connect: `mapInArrow` runs over its partitions.

Labels are a column that an Arrow function computes from the features alone: other columns stay
where they are, and Spark leaves the function out where nobody asks for labels.

Most of the time of a build over many small partitions would be lost in two ways. Spark collects
garbage after every task, through all that was imported: workers freeze it. And it discards a
worker that left rows unread, so that the next one loads everything again: tasks read to the end.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.cloudpickle import dumps
from pyspark.ml.functions import vector_to_array
from pyspark.sql.functions import coalesce, lit, struct, unwrap_udt, when
from pyspark.sql.functions import col as column
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from lwcs.arrays.checks import translating
from lwcs.sources.base import ROWS_CHANGED
from lwcs.sources.column_types import SPARSE, is_spark_vector
from lwcs.sources.columns import Selection
from lwcs.sources.engines.engine import (
    LABEL,
    ArrowReader,
    EngineSource,
    RowWork,
    add_results,
    pack_error,
    refuse_column,
)
from lwcs.sources.engines.workers import by_value, check_workers, version_checked, versions
from lwcs.sources.sums import GROUP

try:
    from pyspark.sql.functions import arrow_udf
except ImportError:  # before pyspark 4.1
    arrow_udf = None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lwcs.arrays.types import DenseRows
    from lwcs.sources.base import Block
    from lwcs.sources.engines.engine import Work
    from lwcs.sources.engines.workers import Versions
    from lwcs.sources.scan_options import ScanOptions

_SENT = "group int, part int, result binary"
"""A result: its number, which is that of its partition or group, and the group that it is in."""
_ASKED: WeakSet[Any] = WeakSet()
"""The sessions whose workers have been asked for their versions."""
# Enough for a row in every partition.
_ASKED_ROWS = 10_000
_HOW = (
    ", or set spark.pyspark.python (or the environment variable PYSPARK_PYTHON) to a Python that "
    "has it"
)


def open_engine(data: Any, options: ScanOptions) -> SparkSource:
    """Open a Spark DataFrame, or a DataFrame of pandas on Spark."""
    options.refuse_weight_array()
    if type(data).__name__ != "DataFrame":
        raise TypeError(
            f"data of type {type(data).__module__}.{type(data).__name__} is not a table of rows; "
            "pass a Spark DataFrame"
        )
    if type(data).__module__.startswith("pyspark.pandas"):
        data = data.to_spark()
    return SparkSource(data, options)


class SparkSource(EngineSource):
    """Some columns of a Spark DataFrame, or one column of vectors or arrays."""

    def __init__(
        self, frame: Any, options: ScanOptions, *, like: tuple[int, bool] | None = None
    ) -> None:
        """Open a DataFrame.

        `like` has the length of its vectors, and whether they are sparse; by default, both are
        those of the first vector.
        """
        schema = pa.schema([(field.name, _type(field.dataType)) for field in frame.schema])
        selection = Selection.of(
            schema,
            options,
            lambda name: _first(frame, name) if like is None else [_vector(schema, name, *like)],
        )
        super().__init__(ArrowReader(selection, options.drop))
        self.frame = frame
        self.columns_to_read, self.sparse = selection.columns_to_read, selection.sparse

    def ask_workers(self) -> None:
        """Ask for versions in as many tasks as there are cores, which Spark distributes."""
        session = self.frame.sparkSession
        if session not in _ASKED:
            with _explaining_workers():
                rows = session.range(_ASKED_ROWS)
                answers = rows.mapInArrow(_versions_function(versions), "worker string").collect()
            check_workers(dict(json.loads(row.worker) for row in answers), _HOW)
            _ASKED.add(session)

    def _mapped(self, work: Work, items: Sequence[bytes] | None) -> Any:
        """Map every partition to one row: its group, its number, and bytes."""
        names = self.columns_to_read
        chosen = _with_numbered_columns(self.frame.select(*map(self._column_to_send, names)))
        over = version_checked(_partition_function(work, items, names), dumps)
        return chosen.mapInArrow(over, _SENT)

    def run_sums(self, work: Work) -> Iterator[bytes]:
        """Add up groups of partitions on the workers, then groups of sums, until one is left."""
        add, left = version_checked(_add, dumps), self.count_partitions()
        sums = self._mapped(work, None)
        while left > 1:
            sums, left = sums.groupBy("group").applyInArrow(add, _SENT), -(-left // GROUP)
        with _explaining_workers():
            rows = sums.collect()
        # More than one if there are more partitions than before.
        return (bytes(row.result) for row in sorted(rows, key=lambda row: row.part))

    def run(self, work: Work, items: Sequence[bytes] | None) -> Iterator[bytes]:
        """Collect one result per partition."""
        with _explaining_workers():
            sent = self._mapped(work, items).collect()
        results = {row.part: bytes(row.result) for row in sent}
        # A partition that has disappeared has no rows, but may have rows to draw.
        parts = max(len(results), 0 if items is None else len(items))
        self.partitions = parts
        return (
            results[i] if i in results else work([], i, None if items is None else items[i])
            for i in range(parts)
        )

    def _column_to_send(self, name: str) -> Any:
        """A column as it is sent to the workers; dense vectors are faster as arrays."""
        given = column(quoted(name))
        if type(self.frame.schema[name].dataType).__name__ != "VectorUDT":
            return given
        vector = unwrap_udt(given)
        if not self.sparse:
            dense = vector["values"]
            return when(vector["type"] == SPARSE, vector_to_array(given)).otherwise(dense)
        # Spark takes ten times as long to send lists that are null, as indices of dense vectors.
        indices = coalesce(vector["indices"], lit([]).cast("array<int>")).alias("indices")
        fields = [vector[each].alias(each) for each in ("type", "size", "values")]
        return when(given.isNotNull(), struct(*fields, indices))

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value per row, as the DataFrame with a column of labels."""
        del n_jobs
        return self.with_values(task, LABEL)

    def with_values(self, task: Callable[[Block], DenseRows], name: str) -> Any:
        """The DataFrame with one more column of integers, lazily."""
        frame, names = self.frame, self.columns_to_read
        refuse_column(name, frame.columns, f"frame.withColumnRenamed({name!r}, …)")
        sent = [self._column_to_send(each).alias(f"c{i}") for i, each in enumerate(names)]
        schema = None if arrow_udf is not None else to_arrow_schema(frame.select(*sent).schema)
        over = _label_function(RowWork(self.reader, task), names, schema)
        return frame.withColumn(name, _column_function(over)(struct(*sent)))


def quoted(name: str) -> str:
    """The name of a column in backquotes, since it may have dots."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def _with_numbered_columns(frame: Any) -> Any:
    """The columns, named by number: to mapInArrow, a dot in a name means a field of a struct."""
    return frame.toDF(*[f"c{i}" for i in range(len(frame.columns))])


def _type(kind: Any) -> pa.DataType:
    """The Arrow type of a column; null, which is not a number, for types that Arrow lacks."""
    try:
        return to_arrow_type(kind, timezone="UTC")
    except (TypeError, ValueError, AssertionError):
        return pa.null()


def _vector(schema: pa.Schema, name: str, length: int, sparse: bool) -> Any:
    """A vector as `_first` would find it in a column."""
    if not is_spark_vector(schema.field(name).type):
        return [0.0] * length
    return {"type": SPARSE if sparse else 1, "size": length, "values": [0.0] * length}


def _first(frame: Any, name: str) -> list[Any]:
    some = _with_numbered_columns(frame.select(quoted(name))).where("c0 is not null").limit(1)
    # Through Arrow, as workers receive it.
    with _explaining_workers():
        table = some.mapInArrow(version_checked(_values_as_json, dumps), "v string").toArrow()
    return [json.loads(value) for value in table.column(0).to_pylist()]


def _values_as_json(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Values of a column as JSON: only their shape matters, and they may be decimals or dates."""
    for batch in batches:
        values = [json.dumps(value.as_py(), default=str) for value in batch.column(0)]
        yield pa.RecordBatch.from_arrays([pa.array(values, pa.string())], names=["v"])


def _partition_function(
    work: Work, items: Sequence[bytes] | None, names: list[str]
) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The function that Spark runs over the batches of a partition."""

    def over(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = _partition()
        item = None
        if items is not None:
            if part >= len(items):
                advice = "there are more partitions than before; cache the DataFrame or save it"
                yield _result_batch(part, pack_error(ValueError(f"{ROWS_CHANGED}: {advice}")))
                return
            item = items[part]
        each = iter(batches)
        result = work((batch.rename_columns(names) for batch in each), part, item)
        # Spark discards a worker that left rows unread.
        for _ in each:
            pass
        _freeze()
        yield _result_batch(part, result)

    return over


@cache
def _freeze() -> None:
    """Exclude what was imported from the garbage collection after every Spark task."""
    gc.freeze()


def _result_batch(part: int, result: bytes) -> pa.RecordBatch:
    number = pa.array([part], pa.int32())
    group = pa.array([part // GROUP], pa.int32())
    return pa.RecordBatch.from_arrays(
        [group, number, pa.array([result], pa.binary())], names=["group", "part", "result"]
    )


def _add(group: pa.Table) -> pa.Table:
    ordered = group.sort_by("part")
    total = add_results(ordered.column("result").to_pylist())
    return pa.Table.from_batches([_result_batch(ordered.column("group")[0].as_py(), total)])


def _label_function(
    work: RowWork, names: list[str], schema: pa.Schema | None
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function over the structs of a partition; with a schema, they are DataFrames."""

    def over(structs: Iterable[Any]) -> Iterator[Any]:
        part, done = _partition(), 0
        for each in structs:
            if schema is None:
                batch = pa.RecordBatch.from_struct_array(each)
            else:
                batch = pa.RecordBatch.from_pandas(each, schema, preserve_index=False)
            values = work([batch.rename_columns(names)], part, done)
            yield pa.array(values, pa.int32()) if schema is None else _series(values)
            done += batch.num_rows
        _freeze()

    return over


def _series(values: DenseRows) -> Any:
    import pandas as pd

    return pd.Series(values)


def _column_function(over: Callable[[Iterable[Any]], Iterator[Any]]) -> Callable[[Any], Any]:
    """The function as one over a column of structs, whose result is a column of integers."""
    checked = version_checked(over, dumps)

    def called(batches: Any) -> Any:
        return checked(batches)

    sent = by_value(called)
    taken: Any
    given: Any
    if arrow_udf is not None:
        taken, given, make = pa.Array, pa.Array, arrow_udf
    else:
        import pandas as pd
        from pyspark.sql.functions import pandas_udf

        taken, given, make = pd.DataFrame, pd.Series, pandas_udf
    # Spark reads from the types that the function is called once per partition.
    sent.__annotations__ = {"batches": Iterator[taken], "return": Iterator[given]}
    function: Callable[[Any], Any] = make(sent, "int")
    return function


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _versions_function(ask: Callable[[], Versions]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The function that returns the name and the versions of a worker."""

    def over(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json
        import socket

        import pyarrow as pa

        for _ in batches:
            pass
        answer = json.dumps([socket.gethostname(), ask()])
        yield pa.RecordBatch.from_arrays([pa.array([answer])], names=["worker"])

    sent: Callable[..., Iterator[pa.RecordBatch]] = by_value(over)
    return sent


# Missing modules of the user's own functions are not explained.
_MISSING_MODULE = re.compile(
    r"ModuleNotFoundError: No module named "
    r"'((?:lwcs|numpy|pyarrow|scipy|sklearn|narwhals|threadpoolctl|pyspark)[^']*)'"
)


def _explaining_workers() -> AbstractContextManager[None]:
    """Raise the error of a worker about its versions without the text that Spark adds."""
    return translating(_of_a_worker)


def _of_a_worker(error: Exception) -> Exception | None:
    found = re.search(r"RuntimeError: (a worker on .* has .*lwcs.*)", str(error))
    if found is not None:
        return RuntimeError(found[1] + _HOW)
    # Spark imports pyarrow before our own function can check for it.
    lacking = _MISSING_MODULE.search(str(error))
    if lacking is None:
        return None
    return RuntimeError(
        f"the Python of a worker has no module {lacking[1]!r}; install it, and the same version "
        f"of lwcs, on all workers{_HOW}"
    )
