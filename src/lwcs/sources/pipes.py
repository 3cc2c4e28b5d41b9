"""Rows from a pipe, as CSV or in the Arrow streaming format."""

from __future__ import annotations

from io import BytesIO
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from lwcs.sources.delimited import head_of, read_rows, schema_of, with_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NAME = "standard input"


def open_pipe(
    file: IO[bytes],
    kind: str,
    as_text: Callable[[list[str]], Iterable[str]] = lambda _: (),
) -> pa.RecordBatchReader:
    """Read batches from a pipe as they arrive; `as_text` says which columns of CSV are text."""
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
    schema = with_text(schema, as_text(schema.names))
    rows = read_rows(Chained(head, file), schema, delimiter, None, _NAME)
    return pa.RecordBatchReader.from_batches(schema, rows)


class Chained:
    """The bytes that were read already, then the rest of the file."""

    closed = False

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = BytesIO(head), rest

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        part = self._head.read(size)
        if len(part) == size:
            return part
        return part + self._rest.read(size if size < 0 else size - len(part))

    def close(self) -> None:
        """Close; the file itself stays open."""
        self.closed = True

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def writable(self) -> bool:
        """Whether it can be written."""
        return False

    def seekable(self) -> bool:
        """Whether a position in it can be chosen."""
        return False
