"""Fields of saved metadata, read with a check of each: damaged or hostile files are refused.

JSON may hold anything, and nothing that a file says of itself is believed. A reader states what
each field must be; any other value is an error that names the field, its value and what it must be.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.arrays.checks import translating

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lwcs.arrays.types import FloatArray

V = TypeVar("V")
LARGEST_INTEGER = 2**63 - 1
# The numbers of columns of sparse rows are saved as int32.
MOST_FEATURES = 2**31 - 1
# The squares of smaller ones have no inverse.
SMALLEST_SCALE = 1e-150
# How often a coreset may have been reduced, and how many draws it may stand for.
DEEPEST = 10**9
MOST_DRAWS = 10**9
_MOST_AXES = 8
_SHOWN = 60
_FAILURES = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


class NotDefinedError(ValueError):
    """A file is whole, but needs a class that is not defined in this process."""


def reading(name: str) -> AbstractContextManager[None]:
    """Name the file in every error about what it holds."""

    def translate(error: Exception) -> Exception | None:
        import pyarrow as pa

        if isinstance(error, NotDefinedError):
            return ValueError(f"{name!r} {error}")
        if not isinstance(error, (*_FAILURES, pa.ArrowException)):
            return None
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return ValueError(f"{name!r} is damaged: {what}")

    return translating(translate)


class Fields:
    """The fields of a JSON object, each read by the kind of value that it must have."""

    def __init__(self, values: object, within: str = "") -> None:
        self._within = within
        if not isinstance(values, dict):
            raise ValueError(f"{self._called} {_shown(values)}, must be an object with fields")
        self._values: dict[str, Any] = values

    @property
    def _called(self) -> str:
        return f"field {self._within!r} is" if self._within else "its metadata is"

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def full_name(self, name: str) -> str:
        """The name of a field, with the fields that it is in."""
        return f"{self._within}.{name}" if self._within else name

    def fail(self, name: str, must_be: str) -> ValueError:
        """The error about a field that has another value than it must have."""
        found = f"is {_shown(self._values[name])}" if name in self._values else "is missing"
        return ValueError(f"field {self.full_name(name)!r} {found}, must be {must_be}")

    def _checked(
        self, name: str, must_be: str, kind: type[V], is_valid: Callable[[V], bool] = lambda _: True
    ) -> V:
        """The value of a field, if it has a type (a bool is not an int) and is valid."""
        value = self._values.get(name)
        if type(value) is not kind or not is_valid(value):
            raise self.fail(name, must_be)
        return value

    def null(self, name: str, *, missing: bool = False) -> bool:
        """Whether a field is null; with `missing`, it may also be missing."""
        return self._values.get(name, None if missing else name) is None

    def integer(self, name: str, *, least: int = 0, most: int = LARGEST_INTEGER) -> int:
        """An integer from `least` to `most`."""
        must_be = f"an integer from {least:,} to {most:,}"
        return self._checked(name, must_be, int, lambda value: least <= value <= most)

    def seed(self, name: str) -> int:
        """A random seed: an integer of any size."""
        return self._checked(name, "an integer >= 0", int, lambda value: value >= 0)

    def number(self, name: str, *, least: float = -math.inf, above: float = -math.inf) -> float:
        """A finite number."""
        must_be = "a finite number"
        if least > -math.inf:
            must_be += f" >= {least:g}"
        if above > -math.inf:
            must_be += f" > {above:g}"
        value: Any = self._values.get(name)
        if not _is_finite(value) or value < least or value <= above:
            raise self.fail(name, must_be)
        return value

    def boolean(self, name: str) -> bool:
        """True or false."""
        return self._checked(name, "true or false", bool)

    def text(self, name: str, choices: Sequence[str] | None = None) -> str:
        """A text, one of `choices` if there are any."""
        must_be = "a text" if choices is None else f"one of {', '.join(map(repr, choices))}"
        return self._checked(name, must_be, str, lambda text: choices is None or text in choices)

    def names(self, name: str, number: int) -> tuple[str, ...] | None:
        """So many different names, or null."""
        if self.null(name):
            return None

        def are_names(names: list[Any]) -> bool:
            texts = all(isinstance(each, str) for each in names)
            return texts and len(names) == number == len(set(names))

        must_be = f"null or a list of {number:,} different names"
        names: list[str] = self._checked(name, must_be, list, are_names)
        return tuple(names)

    def vector(
        self, name: str, length: int, *, above: float = -math.inf, missing: bool = False
    ) -> FloatArray | None:
        """So many finite numbers, or null; with `missing`, the field may be missing."""
        if self.null(name, missing=missing):
            return None
        must_be = f"null or a list of {length:,} finite numbers"
        if above > -math.inf:
            must_be += f" > {above:g}"

        def are_numbers(values: list[Any]) -> bool:
            finite = len(values) == length and all(map(_is_finite, values))
            return finite and min(values, default=math.inf) > above

        return np.array(self._checked(name, must_be, list, are_numbers), dtype=np.float64)

    def sizes(self, name: str) -> tuple[int, ...]:
        """A shape: a list of a few sizes."""

        def are_sizes(values: list[Any]) -> bool:
            whole = all(type(each) is int and each >= 0 for each in values)
            return whole and len(values) <= _MOST_AXES

        must_be = f"a list of at most {_MOST_AXES} integers >= 0"
        sizes: list[int] = self._checked(name, must_be, list, are_sizes)
        return tuple(sizes)

    def record(self, name: str, *, missing: bool = False) -> dict[str, Any]:
        """An object of any fields; with `missing`, an empty one if the field is missing."""
        if missing and name not in self._values:
            return {}
        return dict(self._checked(name, "an object with fields", dict))

    def inner(self, name: str) -> Fields:
        """The fields of an object within this one."""
        return Fields(self.record(name), self.full_name(name))


def finite_or_none(value: Any) -> Any:
    """A value for JSON, which has no infinite numbers and no nan: None for those."""
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        what = "a list" if isinstance(value, list) else "an object"
        return f"{what} of {len(value):,}, {_cut(value)}"
    return _cut(value)


def _cut(value: object) -> str:
    # The repr of a huge list would take too long.
    if isinstance(value, list):
        text = f"[{', '.join(_cut(each) for each in value[:4])}{', …' if len(value) > 4 else ''}]"
    elif isinstance(value, dict):
        text = "{" + ", ".join(map(_cut, list(value)[:4])) + "}"
    elif isinstance(value, int) and value.bit_length() > 4 * _SHOWN:
        text = "an integer of too many digits"
    else:
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def checked_mapping(fields: Fields, name: str, keys: Sequence[str]) -> Mapping[str, str]:
    """Column names by what they hold: exactly these keys, and all names different."""
    inner = fields.inner(name)
    found = {key: inner.text(key) for key in keys}
    if set(inner) != set(keys) or len(set(found.values())) != len(keys):
        raise fields.fail(name, f"different names of the columns {', '.join(keys)}")
    return found
