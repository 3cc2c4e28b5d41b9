"""Rows in a Dask array or DataFrame, or in Delayed: a chunk is a partition, on any scheduler.

Every round computes the chunks again, unless they are persisted; weight and cost of a partition
must agree between rounds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import dask
import numpy as np
from cloudpickle import dumps

from lwcs.sources.columns import Selection
from lwcs.sources.engines.engine import (
    LABEL,
    ArrayReader,
    ArrowReader,
    EngineSource,
    RowWork,
    add_results,
)
from lwcs.sources.engines.workers import by_value, check_workers, version_checked, versions
from lwcs.sources.kinds import engine_of
from lwcs.sources.scan_options import check_dtype, check_not_empty, check_one_level, check_shape
from lwcs.sources.sums import in_groups, joined_in_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lwcs.arrays.types import DenseRows
    from lwcs.sources.base import Block
    from lwcs.sources.engines.engine import PartitionReader, Work
    from lwcs.sources.scan_options import ScanOptions

_WEIGHT = "sample_weight"


def open_engine(data: Any, options: ScanOptions) -> EngineSource:
    """Open a Dask array or DataFrame, or a list of Delayed."""
    if isinstance(data, (list, tuple)):
        data = _put_together(data)
    kind = type(data).__name__
    if kind == "Array":
        options.refuse_columns("a Dask array")
        return DaskArraySource(data, options.weight_array, drop=options.drop)
    if kind == "DataFrame":
        if options.weight_array is not None:
            data = _with_weights(data, options.weight_array)
            options = replace(options, weight=_WEIGHT)
        return DaskTableSource(data, options)
    raise TypeError(
        f"a Dask {kind} is not a table of rows; pass a dask.array.Array or a "
        "dask.dataframe.DataFrame, or a list of Delayed"
    )


def _put_together(parts: Sequence[Any]) -> Any:
    """A list of Delayed as an array or a DataFrame, according to the first of them."""
    read = dask.delayed(_as_pandas, pure=False)
    (first,) = dask.compute(dask.delayed(_no_rows, pure=False)(read(parts[0])))
    if hasattr(first, "columns"):
        import dask.dataframe as dd

        return dd.from_delayed([read(part) for part in parts], meta=first, verify_meta=False)
    import dask.array as da

    shape: tuple[int, ...] = getattr(first, "shape", ())
    if len(shape) != 2:
        raise TypeError(
            f"a Delayed gives a {type(first).__name__}, which is not a table of rows; every one "
            "must give a two-dimensional array, dense or sparse, or a table"
        )
    known = {"shape": (np.nan, shape[1]), "dtype": first.dtype, "meta": first}
    return da.concatenate([da.from_delayed(part, **known) for part in parts])


@by_value
def _as_pandas(part: Any) -> Any:
    """A table as one of pandas, which Dask computes with; arrays are returned unchanged."""
    return part.to_pandas() if hasattr(part, "to_pandas") else part


@by_value
def _no_rows(part: Any) -> Any:
    """A part without its rows, which has its type and columns."""
    return part[:0] if hasattr(part, "shape") and part.shape else part


class _DaskSource(EngineSource):
    """The common part of arrays and tables: delayed chunks, and how to run work over them."""

    rows: Callable[..., Any]
    """Rows as the reader takes them, from what a chunk is made of."""

    def __init__(self, reader: PartitionReader, chunks: list[tuple[Any, ...]]) -> None:
        super().__init__(reader)
        self.chunks, self.partitions = chunks, len(chunks)

    def ask_workers(self) -> None:
        """Ask the workers of the active client; other schedulers run on this machine."""
        client = getattr(dask.base.get_scheduler(), "__self__", None)
        if client is not None and hasattr(client, "run") and client not in _ASKED:
            answers = client.run(versions, on_error="return")
            check_workers(answers)
            # A cluster may have no workers yet.
            if answers:
                _ASKED.add(client)

    def run(self, work: Work, items: Sequence[bytes] | None) -> Iterator[bytes]:
        """Delay the work on every chunk, and fetch the results in groups."""
        groups = map(_delayed(list), in_groups(self._calls(work, items)))
        return chain.from_iterable(dask.compute(*groups))

    def run_sums(self, work: Work) -> Iterator[bytes]:
        """Delay the work on every chunk, and the sums of all levels."""
        sums = joined_in_levels(self._calls(work, None), _delayed(add_results))
        return iter(dask.compute(*sums))

    def _calls(self, work: Work, items: Sequence[bytes] | None) -> Iterator[Any]:
        # One node of the graph, which is sent to a worker once, not with every chunk.
        on_chunk = version_checked(partial(_work_on_chunk, work, self.rows), dumps)
        shared = dask.delayed(on_chunk, traverse=False, pure=False)
        call = dask.delayed(_call, pure=False)
        for i, chunk in enumerate(self.chunks):
            yield call(shared, i, None if items is None else items[i], *chunk)


_ASKED: WeakSet[Any] = WeakSet()
"""The clients whose workers have been asked for their versions."""


def _work_on_chunk(
    work: Work, rows: Callable[..., Any], partition: int, item: bytes | None, *chunk: Any
) -> bytes:
    """Run work on the objects that a chunk consists of."""
    return work(rows(*chunk), partition, item)


@by_value
def _call(work: Callable[..., bytes], partition: int, item: bytes | None, *chunk: Any) -> bytes:
    return work(partition, item, *chunk)


def _delayed(join: Callable[[list[bytes]], Any]) -> Callable[[list[Any]], Any]:
    """A function that joins results on a worker, whose calls are delayed."""
    delayed: Callable[[list[Any]], Any] = dask.delayed(version_checked(join, dumps), pure=False)
    return delayed


def _as_pair(array: Any, weights: Any) -> tuple[Any, Any]:
    return array, weights


def _as_arrow(frame: Any) -> list[pa.RecordBatch]:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False, nthreads=1)
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


class DaskArraySource(_DaskSource):
    """A two-dimensional Dask array, of dense or sparse chunks; a chunk of rows is a partition."""

    rows = staticmethod(_as_pair)

    def __init__(self, array: Any, sample_weight: Any = None, *, drop: bool = False) -> None:
        check_shape(array.shape)
        check_dtype(array.dtype)
        check_not_empty(array.shape)
        n_rows, n_features = array.shape
        if array.numblocks[1] > 1:
            # A chunk must hold whole rows.
            array = array.rechunk({1: -1})
        self.array = array
        rows = array.to_delayed().ravel()
        weights = [None] * len(rows)
        if sample_weight is not None:
            weights = _weights(sample_weight, array).to_delayed().ravel()
        reader = ArrayReader(n_features, sample_weight is not None, drop)
        super().__init__(reader, list(zip(rows, weights, strict=True)))
        self.n_rows = None if np.isnan(n_rows) else int(n_rows)

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value per row, as a lazy Dask array."""
        del n_jobs
        return self.array.map_blocks(
            _values,
            version_checked(RowWork(self.reader, task), dumps),
            drop_axis=1,
            dtype=np.int32,
            meta=np.empty(0, dtype=np.int32),
        )


@by_value
def _values(
    chunk: Any, work: Callable[..., Any], block_id: tuple[int, ...] | None = None
) -> DenseRows:
    labels: DenseRows = work((chunk, None), None if block_id is None else block_id[0])
    return labels


def _weights(weights: Any, array: Any) -> Any:
    """Weights in chunks like those of the rows."""
    import dask.array as da

    if engine_of(weights) == "dask" and hasattr(weights, "to_dask_array"):
        weights = weights.to_dask_array()
    unknown = bool(np.isnan(array.shape[0]))
    if not isinstance(weights, da.Array):
        weights = np.asarray(weights)
        if unknown:
            raise ValueError(
                "the lengths of the array's chunks are not known, so weights in memory cannot be "
                "chunked in the same way; pass a Dask array of weights, or call "
                "X.compute_chunk_sizes() first"
            )
    unknown = unknown or bool(np.isnan(weights.shape).any())
    if weights.ndim != 1 or (not unknown and weights.shape != array.shape[:1]):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but the data has {array.shape[0]} rows; "
            "pass one weight per row"
        )
    if not unknown:
        return da.asarray(weights).rechunk((array.chunks[0],))
    if weights.numblocks[0] != array.numblocks[0]:
        raise ValueError(
            f"sample_weight has {weights.numblocks[0]} chunks but the data has "
            f"{array.numblocks[0]}; chunk both in the same way"
        )
    return weights


class DaskTableSource(_DaskSource):
    """Some columns of a Dask DataFrame."""

    rows = staticmethod(_as_arrow)

    def __init__(self, frame: Any, options: ScanOptions) -> None:
        check_one_level(frame.columns)
        if any(not isinstance(name, str) for name in frame.columns):
            frame = frame.rename(columns={name: str(name) for name in frame.columns})
        selection = Selection.of(_schema(frame), options, lambda name: _first(frame, name))
        self.frame = frame[selection.columns_to_read]
        reader = ArrowReader(selection, options.drop)
        super().__init__(reader, [(chunk,) for chunk in self.frame.to_delayed()])

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value per row, as a Dask Series with the index of the rows."""
        import pandas as pd

        del n_jobs
        meta = pd.Series(name=LABEL, dtype=np.int32)
        series = version_checked(partial(_labels, RowWork(self.reader, task)), dumps)
        return self.frame.map_partitions(series, meta=meta)


def _labels(work: RowWork, frame: Any) -> Any:
    """The labels of a table, with its index."""
    import pandas as pd

    return pd.Series(work(_as_arrow(frame)), index=frame.index, name=LABEL, dtype=np.int32)


def _with_weights(frame: Any, sample_weight: Any) -> Any:
    """The table with a column of weights."""
    if engine_of(sample_weight) != "dask" or type(sample_weight).__name__ != "Series":
        raise TypeError(
            f"sample_weight is a {type(sample_weight).__name__}; for a Dask DataFrame, pass a Dask "
            "Series with the same index, or add it as a column and use lwcs.scan(…, weight=…)"
        )
    if _WEIGHT in frame.columns:
        raise ValueError(
            f"sample_weight is given, but there is a column {_WEIGHT!r} already; rename it, or use "
            f"it with lwcs.scan(…, weight={_WEIGHT!r})"
        )
    return frame.assign(**{_WEIGHT: sample_weight})


def _schema(frame: Any) -> pa.Schema:
    """Types of the columns; Dask computes a value only where they are Python objects."""
    import pyarrow as pa

    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)
    # The type of Python objects is that of the first of them.
    return pa.schema(
        [
            pa.field(f.name, _object_type(_first(frame, f.name))) if pa.types.is_null(f.type) else f
            for f in schema
        ]
    )


def _object_type(first: list[Any]) -> pa.DataType:
    import pyarrow as pa

    try:
        return pa.array(first).type if first else pa.null()
    except (pa.ArrowException, TypeError):
        return pa.string()


def _first(frame: Any, name: str) -> list[Any]:
    return list(frame[[name]].dropna().head(1, npartitions=-1)[name])
