"""Scans, moments and scores of CSR rows, at the cost of their non-zeros (`core/sparse.cpp`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import csr
from lwcs.kernels.native.arguments import CORE, check_runs, doubles, integers, require, type_of
from lwcs.kernels.protocol import BlockMoments, Hits, Scan

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.kernels.protocol import SparsePivot


def arguments(points: Any, d: int) -> tuple[Any, ...]:
    """The arguments that stand for CSR rows."""
    data, indices, indptr = csr(points)
    long_indices, long_starts = indices.dtype == np.int64, indptr.dtype == np.int64
    n = len(indptr) - 1
    require(
        {indices.dtype, indptr.dtype} <= {np.dtype(np.int32), np.dtype(np.int64)},
        indices.dtype,
    )
    if n:
        require(0 <= indptr[0] <= indptr[-1] <= min(len(data), len(indices)), indptr)
    return type_of(data), long_indices, long_starts, data, indices, indptr, n, d


def _around(pivot: SparsePivot) -> tuple[Any, ...]:
    return doubles(pivot.columns), doubles(pivot.precision), *pivot.totals


def scan_sparse(
    points: Any,
    weights: FloatArray,
    around: SparsePivot,
    out: FloatArray,
) -> Scan:
    """`scan` of CSR rows, at the cost of their non-zeros."""
    d = len(around.columns)
    shift, cost = np.empty(d), np.empty(1)
    rows = arguments(points, d)
    CORE.scan_sparse(*rows, doubles(weights), *_around(around), shift, cost, out)
    return Scan(shift, float(cost[0]))


def distances_sparse(points: Any, around: SparsePivot, out: FloatArray) -> None:
    """The distances of `scan_sparse`, without its sums."""
    rows = arguments(points, len(around.columns))
    CORE.distances_sparse(*rows, *_around(around), out)


def hit_rows_sparse(
    points: Any,
    weights: FloatArray | None,
    around: SparsePivot,
    mean: SparsePivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> Hits:
    """`hit_rows` of CSR rows."""
    starts, stops, targets = integers(runs[0]), integers(runs[1]), doubles(runs[2])
    count = len(starts)
    check_runs(starts, stops, points.shape[0], weights)
    hits, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    columns, _, *totals = _around(mean)
    rows = arguments(points, len(around.columns))
    CORE.hit_rows_sparse(
        *rows, doubles(weights), *_around(around), columns, *totals, scale, floor, count,
        starts, stops, targets, hits, bounds, distances,
    )  # fmt: skip
    return Hits(hits, bounds, distances)


def moments_sparse(points: Any, weights: FloatArray) -> BlockMoments:
    """`moments` of CSR rows, at the cost of their non-zeros."""
    n, d = points.shape
    weight, mean, scatter = np.zeros(1), np.zeros(d), np.zeros(d)
    if n:
        rows = arguments(points, d)
        CORE.moments_sparse(*rows, doubles(weights), weight, mean, scatter)
    return BlockMoments(float(weight[0]), mean, scatter)


def best_scores(
    points: Any,
    matrix: FloatArray,
    offsets: FloatArray,
    labels: IntArray,
    best: FloatArray,
    second: FloatArray,
) -> None:
    """At the cost of the stored values, once per center."""
    rows = arguments(points, len(matrix))
    CORE.best_scores_sparse(
        *rows, doubles(matrix), doubles(offsets), len(offsets), labels, best, second
    )
