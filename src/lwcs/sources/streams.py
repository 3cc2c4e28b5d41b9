"""Rows that a reader, a query or a generator hands over in batches."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.types import is_sparse
from lwcs.sources.local import open_local
from lwcs.sources.sequence import ArrayBatch, SequenceSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lwcs.sources.base import LocalSource
    from lwcs.sources.sequence import Batch


class QuerySource(SequenceSource):
    """A lazy query: run again for every pass."""

    def __init__(
        self,
        run: Callable[[], pa.RecordBatchReader],
        schema: pa.Schema,
        columns: Sequence[str] | str | None = None,
        weight: str | None = None,
        *,
        drop: bool = False,
        rereadable: bool = True,
    ) -> None:
        from lwcs.sources.arrow import Selection

        super().__init__()
        self._run, self._drop, self.rereadable = run, drop, rereadable
        self._selection = Selection.of(schema, columns, weight)
        self.dtype, self.skipped = self._selection.dtype, self._selection.skipped
        self.feature_names = self._selection.feature_names
        self.n_features, self.weighted = len(self.feature_names), weight is not None
        self.n_rows = None

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Run the query, or go on with the reader."""
        from lwcs.sources.arrow import ArrowBatch

        done = 0
        for batch in self._run():
            if batch.num_rows:
                chosen = batch.select(self._selection.needed)
                yield "", ArrowBatch(chosen, self._selection, self._drop, "", done)
                done += batch.num_rows


class BatchesSource(SequenceSource):
    """Arrays or tables, one after the other: what an iterator yields."""

    def __init__(self, batches: Iterable[Any]) -> None:
        super().__init__()
        reading = iter(batches)
        self.rereadable = reading is not batches
        self._batches = batches
        first = next((part for part in map(open_local, reading) if part.n_rows), None)
        if first is None:
            raise ValueError("there are no rows; at least one is needed")
        self._started: Iterator[LocalSource] | None = chain([first], map(open_local, reading))
        self.n_features, self.n_rows = first.n_features, None
        self.feature_names = first.feature_names
        rows = first.read(0, 1)
        narrow = rows.dtype in (np.float32, np.float16)
        self.dtype, self._sparse = np.dtype(np.float32 if narrow else np.float64), is_sparse(rows)

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Check every array against the first."""
        started, self._started = self._started, None
        reading = map(open_local, self._batches) if started is None else started
        for i, part in enumerate(reading):
            rows = part.read(0, part.n_rows)
            kind = "sparse" if is_sparse(rows) else "dense"
            if part.n_features != self.n_features or is_sparse(rows) != self._sparse:
                raise ValueError(
                    f"batch {i} is {kind} with {part.n_features} columns, but the first one was "
                    f"{'sparse' if self._sparse else 'dense'} with {self.n_features}"
                )
            if part.feature_names != self.feature_names:
                raise ValueError(
                    f"batch {i} has the columns {part.feature_names}, but the first one had "
                    f"{self.feature_names}"
                )
            if rows.dtype == np.float64 and self.dtype == np.float32:
                raise ValueError(
                    f"batch {i} holds float64, which the float32 of the first one cannot; give all "
                    "batches one dtype"
                )
            yield "", ArrayBatch(rows.astype(self.dtype, copy=False), part.n_rows)


def open_query(
    data: Any, columns: Sequence[str] | str | None, weight: str | None, *, drop: bool
) -> QuerySource:
    """Open a lazy frame, a relation or a reader (see `is_query`)."""
    options: dict[str, Any] = {"columns": columns, "weight": weight, "drop": drop}
    if type(data).__name__ == "LazyFrame":
        return QuerySource(lambda: _polars_reader(data), _polars_schema(data), **options)
    if hasattr(data, "to_arrow_reader"):
        # Asked for no rows, so that no result stays open on the connection.
        schema = data.limit(0).to_arrow_table().schema
        return QuerySource(data.to_arrow_reader, schema, **options)
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        return QuerySource(lambda: data, data.schema, rereadable=False, **options)
    reader = pa.RecordBatchReader.from_stream(data)
    return QuerySource(lambda: reader, reader.schema, rereadable=False, **options)


def _polars_schema(frame: Any) -> pa.Schema:
    return frame.collect_schema().to_frame().to_arrow().schema


def _polars_reader(frame: Any) -> pa.RecordBatchReader:
    import pyarrow as pa

    schema = _polars_schema(frame)
    batches = (
        batch.cast(schema)
        for part in frame.collect_batches(maintain_order=True)
        for batch in part.to_arrow().to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)
