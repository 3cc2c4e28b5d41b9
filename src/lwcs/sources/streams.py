"""Rows that a reader, a query, an iterator or a pipe hands over in batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.arrays.rows import container, is_sparse, single_or_double
from lwcs.sources.arrow_rows import ArrowBatch, first_values
from lwcs.sources.base import NO_ROWS
from lwcs.sources.blocks import ArrayBatch
from lwcs.sources.columns import Selection, matched
from lwcs.sources.kinds import library_of_table
from lwcs.sources.memory.local import DroppingSource, open_local
from lwcs.sources.scan_options import (
    Dialect,
    Fitted,
    ScanOptions,
    check_not_empty,
    check_unique,
    naming,
)
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.sources.blocks import Batch, Budget
    from lwcs.sources.memory.local import LocalSource


_DEFAULT, _NO_DIALECT = ScanOptions(), Dialect()
_PIPE = "standard input"
_FAILURES = (pa.ArrowException, OSError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class Query:
    """A query that yields record batches, always the same rows in the same order."""

    run: Callable[[list[str], Budget], Iterable[pa.RecordBatch]]
    """Read the rows. Called with the columns that are needed, it may leave out all others, and
    with the budget that its memory should fit into, as far as it can be limited.
    """
    schema: pa.Schema
    rereadable: bool = True
    n_rows: int | None = None
    keys: Sequence[str] = ()
    """Columns from the names of folders, which are features only if they are named."""
    version: str | None = None
    """Version of the table that is read."""
    reading_bytes: Callable[[list[str], Budget], int] | None = None
    """Memory that reading some columns takes however few rows are read at once, if known."""
    name: str = ""
    """Name of the data, for messages."""


class QuerySource(SequenceSource):
    """A lazy query, which is executed for every pass, or a reader, which is read once."""

    def __init__(self, query: Query, options: ScanOptions) -> None:
        super().__init__(rereadable=query.rereadable)
        self._query, self._drop, self._schema = query, options.drop, query.schema
        self._seen: list[pa.RecordBatch] = []
        if query.n_rows == 0:
            raise ValueError(f"{NO_ROWS}{query.name and f' (in {query.name})'}")
        self._use(Selection.of(query.schema, options, self._look, query.keys, query.name))
        self.scale_by(options.scale)
        self.n_rows, self.version = query.n_rows, query.version

    def reading_bytes(self, budget: Budget) -> int:
        """Memory that reading takes however little is read at once."""
        known = self._query.reading_bytes
        return 0 if known is None else known(self._columns_to_read(), budget)

    def keep(self, columns: Sequence[str]) -> None:
        """Keep columns beside the rows."""
        names = matched(columns, self._schema.names, "keep")
        self.kept = pa.schema([self._schema.field(name) for name in names])

    def _look(self, name: str) -> list[Any]:
        """The first values of a column; batches of a reader are kept for the pass."""
        if self.rereadable:
            return first_values(self._query.run([name], self.budget), name)
        reader = iter(self._query.run([name], self.budget))
        return first_values(chain(list(self._seen), map(self._hold, reader)), name)

    def _hold(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._seen.append(batch)
        return batch

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Execute the query, or continue with the reader."""
        assert self.selection is not None
        done, (seen, self._seen) = 0, (self._seen, [])
        for batch in chain(seen, self._query.run(self._columns_to_read(), self.budget)):
            if batch.num_rows:
                beside = self._beside(batch)
                yield "", ArrowBatch(batch, self.selection, self._drop, "", done, beside)
                done += batch.num_rows


class BatchesSource(SequenceSource):
    """Arrays or tables that an iterator or an iterable yields."""

    def __init__(self, batches: Iterable[Any], options: ScanOptions = _DEFAULT) -> None:
        reading = iter(batches)
        super().__init__(rereadable=reading is not batches)
        self._batches = batches
        opened = (_opened(batch, options, i) for i, batch in enumerate(reading))
        first = next((part for part in opened if part.n_rows), None)
        if first is None:
            raise ValueError(NO_ROWS)
        check_not_empty((float("nan"), first.n_features))
        self.n_features, self.n_rows = first.n_features, None
        self.feature_names, self.skipped = first.feature_names, first.skipped
        self.weighted = options.weight is not None
        if first.feature_names is not None:
            # The columns of the first batch are found by name in the others.
            options = replace(options, columns=Fitted(first.feature_names), exclude=None)
        self._options = options
        self._started: Iterator[LocalSource] | None = chain([first], self._each(reading, 1))
        rows = first.read(0, 1)
        # Integers of later batches may be larger.
        wide = rows.dtype.kind in "biu"
        self.dtype = np.dtype(np.float64 if wide else single_or_double(rows.dtype))
        self._container = container(rows)

    def _each(self, batches: Iterable[Any], first: int) -> Iterator[LocalSource]:
        return (_opened(batch, self._options, i) for i, batch in enumerate(batches, first))

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Check every batch against the first."""
        started, self._started = self._started, None
        reading = self._each(self._batches, 0) if started is None else started
        for i, part in enumerate(reading):
            with naming(f"batch {i}"):
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
                    f"{self.feature_names}; all batches must have the same columns"
                )
            if not np.can_cast(rows.dtype, self.dtype, "safe"):
                raise ValueError(
                    f"batch {i} holds {rows.dtype}, which does not fit into the {self.dtype} of "
                    "the first batch; all batches must have the same dtype"
                )
            # Copied, since an iterator may fill the same array again for its next batch.
            missing = part.missing if isinstance(part, DroppingSource) else None
            weights = None if part.weights is None else part.weights.copy()
            own = rows.astype(self.dtype) if is_sparse(rows) else rows.copy()
            yield "", ArrayBatch(own, part.n_rows, weights, missing)


def _opened(batch: Any, options: ScanOptions, number: int) -> LocalSource:
    with naming(f"batch {number}"):
        return open_local(batch, options)


def open_query(data: Any, options: ScanOptions) -> QuerySource:
    """Open a lazy frame, a relation, a reader, a dataset or a table (see `is_query`)."""
    options.refuse_weight_array()
    return QuerySource(_query(data, options), options)


def _query(data: Any, options: ScanOptions) -> Query:
    if (library := library_of_table(data)) is not None:
        opened_by = import_module(f"lwcs.sources.tables.{library}")
        query: Query = opened_by.query_of(data, options)
        return query
    if type(data).__name__ == "LazyFrame":
        return Query(lambda columns, _: _polars_reader(data, columns), _polars_schema(data))
    if hasattr(data, "to_arrow_reader"):
        # Its tables have other names for columns that occur twice, its readers do not.
        check_unique(data.columns)
        # Asked for no rows, so that no result stays open on the connection.
        schema = data.limit(0).to_arrow_table().schema
        return Query(lambda *_: data.to_arrow_reader(), schema)
    if not isinstance(data, pa.RecordBatchReader):
        data = pa.RecordBatchReader.from_stream(data)
    return Query(lambda *_: data, data.schema, rereadable=False)


def open_stream(data: Iterable[Any], options: ScanOptions) -> BatchesSource:
    """Open an iterator or an iterable of arrays or tables (see `is_stream`)."""
    options.refuse_weight_array()
    return BatchesSource(data, options)


def _polars_schema(frame: Any) -> pa.Schema:
    from polars.exceptions import PolarsError

    try:
        return frame.collect_schema().to_frame().to_arrow().schema
    except PolarsError as error:
        raise ValueError(
            f"this polars query cannot be run: {str(error).splitlines()[0]}"
        ) from error


def _polars_reader(frame: Any, columns: list[str]) -> pa.RecordBatchReader:
    frame = frame.select(columns)
    schema = _polars_schema(frame)
    batches = (
        batch.cast(schema)
        for part in frame.collect_batches(maintain_order=True)
        for batch in part.to_arrow().to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def open_pipe(
    file: IO[bytes],
    kind: str,
    dialect: Dialect = _NO_DIALECT,
    as_text: Callable[[list[str]], Iterable[str]] = lambda _: (),
    *,
    dates: bool = False,
) -> pa.RecordBatchReader:
    """Read batches from a pipe as they arrive; `as_text` says which columns of CSV are text."""
    if kind == "arrow":
        try:
            reader = pa.ipc.open_stream(file)
            # Names that are not text raise an error when they are read.
            _ = reader.schema.names
        except _FAILURES as error:
            raise ValueError(f"{_PIPE} is not an Arrow stream: {error}") from error
        return pa.RecordBatchReader.from_batches(reader.schema, _whole(reader))
    from lwcs.sources.files.csv import Layout, QuoteWatcher, read_rows, schema_of, with_text
    from lwcs.sources.files.csv_dialects import checked, head_of, recognize

    given, head, schema = checked(dialect), head_of(file, _PIPE), None
    if head.data.strip():
        resolved = recognize(head, given, "\t" if kind == "tsv" else ",", _PIPE)
        schema = schema_of(head, resolved, _PIPE, dates=dates)
    if schema is None:
        raise ValueError(f"{_PIPE} has no rows; at least one row is required")
    schema = with_text(schema, as_text(schema.names))
    layout = Layout.of(head, resolved, _PIPE)
    rows = read_rows(QuoteWatcher(file, head.data), schema, layout, None, _PIPE)
    batches = (pa.record_batch(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _whole(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, each checked: Arrow itself would read past the end of a short buffer."""
    try:
        for batch in reader:
            batch.validate()
            yield batch
    except _FAILURES as error:
        raise ValueError(f"{_PIPE} is truncated or damaged: {error}") from error
