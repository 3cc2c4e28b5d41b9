"""The nearest center of every row: one matrix product a block, then the distance itself.

The product finds the nearest center; the distance to it is then taken from the
difference, so that it is accurate also where norms are large against distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import NotFiniteError
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Rows
    from lwcs.kernels import KernelName

    Labels = npt.NDArray[np.signedinteger[Any]]
    from lwcs.sources import Block, Source

# Values of one piece of the rows × centers product: it stays in a core's cache.
_PIECE_VALUES = 2**17
_SAMPLE_ROWS = 16


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
    rows × centers for all rows. With float32 products the label may be that of a center
    nearer by less than their rounding; the distance is to that center, in float64.
    """
    labels, distances = np.empty(points.shape[0], dtype=np.int32), np.empty(points.shape[0])
    find = _prepared(points, centers, scale, dtype)
    for piece in _pieces(points.shape[0], len(centers)):
        labels[piece] = _labels(find, points[piece], first_row + piece.start)
        distances[piece] = find.distances(points[piece], labels[piece], kernel)
    return labels, distances


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
    find = _prepared(points, centers, scale, dtype)
    for piece in _pieces(points.shape[0], len(centers)):
        labels[piece] = _labels(find, points[piece], first_row + piece.start)
    return labels


def _prepared(
    points: Rows, centers: FloatArray, scale: FloatArray | None, dtype: npt.DTypeLike
) -> _DenseNearest | _SparseNearest:
    measure = _SparseNearest if is_sparse(points) else _DenseNearest
    # A center so far away that its square overflows is nobody's nearest.
    with np.errstate(over="ignore", invalid="ignore"):
        return measure(points, centers, scale, dtype)


def _labels(find: _DenseNearest | _SparseNearest, piece: Rows, first_row: int) -> IntArray:
    with np.errstate(over="ignore", invalid="ignore"):
        scores = find.scores(piece)
        best = np.argmax(scores, axis=1)
        # NaN and infinity go through every product, so the best score shows them.
        if not np.isfinite(scores[np.arange(len(best)), best].sum()):
            raise NotFiniteError.found_in(piece, first_row, 0)
    return best


def _pieces(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, _PIECE_VALUES // width)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _middle(points: Rows) -> FloatArray:
    """A point in the midst of the rows: the median of a few of them, by column.

    Around it, rows and the centers near them are small, so that products keep the digits of
    the distances. (The mean of the centers is no such point if one of them is far away.)
    """
    if not points.shape[0]:
        return np.zeros(points.shape[1])
    rows = points[:: -(-points.shape[0] // _SAMPLE_ROWS)]
    dense = rows.toarray() if is_sparse(rows) else rows
    return np.median(dense.astype(np.float64), axis=0)


class _DenseNearest:
    """Centers, ready for products with dense rows.

    A row gets a 1 and a center its −‖c‖²/2 as one more column, so that the product is the score.
    """

    def __init__(
        self, points: DenseRows, centers: FloatArray, scale: FloatArray | None, dtype: npt.DTypeLike
    ) -> None:
        self._centers = centers
        self._origin = _middle(points).astype(dtype)
        around = (centers - self._origin) / (1.0 if scale is None else scale)
        halves = -0.5 * np.einsum("ij,ij->i", around, around)
        self._products = np.ascontiguousarray(np.vstack([around.T, halves]), dtype=dtype)
        self._factor = None if scale is None else (1.0 / scale).astype(dtype)
        self._precision = None if scale is None else scale**-2.0
        self._rows = np.ones((0, len(self._products)), dtype=dtype)

    def scores(self, piece: DenseRows) -> DenseRows:
        """x·c − ‖c‖²/2 around the origin; larger is nearer."""
        if len(piece) > len(self._rows):
            self._rows = np.ones((len(piece), len(self._products)), dtype=self._origin.dtype)
        rows = self._rows[: len(piece)]
        np.subtract(piece, self._origin, out=rows[:, :-1], casting="unsafe")
        if self._factor is not None:
            rows[:, :-1] *= self._factor
        return rows @ self._products

    def distances(self, piece: DenseRows, labels: Labels, kernel: KernelName) -> FloatArray:
        """From the differences, so that small ones keep their digits."""
        return kernels.own_distances(piece, self._centers, labels, self._precision, kernel)


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

    def scores(self, piece: Any) -> DenseRows:
        """As `_DenseNearest.scores`."""
        return piece @ self._products - self._halves

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

    def __call__(self, blocks: Iterator[Block], _: int) -> float:
        """Add up the blocks' costs."""
        costs = []
        for block in blocks:
            dtype = working_dtype(block.points)
            distances = nearest(
                block.points,
                self.centers,
                self.scale,
                dtype=dtype,
                kernel=self.kernel,
                first_row=block.first_row,
            )[1]
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

    def __call__(self, block: Block) -> float:
        """Label and cost a block."""
        dtype, start = working_dtype(block.points), block.first_row
        labels, distances = nearest(
            block.points,
            self.centers,
            self.scale,
            dtype=dtype,
            kernel=self.kernel,
            first_row=start,
        )
        self.labels[start : start + len(labels)] = labels
        return float(distances.sum() if block.weights is None else block.weights @ distances)


@dataclass(frozen=True, slots=True)
class PolishTask:
    """Σω and Σω·x of every cluster of a partition: half of a Lloyd step on the full data."""

    centers: FloatArray
    scale: FloatArray | None
    kernel: KernelName

    def __call__(self, blocks: Iterator[Block], _: int) -> tuple[FloatArray, FloatArray]:
        """Add up the blocks."""
        k, d = self.centers.shape
        totals, sums = np.zeros(k), np.zeros((k, d))
        label = LabelTask(self.centers, self.scale)
        for block in blocks:
            part = kernels.cluster_sums(
                block.points, block.weights, label(block), np.ones(k, dtype=bool), self.kernel
            )
            totals += part[0]
            sums += part[1]
        return totals, sums


def polish(
    source: Source,
    centers: FloatArray,
    scale: FloatArray | None,
    kernel: KernelName,
    n_jobs: int | None,
) -> FloatArray:
    """One Lloyd step on the full data; an empty cluster keeps its center."""
    totals, sums = np.zeros(len(centers)), np.zeros_like(centers)
    with source.explaining():
        for part in source.gather(PolishTask(centers, scale, kernel), n_jobs=n_jobs):
            totals += part[0]
            sums += part[1]
    there = totals > 0.0
    polished = centers.copy()
    polished[there] = sums[there] / totals[there, None]
    return polished
