"""The nearest center of every row: one matrix product a block, then the distance itself.

The product finds the nearest center; the distance to it is then taken from the
difference, so that it is accurate also where norms are large against distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import fsum
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import NotFiniteError
from lwcs.foundation.progress import track
from lwcs.foundation.types import is_sparse
from lwcs.sources.base import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Labels, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources import Block, Source

# Values of one piece of the rows × centers product: a few MB, shorter ones cost more in calls.
_PIECE_VALUES = 2**19
_SAMPLE_ROWS = 16
# A distance below this part of ‖x‖² has no digit left in a float32 product.
_FLOAT32_CLEAR = 1e-4


def nearest(
    points: Rows,
    centers: FloatArray,
    scale: FloatArray | None = None,
    *,
    dtype: npt.DTypeLike = np.float64,
    kernel: KernelName = "portable",
    first_row: int = 0,
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Nearest center of every row, and d = ‖(x − center)/scale‖² to it.

    Works on pieces of the rows; no temporary has rows × centers × columns values, nor
    rows × centers for all rows. Products are float32 for `dtype` float32, where that can tell the
    centers apart; distances are float64.
    """
    labels, distances = np.empty(points.shape[0], dtype=np.int32), np.empty(points.shape[0])
    for piece, find, found in _labelled(points, centers, scale, dtype, first_row):
        labels[piece] = found
        distances[piece] = find.distances(points[piece], found, kernel)
    return labels, distances


def nearest_in(
    block: Block, centers: FloatArray, scale: FloatArray | None, kernel: KernelName
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """The same for the rows of a block, in the precision that they are in."""
    return nearest(
        block.points,
        centers,
        scale,
        dtype=working_dtype(block.points),
        kernel=kernel,
        first_row=block.first_row,
    )


def nearest_labels(
    points: Rows,
    centers: FloatArray,
    scale: FloatArray | None = None,
    *,
    dtype: npt.DTypeLike = np.float64,
    first_row: int = 0,
) -> npt.NDArray[np.int32]:
    """The labels alone, as `nearest` gives them."""
    labels = np.empty(points.shape[0], dtype=np.int32)
    for piece, _, found in _labelled(points, centers, scale, dtype, first_row):
        labels[piece] = found
    return labels


def _labelled(
    points: Rows,
    centers: FloatArray,
    scale: FloatArray | None,
    dtype: npt.DTypeLike,
    first_row: int,
) -> Iterator[tuple[slice, _DenseNearest | _SparseNearest, IntArray]]:
    """Label piece after piece of the rows; give the labels and what found them."""
    measure = _SparseNearest if is_sparse(points) else _DenseNearest
    # A center so far away that its square overflows is nobody's nearest.
    with np.errstate(over="ignore", invalid="ignore"):
        find = measure(points, centers, scale, dtype)
    for piece in _pieces(points.shape[0], len(centers)):
        with np.errstate(over="ignore", invalid="ignore"):
            labels, scores = find.best(points[piece])
            # NaN and infinity go through every product, so the best score shows them.
            if not np.isfinite(scores.sum()):
                raise NotFiniteError.found_in(points[piece], first_row + piece.start, 0)
        yield piece, find, labels


def _pieces(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, _PIECE_VALUES // width)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _middle(points: Rows) -> FloatArray:
    """A point in the midst of the rows: the median of a few of them, by column.

    Around it, rows and the centers near them are small, so that products keep the digits of
    the distances. (The mean of the centers is no such point if one of them is far away.)
    """
    return np.median(_some(points), axis=0) if points.shape[0] else np.zeros(points.shape[1])


def _some(points: Rows) -> FloatArray:
    """A few of the rows, dense."""
    rows = points[:: max(1, -(-points.shape[0] // _SAMPLE_ROWS))]
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


class _DenseNearest:
    """Centers, ready for products with dense rows.

    A row gets a 1 and a center its −‖c‖²/2 as one more column, so that the product is the score.
    """

    def __init__(
        self, points: DenseRows, centers: FloatArray, scale: FloatArray | None, dtype: npt.DTypeLike
    ) -> None:
        self._centers, self._scale = centers, scale
        self._origin = _middle(points).astype(dtype)
        unit = _unit(points, self._origin) if dtype == np.float32 else 1.0
        factor = np.asarray(unit if scale is None else unit / scale, dtype=np.float64)
        around = (centers - self._origin) * factor
        halves = -0.5 * np.einsum("ij,ij->i", around, around)
        self._products = np.ascontiguousarray(np.vstack([around.T, halves]), dtype=dtype)
        self._factor = None if scale is None and unit == 1.0 else factor.astype(dtype)
        self._precision = None if scale is None else scale**-2.0
        self._rows = np.ones((0, len(self._products)), dtype=dtype)

    def best(self, piece: DenseRows) -> tuple[IntArray, DenseRows]:
        """The nearest center by its score x·c − ‖c‖²/2 around the origin (larger is nearer)."""
        if len(piece) > len(self._rows):
            self._rows = np.ones((len(piece), len(self._products)), dtype=self._origin.dtype)
        rows = self._rows[: len(piece)]
        np.subtract(piece, self._origin, out=rows[:, :-1], casting="unsafe")
        if self._factor is not None:
            rows[:, :-1] *= self._factor
        scores = rows @ self._products
        labels = np.argmax(scores, axis=1)
        top = scores[np.arange(len(labels)), labels]
        if rows.dtype == np.float32:
            # ‖x‖² − 2·score is the distance; where it is a small difference of large numbers,
            # float32 cannot tell the centers apart, and float64 is asked instead.
            norms = np.einsum("ij,ij->i", rows, rows) - 1.0
            unclear = np.flatnonzero(norms - 2.0 * top < _FLOAT32_CLEAR * norms)
            if len(unclear):
                wide = _DenseNearest(piece[unclear], self._centers, self._scale, np.float64)
                labels[unclear] = wide.best(piece[unclear])[0]
        return labels, top

    def distances(self, piece: DenseRows, labels: Labels, kernel: KernelName) -> FloatArray:
        """From the differences, so that small ones keep their digits."""
        return kernels.own_distances(piece, self._centers, labels, self._precision, kernel)


def _unit(points: DenseRows, origin: DenseRows) -> float:
    """A power of two that keeps squares of float32 numbers within their range."""
    largest = float(np.abs(_some(points) - origin).max(initial=0.0))
    if largest == 0.0 or 1e-9 < largest < 1e9 or not np.isfinite(largest):
        return 1.0
    return 2.0 ** -np.floor(np.log2(largest))


class _SparseNearest:
    """Centers, ready for products with CSR rows."""

    def __init__(
        self, points: Any, centers: FloatArray, scale: FloatArray | None, _: npt.DTypeLike
    ) -> None:
        self._centers = centers
        self._precision = np.ones(centers.shape[1]) if scale is None else scale**-2.0
        # Scores relative to a point in the midst, since a shift of the rows would make them
        # dense: x·c − ‖c‖²/2 less x·o − ‖o‖²/2 is x·(c − o) − (c − o)·(c + o)/2.
        origin = _middle(points)
        self._products = ((centers - origin) * self._precision).T
        self._halves = 0.5 * np.einsum("ij,ji->i", centers + origin, self._products)
        parts = zip(*map(kernels.split_exactly, self._precision * centers * centers), strict=True)
        # What a row's zeros cost: all columns less its non-zeros, in two exactly summed parts.
        self._shares = [(array, array.sum(axis=1)) for array in map(np.array, parts)]

    def best(self, piece: Any) -> tuple[IntArray, DenseRows]:
        """As `_DenseNearest.best`."""
        scores = piece @ self._products - self._halves
        labels = np.argmax(scores, axis=1)
        return labels, scores[np.arange(len(labels)), labels]

    def distances(self, piece: Any, labels: Labels, _: KernelName) -> FloatArray:
        """Non-zeros from the differences, zeros by exact subtraction."""
        row_of = np.repeat(np.arange(len(labels)), np.diff(piece.indptr))
        own = (labels[row_of], piece.indices)
        offset = piece.data - self._centers[own]
        distances = np.zeros(len(labels))
        distances += np.bincount(row_of, self._precision[piece.indices] * offset**2, len(labels))
        for share, total in self._shares:
            distances += total[labels] - np.bincount(row_of, share[own], len(labels))
        return np.maximum(distances, 0.0)


@dataclass(frozen=True, slots=True)
class CostTask:
    """φ of one partition: Σω·d(x, nearest center)."""

    centers: FloatArray
    scale: FloatArray | None
    kernel: KernelName

    def __call__(self, blocks: Iterator[Block], partition: int) -> float:
        """Add up the blocks' costs."""
        costs = []
        for block in blocks:
            with NotFiniteError.in_partition(partition):
                distances = nearest_in(block, self.centers, self.scale, self.kernel)[1]
            costs.append(distances.sum() if block.weights is None else block.weights @ distances)
        return fsum(costs)


def quantization_error(
    points: Rows, weights: FloatArray, centers: FloatArray, scale: FloatArray | None = None
) -> float:
    """φ_C(Q) = Σ w·d(x, Q) (section 2 of the paper), with labels to float64."""
    return float(weights @ nearest(points, centers, scale)[1])


def full_cost(
    source: Source,
    centers: FloatArray,
    scale: FloatArray | None = None,
    n_jobs: int | None = None,
) -> float:
    """φ_X(Q) over all rows of a source, partition by partition."""
    with source.explaining():
        task = CostTask(centers, scale, kernels.choose(source.n_values))
        return fsum(source.gather(task, n_jobs=n_jobs))


def working_dtype(points: Rows) -> npt.DTypeLike:
    """What products with these rows are computed in: float32 only for float32."""
    return np.float32 if points.dtype == np.float32 else np.float64


@dataclass(frozen=True, slots=True)
class LabelTask:
    """The label of every row of a block, as int32."""

    centers: FloatArray
    scale: FloatArray | None = None

    def __call__(self, block: Block) -> npt.NDArray[np.int32]:
        """Label a block."""
        dtype = working_dtype(block.points)
        return nearest_labels(
            block.points, self.centers, self.scale, dtype=dtype, first_row=block.first_row
        )


@dataclass(frozen=True, slots=True)
class FinalPass:
    """The last pass of a fit: writes labels in place, returns the cost of a block."""

    centers: FloatArray
    scale: FloatArray | None
    labels: npt.NDArray[np.int32]
    kernel: KernelName
    distances: FloatArray | None = None
    """Where to write the distances too, if they are wanted."""

    def __call__(self, block: Block) -> float:
        """Label and cost a block."""
        start = block.first_row
        labels, distances = nearest_in(block, self.centers, self.scale, self.kernel)
        self.labels[start : start + len(labels)] = labels
        if self.distances is not None:
            self.distances[start : start + len(labels)] = distances
        return float(distances.sum() if block.weights is None else block.weights @ distances)


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Σω and Σω·x of every cluster of some rows."""

    weights: FloatArray
    points: FloatArray

    def __add__(self, other: ClusterSums) -> ClusterSums:
        """Put the rows of both together."""
        return ClusterSums(self.weights + other.weights, self.points + other.points)


@dataclass(frozen=True, slots=True)
class PolishTask:
    """Σω and Σω·x of every cluster of a partition: half of a Lloyd step on the full data."""

    centers: FloatArray
    scale: FloatArray | None
    kernel: KernelName

    def __call__(self, blocks: Iterator[Block], partition: int) -> ClusterSums:
        """Add up the blocks."""
        k, d = self.centers.shape
        total = ClusterSums(np.zeros(k), np.zeros((k, d)))
        label = LabelTask(self.centers, self.scale)
        for block in blocks:
            with NotFiniteError.in_partition(partition):
                labels = label(block)
            part = kernels.cluster_sums(
                block.points, block.weights, labels, np.ones(k, dtype=bool), self.kernel
            )
            total += ClusterSums(*part)
        return total


def polish(
    source: Source,
    centers: FloatArray,
    scale: FloatArray | None,
    kernel: KernelName,
    n_jobs: int | None,
    *,
    progress: bool = False,
) -> FloatArray:
    """One Lloyd step on the full data; an empty cluster keeps its center."""
    parts = source.known_partitions
    groups = None if parts is None else -(-parts // GROUP)
    with source.explaining():
        sums = source.gather_sums(PolishTask(centers, scale, kernel), n_jobs=n_jobs)
        total = reduce(add, track(sums, "polish", groups, show=progress))
    there = total.weights > 0.0
    polished = centers.copy()
    polished[there] = total.points[there] / total.weights[there, None]
    return polished
