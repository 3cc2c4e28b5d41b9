"""Scans and moments of CSR rows: for NumPy only, as the array API standard has no sparse arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray
    from lwcs.kernels.protocol import SparsePivot


def scan_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray,
    around: SparsePivot,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """`scan` of CSR rows, at the cost of their non-zeros."""
    pivot, coarse = around.columns.T
    precision = np.ones(len(pivot)) if around.precision is None else around.precision
    rest = precision * pivot**2 - coarse
    n_rows, n_features = len(indptr) - 1, len(pivot)
    lengths = np.diff(indptr)
    row_of = np.repeat(np.arange(n_rows), lengths)
    omega = np.repeat(weights, lengths)
    offset = data.astype(np.float64) - pivot[indices]
    there = np.bincount(row_of, precision[indices] * offset * offset, n_rows)
    away = coarse.sum() - np.bincount(row_of, coarse[indices], n_rows)
    away = away + (rest.sum() - np.bincount(row_of, rest[indices], n_rows))
    np.maximum(there + away, 0.0, out=out)
    at_zero = _in_order(weights) - np.bincount(indices, omega, n_features)
    shift = np.bincount(indices, omega * offset, n_features) - at_zero * pivot
    return shift, float(np.sum(weights * out))


def moments_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, weights: FloatArray, n_features: int
) -> tuple[float, FloatArray, FloatArray]:
    """`moments` of CSR rows, at the cost of their non-zeros."""
    zeros = np.zeros(n_features)
    weight = _in_order(weights)
    if len(indptr) == 1 or weight == 0.0:
        return 0.0, zeros + 0.0 * float(np.sum(data)), zeros
    omega = np.repeat(weights, np.diff(indptr))
    at_zero = weight - np.bincount(indices, omega, n_features)
    center, first = zeros.copy(), int(np.argmax(weights))
    row = slice(indptr[first], indptr[first + 1])
    center[indices[row]] = data[row]
    values = data.astype(np.float64)
    offset = values - center[indices]
    center += (np.bincount(indices, omega * offset, n_features) - at_zero * center) / weight
    offset = values - center[indices]
    slip = (np.bincount(indices, omega * offset, n_features) - at_zero * center) / weight
    spread = np.bincount(indices, omega * offset * offset, n_features) + at_zero * center**2
    return weight, center + slip, np.maximum(spread - weight * slip * slip, 0.0)


def _in_order(weights: FloatArray) -> float:
    """Sum in the order of bincount: a column without zeros then leaves exactly no weight."""
    return float(np.cumsum(weights)[-1]) if len(weights) else 0.0
