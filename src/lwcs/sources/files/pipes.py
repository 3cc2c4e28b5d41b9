"""Rows from a pipe, as CSV or in the Arrow streaming format."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import pyarrow as pa

from lwcs.sources.files.csv import Layout, read_rows, schema_of, with_text
from lwcs.sources.files.csv_dialects import checked, recognize
from lwcs.sources.files.csv_preview import head_of
from lwcs.sources.files.unclosed_quotes import Watched
from lwcs.sources.scan_options import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_NAME = "standard input"
_NO_DIALECT = Dialect()
_FAILURES = (pa.ArrowException, OSError, UnicodeDecodeError)


def open_pipe(
    file: IO[bytes],
    kind: str,
    dialect: Dialect = _NO_DIALECT,
    as_text: Callable[[list[str]], Iterable[str]] = lambda _: (),
) -> pa.RecordBatchReader:
    """Read batches from a pipe as they arrive; `as_text` says which columns of CSV are text."""
    if kind == "arrow":
        try:
            reader = pa.ipc.open_stream(file)
            # Names that are not text are an error as soon as somebody asks for them.
            _ = reader.schema.names
        except _FAILURES as error:
            raise ValueError(f"{_NAME} is not an Arrow stream: {error}") from error
        return pa.RecordBatchReader.from_batches(reader.schema, _whole(reader))
    given, head, schema = checked(dialect), head_of(file, _NAME), None
    if head.data.strip():
        written = recognize(head, given, "\t" if kind == "tsv" else ",", _NAME)
        schema = schema_of(head, written, _NAME)
    if schema is None:
        raise ValueError(f"{_NAME} has no rows; at least one row is required")
    schema = with_text(schema, as_text(schema.names))
    layout = Layout.of(head, written, _NAME)
    rows = read_rows(Watched(file, head.data), schema, layout, None, _NAME)
    batches = (pa.record_batch(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _whole(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, each checked: Arrow itself would read past the end of a short buffer."""
    try:
        for batch in reader:
            batch.validate()
            yield batch
    except _FAILURES as error:
        raise ValueError(f"{_NAME} is truncated or damaged: {error}") from error
