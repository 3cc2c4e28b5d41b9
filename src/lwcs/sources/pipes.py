"""Rows from a pipe, as CSV or in the Arrow streaming format."""

from __future__ import annotations

from io import BytesIO
from typing import IO

import pyarrow as pa

from lwcs.sources.delimited import head_of, read_rows, schema_of

_NAME = "standard input"


def open_pipe(file: IO[bytes], kind: str) -> pa.RecordBatchReader:
    """Read batches from a pipe as they arrive."""
    if kind == "arrow":
        try:
            return pa.ipc.open_stream(file)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{_NAME} is not an Arrow stream: {error}") from error
    delimiter, head = "\t" if kind == "tsv" else ",", head_of(file)
    try:
        schema = schema_of(head, delimiter)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{_NAME} cannot be read as CSV: {error}") from error
    if schema is None:
        raise ValueError(f"{_NAME} has no rows; a header line and at least one row are required")
    rows = read_rows(_Chained(head, file), schema, delimiter, None, _NAME)
    return pa.RecordBatchReader.from_batches(schema, rows)


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
