"""What kernels do with the rows of one block: `Kernels`, with three implementations.

They are the modules `numpy`, `native` and `torch` of this package. Their functions have these
names, arguments and results; what holds for all of them stands here, and what one of them does
besides in its own docstrings.

Rows are dense or CSR, of any dtype that holds numbers; `torch` takes dense rows of a `DeviceArray`.
Weights, pivots, centers and sums are float64, and weights of None are ones. NaN and infinity
propagate through every sum, without a warning: that is how callers find bad values, and name them.
Arrays that are written to (`out`, `cells`, `closest`, `labels`) are the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from lwcs.arrays.rows import split_exactly

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask, Rows

KernelName = Literal["numpy", "native"]


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

    `torch.operations` return tensors in these fields and in those of `BlockMoments`.
    """

    rows: IntArray
    bounds: FloatArray
    distances: FloatArray


class BlockMoments(NamedTuple):
    """Weight, mean and scatter Σω(x − mean)² per column of one block."""

    weight: float
    mean: FloatArray
    scatter: FloatArray


class SparsePivot(NamedTuple):
    """A pivot for CSR rows: the cost of zeros is in two parts, by `split_exactly`."""

    columns: FloatArray
    """Per column: the point, and the first part of the cost of a zero."""
    precision: FloatArray | None
    totals: tuple[float, float]
    """Cost of a row of zeros: of the second parts, and of the first ones."""


@dataclass(frozen=True)
class Pivot:
    """The point that a scan measures distances to, and the precision of every column.

    d(x, point) = Σ_j precision_j·(x_j − point_j)²; without a precision, all are 1.
    """

    point: FloatArray
    precision: FloatArray | None = None

    @cached_property
    def sparse(self) -> SparsePivot:
        """The pivot for CSR rows; to make it takes as long as to scan some thousand rows."""
        squares = self.point**2
        terms = squares if self.precision is None else self.precision * squares
        coarse, rest = split_exactly(terms)
        # cumsum adds one value after the other, with the same bits on every machine.
        totals = float(np.cumsum(rest)[-1]), float(np.cumsum(coarse)[-1])
        return SparsePivot(np.stack([self.point, coarse], axis=1), self.precision, totals)


class Kernels(Protocol):
    """The loops over the rows of a block."""

    def scan(self, points: Rows, weights: FloatArray | None, pivot: Pivot, out: FloatArray) -> Scan:
        """Write d(x, pivot) of every row into `out`; return its sums."""

    def distances(self, points: Rows, pivot: Pivot, out: FloatArray) -> None:
        """Write d(x, pivot) of every row into `out`, for callers that need no sums."""

    def scan_cells(
        self,
        points: Rows,
        weights: FloatArray | None,
        pivot: Pivot,
        block_rows: int,
        cells: FloatArray,
        cell_rows: int,
    ) -> BlockScans:
        """Write Σω·d(x, pivot) of every cell of `cell_rows` rows into `cells`, the last one short.

        Dense rows may belong to several blocks, of `block_rows` each: the sums of a block do not
        depend on how many there are. Sparse rows belong to one block.
        """

    def hit_rows(
        self,
        points: Rows,
        weights: FloatArray | None,
        pivot: Pivot,
        mean: Pivot,
        scale: float,
        floor: float,
        runs: tuple[IntArray, IntArray, FloatArray],
    ) -> Hits:
        """One row of every run of rows: where the running sum of ω·h crosses a target.

        h = scale·d(x, pivot) + floor. `runs` says where each run starts, where it stops, and its
        target. A row without mass is never hit, unless there is no other.
        """

    def moments(self, points: Rows, weights: FloatArray | None) -> BlockMoments:
        """Weight, mean and scatter of a block, accurate at any offset; 0 for equal rows."""

    def closer(
        self,
        points: Rows,
        weights: FloatArray | None,
        center: Pivot,
        label: int,
        reach: FloatArray | None,
        closest: FloatArray,
        labels: Labels,
    ) -> tuple[float, int]:
        """Update the distance of every row to its nearest center, given one more center.

        By the triangle inequality, a row whose distance is at most ``reach[its label]``, a quarter
        of the distance between its center and this one, cannot be nearer to this one; an
        implementation may skip such rows. Returns Σω·closest, and how many rows were skipped.
        """

    def own_distances(
        self, points: Rows, centers: FloatArray, labels: Labels, precision: FloatArray | None
    ) -> FloatArray:
        """d of every dense row to the center that its label names, from differences."""

    def cluster_sums(
        self,
        points: Rows,
        weights: FloatArray | None,
        labels: Labels,
        wanted: Mask,
        around: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Σω and Σω·(x − around) of the clusters that are wanted; zeros for the others.

        `around` has one point per cluster, near its rows. So nothing large is added up: a mean
        keeps its digits at any offset, and the mean of equal rows is their value. A sum of x itself
        would lose the digits of a cluster at a large offset.
        """


class HostKernels(Kernels, Protocol):
    """Kernels for rows in the memory of the host, which do some more."""

    name: KernelName
    description: str
    """What `show_versions` calls them."""
    shares_calls: bool
    """Whether a `team` shares each call, so that a few long calls are better than many short."""
    reads_runs: bool
    """Whether `hit_rows` reads the rows of its runs alone; else it is given no others."""
    tiled: TiledKernels | None
    """Loops over tiles; None where products of matrices take their place (`geometry.products`)."""

    def team(self, threads: int) -> AbstractContextManager[None]:
        """Share the calls of this Python thread among several threads, where that is possible."""

    def as_rows(self, columns: Sequence[DenseRows], out: DenseRows) -> None:
        """Copy columns of numbers into the rows of `out`, which are contiguous, in its dtype."""

    def hash_sums(
        self, words: DenseRows, factors: DenseRows, more: DenseRows | None, first: int
    ) -> tuple[int, int]:
        """The sums of `lwcs.kernels.hashes`; `more` is added to the hash of each row."""


class TiledKernels(Protocol):
    """What seeding, local search, Lloyd's algorithm and labels take instead of products."""

    Tiles: Any
    TiledSeeding: Any

    def nearest(
        self,
        points: DenseRows,
        origin: DenseRows,
        factor: DenseRows | None,
        matrix: DenseRows,
        sizes: FloatArray,
        limits: tuple[float, float, float, float],
        centers: FloatArray,
        precision: FloatArray | None,
        labels: npt.NDArray[np.int32],
        distances: FloatArray | None,
    ) -> IntArray:
        """Label rows by squared distances, and measure them if wanted; return rows not certain.

        `matrix` has the slopes and the offset of one center per row; `limits` are those of
        `Products`: clear, tiny, large and rounding.
        """

    def best_scores(
        self,
        points: Rows,
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

    def first_swap(
        self,
        distances: DenseRows,
        first: int,
        nearest: DenseRows,
        second: DenseRows,
        weights: FloatArray,
        labels: IntArray,
        losses: DenseRows,
        cancelled: float,
        least_gain: float,
    ) -> tuple[int, int] | None:
        """The first candidate, from number `first` on, that is worth a center, and that center.

        `distances` has one row per candidate; the other arrays are those of `local_search`.
        """
