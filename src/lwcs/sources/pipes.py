"""Rows from a pipe, as CSV or in the Arrow streaming format."""

from __future__ import annotations

from io import BytesIO
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from lwcs.sources.delimited import head_of, read_rows, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "standard input"
_FAILURES = (pa.ArrowException, OSError, UnicodeDecodeError)


def open_pipe(file: IO[bytes], kind: str) -> pa.RecordBatchReader:
    """Read batches from a pipe as they arrive."""
    if kind == "arrow":
        try:
            reader = pa.ipc.open_stream(file)
            # Names that are not text are an error as soon as somebody asks for them.
            _ = reader.schema.names
        except _FAILURES as error:
            raise ValueError(f"{_NAME} is not an Arrow stream: {error}") from error
        return pa.RecordBatchReader.from_batches(reader.schema, _whole(reader))
    delimiter, head = "\t" if kind == "tsv" else ",", head_of(file)
    try:
        schema = schema_of(head, delimiter)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{_NAME} cannot be read as CSV: {error}") from error
    if schema is None:
        raise ValueError(f"{_NAME} has no rows; a header line and at least one row are required")
    rows = read_rows(_Chained(head, file), schema, delimiter, None, _NAME)
    return pa.RecordBatchReader.from_batches(schema, rows)


def _whole(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, each checked: Arrow itself would read past the end of a short buffer."""
    try:
        for batch in reader:
            batch.validate()
            yield batch
    except _FAILURES as error:
        raise ValueError(f"{_NAME} is truncated or damaged: {error}") from error


class _Chained:
    """The bytes that were read already, then the rest of the file."""

    closed = False

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = BytesIO(head), rest

    def read(self, size: int = -1) -> bytes:
        return self._head.read(size) or self._rest.read(size)

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
