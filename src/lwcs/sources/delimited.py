"""Rows in CSV: from files, compressed or not, and from a pipe.

Columns that begin with numbers are read as float64 throughout, since a column of integers may
have fractions later; anything else in such a column is an error that names the row.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv

from lwcs.sources.base import NO_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lwcs.sources.options import Dialect
    from lwcs.sources.paths import Found

# Enough bytes to tell numbers from text.
_LOOK = 2**16
_BLOCK = 2**20


def head_of(file: IO[bytes]) -> bytes:
    """The first lines of a file, none of them cut."""
    head = b""
    while len(head) < _LOOK:
        part = file.read(_LOOK - len(head))
        if not part:
            return head
        head += part
    while not head.endswith(b"\n") and (part := file.read(1)):
        head += part
    return head


def schema_of(head: bytes, delimiter: str) -> pa.Schema | None:
    """Names and types of the columns, inferred from the first lines; None if these have no row."""
    if not head.strip():
        return None
    seen = _look(head, delimiter)
    if not len(seen):
        return None
    return pa.schema(
        [pa.field(f.name, pa.float64() if _is_number(f.type) else pa.string()) for f in seen.schema]
    )


def with_text(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """A schema in which some columns are text, exactly as it is in the file."""
    for name in names:
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
    return schema


def _look(head: bytes, delimiter: str) -> pa.Table:
    return csv.read_csv(BytesIO(head), parse_options=csv.ParseOptions(delimiter=delimiter))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def read_rows(
    file: Any, schema: pa.Schema, delimiter: str, columns: list[str] | None, name: str
) -> Iterator[pa.RecordBatch]:
    """Read batches of some columns; errors call the file `name`."""
    rows = 0
    try:
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=_BLOCK),
            parse_options=csv.ParseOptions(delimiter=delimiter),
            # Text is read only to be kept, as it is: NA is no missing value there.
            convert_options=csv.ConvertOptions(column_types=schema, include_columns=columns),
        )
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            yield batch
            rows += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        said = str(error).removeprefix("In CSV column #").strip()
        raise ValueError(f"{name} cannot be read as CSV after row {rows}: {said}") from error


class DelimitedFiles:
    """CSV files, one after the other, with the columns of the first file that has rows."""

    def __init__(self, found: Found, dialect: Dialect) -> None:
        self._found, self._dialect = found, dialect
        self._delimiter = "\t" if ".tsv" in Path(found.paths[0]).name.lower() else ","
        self.keys: list[str] = []
        self.n_rows: int | None = None
        for path in found.paths:
            with self._open(path) as file:
                schema = self._schema(head_of(file), path)
            if schema is not None:
                self.schema = schema
                return
        raise ValueError(f"{NO_ROWS} (in {found.paths[0]!r})")

    def _open(self, path: str) -> Any:
        return self._found.filesystem.open_input_stream(path, compression="detect")

    def _schema(self, head: bytes, path: str) -> pa.Schema | None:
        try:
            return schema_of(head, self._delimiter)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path!r} cannot be read as CSV: {error}") from error

    def _names(self, head: bytes, path: str) -> list[str]:
        try:
            return list(_look(head, self._delimiter).column_names)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path!r} cannot be read as CSV: {error}") from error

    def open(
        self, columns: list[str], batch_rows: int
    ) -> Iterator[tuple[str, list[str], Iterator[pa.RecordBatch]]]:
        """Yield the path, the columns and the batches of every file."""
        del batch_rows  # pyarrow reads CSV in blocks of bytes
        for path in self._found.paths:
            with self._open(path) as file:
                head = head_of(file)
            if not head.strip():
                continue
            names = self._names(head, path)
            with self._open(path) as file:
                rows = read_rows(file, self.schema, self._delimiter, columns, repr(path))
                yield path, names, rows
