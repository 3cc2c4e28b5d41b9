"""Values of text files: numbers as some dialect writes them, booleans, missing values, or text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lwcs.sources.column_types import AS_DAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""Spellings of missing values, as in pandas."""
WRITTEN = b"lwcs.written"
"""Key of the metadata of a field: how its dates are written."""
TRUE, FALSE = ("1", "True", "TRUE", "true"), ("0", "False", "FALSE", "false")

_MISSING = frozenset(MISSING)
_WORDS = frozenset(value for value in (*TRUE, *FALSE) if len(value) > 1)
_BOOLEANS = frozenset((*TRUE, *FALSE))
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[T ].*)?|[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{2,4}(?: .*)?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}.*)?"
)


_ISO_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_DAY_AND_MONTH = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2[0-9]{4}")
_ISO, _ISO_ZONE = "2024-01-31", "2024-01-31T12:00Z"


class ColumnKind(Enum):
    """Kinds of columns in text files."""

    NUMBERS = "numbers"
    BOOLEANS = "true and false"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How numbers are written: the separators of decimals and of thousands."""

    decimal: str = "."
    thousands: str | None = None

    def is_number(self, value: str) -> bool:
        """Whether a cell is a number."""
        return _matcher(self)(value.strip(" \t")) is not None

    @property
    def pattern(self) -> str:
        """A regular expression for numbers, which Python and RE2 understand."""
        point = re.escape(self.decimal)
        digits = f"[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+"
        if self.thousands is not None:
            # Groups of two are Indian; the last group has three digits everywhere.
            between = re.escape(self.thousands)
            grouped = f"[0-9]{{1,3}}(?:{between}[0-9]{{2,3}})*{between}[0-9]{{3}}"
            digits = f"{grouped}(?:{point}[0-9]*)?|{digits}"
        return f"[+-]?(?:(?:{digits})(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))"


@lru_cache(maxsize=64)
def _matcher(spelling: Spelling) -> Callable[[str], re.Match[str] | None]:
    return re.compile(spelling.pattern).fullmatch


ENGLISH, CONTINENTAL = Spelling(".", ","), Spelling(",", ".")
_OTHERS = (
    Spelling("."), Spelling(","), ENGLISH, CONTINENTAL, Spelling(".", " "), Spelling(",", " "),
    Spelling(".", "'"),
)  # fmt: skip


def is_missing(value: str) -> bool:
    """Whether a cell stands for a missing value."""
    return value in _MISSING


def is_plain(value: str, spelling: Spelling) -> bool:
    """Whether a cell is a number, or true or false."""
    return value in _WORDS or spelling.is_number(value)


def loses(value: str, spelling: Spelling) -> bool:
    """Whether a cell is a whole number that is not the same in float64."""
    digits = value.strip(" \t").lstrip("+-")
    if spelling.thousands is not None:
        digits = digits.replace(spelling.thousands, "")
    return len(digits) > 15 and digits.isdecimal() and int(float(digits)) != int(digits)


def kind_of_column(values: Iterable[str], spelling: Spelling) -> ColumnKind:
    """The kind of a column, by its values; a column without values may hold numbers."""
    present = [value for value in values if not is_missing(value)]
    if any(value in _WORDS for value in present):
        return (
            ColumnKind.BOOLEANS if all(value in _BOOLEANS for value in present) else ColumnKind.TEXT
        )
    return ColumnKind.NUMBERS if all(map(spelling.is_number, present)) else ColumnKind.TEXT


def why_text(values: Sequence[str], spelling: Spelling) -> str | None:
    """Why a column is text although its values resemble numbers; None if they do not."""
    there = [(row, value) for row, value in enumerate(values) if not is_missing(value)]
    odd = [(row, value) for row, value in there if not spelling.is_number(value)]
    if not odd:
        return None
    row, value = odd[0]
    numbers, first = len(there) - len(odd), f"the first {len(there)} values"
    if all(_DATE.fullmatch(value) for _, value in there):
        advice = AS_DAYS
        if date_format(values) is None:
            advice = "write dates as 2024-01-31 first, or turn them into numbers"
        return f"dates or times, for example {value!r} in row {row}; {advice}"
    if 2 * numbers >= len(there):
        return (
            f"text, although {numbers} of {first} are numbers: {value!r} in row {row} is not; "
            f"{remedy(value, spelling)}"
        )
    if (other := other_spelling([value for _, value in there], spelling)) is not None:
        readable = sum(other.is_number(value) for _, value in there)
        return (
            f"text, although {readable} of {first} can be read as numbers, for example "
            f"{value!r} in row {row}; {remedy(value, spelling)}"
        )
    return None


def other_spelling(values: Sequence[str], spelling: Spelling, part: float = 0.5) -> Spelling | None:
    """Another spelling by which at least this part of the values are numbers."""
    there = [value for value in values if not is_missing(value)]
    if not there or sum(map(spelling.is_number, there)) >= part * len(there):
        return None
    fitting = (
        other
        for other in _others(spelling)
        if sum(map(other.is_number, there)) >= part * len(there)
    )
    return next(fitting, None)


def date_format(values: Iterable[str]) -> str | None:
    """How all dates of a column are written; None if they are not dates, or written otherwise."""
    there = [value for value in values if not is_missing(value)]
    if iso := _all_match(_ISO_DATE, there):
        zones = {match[1] is not None for match in iso}
        return None if len(zones) > 1 else _ISO_ZONE if zones.pop() else _ISO
    found = _all_match(_DAY_AND_MONTH, there)
    if not found or len(signs := {match[2] for match in found}) > 1:
        return None
    sign = signs.pop()
    first, second = (max(int(match[at]) for match in found) for at in (1, 3))
    if max(first, second) > 12:
        order = "%d %m %Y" if first > 12 else "%m %d %Y"
    elif sign == ".":
        order = "%d %m %Y"
    else:
        return None
    return order.replace(" ", sign) if min(first, second) <= 12 else None


def _all_match(pattern: re.Pattern[str], values: list[str]) -> list[re.Match[str]]:
    """The matches of all values; empty if any value does not match."""
    found = [match for value in values if (match := pattern.fullmatch(value)) is not None]
    return found if len(found) == len(values) else []


def parsed_dates(text: pa.Array, form: str) -> pa.Array:
    """Dates that are written in a form of `date_format` as timestamps; null for others."""
    if form not in (_ISO, _ISO_ZONE):
        return pc.strptime(text, format=form, unit="us", error_is_null=True)
    kind = pa.timestamp("us", "UTC" if form == _ISO_ZONE else None)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        # Some are not dates: values are parsed one by one.
        return pa.array([_one_date(value, kind) for value in text], kind)


def _one_date(value: pa.Scalar, kind: pa.DataType) -> Any:
    try:
        return value.cast(kind).as_py()
    except pa.ArrowInvalid:
        return None


def _others(spelling: Spelling) -> list[Spelling]:
    """Other spellings, those with the same decimal separator first."""
    return sorted(_OTHERS, key=lambda other: other.decimal != spelling.decimal)


def remedy(value: str, spelling: Spelling) -> str:
    """Advice about a value that is not a number in a column of numbers."""
    other = next((each for each in _others(spelling) if each.is_number(value)), None)
    if other is not None:
        given = {"decimal": other.decimal, "thousands": other.thousands}
        now = {"decimal": spelling.decimal, "thousands": spelling.thousands}
        options = [f"{k}={v!r}" for k, v in given.items() if v is not None and v != now[k]]
        if options:
            return f"if it is a number, pass {', '.join(options)}"
    if not any(sign.isalnum() for sign in value):
        return (
            f"if {value!r} stands for a missing value, write it as an empty field or NA in the file"
        )
    return "correct it in the file, or leave the column out with exclude=[…]"


def not_a_number(value: str, column: str, row: str, name: str, spelling: Spelling) -> str:
    """Word the error about a value that is not a number in a column of numbers."""
    return (
        f"column {column!r} holds numbers, but {value!r} in {row} of {name} is not a number; "
        f"{remedy(value, spelling)}"
    )


def converted(
    batch: pa.RecordBatch, as_text: set[str], schema: pa.Schema, spelling: Spelling, first: int,
    name: str,
) -> pa.RecordBatch:  # fmt: skip
    """Convert columns of numbers and of dates that were read as text."""
    if not as_text:
        return batch
    names, columns = batch.schema.names, []
    for each, column in zip(names, batch.columns, strict=True):
        if each not in as_text:
            columns.append(column)
            continue
        gaps = pc.is_in(column, pa.array(MISSING))
        text = pc.if_else(gaps, pa.scalar(None, pa.string()), pc.utf8_trim(column, " \t"))
        field = schema.field(each)
        if pa.types.is_timestamp(field.type):
            columns.append(_dates(text, field.metadata[WRITTEN].decode(), each, first, name))
        else:
            columns.append(_numbers(text, spelling, each, first, name))
    return pa.RecordBatch.from_arrays(columns, names=names)


def _dates(text: pa.Array, form: str, label: str, first: int, name: str) -> pa.Array:
    """Convert dates that are written in one form to timestamps."""
    found = parsed_dates(text, form)
    if found.null_count > text.null_count:
        at = pc.index(pc.and_(pc.is_null(found), pc.is_valid(text)), True).as_py()
        raise ValueError(
            f"column {label!r} holds dates, but {text[at].as_py()!r} in row {first + at} of {name} "
            f"is not one that is written as in the first rows ({form}); correct it in the file, or "
            "leave the column out with exclude=[…]"
        )
    return found


def _numbers(text: pa.Array, spelling: Spelling, label: str, first: int, name: str) -> pa.Array:
    """Convert numbers with separators between thousands to float64."""
    assert spelling.thousands is not None
    fits = pc.match_substring_regex(text, f"^(?:{spelling.pattern})$")
    if pc.all(fits).as_py() is False:
        at = pc.index(fits, False).as_py()
        value, row = text[at].as_py(), f"row {first + at}"
        raise ValueError(not_a_number(value, label, row, name, spelling))
    text = pc.replace_substring(text, spelling.thousands, "")
    return pc.replace_substring(text, spelling.decimal, ".").cast(pa.float64())
