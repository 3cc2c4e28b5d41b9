"""Sparse rows, measured at the cost of their stored values.

What a row of zeros costs is known for every center (`ZeroCosts`), and a row differs from it by
its stored values: with b what a zero stands for, each changes the distance by

    d(x, c) − d(b, c) = φ(x) − φ(b) − slope·(x − b).

Where a distance comes out small against what zeros cost, it is taken value by value instead, and
the zeros by exact subtraction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.foundation.rows import pieces, row_numbers, sparse_pieces
from lwcs.geometry.base import Measured
from lwcs.geometry.dense import mean_alone
from lwcs.geometry.products import ACCURATE
from lwcs.geometry.products_sparse import SparseProducts
from lwcs.kernels import BlockMoments, Pivot

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.types import FloatArray, IntArray, Labels, Mask
    from lwcs.geometry.centers import Centers
    from lwcs.kernels import Scan

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
        """By stored values: those of one row lie apart, and no vector registers are used."""
        return _DENSE_PRODUCTS * int(self.values.nnz)

    @property
    def zeros(self) -> FloatArray:
        """What a zero stands for."""
        return self.geometry.zeros(self.n_features)

    def full(self, at: slice | IntArray) -> FloatArray:
        """Some of the rows, dense."""
        return np.asarray(self.values[at].toarray(), dtype=np.float64) + self.zeros

    def moments(self, weights: FloatArray | None) -> BlockMoments:
        """By the kernels for squared distances; else the mean alone."""
        own = self.geometry
        if own.squared:
            found = kernels.moments(self.values, weights, own.kernel)
        else:
            found = mean_alone(self.values, weights)
        if not found.weight:
            return found
        return found._replace(mean=found.mean + self.zeros)

    def cluster_sums(
        self, weights: FloatArray | None, labels: Labels, wanted: Mask, around: Centers
    ) -> tuple[FloatArray, FloatArray]:
        """By the kernels; references are less what a zero stands for, as the stored values are."""
        references = around.references - self.zeros
        return kernels.cluster_sums(
            self.values, weights, labels, wanted, references, self.geometry.kernel
        )

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

    def pivot(self, point: FloatArray) -> Pivot:
        """Less what a zero stands for, as the stored values are."""
        return Pivot(point - self.geometry.zeros(self.n_features), self.geometry.precision)

    def scan(self, weights: FloatArray | None, around: Pivot, out: FloatArray) -> Scan:
        """By the kernels."""
        return kernels.scan(self.values, weights, around, out, self.geometry.kernel)

    def distances_and_doubt(
        self, centers: Centers, labels: Labels
    ) -> tuple[FloatArray, Mask | None]:
        """By tangents where these have the digits, else value by value."""
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
        # Kept from piece to piece: fresh memory costs more than what is done with it.
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
