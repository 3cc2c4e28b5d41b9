"""Scans of dense rows, their moments, and the sums of clusters (`core/scans.cpp`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.kernels.native.arguments import (
    CORE,
    check_labels,
    check_runs,
    doubles,
    integers,
    type_of,
)
from lwcs.kernels.native.teams import CURRENT

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask


def scan(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    precision: FloatArray | None,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """Write d(x, pivot) into `out`; return Σω(x − pivot) and Σω·d."""
    n, d = points.shape
    shift, cost = np.zeros(d), np.empty(1)
    CORE.scan(
        type_of(points), points, doubles(weights), doubles(pivot), doubles(precision), n, d,
        shift, cost, out,
    )  # fmt: skip
    return shift, float(cost[0])


def scan_cells(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    precision: FloatArray | None,
    block_rows: int,
    cell_rows: int,
    cells: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Write Σω·d of every cell into `cells`; return Σω(x − pivot) and Σω·d of every block.

    Without weights, which row a value belongs to does not matter for the sum of a cell. So a cell
    is one line, over which the columns repeat: a long loop, for any number of columns.
    """
    n, d = points.shape
    n_blocks = -(-n // block_rows)
    shifts, costs = np.zeros((n_blocks, d)), np.empty(n_blocks)
    if n:
        assert len(cells) >= -(-n // cell_rows), (len(cells), n, cell_rows)
        CORE.scan_cells(
            type_of(points), points, doubles(weights), doubles(pivot), doubles(precision), n, d,
            block_rows, cell_rows, shifts, costs, cells, CURRENT.team,
        )  # fmt: skip
    return shifts, costs


def hit_rows(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    mean: FloatArray,
    precision: FloatArray | None,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray]:
    """One row per run (`kernels.hit_rows`), the h of each, and its distance to the mean."""
    starts, stops, targets = integers(runs[0]), integers(runs[1]), doubles(runs[2])
    count = len(starts)
    check_runs(starts, stops, len(points), weights)
    rows, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    CORE.hit_rows(
        type_of(points), points, doubles(weights), doubles(pivot), doubles(mean),
        doubles(precision), scale, floor, points.shape[1], count, starts, stops, targets,
        rows, bounds, distances,
    )  # fmt: skip
    return rows, bounds, distances


def moments(points: DenseRows, weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Weight, mean and scatter; each piece around its own mean, pieces merged exactly."""
    n, d = points.shape
    weight, mean, scatter = np.empty(1), np.zeros(d), np.zeros(d)
    CORE.moments(type_of(points), points, doubles(weights), n, d, weight, mean, scatter)
    return float(weight[0]), mean, scatter


def closer(
    points: DenseRows,
    weights: FloatArray | None,
    center: FloatArray,
    precision: FloatArray | None,
    label: int,
    reach: FloatArray | None,
    closest: FloatArray,
    labels: Labels,
) -> tuple[float, int]:
    """Lower `closest` where `center` is nearer; rows within reach of their own are not read."""
    n, d = points.shape
    cost, spared = np.empty(1), np.empty(1, dtype=np.int64)
    own = integers(labels)
    assert reach is None or not n or own.max() < len(reach), (label, len(reach))
    CORE.closer(
        type_of(points), points, doubles(weights), doubles(center), doubles(precision), n, d,
        label, doubles(reach), closest, own, cost, spared,
    )  # fmt: skip
    if own is not labels:
        labels[:] = own
    return float(cost[0]), int(spared[0])


def own_distances(
    points: DenseRows, centers: FloatArray, labels: Labels, precision: FloatArray | None
) -> FloatArray:
    """d of every row to the center that its label names; as in NumPy, −1 is the last one."""
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
    points: DenseRows, weights: FloatArray, labels: Labels, wanted: Mask, around: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·(x − around) of the clusters that are wanted, zeros for the others.

    The order of additions is that of the rows of a cluster, for any number of threads.
    """
    n, d = points.shape
    totals, sums, own = np.zeros(len(wanted)), np.zeros((len(wanted), d)), integers(labels)
    check_labels(own, len(wanted))
    CORE.cluster_sums(
        type_of(points), points, doubles(weights), own, np.ascontiguousarray(wanted),
        doubles(around), n, d, len(wanted), totals, sums, CURRENT.team,
    )  # fmt: skip
    return totals, sums
