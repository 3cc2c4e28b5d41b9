"""Sparse rows: products and distances at the cost of their stored values.

A distance takes what the zeros of a row cost from the total over all columns, by subtraction. That
cancels where a column is large, so the terms are split into a part whose sums are exact and a tiny
rest (`split_exactly`): no digits are lost at an offset of 10⁶. Rows closer to their center than
10⁻¹⁶ of what zeros cost are measured densely.

Zeros of smoothed rows are implied as well: rows are stored as x − b, where b is what a zero stands
for. Their distances are those of a row of zeros plus what the stored values change: by tangents,
with one φ per stored value, or value by value, which takes several times as long, for rows near
their center only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import pieces, row_numbers, sparse_pieces
from lwcs.geometry.measured import Measured
from lwcs.geometry.products import ACCURATE, Best, CenterMatrix, Products

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask
    from lwcs.geometry import Geometry
    from lwcs.geometry.centers import Centers, Frame, Tangents
    from lwcs.geometry.products import Memory
    from lwcs.kernels import BlockMoments


class SparseProducts(Products):
    """Sparse rows: not shifted, which would make them dense; the shift is in the offsets."""

    def __init__(
        self, frame: Frame, geometry: Geometry, n_features: int, *, plain: bool = False
    ) -> None:
        super().__init__(frame, geometry, n_features)
        self._plain = plain

    def rows(self, values: Any, memory: Memory = np.empty) -> Any:
        """Return the values unchanged."""
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
        """By native loops; piece by piece if a slope is infinite."""
        if self.native is None or centers.edges is not None:
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
        """By native loops, if the geometry names them."""
        if (native := self.native) is None:
            super().best(rows, prepared, found)
        else:
            slopes, offsets = prepared.matrix, prepared.offsets
            native.best_scores(rows, slopes, offsets, *found)

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
        """Heights of a row of zeros, plus the changes by the stored values."""
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


# Beyond this, rows are so close to the mean that what zeros cost does not measure their terms.
_MOST_SMOOTHING = 0.9
# Exact subtraction errs by about 1e-31 of what zeros cost.
_LOST = 1e-16
# Stored values of a temporary that stays in cache.
_PIECE_VALUES = 2**15
# Products of dense rows that take as long as that of one stored value (about).
_DENSE_PRODUCTS = 16


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows(Measured):
    """Rows of a CSR array, less what a zero stands for."""

    @property
    def work_per_center(self) -> int:
        """Proportional to the stored values, which cannot use vector registers."""
        return _DENSE_PRODUCTS * int(self.values.nnz)

    @property
    def zeros(self) -> FloatArray:
        """The value that a zero stands for."""
        return self.geometry.zeros(self.n_features)

    def as_stored(self, points: FloatArray) -> FloatArray:
        """Points less what a zero stands for."""
        return points - self.zeros

    def full(self, at: slice | IntArray) -> FloatArray:
        """Some of the rows, dense."""
        return np.asarray(self.values[at].toarray(), dtype=np.float64) + self.zeros

    def moments(self, weights: FloatArray | None) -> BlockMoments:
        """Those of the stored values, with the mean moved by what a zero stands for."""
        found = Measured.moments(self, weights)
        return found._replace(mean=found.mean + self.zeros) if found.weight else found

    def extent(self) -> tuple[float, float]:
        """Over the stored values, and what zeros stand for in columns that have some."""
        rows, d = self.values, self.n_features
        varying, zeros = self.geometry.varying(d), self.geometry.zeros(d)
        there = varying[rows.indices]
        stored = rows.data[there] + zeros[rows.indices[there]]
        some_zero = np.bincount(rows.indices, minlength=d) < len(self)
        values = np.concatenate([stored, zeros[some_zero & varying]])
        return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))

    def products(
        self, dtype: npt.DTypeLike | None = None, *, again: bool = False
    ) -> SparseProducts:
        """Products in float64; around an origin only if they are tried again.

        Zero is in the midst of most sparse rows, and centers are made ready for it only once.
        """
        del dtype
        d = self.n_features
        if not again:
            return SparseProducts(self.geometry.plain_frame(d), self.geometry, d, plain=True)
        frame = self.geometry.metric.frame(self.sample(), np.float64)
        # Rows are not scaled; slopes are.
        return SparseProducts(replace(frame, factor=None), self.geometry, d)

    def distances_and_doubt(
        self, centers: Centers, labels: Labels
    ) -> tuple[FloatArray, Mask | None]:
        """By tangents where these are accurate enough, else value by value."""
        own, costs = self.geometry, centers.zero_costs
        by_values = costs.infinite.any() or own.divergence.smoothing > _MOST_SMOOTHING
        if own.squared or by_values:
            distances = self._by_values(centers, labels)
            return distances, ~(distances >= ACCURATE * costs.totals[labels])
        distances = self._by_tangents(centers, labels)
        doubt: Mask = ~(distances >= ACCURATE * costs.sizes[labels])
        if centers.edges is not None:
            # Stored values where a slope is infinite.
            columns = np.asarray(centers.edges.any(axis=0))
            at = np.flatnonzero(columns[self.values.indices] & (self.values.data != 0.0))
            doubt[np.searchsorted(self.values.indptr, at, side="right") - 1] = True
        unclear = np.flatnonzero(doubt)
        if len(unclear):
            distances[unclear] = self[unclear]._by_values(centers, labels[unclear])
        return distances, doubt

    def _by_tangents(self, centers: Centers, labels: Labels) -> FloatArray:
        """One φ per stored value."""
        rows, costs, phi = self.values, centers.zero_costs, self.geometry.divergence.phi
        slopes, heights = centers.tangents.slopes, phi(costs.zeros)
        distances, lots = costs.totals[labels], list(sparse_pieces(rows.indptr, _PIECE_VALUES))
        longest = max((int(rows.indptr[at.stop] - rows.indptr[at.start]) for at in lots), default=0)
        # Used again for every piece: fresh memory costs more than the computation.
        values, gathered = np.empty(longest), np.empty(longest)
        for part in lots:
            ends = rows.indptr[part.start : part.stop + 1]
            inside, lengths = slice(ends[0], ends[-1]), np.diff(ends)
            columns, moved = rows.indices[inside], rows.data[inside]
            n = len(columns)
            if not n:
                continue
            np.take(costs.zeros, columns, mode="clip", out=values[:n])
            values[:n] += moved
            terms = phi(values[:n])
            terms -= np.take(heights, columns, mode="clip", out=gathered[:n])
            if len(slopes) == 1:
                np.take(slopes[0], columns, mode="clip", out=gathered[:n])
            else:
                gathered[:n] = slopes[np.repeat(labels[part], lengths), columns]
            gathered[:n] *= moved
            terms -= gathered[:n]
            there = np.flatnonzero(lengths)
            distances[part.start + there] += np.add.reduceat(terms, ends[there] - ends[0])
        return distances

    def _by_values(self, centers: Centers, labels: Labels) -> FloatArray:
        """Stored values by their differences, zeros by exact subtraction."""
        rows, costs, n = self.values, centers.zero_costs, len(self)
        row_of = row_numbers(rows)
        own = (labels[row_of], rows.indices)
        values = rows.data + costs.zeros[rows.indices]
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.geometry.metric.between(values, centers.points[own], rows.indices)
            distances = np.zeros(n)
            distances += np.bincount(row_of, found, n)
            for share, total in costs.shares:
                distances += total[labels] - np.bincount(row_of, share[own], n)
        if costs.infinite.any():
            there = np.bincount(row_of, costs.infinite[own], n)
            distances[costs.n_infinite[labels] > there] = np.inf
        # Zeros cost so much that even exact subtraction leaves too few digits of such rows.
        at = np.flatnonzero(distances <= _LOST * costs.totals[labels])
        for part in pieces(len(at), max(1, _PIECE_VALUES // self.n_features)):
            some = at[part]
            parts = self.geometry.metric.between(self.full(some), centers.points[labels[some]])
            distances[some] = parts.sum(axis=1)
        return distances
