"""Scans of rows, their moments, and the sums of clusters (`core/scans.cpp`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.rows import is_sparse
from lwcs.kernels.native import csr
from lwcs.kernels.native.arguments import (
    CORE,
    check_labels,
    check_runs,
    doubles,
    integers,
    readable,
    require,
    type_of,
)
from lwcs.kernels.native.csr import distances_sparse, hit_rows_sparse, moments_sparse, scan_sparse
from lwcs.kernels.native.teams import CURRENT
from lwcs.kernels.numpy.scans import cell_sums, keep_closer, quiet, unit_weights
from lwcs.kernels.protocol import BlockMoments, BlockScans, Hits, Pivot, Scan

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask, Rows


@quiet
def scan(points: Rows, weights: FloatArray | None, pivot: Pivot, out: FloatArray) -> Scan:
    """Sparse rows at the cost of their non-zeros."""
    if is_sparse(points):
        return scan_sparse(points, unit_weights(weights, points.shape[0]), pivot.sparse, out)
    points = readable(points)
    n, d = points.shape
    shift, cost = np.zeros(d), np.empty(1)
    CORE.scan(
        type_of(points), points, doubles(weights), doubles(pivot.point), doubles(pivot.precision),
        n, d, shift, cost, out,
    )  # fmt: skip
    return Scan(shift, float(cost[0]))


@quiet
def distances(points: Rows, pivot: Pivot, out: FloatArray) -> None:
    """Dense rows by a scan, whose sums cost nothing."""
    if is_sparse(points):
        distances_sparse(points, pivot.sparse, out)
    else:
        scan(points, None, pivot, out)


@quiet
def scan_cells(
    points: Rows,
    weights: FloatArray | None,
    pivot: Pivot,
    block_rows: int,
    cells: FloatArray,
    cell_rows: int,
) -> BlockScans:
    """Dense rows without a number per row.

    Without weights, which row a value belongs to does not matter for the sum of a cell. So a cell
    is one line, over which the columns repeat: a long loop, for any number of columns.
    """
    if is_sparse(points):
        found = np.empty(points.shape[0])
        sums = scan(points, weights, pivot, found)
        cells[:] = cell_sums(found if weights is None else weights * found, cell_rows)
        return BlockScans(sums.shift[None, :], np.array([sums.cost]))
    points = readable(points)
    n, d = points.shape
    n_blocks = -(-n // block_rows)
    shifts, costs = np.zeros((n_blocks, d)), np.empty(n_blocks)
    if n:
        require(len(cells) >= -(-n // cell_rows), (len(cells), n, cell_rows))
        CORE.scan_cells(
            type_of(points), points, doubles(weights), doubles(pivot.point),
            doubles(pivot.precision), n, d, block_rows, cell_rows, shifts, costs, cells,
            CURRENT.team,
        )  # fmt: skip
    return BlockScans(shifts, costs)


def hit_rows(
    points: Rows,
    weights: FloatArray | None,
    pivot: Pivot,
    mean: Pivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> Hits:
    """Only the rows of the runs are read."""
    if is_sparse(points):
        return hit_rows_sparse(points, weights, pivot.sparse, mean.sparse, scale, floor, runs)
    points = readable(points)
    starts, stops, targets = integers(runs[0]), integers(runs[1]), doubles(runs[2])
    count = len(starts)
    check_runs(starts, stops, len(points), weights)
    rows, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    CORE.hit_rows(
        type_of(points), points, doubles(weights), doubles(pivot.point), doubles(mean.point),
        doubles(pivot.precision), scale, floor, points.shape[1], count, starts, stops, targets,
        rows, bounds, distances,
    )  # fmt: skip
    return Hits(rows, bounds, distances)


@quiet
def moments(points: Rows, weights: FloatArray | None) -> BlockMoments:
    """Each piece of rows around its own mean, pieces merged exactly."""
    weights = unit_weights(weights, points.shape[0])
    if is_sparse(points):
        return moments_sparse(points, weights)
    points = readable(points)
    n, d = points.shape
    weight, mean, scatter = np.empty(1), np.zeros(d), np.zeros(d)
    CORE.moments(type_of(points), points, doubles(weights), n, d, weight, mean, scatter)
    return BlockMoments(float(weight[0]), mean, scatter)


@quiet
def closer(
    points: Rows,
    weights: FloatArray | None,
    center: Pivot,
    label: int,
    reach: FloatArray | None,
    closest: FloatArray,
    labels: Labels,
) -> tuple[float, int]:
    """Dense rows within reach of their own center are not read."""
    if is_sparse(points):
        found = np.empty(points.shape[0])
        distances(points, center, found)
        return keep_closer(found, weights, label, closest, labels), 0
    points = readable(points)
    n, d = points.shape
    cost, spared = np.empty(1), np.empty(1, dtype=np.int64)
    own = integers(labels)
    require(reach is None or not n or own.max() < len(reach), label)
    CORE.closer(
        type_of(points), points, doubles(weights), doubles(center.point),
        doubles(center.precision), n, d, label, doubles(reach), closest, own, cost, spared,
    )  # fmt: skip
    if own is not labels:
        labels[:] = own
    return float(cost[0]), int(spared[0])


def own_distances(
    points: DenseRows, centers: FloatArray, labels: Labels, precision: FloatArray | None
) -> FloatArray:
    """As in NumPy, the label −1 is the last center."""
    points = readable(points)
    n, d = points.shape
    out, own = np.empty(n), integers(labels)
    if n and own.min() < 0:
        own = np.where(own < 0, own + len(centers), own)
    check_labels(own, len(centers))
    CORE.own_distances(
        type_of(points), points, doubles(centers), own, doubles(precision), n, d, out, CURRENT.team
    )
    return out


def cluster_sums(
    points: Rows, weights: FloatArray | None, labels: Labels, wanted: Mask, around: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """In the order of the rows of a cluster, for any number of threads."""
    (n, d), k, own = points.shape, len(wanted), integers(labels)
    weights = doubles(unit_weights(weights, n))
    totals, sums = np.zeros(k), np.zeros((k, d))
    check_labels(own, k)
    clusters = weights, own, np.ascontiguousarray(wanted), doubles(around)
    if is_sparse(points):
        rows = csr.arguments(points, d)
        CORE.cluster_sums_sparse(*rows, *clusters, k, totals, sums, CURRENT.team)
    else:
        points = readable(points)
        found = n, d, k, totals, sums, CURRENT.team
        CORE.cluster_sums(type_of(points), points, *clusters, *found)
    return totals, sums
