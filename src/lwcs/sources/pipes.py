"""Rows that come through a pipe, as CSV or in Arrow's streaming format."""

from __future__ import annotations

from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK = 2**20


def open_pipe(file: IO[bytes], kind: str) -> pa.RecordBatchReader:
    """Read batches from a pipe, as they come."""
    if kind == "arrow":
        try:
            return pa.ipc.open_stream(file)
        except pa.ArrowInvalid as error:
            raise ValueError(f"standard input is no Arrow stream: {error}") from error
    return _open_csv(file, "\t" if kind == "tsv" else ",")


def _open_csv(file: IO[bytes], delimiter: str) -> pa.RecordBatchReader:
    """CSV whose columns of numbers are all float64: what looks whole at first may not stay so."""
    head = _first_lines(file)
    if not head.strip():
        raise ValueError("standard input is empty; at least a line of names and a row are needed")
    parse = csv.ParseOptions(delimiter=delimiter)
    try:
        seen = csv.read_csv(BytesIO(head), parse_options=parse).schema
        types = {
            field.name: pa.float64()
            for field in seen
            if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        }
        reader = csv.open_csv(
            _Chained(head, file),
            read_options=csv.ReadOptions(block_size=_LOOK),
            parse_options=parse,
            convert_options=csv.ConvertOptions(column_types=types),
        )
    except pa.ArrowInvalid as error:
        raise ValueError(f"standard input cannot be read as CSV: {error}") from error
    return pa.RecordBatchReader.from_batches(reader.schema, _explained(reader))


def _explained(reader: Any) -> Iterator[pa.RecordBatch]:
    rows = 0
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"standard input cannot be read as CSV after row {rows}: {error}"
            ) from error
        rows += batch.num_rows
        yield batch


def _first_lines(file: IO[bytes]) -> bytes:
    """About a megabyte, to the end of a line."""
    head = b""
    while len(head) < _LOOK:
        part = file.read(_LOOK - len(head))
        if not part:
            return head
        head += part
    return head + file.readline()


class _Chained:
    """Bytes that were read already, then the rest of the file."""

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
