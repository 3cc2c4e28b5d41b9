"""Scans, moments and scores of CSR rows, at the cost of their non-zeros (`core/sparse.cpp`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.kernels.native.arguments import CORE, check_runs, doubles, integers, type_of

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray
    from lwcs.kernels.numpy.csr import SparsePivot


def _csr(data: DenseRows, indices: IntArray, indptr: IntArray, d: int) -> tuple[Any, ...]:
    """The arguments that stand for CSR rows."""
    long_indices, long_starts = indices.dtype == np.int64, indptr.dtype == np.int64
    n = len(indptr) - 1
    assert {indices.dtype, indptr.dtype} <= {np.dtype(np.int32), np.dtype(np.int64)}, indices.dtype
    if n:
        assert 0 <= indptr[0] <= indptr[-1] <= min(len(data), len(indices)), indptr
    return type_of(data), long_indices, long_starts, data, indices, indptr, n, d


def _around(pivot: SparsePivot) -> tuple[Any, ...]:
    return doubles(pivot.columns), doubles(pivot.precision), *pivot.totals


def scan_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray,
    around: SparsePivot,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """`scan` of CSR rows, at the cost of their non-zeros."""
    d = len(around.columns)
    shift, cost = np.empty(d), np.empty(1)
    rows = _csr(data, indices, indptr, d)
    CORE.scan_sparse(*rows, doubles(weights), *_around(around), shift, cost, out)
    return shift, float(cost[0])


def distances_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, around: SparsePivot, out: FloatArray
) -> None:
    """The distances of `scan_sparse`, without its sums."""
    rows = _csr(data, indices, indptr, len(around.columns))
    CORE.distances_sparse(*rows, *_around(around), out)


def hit_rows_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray | None,
    around: SparsePivot,
    mean: SparsePivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray]:
    """`hit_rows` of CSR rows."""
    starts, stops, targets = integers(runs[0]), integers(runs[1]), doubles(runs[2])
    count = len(starts)
    check_runs(starts, stops, len(indptr) - 1, weights)
    hits, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    columns, _, *totals = _around(mean)
    rows = _csr(data, indices, indptr, len(around.columns))
    CORE.hit_rows_sparse(
        *rows, doubles(weights), *_around(around), columns, *totals, scale, floor, count,
        starts, stops, targets, hits, bounds, distances,
    )  # fmt: skip
    return hits, bounds, distances


def moments_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, weights: FloatArray, n_features: int
) -> tuple[float, FloatArray, FloatArray]:
    """`moments` of CSR rows, at the cost of their non-zeros."""
    weight, mean, scatter = np.zeros(1), np.zeros(n_features), np.zeros(n_features)
    if len(indptr) > 1:
        rows = _csr(data, indices, indptr, n_features)
        CORE.moments_sparse(*rows, doubles(weights), weight, mean, scatter)
    return float(weight[0]), mean, scatter


def best_scores_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    matrix: FloatArray,
    offsets: FloatArray,
    labels: IntArray,
    best: FloatArray,
    second: FloatArray,
) -> None:
    """Write the largest score of every CSR row, where it is, and the second largest.

    Scores are rows·matrix + offsets, with one column per center, to the last bit as scipy has
    them. With NaN among its scores, a row has the label of the first one, and NaN for both.
    """
    rows = _csr(data, indices, indptr, len(matrix))
    CORE.best_scores_sparse(
        *rows, doubles(matrix), doubles(offsets), len(offsets), labels, best, second
    )
