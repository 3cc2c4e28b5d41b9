"""The hot loops over a block of rows, dense or CSR: distances, moments, cluster sums, scores.

`portable` is written against the array API standard and is the oracle; `compiled`
is the same in numba, several times faster once it is loaded. A build names one of
them up front, by the size of the data alone, so that every block and every retry of
it goes through the same arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lwcs.arrays.rows import is_sparse, row_numbers, split_exactly, with_values
from lwcs.kernels import portable
from lwcs.kernels.choice import (
    COMPILED_FROM,
    KernelName,
    as_floats,
    choose,
    csr,
    is_compiled,
    module_of,
    unit_weights,
)
from lwcs.kernels.scores import TILE, assign, best_of_sparse, nearest, second_best, seeding

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Labels, Mask, Rows

__all__ = [
    "COMPILED_FROM",
    "TILE",
    "BlockMoments",
    "BlockScans",
    "Hits",
    "KernelName",
    "Pivot",
    "Scan",
    "as_floats",
    "assign",
    "best_of_sparse",
    "cell_sums",
    "choose",
    "closer",
    "cluster_sums",
    "cross",
    "distances",
    "hit_rows",
    "is_compiled",
    "keep_closer",
    "moments",
    "nearest",
    "own_distances",
    "scan",
    "scan_cells",
    "second_best",
    "seeding",
    "unit_weights",
    "weighted_sum",
]


class Scan(NamedTuple):
    """The sums of a scan around a pivot, beside one distance per row."""

    shift: FloatArray
    """Σω(x − pivot) per column."""
    cost: float
    """Σω·d(x, pivot)."""


class BlockScans(NamedTuple):
    """The sums of a scan around a pivot, one row per block, beside one number per cell."""

    shifts: FloatArray
    """Σω(x − pivot) per column."""
    costs: FloatArray
    """Σω·d(x, pivot)."""

    @property
    def finite(self) -> Mask:
        """The blocks all of whose values are finite, and not too large."""
        return np.asarray(np.isfinite(self.costs) & np.isfinite(self.shifts).all(axis=1))


class Hits(NamedTuple):
    """Rows that were hit, the bound h of each, and its distance to the mean.

    The kernels of a device put tensors here and into `BlockMoments`.
    """

    rows: IntArray
    bounds: FloatArray
    distances: FloatArray


class BlockMoments(NamedTuple):
    """Weight, mean and scatter Σω(x − mean)² per column of one block."""

    weight: float
    mean: FloatArray
    scatter: FloatArray


@dataclass(frozen=True)
class Pivot:
    """The point that a scan measures distances to, and the precision of every column.

    d(x, point) = Σ_j precision_j·(x_j − point_j)²; without a precision, all are 1.
    """

    point: FloatArray
    precision: FloatArray | None = None

    @cached_property
    def sparse(self) -> portable.SparsePivot:
        """For CSR rows. It takes as long as the scan of some thousand rows, so keep the pivot."""
        squares = self.point**2
        terms = squares if self.precision is None else self.precision * squares
        coarse, rest = split_exactly(terms)
        # One after the other, which is the same on every machine.
        totals = float(np.cumsum(rest)[-1]), float(np.cumsum(coarse)[-1])
        return portable.SparsePivot(np.stack([self.point, coarse], axis=1), self.precision, totals)


def scan(
    points: Rows, weights: FloatArray | None, pivot: Pivot, out: FloatArray, kernel: KernelName
) -> Scan:
    """Write d(x, pivot) of every row into `out`."""
    module = module_of(kernel)
    # Whoever called looks at the sums; a warning from in here would name no row.
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(points):
            omega = unit_weights(weights, points.shape[0])
            return Scan(*module.scan_sparse(*csr(points), omega, pivot.sparse, out))
        return Scan(*module.scan(as_floats(points), weights, pivot.point, pivot.precision, out))


def distances(points: Rows, pivot: Pivot, out: FloatArray, kernel: KernelName) -> None:
    """Write d(x, pivot) of every row into `out`, where nobody asks for the sums of a scan."""
    if not is_sparse(points):
        scan(points, None, pivot, out, kernel)
        return
    with np.errstate(invalid="ignore", over="ignore"):
        module_of(kernel).distances_sparse(*csr(points), pivot.sparse, out)


def scan_cells(
    points: Rows,
    weights: FloatArray | None,
    pivot: Pivot,
    block_rows: int,
    cells: FloatArray,
    cell_rows: int,
    kernel: KernelName,
) -> BlockScans:
    """Write Σω·d(x, pivot) of every cell of rows into `cells`.

    Rows may be those of several blocks, of `block_rows` each, whose sums do not depend on that;
    sparse rows are those of one block.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(points):
            found = np.empty(points.shape[0])
            sums = scan(points, weights, pivot, found, kernel)
            cells[:] = cell_sums(found if weights is None else weights * found, cell_rows)
            return BlockScans(sums.shift[None, :], np.array([sums.cost]))
        return BlockScans(
            *module_of(kernel).scan_cells(
                as_floats(points),
                weights,
                pivot.point,
                pivot.precision,
                block_rows,
                cell_rows,
                cells,
            )
        )


def hit_rows(
    points: Rows,
    weights: FloatArray | None,
    pivot: Pivot,
    mean: Pivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
    kernel: KernelName,
) -> Hits:
    """One row of every run of rows: where the running sum of ω·h crosses a target.

    h = scale·d(x, pivot) + floor. `runs` says where each starts, where it stops, and the target;
    rows of the portable kernel are these runs alone.
    """
    module = module_of(kernel)
    if module is not portable:
        if is_sparse(points):
            both = pivot.sparse, mean.sparse
            found = module.hit_rows_sparse(*csr(points), weights, *both, scale, floor, runs)
        else:
            around = pivot.point, mean.point, pivot.precision
            found = module.hit_rows(as_floats(points), weights, *around, scale, floor, runs)
        return Hits(*found)
    bounds = np.empty(points.shape[0])
    distances(points, pivot, bounds, kernel)
    bounds = scale * bounds + floor
    rows = portable.cross(bounds if weights is None else weights * bounds, *runs)
    to_mean = np.empty(len(rows))
    distances(points[rows], mean, to_mean, kernel)
    return Hits(rows, bounds[rows], to_mean)


def moments(points: Rows, weights: FloatArray | None, kernel: KernelName) -> BlockMoments:
    """Weight, mean and scatter of a block, accurate at any offset."""
    module, omega = module_of(kernel), unit_weights(weights, points.shape[0])
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(points):
            return BlockMoments(*module.moments_sparse(*csr(points), omega, points.shape[1]))
        return BlockMoments(*module.moments(as_floats(points), omega))


cell_sums = portable.cell_sums
cross = portable.cross
keep_closer = portable.keep_closer
weighted_sum = portable.weighted_sum


def closer(
    points: Rows,
    weights: FloatArray | None,
    center: Pivot,
    label: int,
    reach: FloatArray | None,
    closest: FloatArray,
    labels: Labels,
    kernel: KernelName,
) -> tuple[float, int]:
    """Bring the distance of every row to its nearest center up to date with one more center.

    By the triangle inequality, a row whose distance is at most ``reach[its label]``, a quarter
    of the distance between its center and this one, cannot be nearer to this one; a kernel may
    skip such rows. Returns Σω·closest, and how many rows were skipped.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(points):
            found = np.empty(points.shape[0])
            distances(points, center, found, kernel)
            return keep_closer(found, weights, label, closest, labels), 0
        return module_of(kernel).closer(
            as_floats(points),
            weights,
            center.point,
            center.precision,
            label,
            reach,
            closest,
            labels,
        )


def own_distances(
    points: Rows,
    centers: FloatArray,
    labels: Labels,
    precision: FloatArray | None,
    kernel: KernelName,
) -> FloatArray:
    """d of every dense row to the center that its label names, from differences, in float64."""
    return module_of(kernel).own_distances(as_floats(points), centers, labels, precision)


def cluster_sums(
    points: Rows,
    weights: FloatArray | None,
    labels: Labels,
    wanted: Mask,
    around: FloatArray,
    kernel: KernelName,
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·(x − around) of the clusters that are wanted; zeros for the others.

    `around` has one point per cluster. Near the rows of a cluster, nothing large is added up: a
    mean keeps its digits at any offset, and that of equal rows is their value.
    """
    omega = unit_weights(weights, points.shape[0])
    if is_sparse(points):
        import scipy.sparse as sp

        at = np.flatnonzero(wanted[labels])
        members = sp.csr_array((omega[at], (labels[at], at)), shape=(len(wanted), len(labels)))
        own = around[labels[row_numbers(points)], points.indices]
        moved = (members @ with_values(points, points.data - own)).toarray()
        there = (members @ with_values(points, np.ones(points.nnz))).toarray()
        # In the same order as `there`: a column without zeros has then exactly none.
        totals = members @ np.ones(len(labels))
        return totals, moved - (totals[:, None] - there) * around
    totals, sums = module_of(kernel).cluster_sums(as_floats(points), omega, labels, wanted, around)
    return totals, sums
