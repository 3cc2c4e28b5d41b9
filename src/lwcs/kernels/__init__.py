"""The hot loops over a block of rows, dense or CSR: distances, moments, cluster sums, scores.

There are two implementations for rows of the host. `native` is a shared library in C++, which is
loaded in a millisecond; `portable` ("numpy") uses NumPy and BLAS, is written against the array API
standard, is the reference for the tests, and serves where no library was built, several times
slower. `choose` names one of the two, so that every block and every retry of a build goes through
the same arithmetic. The functions here bring rows into the form that it expects, and call it.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lwcs.arrays.checks import check_choice
from lwcs.arrays.rows import as_read, is_narrow, is_sparse, row_numbers, split_exactly, with_values
from lwcs.kernels import numpy as portable

if TYPE_CHECKING:
    from types import ModuleType

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask, Rows


KernelName = Literal["numpy", "native"]

_ONES = np.ones(65_536)
_ONES.flags.writeable = False


def choose() -> KernelName:
    """Name the kernels of this process; ``LWCS_KERNEL`` overrides the choice."""
    setting = os.environ.get("LWCS_KERNEL", "auto")
    check_choice(setting, "LWCS_KERNEL", ("auto", "numpy", "native", "device"))
    return "numpy" if setting == "numpy" or not is_native("native") else "native"


@cache
def module_of(name: KernelName) -> ModuleType:
    """Import the kernels with a name; those of NumPy if there are no native ones."""
    if name == "native":
        try:
            from lwcs.kernels import native
        except ImportError:
            return portable
        return native
    return portable


def is_native(kernel: KernelName) -> bool:
    """Whether a kernel has native loops; without the library, none has."""
    return module_of(kernel) is not portable


def team(kernel: KernelName, threads: int) -> AbstractContextManager[None]:
    """Share the native calls of this Python thread among several threads."""
    return module_of(kernel).team(threads) if is_native(kernel) else nullcontext()


def unit_weights(weights: FloatArray | None, n_rows: int) -> FloatArray:
    """Give the weights themselves, or ones where there are none."""
    if weights is not None:
        return weights
    return _ONES[:n_rows] if n_rows <= len(_ONES) else np.ones(n_rows)


def csr(points: Any) -> tuple[DenseRows, IntArray, IntArray]:
    """The three arrays of CSR rows."""
    return as_floats(points.data), _as_integers(points.indices), _as_integers(points.indptr)


def _as_integers(values: IntArray) -> IntArray:
    return as_read(values, values.dtype if values.dtype in (np.int32, np.int64) else np.int64)


def as_floats(points: Rows) -> DenseRows:
    """A block in float32 or float64, row after row in memory."""
    dtype = points.dtype if points.dtype in (np.float32, np.float64) else np.float64
    return as_read(points, np.float32 if is_narrow(points.dtype) else dtype)


def readable(points: Rows, kernel: KernelName) -> DenseRows:
    """A block as a kernel reads it: native ones read half precision and small integers as well."""
    if is_narrow(points.dtype) and points.dtype.isnative and is_native(kernel):
        return as_read(points)
    return as_floats(points)


class Scan(NamedTuple):
    """The sums of a scan around a pivot; it also writes one distance per row."""

    shift: FloatArray
    """Σω(x − pivot) per column."""
    cost: float
    """Σω·d(x, pivot)."""


class BlockScans(NamedTuple):
    """The sums of a scan around a pivot, one row per block; it also writes one number per cell."""

    shifts: FloatArray
    """Σω(x − pivot) per column."""
    costs: FloatArray
    """Σω·d(x, pivot)."""

    @property
    def finite(self) -> Mask:
        """Which blocks have only values that are finite, and whose squares are."""
        return np.asarray(np.isfinite(self.costs) & np.isfinite(self.shifts).all(axis=1))


class Hits(NamedTuple):
    """Rows that were hit, the bound h of each, and its distance to the mean.

    The kernels of a device return tensors in these fields and in those of `BlockMoments`.
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
        """The pivot for CSR rows; to make it takes as long as to scan some thousand rows."""
        squares = self.point**2
        terms = squares if self.precision is None else self.precision * squares
        coarse, rest = split_exactly(terms)
        # cumsum adds one value after the other, with the same bits on every machine.
        totals = float(np.cumsum(rest)[-1]), float(np.cumsum(coarse)[-1])
        return portable.SparsePivot(np.stack([self.point, coarse], axis=1), self.precision, totals)


def scan(
    points: Rows, weights: FloatArray | None, pivot: Pivot, out: FloatArray, kernel: KernelName
) -> Scan:
    """Write d(x, pivot) of every row into `out`."""
    module = module_of(kernel)
    # Callers check the sums, and name the row; a warning from here could not.
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(points):
            omega = unit_weights(weights, points.shape[0])
            return Scan(*module.scan_sparse(*csr(points), omega, pivot.sparse, out))
        return Scan(
            *module.scan(readable(points, kernel), weights, pivot.point, pivot.precision, out)
        )


def distances(points: Rows, pivot: Pivot, out: FloatArray, kernel: KernelName) -> None:
    """Write d(x, pivot) of every row into `out`, for callers that need no sums."""
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

    Dense rows may belong to several blocks, of `block_rows` each: the sums of a block do not depend
    on how many there are. Sparse rows belong to one block.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(points):
            found = np.empty(points.shape[0])
            sums = scan(points, weights, pivot, found, kernel)
            cells[:] = cell_sums(found if weights is None else weights * found, cell_rows)
            return BlockScans(sums.shift[None, :], np.array([sums.cost]))
        around = pivot.point, pivot.precision
        scan_of = module_of(kernel).scan_cells
        return BlockScans(
            *scan_of(readable(points, kernel), weights, *around, block_rows, cell_rows, cells)
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

    h = scale·d(x, pivot) + floor. `runs` says where each run starts, where it stops, and its
    target. The portable kernel measures all rows, so pass it no others than those of the runs.
    """
    module = module_of(kernel)
    if module is not portable:
        if is_sparse(points):
            both = pivot.sparse, mean.sparse
            found = module.hit_rows_sparse(*csr(points), weights, *both, scale, floor, runs)
        else:
            around = pivot.point, mean.point, pivot.precision
            found = module.hit_rows(readable(points, kernel), weights, *around, scale, floor, runs)
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
        return BlockMoments(*module.moments(readable(points, kernel), omega))


# Written once, in NumPy: nothing is gained by other loops.
cell_sums = portable.cell_sums
cross = portable.cross
keep_closer = portable.keep_closer
second_best = portable.second_best
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
    """Update the distance of every row to its nearest center, given one more center.

    By the triangle inequality, a row whose distance is at most ``reach[its label]``, a quarter
    of the distance between its center and this one, cannot be nearer to this one; a kernel may
    skip such rows. Returns Σω·closest, and how many rows were skipped.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(points):
            found = np.empty(points.shape[0])
            distances(points, center, found, kernel)
            return keep_closer(found, weights, label, closest, labels), 0
        values, around = readable(points, kernel), (center.point, center.precision)
        lowered: tuple[float, int] = module_of(kernel).closer(
            values, weights, *around, label, reach, closest, labels
        )
        return lowered


def own_distances(
    points: Rows,
    centers: FloatArray,
    labels: Labels,
    precision: FloatArray | None,
    kernel: KernelName,
) -> FloatArray:
    """d of every dense row to the center that its label names, from differences, in float64."""
    return module_of(kernel).own_distances(readable(points, kernel), centers, labels, precision)


def cluster_sums(
    points: Rows,
    weights: FloatArray | None,
    labels: Labels,
    wanted: Mask,
    around: FloatArray,
    kernel: KernelName,
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·(x − around) of the clusters that are wanted; zeros for the others.

    `around` has one point per cluster, near its rows. So nothing large is added up: a mean keeps
    its digits at any offset, and the mean of equal rows is their value. A sum of x itself would
    lose the digits of a cluster at a large offset.
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
    totals, sums = module_of(kernel).cluster_sums(
        readable(points, kernel), omega, labels, wanted, around
    )
    return totals, sums
