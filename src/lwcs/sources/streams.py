"""Rows that a reader, a query or an iterator hands over in batches."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.rows import container
from lwcs.sources.base import NO_ROWS
from lwcs.sources.batches import ArrayBatch
from lwcs.sources.checks import check_not_empty
from lwcs.sources.local import open_local
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lwcs.sources.base import LocalSource
    from lwcs.sources.batches import Batch
    from lwcs.sources.options import ScanOptions


class QuerySource(SequenceSource):
    """A lazy query, executed again for every pass; or a reader, which is read once."""

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

        super().__init__(rereadable=rereadable)
        self._run, self._drop = run, drop
        self._selection = Selection.of(schema, columns, weight)
        self.dtype, self.skipped = self._selection.dtype, self._selection.skipped
        self.feature_names = self._selection.feature_names
        self.n_features, self.weighted = len(self.feature_names), weight is not None
        self.n_rows = None

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Execute the query, or go on with the reader."""
        from lwcs.sources.arrow import ArrowBatch

        done = 0
        for batch in self._run():
            if batch.num_rows:
                chosen = batch.select(self._selection.columns_to_read)
                yield "", ArrowBatch(chosen, self._selection, self._drop, "", done)
                done += batch.num_rows


class BatchesSource(SequenceSource):
    """Arrays or tables, one after the other: what an iterator or an iterable yields."""

    def __init__(self, batches: Iterable[Any]) -> None:
        reading = iter(batches)
        super().__init__(rereadable=reading is not batches)
        self._batches = batches
        first = next((part for part in map(open_local, reading) if part.n_rows), None)
        if first is None:
            raise ValueError(NO_ROWS)
        check_not_empty((float("nan"), first.n_features))
        self._started: Iterator[LocalSource] | None = chain([first], map(open_local, reading))
        self.n_features, self.n_rows = first.n_features, None
        self.feature_names = first.feature_names
        rows = first.read(0, 1)
        narrow = rows.dtype in (np.float32, np.float16)
        self.dtype, self._container = (
            np.dtype(np.float32 if narrow else np.float64),
            container(rows),
        )

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Check every batch against the first."""
        started, self._started = self._started, None
        reading = map(open_local, self._batches) if started is None else started
        for i, part in enumerate(reading):
            rows = part.read(0, part.n_rows)
            if part.n_features != self.n_features or container(rows) != self._container:
                raise ValueError(
                    f"batch {i} is {container(rows)} with {part.n_features} columns, but the first "
                    f"batch is {self._container} with {self.n_features} columns; all batches must "
                    "be alike"
                )
            if part.feature_names != self.feature_names:
                raise ValueError(
                    f"batch {i} has the columns {part.feature_names}, but the first batch has "
                    f"{self.feature_names}; all batches must have the same columns in one order"
                )
            if rows.dtype == np.float64 and self.dtype == np.float32:
                raise ValueError(
                    f"batch {i} holds float64, but the first batch holds {self.dtype}; all batches "
                    "must have the same dtype"
                )
            yield "", ArrayBatch(rows.astype(self.dtype, copy=False), part.n_rows)


def open_query(data: Any, options: ScanOptions) -> QuerySource:
    """Open a lazy frame, a relation or a reader (see `is_query`)."""
    options.refuse_weight_array()
    chosen: dict[str, Any] = {
        "columns": options.columns, "weight": options.weight_column, "drop": options.drop
    }  # fmt: skip
    if type(data).__name__ == "LazyFrame":
        return QuerySource(lambda: _polars_reader(data), _polars_schema(data), **chosen)
    if hasattr(data, "to_arrow_reader"):
        # Asked for no rows, so that no result stays open on the connection.
        schema = data.limit(0).to_arrow_table().schema
        return QuerySource(data.to_arrow_reader, schema, **chosen)
    import pyarrow as pa

    if not isinstance(data, pa.RecordBatchReader):
        data = pa.RecordBatchReader.from_stream(data)
    return QuerySource(lambda: data, data.schema, rereadable=False, **chosen)


def open_stream(data: Iterable[Any], options: ScanOptions) -> BatchesSource:
    """Open an iterator or an iterable of arrays or tables (see `is_stream`)."""
    options.refuse_weight_array()
    if options.columns is not None or options.weight_column is not None:
        raise TypeError(
            "columns= and weight= are not supported for batches of an iterator; select the columns "
            "of every batch as it is made"
        )
    return BatchesSource(data)


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
