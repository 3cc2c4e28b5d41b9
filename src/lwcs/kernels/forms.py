"""Blocks of rows, and their weights, in the form that the kernels read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Rows

_ONES = np.ones(65_536)
_ONES.flags.writeable = False


def unit_weights(weights: FloatArray | None, n_rows: int) -> FloatArray:
    """Give the weights themselves, or ones where there are none."""
    if weights is not None:
        return weights
    return _ONES[:n_rows] if n_rows <= len(_ONES) else np.ones(n_rows)


def csr(points: Any) -> tuple[DenseRows, IntArray, IntArray]:
    """The three arrays of CSR rows."""
    return as_floats(points.data), points.indices, points.indptr


def as_floats(points: Rows) -> DenseRows:
    """Make a block what the kernels read: float32 or float64, row after row in memory."""
    dtype = points.dtype if points.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(points, dtype=dtype)
