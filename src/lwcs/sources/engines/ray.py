"""Rows in a Ray Dataset: each of its blocks is a partition, read as an Arrow table."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray
from ray.cloudpickle import dumps
from ray.data.dataset import Dataset, MaterializedDataset
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lwcs.sources.base import NO_ROWS
from lwcs.sources.columns import Selection
from lwcs.sources.engines.engine import (
    LABEL,
    ArrowReader,
    EngineSource,
    RowWork,
    add_results,
    refuse_column,
)
from lwcs.sources.engines.workers import by_value, check_workers, version_checked, versions
from lwcs.sources.sums import joined_in_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows
    from lwcs.sources.base import Block
    from lwcs.sources.engines.engine import Work
    from lwcs.sources.scan_options import ScanOptions

_IN_FLIGHT = 1024
"""Maximum number of partitions that are submitted and not fetched yet."""
_ASKED: set[tuple[str, str]] = set()
"""Jobs and nodes that have been asked for their versions."""
_HOW = ", for example with ray.init(runtime_env={'pip': ['lwcs==…']})"


def open_engine(data: Any, options: ScanOptions) -> RaySource:
    """Open a Ray Dataset."""
    options.refuse_weight_array()
    if not isinstance(data, Dataset):
        raise TypeError(
            f"data of type {type(data).__module__}.{type(data).__name__} is not a table of rows; "
            "pass a ray.data.Dataset"
        )
    return RaySource(data, options)


class RaySource(EngineSource):
    """Some columns of a Ray Dataset, or one column of tensors.

    The selected columns of a lazy Dataset are computed once, and stay in Ray's object store
    (which spills to disk) as long as this source exists. Blocks have no number in `map_batches`,
    and a Dataset that is executed twice may be cut differently, so that rounds would not match.
    """

    def __init__(self, dataset: Any, options: ScanOptions) -> None:
        schema = _schema(dataset)
        if schema is None:
            raise ValueError(NO_ROWS)
        fields = list(zip(schema.names, map(_as_arrow, schema.types), strict=True))
        types = pa.schema(fields, getattr(schema.base_schema, "metadata", None))
        selection = Selection.of(types, options, lambda name: _first(dataset, name))
        super().__init__(ArrowReader(selection, options.drop))
        self.dataset, self.columns_to_read = dataset, selection.columns_to_read
        self._blocks: list[Any] | None = None

    def _refs(self) -> list[Any]:
        if self._blocks is None:
            chosen = self.dataset
            if not isinstance(chosen, MaterializedDataset):
                chosen = _materialized(chosen.select_columns(self.columns_to_read))
            self._blocks = chosen.to_arrow_refs()
            self.partitions = len(self._blocks)
        return self._blocks

    def ask_workers(self) -> None:
        """Ask every node that is alive and has not been asked yet."""
        job = ray.get_runtime_context().get_job_id()
        nodes = {
            node["NodeID"]: node["NodeManagerAddress"]
            for node in ray.nodes()
            if node["Alive"] and (job, node["NodeID"]) not in _ASKED
        }
        # A node that disappears in between must not block the others.
        places = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes]
        asked = [_VERSIONS.options(scheduling_strategy=place).remote() for place in places]
        answers = {}
        for address, answer in zip(nodes.values(), asked, strict=True):
            try:
                answers[address] = ray.get(answer)
            except ray.exceptions.RayError as error:
                answers[address] = error
        check_workers(answers, _HOW)
        _ASKED.update((job, node) for node in nodes)

    def run(self, work: Work, items: Sequence[bytes] | None) -> Iterator[bytes]:
        """Run a task on every block, near it."""
        return (ray.get(each) for each in _finished(self._calls(work, items)))

    def run_sums(self, work: Work) -> Iterator[bytes]:
        """Run a task on every block, and add up results and sums near them."""
        results = _finished(self._calls(work, None))
        sums = joined_in_levels(results, lambda group: _ADD.remote(*group))
        return (ray.get(each) for each in sums)

    def _calls(self, work: Work, items: Sequence[bytes] | None) -> Iterator[Any]:
        """Submit the work on every block, one after the other."""
        shared = ray.put(version_checked(work, dumps))
        for i, block in enumerate(self._refs()):
            yield _CALL.remote(shared, i, None if items is None else items[i], block)

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value per row, as the Dataset with a column of labels."""
        del n_jobs
        refuse_column(LABEL, self.dataset.columns(), f"dataset.rename_columns({{{LABEL!r}: …}})")
        work, names = version_checked(RowWork(self.reader, task), dumps), self.columns_to_read

        def label(table: pa.Table) -> pa.Table:
            values = work(table.select(names).combine_chunks().to_batches())
            return table.append_column(LABEL, pa.array(values, pa.int32()))

        return self.dataset.map_batches(label, batch_format="pyarrow", batch_size=None)


def _finished(submitted: Iterable[Any]) -> Iterator[Any]:
    """Yield references to results in order, each once it is there, with `_IN_FLIGHT` ahead."""
    waiting: deque[Any] = deque()
    try:
        for each in submitted:
            waiting.append(each)
            if len(waiting) >= _IN_FLIGHT:
                yield _awaited(waiting.popleft())
        while waiting:
            yield _awaited(waiting.popleft())
    finally:
        for left in waiting:
            ray.cancel(left)


def _awaited(result: Any) -> Any:
    """A reference to a result, once it is there; it stays where it is."""
    ray.wait([result], fetch_local=False)
    return result


def _call(work: Callable[..., bytes], partition: int, item: bytes | None, block: pa.Table) -> bytes:
    return work(block.to_batches(), partition, item)


def _add(*results: bytes) -> bytes:
    return add_results(results)


# Without a core, so that the task need not wait for one.
_VERSIONS = ray.remote(num_cpus=0)(versions)
_CALL, _ADD = ray.remote(by_value(_call)), ray.remote(version_checked(_add, dumps))


def _schema(dataset: Any) -> Any:
    """The schema; if types of blocks differ, an error that names the column."""
    try:
        return dataset.schema()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        types = ray.get([_TYPES.remote(block) for block in dataset.to_arrow_refs()])
        for partition, own in enumerate(types):
            for name, kind in own.items():
                if kind != types[0].get(name, kind):
                    raise TypeError(
                        f"column {name!r} holds {kind} in partition {partition} but "
                        f"{types[0][name]} in partition 0; cast it to one type in all partitions"
                    ) from error
        raise


def _types(block: pa.Table) -> dict[str, str]:
    return {field.name: str(field.type) for field in block.schema}


_TYPES = ray.remote(by_value(_types))


def _as_arrow(kind: Any) -> pa.DataType:
    """The Arrow type of a column; Python objects become text."""
    return kind if isinstance(kind, pa.DataType) else pa.string()


def _materialized(dataset: Any) -> Any:
    """Compute a Dataset with its blocks in order; its context, which is shared, is restored."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return dataset.materialize()
    finally:
        options.preserve_order = before


def _first(dataset: Any, name: str) -> list[Any]:
    rows = dataset.select_columns([name]).iter_rows()
    return list(islice((row[name] for row in rows if row[name] is not None), 1))
