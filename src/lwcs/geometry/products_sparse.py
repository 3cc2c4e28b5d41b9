"""Scores of sparse rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.foundation.rows import row_numbers
from lwcs.geometry.products import Best, CenterMatrix, Products

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Labels
    from lwcs.geometry.base import Measured
    from lwcs.geometry.centers import Centers
    from lwcs.geometry.geometry import Geometry
    from lwcs.geometry.metrics import Frame, Tangents
    from lwcs.geometry.products import Memory


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
        found = Best.unknown(len(rows), np.float64)
        self.best(values, prepared, found)
        bounds = self.bounds(values, prepared, found.labels)
        with np.errstate(invalid="ignore"):
            gaps = found.scores - found.others
        certain = (gaps > self.rounding * bounds + self.tiny) & (bounds < self.large)
        labels[:] = found.labels
        if distances is not None:
            distances[:] = rows.distances(centers, found.labels)
        return np.flatnonzero(~certain)

    def best(self, rows: Any, prepared: CenterMatrix, found: Best) -> None:
        """By compiled loops, where these are used."""
        if not self._compiled:
            return super().best(rows, prepared, found)
        return kernels.best_of_sparse(rows, prepared.matrix, prepared.offsets, *found)

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
