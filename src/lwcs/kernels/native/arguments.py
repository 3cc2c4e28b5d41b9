"""The library that was loaded, and arguments in the form that its functions take."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import as_floats, as_read, is_narrow
from lwcs.kernels.native.library import DTYPES, load

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, IntArray, Rows

CORE: Any = load()
if CORE is None:
    raise ImportError("lwcs was installed without its native kernels")


@cache
def _dtype_number(dtype: np.dtype[Any]) -> int:
    return DTYPES[dtype.name]


def type_of(points: DenseRows) -> int:
    """The number of a dtype in `core/rows.hpp`."""
    return _dtype_number(points.dtype)


def readable(points: Rows) -> DenseRows:
    """A block as the core reads it, also in half precision and in small integers."""
    if is_narrow(points.dtype) and points.dtype.isnative:
        return as_read(points)
    return as_floats(points)


def doubles(values: Any) -> Any:
    """An argument that is only read, as the kernels read it."""
    return None if values is None else as_read(values, np.float64)


def integers(values: Any) -> Any:
    """Integers that are only read."""
    return as_read(values, np.int64)


def require(condition: object, about: object) -> None:
    """Refuse what would lead the core out of an array, also where asserts are switched off."""
    if not condition:
        raise AssertionError(about)


def check_runs(starts: IntArray, stops: IntArray, n_rows: int, weights: Any) -> None:
    """Runs of rows are not empty, and within the rows: the core reads without a look."""
    if len(starts):
        require(starts.min() >= 0, starts)
        require(stops.max() <= n_rows, (stops, n_rows))
        require((starts < stops).all(), (starts, stops))
        require(weights is None or len(weights) == n_rows, weights)


def check_labels(labels: IntArray, k: int) -> None:
    """Labels are numbers of clusters."""
    if len(labels):
        require(labels.min() >= 0, labels.min())
        require(labels.max() < k, (labels.max(), k))


def in_precision(dtype: np.dtype[Any], factor: DenseRows | None) -> tuple[bool, Any]:
    """Whether products are in double precision, and the factor of rows in that."""
    return dtype == np.float64, None if factor is None else np.ascontiguousarray(factor, dtype)
