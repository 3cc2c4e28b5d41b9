"""The kernels for CSR rows, at the cost of their non-zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.kernels.compiled.jit import jit

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows, FloatArray, IntArray


@jit()
def _scan_sparse(data, indices, indptr, weights, columns, sums, out):  # type: ignore[no-untyped-def]
    # What belongs to a column lies together: one non-zero, one cache line each.
    n_features = len(columns)
    coarse_sum, rest_sum, total, cost = 0.0, 0.0, 0.0, 0.0
    for j in range(n_features):
        coarse_sum += columns[j, 2]
        rest_sum += columns[j, 3]
    for i in range(len(indptr) - 1):
        omega = weights[i]
        there, away = rest_sum, coarse_sum
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            offset = np.float64(data[at]) - columns[j, 0]
            there += columns[j, 1] * (offset * offset) - columns[j, 3]
            away -= columns[j, 2]
            sums[j, 0] += omega * offset
            sums[j, 1] += omega
        distance = there + away
        if distance < 0.0:
            distance = 0.0
        out[i] = distance
        cost += omega * distance
        total += omega
    for j in range(n_features):
        sums[j, 0] -= (total - sums[j, 1]) * columns[j, 0]
    return cost


def scan_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray,
    columns: FloatArray,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """`scan` of CSR rows, at the cost of their non-zeros."""
    sums = np.zeros((len(columns), 2))
    # Unsigned, a column number cannot be negative, and numba need not look whether it is.
    unsigned = indices.view(f"u{indices.dtype.itemsize}")
    cost = _scan_sparse(data, unsigned, indptr, weights, columns, sums, out)
    return sums[:, 0], cost


@jit()
def _moments_sparse(data, indices, indptr, weights, mean, scatter):  # type: ignore[no-untyped-def]
    n_rows, n_features = len(indptr) - 1, len(mean)
    weight, spoiled = 0.0, 0.0
    for i in range(n_rows):
        weight += weights[i]
    if weight == 0.0:
        for at in range(indptr[0], indptr[n_rows]):
            spoiled += 0.0 * data[at]
        mean[:] = spoiled
        return weight
    first = np.argmax(weights)
    for at in range(indptr[first], indptr[first + 1]):
        mean[indices[at]] = data[at]
    slip = np.zeros(n_features)
    for sweep in range(2):
        present = np.zeros(n_features)
        slip[:] = 0.0
        for i in range(n_rows):
            omega = weights[i]
            for at in range(indptr[i], indptr[i + 1]):
                j = indices[at]
                offset = np.float64(data[at]) - mean[j]
                slip[j] += omega * offset
                present[j] += omega
                if sweep == 1:
                    scatter[j] += omega * (offset * offset)
        for j in range(n_features):
            at_zero = weight - present[j]
            slip[j] = (slip[j] - at_zero * mean[j]) / weight
            if sweep == 1:
                scatter[j] += at_zero * (mean[j] * mean[j]) - weight * (slip[j] * slip[j])
                scatter[j] = max(scatter[j], 0.0)
            mean[j] += slip[j]
    return weight


def moments_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, weights: FloatArray, n_features: int
) -> tuple[float, FloatArray, FloatArray]:
    """`moments` of CSR rows, at the cost of their non-zeros."""
    mean, scatter = np.zeros(n_features), np.zeros(n_features)
    if len(indptr) == 1:
        return 0.0, mean, scatter
    return _moments_sparse(data, indices, indptr, weights, mean, scatter), mean, scatter
