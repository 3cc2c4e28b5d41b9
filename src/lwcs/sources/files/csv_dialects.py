"""Dialects of text files, as given, or as recognized from the first lines of a file (`Head`).

The encoding, the delimiter, the decimal separator and the presence of a header are recognized.
"""

from __future__ import annotations

import codecs
import csv
from dataclasses import dataclass, replace
from io import StringIO
from itertools import islice, pairwise
from typing import IO

from lwcs.runtime.warnings import warn
from lwcs.sources.files.csv_values import CONTINENTAL, ENGLISH, Spelling, is_missing, is_plain
from lwcs.sources.scan_options import Dialect

_DELIMITERS = (",", ";", "\t", "|")
# Maximum numbers of rows, and of cells in them, from which dialects are recognized.
_ROWS, _CELLS = 100, 10_000
# Enough bytes to tell numbers from text, and enough lines where lines are long.
_LOOK, _LINES = 2**16, 32
# Of very long lines, a few are enough, and a first line without an end is refused.
_LONG, _TOO_LONG = 2**22, 2**28

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of a file, with some lines at least, or all of it."""

    data: bytes
    whole: bool
    """Whether the file ends here."""

    @property
    def longest(self) -> int:
        """Number of bytes of the longest line."""
        return max(map(len, self.data.splitlines()), default=0)


def head_of(file: IO[bytes], name: str) -> Head:
    """Read the first lines of a file."""
    data, lines = bytearray(), 0
    while len(data) < _LOOK or (lines < _LINES and (len(data) < _LONG or lines <= 2)):
        part = file.read(_LOOK)
        if not part:
            return Head(bytes(data), whole=True)
        data += part
        lines += max(part.count(b"\n"), part.count(b"\r"))
        if len(data) > _TOO_LONG:
            raise ValueError(
                f"{name} has fewer than three lines in its first {_TOO_LONG // 2**20} MB; a text "
                "file of rows has one line for each row"
            )
    return Head(bytes(data), whole=False)


def encoding_of(head: Head, name: str) -> str:
    """Recognize the encoding: UTF-8 if the bytes allow it, otherwise UTF-16 or a code page."""
    for mark, encoding in _MARKS:
        if head.data.startswith(mark):
            return encoding
    if b"\0" in head.data:
        # Every other byte of plain letters is zero in UTF-16.
        zeros = [head.data[at::2].count(0) / len(head.data) for at in (0, 1)]
        if max(zeros) < 0.25 or min(zeros) > 0.1:
            raise ValueError(f"{name} holds binary data, not text; pass a text file of rows")
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    for encoding in ("utf-8", "cp1252"):
        try:
            _decoded(head, encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def text_of(head: Head, encoding: str, name: str) -> str:
    """Decode the first lines; an error names the line."""
    try:
        return _decoded(head, encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = head.data[: error.start].decode("latin-1").split("\n")
        raise ValueError(
            f"{name} is not written in {encoding}: line {len(before)} has the byte "
            f"0x{head.data[error.start]:02x} after {before[-1][-30:]!r}; pass the right encoding, "
            f"for example encoding={encoding_of(head, name)!r}"
        ) from error


def _decoded(head: Head, encoding: str) -> str:
    # A character may be cut at the end of the head, but not at the end of the file.
    return codecs.getincrementaldecoder(encoding)().decode(head.data, final=head.whole)


@dataclass(frozen=True, slots=True)
class ResolvedDialect:
    """How a file is written: a `Dialect` in which everything is given or recognized."""

    delimiter: str
    spelling: Spelling
    header: bool
    encoding: str

    def as_given(self, encoding: str | None) -> Dialect:
        """The dialect as options, for files that may have another encoding."""
        spelling = self.spelling
        return Dialect(self.delimiter, spelling.decimal, spelling.thousands, self.header, encoding)


def checked(given: Dialect) -> Dialect:
    """Check the delimiter, separators and the encoding."""
    if given.delimiter in ("\\t", "tab"):
        # As typed in a shell.
        given = replace(given, delimiter="\t")
    for name, example in (("delimiter", ";"), ("decimal", ","), ("thousands", ",")):
        sign = getattr(given, name)
        if sign is not None and (len(sign) != 1 or sign.isalnum() or sign in '"\r\n+-'):
            raise ValueError(
                f"{name}={sign!r} is not allowed; pass one character that is no letter, digit, "
                f"sign, quote or end of line, for example {name}={example!r}"
            )
        if sign is not None and name != "thousands" and not sign.isascii():
            raise ValueError(
                f"{name}={sign!r} is not allowed; pass an ASCII character, for example "
                f"{name}={example!r}"
            )
    if given.thousands is not None:
        if given.decimal is None:
            given = replace(given, decimal="," if given.thousands == "." else ".")
        if given.decimal == given.thousands:
            raise ValueError(
                f"decimal={given.decimal!r} and thousands={given.thousands!r} are the same; pass "
                "two characters"
            )
    if given.encoding is not None:
        try:
            "".encode(given.encoding)
        except LookupError:
            raise ValueError(
                f"encoding={given.encoding!r} is not known; pass for example 'utf-8', 'utf-16', "
                "'cp1252' or 'latin-1'"
            ) from None
        given = replace(given, encoding=codecs.lookup(given.encoding).name)
    return given


def recognize(head: Head, given: Dialect, expected: str, name: str) -> ResolvedDialect:
    """Recognize how a file is written; warn of what is unusual and not given."""
    encoding = given.encoding or encoding_of(head, name)
    text = text_of(head, encoding, name)
    delimiter = given.delimiter or _delimiter(text, head.whole, given.decimal, expected)
    rows = _compared(text, delimiter, head.whole)
    decimal = given.decimal or _decimal(rows, delimiter)
    spelling = Spelling(decimal, given.thousands)
    unusual = {
        "delimiter": None if delimiter in (given.delimiter, expected) else delimiter,
        "decimal": None if decimal in (given.decimal, ".") else decimal,
        "encoding": None if encoding in (given.encoding, "utf-8", "utf-8-sig") else encoding,
    }
    found = [f"{key}={value!r}" for key, value in unusual.items() if value is not None]
    if found:
        warn(
            f"{name} is read with {', '.join(found)}, as its first lines suggest; pass the same, "
            "or what is right, to be sure"
        )
    if given.header is not None:
        return ResolvedDialect(delimiter, spelling, given.header, encoding)
    header, doubt = _header(rows, spelling) if rows else (True, None)
    if doubt is not None:
        warn(f"{name} {doubt}")
    return ResolvedDialect(delimiter, spelling, header, encoding)


def names_of(head: Head, resolved: ResolvedDialect, name: str) -> list[str]:
    """The names of the columns: those of the header, or x0, x1 and so on."""
    text = text_of(head, resolved.encoding, name)
    first = rows_of(text, resolved.delimiter, head.whole, 1)
    width = len(first[0]) if first else 0
    return first[0] if first and resolved.header else [f"x{j}" for j in range(width)]


def values_of(head: Head, resolved: ResolvedDialect, name: str) -> list[list[str]]:
    """The first values of each column; rows of another length are left to the reader."""
    rows = rows_of(text_of(head, resolved.encoding, name), resolved.delimiter, head.whole)
    width = len(rows[0]) if rows else 0
    others = rows[resolved.header :]
    body = [row for row in others if len(row) == width]
    if others and not body:
        raise ValueError(
            f"the first line of {name} has {_counted(rows[0])}, but the line after it has "
            f"{_counted(others[0])}, if values are separated by delimiter={resolved.delimiter!r}; "
            "pass the right delimiter, or correct the file: all lines must have as many values"
        )
    return _columns(body) or [[] for _ in range(width)]


def _counted(row: list[str]) -> str:
    shown = ", ".join(map(repr, row[:3])) + (", …" if len(row) > 3 else "")
    return f"{len(row)} value{'s' * (len(row) != 1)} ({shown})"


def rows_of(text: str, delimiter: str, whole: bool, most: int | None = None) -> list[list[str]]:
    """The first rows that are not empty, without the last one if it may be incomplete."""
    # The limit is that of the process; other code may rely on it.
    limit = csv.field_size_limit(len(text) + 1)
    try:
        reading = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
        rows = list(islice(filter(None, reading), most))
    finally:
        csv.field_size_limit(limit)
    return rows if whole or len(rows) == most else rows[:-1]


def _compared(text: str, delimiter: str, whole: bool) -> list[list[str]]:
    """The rows by which dialects are compared, fewer if there are many columns."""
    rows = rows_of(text, delimiter, whole, _ROWS)
    return rows[: max(3, _CELLS // len(rows[0]))] if rows else []


def _columns(rows: list[list[str]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _delimiter(text: str, whole: bool, decimal: str | None, expected: str) -> str:
    """The delimiter by which most rows have as many fields as the first; then, most numbers."""

    def score(delimiter: str) -> tuple[float, float]:
        rows = _compared(text, delimiter, whole)
        if not rows or len(rows[0]) < 2:
            return 0.0, 0.0
        alike = [row for row in rows if len(row) == len(rows[0])]
        cells = [cell for row in alike[1:] or alike for cell in row]
        allowed = (ENGLISH, CONTINENTAL) if decimal is None else (Spelling(decimal),)
        numbers = sum(any(each.is_number(cell) for each in allowed) for cell in cells)
        return len(alike) / len(rows), numbers / len(cells)

    # Among equals, the first one, which is that of the ending of the file.
    return max((expected, *(each for each in _DELIMITERS if each != expected)), key=score)


def _decimal(rows: list[list[str]], delimiter: str) -> str:
    """The decimal separator: a comma where that alone explains the numbers."""
    body = [row for row in rows[1:] or rows if len(row) == len(rows[0])]
    comma = point = unclear_comma = unclear_point = 0
    for column in _columns(body):
        present = [cell for cell in column if not is_missing(cell)]
        read = [(cell, ENGLISH.is_number(cell), CONTINENTAL.is_number(cell)) for cell in present]
        if 2 * sum(one or other for _, one, other in read) < len(present):
            continue
        for cell, english, continental in read:
            comma += continental and not english
            point += english and not continental
            unclear_comma += english and continental and "," in cell
            unclear_point += english and continental and "." in cell
    if point or (not comma and unclear_point):
        return "."
    # "1,234" alone is more likely a fraction, except where commas also separate values.
    return "," if comma or (unclear_comma and delimiter != ",") else "."


def _header(rows: list[list[str]], spelling: Spelling) -> tuple[bool, str | None]:
    """Whether the first row holds names, and a warning if that is not certain."""
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    columns = _columns(body) if body else [[] for _ in first]
    numbers, words = list[int](), 0
    for j, column in enumerate(columns):
        if is_missing(first[j]) or not _mostly_plain(column, spelling):
            continue
        if is_plain(first[j], spelling):
            numbers.append(j)
        else:
            words += any(map(str.isalpha, first[j]))
    if words or not numbers:
        return True, None
    shown = ", ".join(first[:3]) + (", …" if len(first) > 3 else "")
    if _counts_up(first, numbers) and not any(_counts_up(row, numbers) for row in body):
        return True, (
            f"begins with the line {shown}, which is taken for the names of the columns, since it "
            "counts up; pass header=True if that is right, and header=False if it is a row"
        )
    named = "x0" if len(first) == 1 else f"x0 … x{len(first) - 1}"
    return False, (
        f"has no header: its first line ({shown}) is a row, and the columns are named {named}; "
        "pass header=False if that is right, and header=True if that line holds the names"
    )


def _mostly_plain(column: list[str], spelling: Spelling) -> bool:
    """Whether at least half of the values are numbers; if there are no values, they may be."""
    present = [cell for cell in column if not is_missing(cell)]
    return 2 * sum(is_plain(cell, spelling) for cell in present) >= len(present)


def _counts_up(row: list[str], places: list[int]) -> bool:
    """Whether some cells are consecutive integers, as pandas names columns, or years."""
    cells = [row[j] for j in places]
    if len(cells) < 2 or not all(cell.isdecimal() and len(cell) < 10 for cell in cells):
        return False
    return all(int(b) == int(a) + 1 for a, b in pairwise(cells))
