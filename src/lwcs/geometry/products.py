"""Scores of many centers by one matrix product: which center is nearest, and how certain that is.

A product is only a sum of terms, and rounds by a part of their size. `sizes` bounds the terms of
a score; two scores that differ by no more than `rounding · size` cannot be told apart by products,
and differences decide (`nearest`). A distance above `CLEAR` of its size is too far from zero for
rounding to matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs import kernels
from lwcs.foundation.rows import pieces, row_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Labels
    from lwcs.geometry.base import Measured
    from lwcs.geometry.centers import Centers
    from lwcs.geometry.geometry import Geometry
    from lwcs.geometry.metrics import Frame, Tangents

    Memory = Callable[..., DenseRows]

# A row whose distance is above this part of the terms of its score is certain of its label.
CLEAR = 1e-3
# Above this part of its terms, a distance from tangents keeps eleven digits or more.
ACCURATE = 1e-4
# Distances at or below this have lost digits to underflow, by the size of a number.
_TINY = {4: 1e-33, 8: 1e-306}
_NEXT_TO_ONE = 1e-3
# Terms above this may have overflowed.
_LARGE = {4: 1e30, 8: 1e300}
# Values of one piece of the rows × centers product: a few MB, shorter ones cost more in calls.
PIECE_VALUES = 2**19


class CenterMatrix(NamedTuple):
    """Centers in the coordinates of a product, one column each."""

    matrix: Any
    """Slopes, one column per center; for dense rows with the offsets as one more row."""
    offsets: FloatArray
    sizes: FloatArray
    """Size of the terms of every offset."""


class Moved(NamedTuple):
    """The centers that have moved since rows were last assigned to all of them."""

    at: IntArray
    place: IntArray
    """Where in `at` every center is, or −1."""
    prepared: CenterMatrix

    @classmethod
    def of(cls, at: IntArray, products: Products, prepared: CenterMatrix) -> Moved:
        """Some of the centers of a product."""
        place = np.full(len(prepared.offsets), -1)
        place[at] = np.arange(len(at))
        return cls(at, place, products.take(prepared, at))


class Products(ABC):
    """Rows, ready for products with centers; nothing is computed before a product is asked for."""

    def __init__(self, frame: Frame, geometry: Geometry, n_features: int) -> None:
        self.frame, self.geometry = frame, geometry
        self.dtype = np.dtype(frame.dtype)
        self._origin = frame.origin.astype(self.dtype)
        self.cost_unit = 1.0 / frame.unit**2
        """Distances are (heights − scores)·cost_unit."""
        self.tiny, self.large = _TINY[self.dtype.itemsize], _LARGE[self.dtype.itemsize]
        eps = np.finfo(self.dtype).eps
        self.rounding = float(4.0 * eps * (4.0 + np.sqrt(n_features)))
        """A score errs by at most this part of the size of its terms."""

    @abstractmethod
    def rows(self, values: Any, memory: Memory = np.empty) -> Any:
        """Measured values in the coordinates of the product; `memory` makes an empty array."""

    @abstractmethod
    def center_matrix(self, centers: Centers) -> CenterMatrix:
        """Centers in the same coordinates."""

    def take(self, prepared: CenterMatrix, at: IntArray) -> CenterMatrix:
        """Some of the centers."""
        return CenterMatrix(prepared.matrix.T[at].T, prepared.offsets[at], prepared.sizes[at])

    @abstractmethod
    def scores(self, rows: Any, prepared: CenterMatrix, memory: Memory = np.empty) -> DenseRows:
        """rows·slopes + offsets, one column per center: larger is nearer."""

    @property
    def _compiled(self) -> bool:
        return kernels.is_compiled(self.geometry.kernel)

    def cuts(self, n_rows: int, n_centers: int, threads: int) -> Iterator[slice]:
        """Pieces of rows for threads; whatever their number, scores have the same bits."""
        del threads
        return pieces(n_rows, max(64, PIECE_VALUES // n_centers))

    def search(
        self,
        rows: Measured,
        centers: Centers,
        labels: npt.NDArray[np.int32],
        distances: FloatArray | None,
    ) -> IntArray | None:
        """Label rows, and measure them if wanted, all at once; return those not certain.

        None if there is no way of doing so, and rows are to be compared piece by piece.
        """
        del rows, centers, labels, distances
        return None

    def best(self, rows: Any, prepared: CenterMatrix, labels: IntArray, scores: DenseRows) -> None:
        """Write the largest score of every row of a piece, and whose it is."""
        found = self.scores(rows, prepared)
        np.argmax(found, axis=1, out=labels)
        scores[:] = found[np.arange(len(found)), labels]

    def best_of_moved(
        self, rows: Any, prepared: CenterMatrix, moved: Moved, labels: IntArray, scores: DenseRows
    ) -> None:
        """Bring labels and scores up to date where only some of the centers have moved.

        A row whose own center has not receded can only be won over by a center that moved; the
        others are compared with all.
        """
        found, each = self.scores(rows, moved.prepared), np.arange(len(labels))
        best = np.argmax(found, axis=1)
        top, own = found[each, best], moved.place[labels]
        present = np.where(own >= 0, found[each, own], scores)
        receded = np.flatnonzero(present < scores)
        labels[:] = np.where(top > present, moved.at[best], labels)
        np.maximum(top, present, out=scores)
        if len(receded):
            again = labels[receded], scores[receded]
            self.best(rows[receded], prepared, *again)
            labels[receded], scores[receded] = again

    @abstractmethod
    def sizes(self, rows: Any, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """Σ|terms| of the scores of rows and their own centers."""

    @abstractmethod
    def bounds(self, rows: Any, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """No less than `sizes`, by the Cauchy–Schwarz inequality: cheap, for all rows."""

    def suspects(
        self, rows: Any, prepared: CenterMatrix, labels: IntArray, top: DenseRows
    ) -> tuple[IntArray, FloatArray]:
        """Rows whose best score does not show by itself that it is certain, and their bounds."""
        del top
        return np.arange(len(labels)), self.bounds(rows, prepared, labels)

    @staticmethod
    def bounds_from(heights: Any, apart: Any, offsets: Any) -> FloatArray:
        """No less than `sizes`, from the distances to the origin and to the center.

        Column by column |(x − o)·Δ| ≤ d(x, o) + d(o, c) + d(x, c), by the three-point identity.
        """
        return np.asarray(np.abs(heights) + np.abs(apart) + 2.0 * offsets, dtype=np.float64)

    @abstractmethod
    def heights(self, values: Any, rows: Any) -> tuple[FloatArray, FloatArray]:
        """What a distance is but for its score, and the size of the terms of that."""


class DenseProducts(Products):
    """Dense rows: a row gets a 1 and a center its offset as one more column."""

    def rows(self, values: DenseRows, memory: Memory = np.empty) -> DenseRows:
        """(x − origin)·factor and a one."""
        frame, (n, d) = self.frame, values.shape
        rows: DenseRows = memory((n, d + 1), self.dtype)
        rows[:, -1] = 1.0
        np.subtract(values, self._origin, out=rows[:, :-1], casting="unsafe")
        if frame.factor is not None:
            rows[:, :-1] *= frame.factor
        return rows

    def center_matrix(self, centers: Centers) -> CenterMatrix:
        """Slopes and offset of every center in one column."""
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, offsets, sizes = self.geometry.metric.tangents(centers.points, self.frame)
            matrix: DenseRows = np.empty((len(slopes), slopes.shape[1] + 1), dtype=self.dtype)
            matrix[:, :-1], matrix[:, -1] = slopes, offsets
        return CenterMatrix(matrix.T, offsets, sizes)

    def tangents_of_rows(
        self, rows: Measured, values: DenseRows, heights: DenseRows
    ) -> tuple[DenseRows, DenseRows]:
        """Slopes and offsets for the rows themselves as centers.

        `values` are the rows in the coordinates of the product; for squared distances, x and
        ‖x‖² are there already.
        """
        if self.geometry.squared:
            return 2.0 * values[:, :-1], -heights
        prepared = self.center_matrix(rows.as_centers())
        return prepared.matrix[:-1].T, prepared.offsets

    def scores(
        self, rows: DenseRows, prepared: CenterMatrix, memory: Memory = np.empty
    ) -> DenseRows:
        """One product."""
        out = memory((len(rows), len(prepared.offsets)), self.dtype)
        return np.matmul(rows, prepared.matrix, out=out)

    def search(
        self,
        rows: Measured,
        centers: Centers,
        labels: npt.NDArray[np.int32],
        distances: FloatArray | None,
    ) -> IntArray | None:
        """Squared distances by compiled loops."""
        if not (self.geometry.squared and self._compiled):
            return None
        prepared = self.center_matrix(centers)
        return kernels.nearest(
            rows.values,
            self._origin,
            self.frame.factor,
            prepared.matrix.T,
            prepared.sizes,
            (CLEAR, self.tiny, self.large, self.rounding),
            centers.points,
            self.geometry.precision,
            labels,
            distances,
        )

    def cuts(self, n_rows: int, n_centers: int, threads: int) -> Iterator[slice]:
        """Compiled loops need no memory for scores, and take long pieces."""
        if not self._compiled:
            return super().cuts(n_rows, n_centers, threads)
        most = 2 * threads if threads > 1 else 1
        return pieces(n_rows, kernels.TILE * max(1, -(-n_rows // (kernels.TILE * most))))

    def best(
        self, rows: DenseRows, prepared: CenterMatrix, labels: IntArray, scores: DenseRows
    ) -> None:
        """By compiled loops, where these are used."""
        if not self._compiled:
            return super().best(rows, prepared, labels, scores)
        return kernels.best(rows, prepared.matrix.T, labels, scores)

    def best_of_moved(
        self,
        rows: DenseRows,
        prepared: CenterMatrix,
        moved: Moved,
        labels: IntArray,
        scores: DenseRows,
    ) -> None:
        """By compiled loops, where these are used."""
        if not self._compiled:
            return super().best_of_moved(rows, prepared, moved, labels, scores)
        some = moved.prepared.matrix.T
        return kernels.best_of_moved(
            rows, prepared.matrix.T, moved.at, moved.place, some, labels, scores
        )

    def sizes(self, rows: DenseRows, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """Column by column."""
        own = np.abs(prepared.matrix.T[labels].astype(np.float64))
        own[:, -1] = prepared.sizes[labels]
        return np.einsum("ij,ij->i", np.abs(rows.astype(np.float64)), own)

    def bounds(self, rows: DenseRows, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """‖x‖·‖slope‖ and the terms of the offset."""
        slopes = np.linalg.norm(prepared.matrix[:-1], axis=0)
        return np.asarray(np.sqrt(_squares(rows)) * slopes[labels] + prepared.sizes[labels])

    def suspects(
        self, rows: Any, prepared: CenterMatrix, labels: IntArray, top: DenseRows
    ) -> tuple[IntArray, FloatArray]:
        """For squared distances, rows that are close to their center relative to the origin."""
        if not self.geometry.squared:
            return super().suspects(rows, prepared, labels, top)
        norms = _squares(rows)
        clear = (norms - top > CLEAR * norms + self.tiny) & (norms < self.large)
        at = np.flatnonzero(~(clear & np.isfinite(top)))
        return at, self.bounds_from(norms[at], norms[at] - top[at], prepared.sizes[labels[at]])

    def heights(self, values: DenseRows, rows: DenseRows) -> tuple[FloatArray, FloatArray]:
        """‖x − o‖², or from the divergence."""
        if self.geometry.squared:
            norms = _squares(rows)
            return norms, norms
        each = self.geometry.metric.heights(values, self.frame)
        return each.sum(axis=1), np.abs(each).sum(axis=1)


def _squares(rows: DenseRows) -> DenseRows:
    """Σx² of every row, without its one."""
    squares = np.asarray(np.vecdot(rows, rows) - rows.dtype.type(1.0))
    # Next to the one, small squares have lost their digits.
    small = np.flatnonzero(squares < _NEXT_TO_ONE)
    if len(small):
        values = rows[small, :-1]
        squares[small] = np.vecdot(values, values)
    return squares


class SparseProducts(Products):
    """Sparse rows: not shifted, which would make them dense; the shift is in the offsets."""

    def __init__(
        self, frame: Frame, geometry: Geometry, n_features: int, *, plain: bool = False
    ) -> None:
        super().__init__(frame, geometry, n_features)
        self._plain = plain

    def rows(self, values: Any, memory: Memory = np.empty) -> Any:
        """The values as they are."""
        del memory
        return values

    def center_matrix(self, centers: Centers) -> CenterMatrix:
        """Without an origin, centers are made ready once for all blocks."""
        if self._plain:
            return centers.sparse_center_matrix
        with np.errstate(over="ignore", invalid="ignore"):
            tangents = self.geometry.metric.tangents(centers.points, self.frame)
        zeros = self.geometry.zeros(centers.points.shape[1])
        return sparse_center_matrix(tangents, zeros - self.frame.origin)

    def scores(self, rows: Any, prepared: CenterMatrix, memory: Memory = np.empty) -> DenseRows:
        """At the cost of the stored values, once per center."""
        del memory
        scores: FloatArray = rows @ prepared.matrix
        scores += prepared.offsets
        return scores

    def search(
        self,
        rows: Measured,
        centers: Centers,
        labels: npt.NDArray[np.int32],
        distances: FloatArray | None,
    ) -> IntArray | None:
        """By compiled loops; where slopes are infinite, piece by piece."""
        if not self._compiled or centers.edges is not None:
            return None
        prepared, values = self.center_matrix(centers), self.rows(rows.values)
        own, top = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        second = kernels.best_of_sparse(values, prepared.matrix, prepared.offsets, own, top)
        bounds = self.bounds(values, prepared, own)
        with np.errstate(invalid="ignore"):
            certain = (top - second > self.rounding * bounds + self.tiny) & (bounds < self.large)
        labels[:] = own
        if distances is not None:
            distances[:] = rows.distances(centers, own)
        return np.flatnonzero(~certain)

    def best(self, rows: Any, prepared: CenterMatrix, labels: IntArray, scores: DenseRows) -> None:
        """By compiled loops, where these are used."""
        if not self._compiled:
            return super().best(rows, prepared, labels, scores)
        kernels.best_of_sparse(rows, prepared.matrix, prepared.offsets, labels, scores)
        return None

    def sizes(self, rows: Any, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """Over the stored values."""
        row_of = row_numbers(rows)
        terms = np.abs(rows.data * prepared.matrix[rows.indices, labels[row_of]])
        return np.bincount(row_of, terms, rows.shape[0]) + prepared.sizes[labels]

    def bounds(self, rows: Any, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """‖x‖·‖slope‖ and the terms of the offset."""
        squares, there = np.zeros(rows.shape[0]), np.flatnonzero(np.diff(rows.indptr))
        if len(there):
            squares[there] = np.add.reduceat(
                np.square(rows.data, dtype=np.float64), rows.indptr[there]
            )
        slopes = np.linalg.norm(prepared.matrix, axis=0)
        return np.asarray(np.sqrt(squares) * slopes[labels] + prepared.sizes[labels])

    def heights(self, values: Any, rows: Any) -> tuple[FloatArray, FloatArray]:
        """Those of a row of zeros, and what the stored values change."""
        del values
        zeros, n = self.geometry.zeros(rows.shape[1]), rows.shape[0]
        metric, row_of = self.geometry.metric, row_numbers(rows)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            base = metric.heights(zeros, self.frame)
            # Where φ has no value at zero, no row has a zero: the domain was checked.
            base[~np.isfinite(base)] = 0.0
            own = metric.heights(rows.data + zeros[rows.indices], self.frame, rows.indices)
        there = base[rows.indices]
        heights = base.sum() + np.bincount(row_of, own - there, n)
        sizes = np.abs(base).sum() + np.bincount(row_of, np.abs(own) + np.abs(there), n)
        return np.asarray(heights), np.asarray(sizes)


def sparse_center_matrix(tangents: Tangents, zeros: FloatArray) -> CenterMatrix:
    """(x − o)·Δ = (x − b)·Δ + (b − o)·Δ, where `zeros` are b − o, b what a zero stands for."""
    with np.errstate(over="ignore", invalid="ignore"):
        shift = tangents.slopes * zeros
        offsets = tangents.offsets + shift.sum(axis=1)
        sizes = tangents.sizes + np.abs(shift).sum(axis=1)
    return CenterMatrix(np.ascontiguousarray(tangents.slopes.T), offsets, sizes)
