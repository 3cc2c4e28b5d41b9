"""Rows in CSV: from files, compressed or not, and from a pipe.

Columns that begin with numbers are read as float64 throughout: types that are inferred from each
block would change where a column of integers has a fraction in a later block. Anything else in such
a column is an error that names the row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from io import BytesIO, RawIOBase
from pathlib import PurePath
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv

from lwcs.sources.base import NO_ROWS
from lwcs.sources.column_types import LOST, WHY, is_number
from lwcs.sources.files.csv_dialects import checked, head_of, names_of, recognize, values_of
from lwcs.sources.files.csv_values import (
    FALSE,
    MISSING,
    TRUE,
    WRITTEN,
    ColumnKind,
    converted,
    date_format,
    is_missing,
    kind_of_column,
    loses,
    not_a_number,
    other_spelling,
    why_text,
)
from lwcs.sources.files.parts import Files, FolderColumns, Part, with_keys
from lwcs.sources.remote.paths import file_name
from lwcs.sources.remote.prefetch import Piece
from lwcs.sources.scan_options import PACKED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lwcs.sources.blocks import Budget
    from lwcs.sources.files.csv_dialects import Head, ResolvedDialect
    from lwcs.sources.remote.paths import Found
    from lwcs.sources.remote.prefetch import Store
    from lwcs.sources.scan_options import Dialect

_BLOCK = 2**20
_TYPES = {
    ColumnKind.NUMBERS: pa.float64(),
    ColumnKind.BOOLEANS: pa.bool_(),
    ColumnKind.TEXT: pa.string(),
}


class Chained(RawIOBase):
    """A file of which some bytes have been read already, from start to end; it is not closed."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = BytesIO(head), rest

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        part = self._head.read(size)
        if len(part) == size:
            return part
        return part + self._rest.read(size if size < 0 else size - len(part))

    def readable(self) -> bool:
        """It can be read."""
        return True


class QuoteWatcher(Chained):
    """A chained file that is watched for a quote which is never closed.

    Such a quote makes the rest of the file one value, and pyarrow would not report the lost rows.
    """

    def __init__(self, rest: IO[bytes], head: bytes = b"") -> None:
        super().__init__(head, rest)
        self._last = b""
        # The bytes before and after the last quote; the latter may come with the next read.
        self._before, self._after = b"", b""
        self._quoted = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = super().read(size)
        if not data:
            return data
        if self._quoted and not self._after:
            self._after = data[:1]
        at = data.rfind(b'"')
        if at >= 0:
            self._quoted = True
            self._before = data[at - 1 : at] if at else self._last
            self._after = data[at + 1 : at + 2]
        self._last = data[-1:]
        return data

    def ends_in_quotes(self, delimiter: str) -> bool:
        """Whether the last quote of a file that was read to its end opens a value.

        It is then at the start of a value, and not at the end of one.
        """
        ends = (b"", b"\n", b"\r", delimiter.encode())
        return self._quoted and self._before in ends and self._after not in ends


@dataclass(frozen=True, slots=True)
class Layout:
    """Dialect of one file, the names of its columns, and how many bytes are read at once."""

    resolved: ResolvedDialect
    names: list[str]
    block: int

    @classmethod
    def of(cls, head: Head, resolved: ResolvedDialect, name: str) -> Layout:
        """The layout of a file that begins with `head`."""
        # A row must fit into a block, and later rows may be longer than these.
        return cls(resolved, names_of(head, resolved, name), max(_BLOCK, 4 * head.longest))

    def place(self, row: int) -> str:
        """Name of a row that pyarrow counts from 1, the header included."""
        return f"row {row - 1 - self.resolved.header}"


def schema_of(
    head: Head, resolved: ResolvedDialect, name: str, *, dates: bool = False
) -> pa.Schema | None:
    """Names and types of the columns, from the first rows; None if there is no row.

    With `dates`, columns of dates are timestamps, whose metadata says how they are written.
    """
    names, columns = names_of(head, resolved, name), values_of(head, resolved, name)
    if not any(columns):
        return None
    fields = []
    for column, values in zip(names, columns, strict=True):
        kind = kind_of_column(values, resolved.spelling)
        why = why_text(values, resolved.spelling) if kind is ColumnKind.TEXT else None
        if not column.strip() and all(map(is_missing, values)):
            # All rows end in a delimiter.
            kind, why = ColumnKind.TEXT, "no name and no values"
        form = date_format(values) if dates and kind is ColumnKind.TEXT else None
        if form is not None:
            fields.append(pa.field(column, pa.timestamp("us"), metadata={WRITTEN: form.encode()}))
            continue
        metadata = None if why is None else {WHY: why.encode()}
        if kind is ColumnKind.NUMBERS and any(loses(value, resolved.spelling) for value in values):
            metadata = {LOST: b""}
        fields.append(pa.field(column, _TYPES[kind], metadata=metadata))
    return pa.schema(fields)


def _suggested(head: Head, resolved: ResolvedDialect, name: str) -> dict[str, str]:
    """Separators by which all values of some columns of text are numbers."""
    now = resolved.spelling
    for values in values_of(head, resolved, name):
        other = other_spelling(values, now, 1.0)
        # All numbers have one spelling: others of them would be text.
        if other is not None and other.decimal == now.decimal and other.thousands is not None:
            return {"thousands": other.thousands}
    return {}


def with_text(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """A schema in which some columns are text, unchanged from the file."""
    for name in names:
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
    return schema


def read_rows(
    file: QuoteWatcher, schema: pa.Schema, layout: Layout, columns: list[str] | None, name: str
) -> Iterator[pa.RecordBatch]:
    """Read batches of some columns; errors call the file `name`."""
    resolved, rows = layout.resolved, 0
    spelling, chosen = resolved.spelling, schema.names if columns is None else columns
    # pyarrow knows no separators between thousands, and one way to write dates for all columns:
    # such columns are read as text, then converted.
    as_text = {
        each for each in chosen
        if pa.types.is_timestamp(schema.field(each).type)
        or (spelling.thousands is not None and schema.field(each).type == pa.float64())
    }  # fmt: skip
    types = {each: schema.field(each).type for each in chosen} | dict.fromkeys(as_text, pa.string())
    try:
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(
                # Threads would not be faster, and errors would not name the row.
                use_threads=False,
                block_size=layout.block,
                column_names=None if resolved.header else layout.names,
                encoding=_ARROW_NAMES.get(resolved.encoding, resolved.encoding),
            ),
            parse_options=csv.ParseOptions(delimiter=resolved.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=chosen,
                # Text is read only to be kept unchanged: there, NA is not a missing value.
                strings_can_be_null=False,
                null_values=MISSING,
                true_values=TRUE,
                false_values=FALSE,
                decimal_point=spelling.decimal,
            ),
        )
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            yield converted(batch, as_text, schema, spelling, rows, name)
            rows += batch.num_rows
        if file.ends_in_quotes(resolved.delimiter):
            raise ValueError(
                f"row {max(rows - 1, 0)} of {name} has a quote that is not closed, so that rows "
                "after it are taken for text; correct it in the file"
            )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise ValueError(_explained(str(error), layout, rows, name)) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not written in {resolved.encoding}, as the bytes after row {rows} show "
            f"({error.reason}); pass the right encoding, for example encoding='latin-1'"
        ) from error


# By this name, pyarrow decodes the text itself, and skips a byte order mark.
_ARROW_NAMES = {"utf-8": "utf8", "utf-8-sig": "utf8"}
_OF_VALUE = re.compile(r"In CSV column #(\d+): Row #(\d+): .*invalid value '(.*)'", re.DOTALL)
_OF_TEXT = re.compile(r"In CSV column #(\d+): Row #(\d+): .*invalid UTF8", re.DOTALL)
_OF_ROW = re.compile(r"CSV parse error: Row #(\d+): (.*)", re.DOTALL)


def _explained(message: str, layout: Layout, rows: int, name: str) -> str:
    """Word an error that pyarrow raised after some rows."""
    if found := _OF_VALUE.search(message):
        column, row, value = layout.names[int(found[1])], layout.place(int(found[2])), found[3]
        return not_a_number(value, column, row, name, layout.resolved.spelling)
    if found := _OF_TEXT.search(message):
        column, row = layout.names[int(found[1])], layout.place(int(found[2]))
        return (
            f"column {column!r} in {row} of {name} is not written in {layout.resolved.encoding}; "
            "pass the right encoding, for example encoding='latin-1'"
        )
    if "straddling" in message:
        return (
            f"{name} cannot be read as CSV: one of the rows after {rows} has more than "
            f"{layout.block / 1e6:.0f} MB, far more than the first rows; a quote may not be closed"
        )
    if found := _OF_ROW.search(message):
        what = found[2].strip()
        return f"{name} cannot be read as CSV: {layout.place(int(found[1]))}: {what}"
    return f"{name} cannot be read as CSV: {message.strip()}"


class DelimitedFiles(Files):
    """CSV files, one after the other, with the columns of the first file that has rows."""

    suggested: Mapping[str, str] = MappingProxyType({})
    """Options with which columns of text would be numbers, as the first rows suggest."""

    def __init__(
        self, found: Found, dialect: Dialect, store: Store | None = None, *, dates: bool = False
    ) -> None:
        self._found, self._dialect, self._store = found, checked(dialect), store
        self._encodings: dict[str, str] = {}
        self.n_rows: int | None = None
        for path in found.paths:
            head = self._head(path)
            if not head.data.strip():
                continue
            resolved = self._recognize(head, path)
            schema = schema_of(head, resolved, repr(path), dates=dates)
            if schema is not None:
                self.suggested = _suggested(head, resolved, repr(path))
                self._folders = FolderColumns.of(found, schema.names)
                self.keys = self._folders.schema.names
                self.schema = pa.schema([*schema, *self._folders.schema])
                self._dialect = resolved.as_given(self._dialect.encoding)
                return
        raise ValueError(f"{NO_ROWS} (in {found.paths[0]!r})")

    def _open(self, path: str, ahead: int = 0) -> Any:
        """Open a file as text; from a store, up to `ahead` bytes are fetched ahead."""
        if self._store is None:
            return self._found.filesystem.open_input_stream(path, compression="detect")
        lanes = [[Piece(0, self._store.size(path))]] if ahead else []
        bare = self._store.file(path, lanes, ahead)
        bare.begin()
        file = pa.PythonFile(bare, "r")
        packing = PACKED.get(PurePath(file_name(path).lower()).suffix)
        return file if packing is None else pa.CompressedInputStream(file, packing)

    def _head(self, path: str) -> Head:
        with self._open(path) as file:
            return head_of(file, repr(path))

    def _recognize(self, head: Head, path: str) -> ResolvedDialect:
        given = self._dialect
        if path in self._encodings:
            # Recognized, and warned of, once.
            given = replace(given, encoding=self._encodings[path])
        tabs = self._found.has_tabs or ".tsv" in file_name(path).lower()
        expected = "\t" if tabs else ","
        resolved = recognize(head, given, expected, repr(path))
        self._encodings[path] = resolved.encoding
        return resolved

    def numbers_beyond(self, path: str, names: list[str]) -> list[str]:
        """Columns of numbers of a file that the first file with rows does not have."""
        known = set(self.schema.names)
        if known.issuperset(names):
            return []
        head = self._head(path)
        schema = schema_of(head, self._recognize(head, path), repr(path)) or ()
        return [each.name for each in schema if each.name not in known and is_number(each.type)]

    def open(
        self, columns: list[str], budget: Budget, batch_rows: int | None = None
    ) -> Iterator[Part]:
        """Read every file, each as one part."""
        del batch_rows  # pyarrow reads CSV in blocks of bytes
        for path in self._found.paths:
            with self._open(path, budget.ahead) as file:
                head = head_of(file, repr(path))
                if not head.data.strip():
                    continue
                layout = Layout.of(head, self._recognize(head, path), repr(path))
                # What was read is not requested again.
                rows = self._rows(QuoteWatcher(file, head.data), layout, columns, path)
                yield Part(path, layout.names, 0, rows)

    def _rows(
        self, file: QuoteWatcher, layout: Layout, columns: list[str], path: str
    ) -> Iterator[pa.RecordBatch]:
        """Batches of a file, with columns from the names of its folders."""
        own = [name for name in columns if name not in self.keys]
        # Asked for no columns, pyarrow reads all.
        rows = read_rows(file, self.schema, layout, own or layout.names[:1], repr(path))
        return with_keys(rows, self.schema, columns, self._folders.values[path])
