"""Rows in a Ray Dataset: a block is a partition, handed over as Arrow."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray
from ray.data.dataset import Dataset, MaterializedDataset

from lwcs.sources.base import GROUP
from lwcs.sources.engine import (
    LABEL,
    ArrowReading,
    EngineSource,
    RowWork,
    add_results,
    refuse_label,
    refuse_sample_weight,
)
from lwcs.sources.vectors import select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.foundation.types import DenseRows
    from lwcs.sources.base import Block
    from lwcs.sources.engine import Work

_IN_FLIGHT = 1024


def open_engine(
    data: Any,
    columns: Sequence[str] | str | None,
    weight: str | None,
    sample_weight: Any,
    *,
    drop: bool,
) -> RaySource:
    """Open a Ray Dataset."""
    refuse_sample_weight(sample_weight)
    if not isinstance(data, Dataset):
        raise TypeError(
            f"data of type {type(data).__module__}.{type(data).__name__} is not a table of rows; "
            "pass a ray.data.Dataset"
        )
    return RaySource(data, columns, weight, drop=drop)


class RaySource(EngineSource):
    """Some columns of a Ray Dataset, or one column of tensors.

    A lazy Dataset is computed once, its chosen columns alone, and stays in Ray's object store
    (which spills to disk) as long as this source: so every round sees the same rows.
    """

    def __init__(
        self,
        dataset: Any,
        columns: Sequence[str] | str | None = None,
        weight: str | None = None,
        *,
        drop: bool = False,
    ) -> None:
        schema = _schema(dataset)
        if schema is None:
            raise ValueError("there are no rows; at least one is needed")
        types = pa.schema(list(zip(schema.names, map(_as_arrow, schema.types), strict=True)))
        selection, sparse = select(types, columns, weight, lambda name: _first(dataset, name))
        super().__init__(ArrowReading(selection, drop, sparse), len(selection.feature_names))
        self.dataset, self.needed = dataset, selection.needed
        self.weighted, self.skipped = weight is not None, selection.skipped
        self._blocks: list[Any] | None = None

    def _refs(self) -> list[Any]:
        if self._blocks is None:
            chosen = self.dataset
            if not isinstance(chosen, MaterializedDataset):
                chosen = _materialized(chosen.select_columns(self.needed))
            self._blocks = chosen.to_arrow_refs()
            self.partitions = len(self._blocks)
        return self._blocks

    def run(self, work: Work, told: Sequence[bytes] | None, *, summed: bool) -> Iterator[bytes]:
        """Run a task on every block, near it, a thousand in flight."""
        shared, blocks = ray.put(work), self._refs()
        step = GROUP if summed else 1
        waiting: deque[Any] = deque()
        try:
            for start in range(0, len(blocks), step):
                calls = [
                    _CALL.remote(shared, i, None if told is None else told[i], blocks[i])
                    for i in range(start, min(start + step, len(blocks)))
                ]
                waiting.append(_ADD.remote(*calls) if summed else calls[0])
                if len(waiting) * step >= _IN_FLIGHT:
                    yield ray.get(waiting.popleft())
            while waiting:
                yield ray.get(waiting.popleft())
        finally:
            for left in waiting:
                ray.cancel(left)

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value a row, as the Dataset with one more column."""
        del n_jobs
        refuse_label(self.dataset.columns(), f"dataset.rename_columns({{{LABEL!r}: …}})")
        work, needed = RowWork(self.reading, task), self.needed

        def label(table: pa.Table) -> pa.Table:
            values = work(table.select(needed).combine_chunks().to_batches())
            return table.append_column(LABEL, pa.array(values, pa.int32()))

        return self.dataset.map_batches(label, batch_format="pyarrow", batch_size=None)


def _call(work: Work, partition: int, item: bytes | None, block: pa.Table) -> bytes:
    return work(block.to_batches(), partition, item)


def _add(*results: bytes) -> bytes:
    return add_results(results)


_CALL, _ADD = ray.remote(_call), ray.remote(_add)


def _schema(dataset: Any) -> Any:
    """The columns; where blocks do not agree on one, say which."""
    try:
        return dataset.schema()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        types = ray.get([_TYPES.remote(block) for block in dataset.to_arrow_refs()])
        for partition, own in enumerate(types):
            for name, kind in own.items():
                if kind != types[0].get(name, kind):
                    raise TypeError(
                        f"column {name!r} holds {kind} in partition {partition} but "
                        f"{types[0][name]} in partition 0; give it one type in all of them"
                    ) from error
        raise


def _types(block: pa.Table) -> dict[str, str]:
    return {field.name: str(field.type) for field in block.schema}


_TYPES = ray.remote(_types)


def _as_arrow(kind: Any) -> pa.DataType:
    """The type of a column; what is no Arrow type is an object of Python."""
    return kind if isinstance(kind, pa.DataType) else pa.string()


def _materialized(dataset: Any) -> Any:
    """Compute a Dataset, its blocks in their order; its context is shared, and put back."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return dataset.materialize()
    finally:
        options.preserve_order = before


def _first(dataset: Any, name: str) -> Any:
    rows = dataset.select_columns([name]).iter_rows()
    return next((row[name] for row in rows if row[name] is not None), None)
