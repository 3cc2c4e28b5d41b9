"""Checks of arguments and values; each error names the value, what is allowed, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.device import on_host
from lwcs.arrays.rows import is_real, is_sparse, place_of, stored_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows, FloatArray, Rows


Translate = Callable[[Exception], "Exception | None"]


@contextmanager
def translating(translate: Translate) -> Iterator[None]:
    """Raise the translation of an error instead of it, unless that is None.

    Every context that names a file, a row or a parameter in errors is made by this one.
    """
    try:
        yield
    except Exception as error:
        translated = translate(error)
        if translated is None or translated is error:
            raise
        # Nothing is lost: the message about a bad value says all that the original error says.
        raise translated from (None if isinstance(error, BadValueError) else error)


_LARGEST_WEIGHT = 1e200
_BYTE_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def check_count(value: object, name: str, *, least: int = 1, most: int | None = None) -> int:
    """Check that `value` is an integer of at least `least`, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        near = _nearest_integer(value, least)
        raise TypeError(
            f"{name}={value!r} is not an integer; pass an integer >= {least}"
            + ("" if near is None else f", for example {name}={near}")
        )
    if value < least:
        raise ValueError(f"{name}={value} is too small; pass {name} >= {least}")
    if most is not None and int(value) > most:
        raise ValueError(f"{name}={value} is too large; pass {name} <= {most}")
    return int(value)


def _nearest_integer(value: object, least: int) -> int | None:
    """The allowed integer that is nearest to a number, or to a text with a number in it."""
    if not isinstance(value, Real | str):
        return None
    try:
        return max(least, round(float(value)))
    except (ValueError, OverflowError):
        return None


def check_n_rows(n_rows: int, k: int, name: str = "n_clusters") -> None:
    """Check that there are as many rows as clusters."""
    if n_rows < k:
        raise ValueError(
            f"n_samples={n_rows} should be >= {name}={k}; pass more rows, or a smaller {name}"
        )


def check_number(value: object, name: str, *, above: float | None = None) -> float:
    """Check a finite number that is >= 0, or above a bound if one is given."""
    number = np.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not np.isfinite(number) or not (number >= 0.0 if above is None else number > above):
        bound = ">= 0" if above is None else f"> {above:g}"
        raise ValueError(f"{name}={value!r} is not allowed; pass a finite number {bound}")
    return number


def check_confidence(confidence: object) -> float:
    """Check the confidence of an interval: a probability that is neither 0 nor 1."""
    number = isinstance(confidence, Real) and not isinstance(confidence, bool)
    if not number or not 0.0 < float(confidence) < 1.0:  # type: ignore[arg-type]
        raise ValueError(
            f"confidence={confidence!r} is not allowed; pass a number above 0 and below 1, such "
            "as 0.95"
        )
    return float(confidence)  # type: ignore[arg-type]


def check_choice(value: str, name: str, choices: Sequence[object]) -> None:
    """Check that `value` is one of `choices`, and name the nearest one if it is not."""
    if value in choices:
        return
    near = nearest(str(value), map(str, choices))
    hint = f"; did you mean {near!r}?" if near else ""
    raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}{hint}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like one that was given, if any is much like it."""
    from difflib import get_close_matches

    known = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), known, n=1)
    return known[near[0]] if near else None


def parse_bytes(text: str) -> int | None:
    """Turn 512MB into 512000000; None if it is not an amount of memory."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMG]?I?)B?", text.strip().upper())
    if match is None or match[2] not in _BYTE_UNITS:
        return None
    return int(float(match[1]) * _BYTE_UNITS[match[2]])


def check_memory_limit(memory_limit: object) -> int | None:
    """Turn a number of bytes, or a text such as ``"512MB"``, into bytes; None stays None."""
    if memory_limit is None:
        return None
    integer = isinstance(memory_limit, Integral) and not isinstance(memory_limit, bool)
    found = parse_bytes(memory_limit) if isinstance(memory_limit, str) else None
    amount = int(memory_limit) if integer else found  # type: ignore[call-overload]
    if amount is None or amount < 1:
        raise ValueError(
            f"memory_limit={memory_limit!r} is not an amount of memory; pass a number of bytes, or "
            "a text such as '512MB' or '2GB'"
        )
    return amount


# Number of binary digits of float64.
_DIGITS = 53
_NAMED = 8


def loses_digits(values: DenseRows) -> bool:
    """Whether whole numbers are not the same in float64, as some beyond 2**53."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return False
    if int(values.min()) >= -(2**_DIGITS) and int(values.max()) <= 2**_DIGITS:
        return False
    sizes = np.abs(values).astype(np.uint64)
    _, exponents = np.frexp(sizes.astype(np.float64))
    spacing = np.uint64(1) << np.maximum(exponents - _DIGITS, 0).astype(np.uint64)
    return bool((sizes & (spacing - np.uint64(1))).any())


def objects_lose_digits(values: DenseRows) -> bool:
    """Whether integers of Python are not the same in float64."""
    return any(type(value) is int and int(float(value)) != value for value in values.flat)


def lost_digits_text(names: Sequence[str] = ()) -> str:
    """The warning that whole numbers, of columns if they have names, lose digits."""
    shown = ", ".join(map(repr, names[:_NAMED])) + ", …" * (len(names) > _NAMED)
    what = f"column{'s' * (len(names) > 1)} {shown}" if names else "the data"
    return (
        f"{what} {'have' if len(names) > 1 else 'has'} whole numbers beyond 2**53, which lose "
        "their last digits: distances are computed in float64; subtract a number first, or leave "
        "out columns that are names and not amounts"
    )


def check_weights(weights: object, n_rows: int, name: str = "sample_weight") -> FloatArray:
    """Check one finite, non-negative weight per row, as float64."""
    refuse_masked(weights, name)
    array = np.asarray(on_host(weights, name))
    if not is_real(array.dtype):
        raise TypeError(
            f"{name} is not numeric (dtype {array.dtype}); pass one number >= 0 per row"
        )
    checked = np.ascontiguousarray(array, dtype=np.float64)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} has shape {array.shape} but the data has {n_rows} rows; "
            f"pass an array of shape ({n_rows},)"
        )
    with np.errstate(over="ignore"):
        total = float(checked.sum())
    if not total < _LARGEST_WEIGHT or (n_rows and checked.min() < 0):
        bad = ~(np.isfinite(checked) & (checked >= 0))
        if not bad.any():
            raise ValueError(
                f"{name} sums to {total:g}, more than {_LARGEST_WEIGHT:g}; scale the weights down"
            )
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{name}[{row}]={checked[row]} is not allowed; weights are finite and >= 0 "
            "(use 0 to leave a row out)"
        )
    return checked


def refuse_masked(values: object, name: str) -> None:
    """Refuse masked arrays: their mask would be lost."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost; "
            "fill it with .filled(…) or drop the masked rows"
        )


def check_centers(centers: object, n_features: int) -> FloatArray:
    """Check k finite centers of `n_features` columns each, as float64."""
    refuse_masked(centers, "centers")
    given = on_host(centers, "centers")
    array = np.asarray(given.toarray() if is_sparse(given) else given)
    if not is_real(array.dtype):
        raise TypeError(f"centers have dtype {array.dtype}; pass an array of real numbers")
    checked = np.ascontiguousarray(array, dtype=np.float64)
    if checked.ndim != 2:
        raise ValueError(
            f"centers have shape {checked.shape}; pass shape (k, {n_features}), "
            "for one center centers.reshape(1, -1)"
        )
    if checked.shape[1] != n_features:
        raise ValueError(
            f"centers have {checked.shape[1]} columns but the data has {n_features}; "
            f"pass shape (k, {n_features})"
        )
    if not len(checked):
        raise ValueError(f"centers are empty; pass at least one, shape (k, {n_features}), k >= 1")
    if not np.isfinite(checked).all():
        row, column = map(int, np.argwhere(~np.isfinite(checked))[0])
        raise ValueError(
            f"centers[{row}, {column}]={checked[row, column]} is not finite; pass finite centers"
        )
    return checked


def check_numbers(values: object, name: str, shape: tuple[int, ...], why: str) -> FloatArray:
    """Check finite numbers of a shape, which is required by `why`, as float64."""
    refuse_masked(values, name)
    given = on_host(values, name)
    try:
        array = np.asarray(given.toarray() if is_sparse(given) else given)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of shape {shape}: {error}") from None
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; pass shape {shape} for {why}")
    if not is_real(array.dtype):
        raise TypeError(f"{name} has dtype {array.dtype}; pass an array of real numbers")
    checked = np.array(array, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(checked))
    if len(bad):
        place, value = ", ".join(map(str, bad[0])), checked[tuple(bad[0])]
        raise ValueError(f"{name}[{place}]={value} is not finite; pass finite numbers")
    return checked


class BadValueError(ValueError):
    """A value that cannot be measured: raised by a task, explained by the source of its rows.

    The value is not finite; or too large, if no column is named; or outside the domain of a
    divergence, as `wants` explains.
    """

    def __init__(
        self, partition: int, row: int, column: int | None, value: float, wants: str = ""
    ) -> None:
        super().__init__(partition, row, column, value, wants)
        self.partition, self.row, self.column, self.value = partition, row, column, value
        self.wants = wants

    @classmethod
    def found_in(cls, points: Rows, first_row: int, partition: int) -> BadValueError:
        """Find the first value of a block that is not finite, or its largest."""
        values = stored_values(points)
        bad = np.flatnonzero(~np.isfinite(values))
        at = int(bad[0] if len(bad) else np.argmax(np.abs(values)))
        row, column = place_of(points, at)
        where = column if len(bad) else None
        value = values[at] if len(bad) else abs(values[at])
        return cls(partition, first_row + row, where, float(value))

    @classmethod
    def in_partition(cls, partition: int) -> AbstractContextManager[None]:
        """Add the number of the partition to an error of code that does not know it."""

        def translate(bad: Exception) -> Exception | None:
            if not isinstance(bad, cls):
                return None
            return cls(partition, bad.row, bad.column, bad.value, bad.wants)

        return translating(translate)

    def explained(
        self,
        first_row: int,
        where: str,
        feature_names: Sequence[str] | None,
        dropping: str = "lwcs.scan(…, missing='drop')",
    ) -> ValueError:
        """The error for the user: the value, its place, and the remedy.

        `dropping` is the call that drops rows with missing values.
        """
        row = first_row + self.row
        if self.column is None and self.wants:
            return ValueError(f"row {row}{where} {self.wants}")
        if self.column is None:
            return ValueError(
                f"values in row {row}{where} are so large (up to {self.value:g}) that their "
                "distances overflow; scale the data down, for example to unit variance"
            )
        name = f" ({feature_names[self.column]!r})" if feature_names is not None else ""
        wants = self.wants or (
            "every value must be finite (no NaN, no infinity): fill such values, or drop such rows"
            + (f" with {dropping}" if np.isnan(self.value) else "")
        )
        return ValueError(
            f"the value in row {row}, column {self.column}{name}{where} is {self.value}; {wants}"
        )
