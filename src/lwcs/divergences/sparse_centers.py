"""Centers, ready for the distances of sparse rows, at the cost of their non-zeros.

What a row of zeros costs is known of every center; a row then differs by its non-zeros. With b what
a zero stands for, and the tangent at the center, a non-zero changes the distance by

    d(x, c) − d(b, c) = φ(x) − φ(b) − ∇φ(c)·(x − b):

one φ each. Where the distance comes out small against the parts that it is made of, it is taken
from the differences d(x, c) and d(b, c) themselves, which keep their digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.exact import split_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.divergences.measure import Measure
    from lwcs.foundation.types import FloatArray, IntArray, Labels, Mask

# A distance above this part of what zeros cost keeps eleven digits by way of tangents.
_CLEAR = 1e-4
_LOT_VALUES = 2**15


class SparseCenters:
    """Centers, and what a row of zeros costs at each."""

    def __init__(self, measure: Measure, centers: FloatArray) -> None:
        self._measure, self._centers = measure, centers
        self._zeros = measure.zeros(centers.shape[1])
        costs = measure.between(self._zeros, centers)
        # Columns where a zero would be infinitely far are counted, since ∞ − ∞ is nothing.
        self._endless = np.isinf(costs)
        costs[self._endless] = 0.0
        parts = zip(*map(split_exactly, costs), strict=True)
        # All columns less a row's non-zeros, in two exactly summed parts.
        self._shares = [(array, array.sum(axis=1)) for array in map(np.array, parts)]
        self._totals: FloatArray = np.add(*(total for _, total in self._shares))
        self._careful = measure.squared or bool(self._endless.any())
        if not self._careful:
            own = measure.divergence
            self._heights, self._slopes = own.phi(self._zeros), own.tangents(centers)[0]
            self._edges: Mask = np.any(~own.domain.interior(centers), axis=0)

    def distances(self, rows: Any, labels: Labels) -> FloatArray:
        """Of every row from the center that its label names."""
        if self._careful:
            return self._by_differences(rows, labels)
        distances = self._by_tangents(rows, labels)
        unclear = self._unclear(rows, labels, distances)
        if len(unclear):
            distances[unclear] = self._by_differences(rows[unclear], labels[unclear])
        return distances

    def _by_tangents(self, rows: Any, labels: Labels) -> FloatArray:
        phi, slopes = self._measure.divergence.phi, self._slopes
        distances = self._totals[labels]
        one = slopes[0] if len(slopes) == 1 else None
        for part in _lots(rows.indptr):
            ends = rows.indptr[part.start : part.stop + 1]
            inside, lengths = slice(ends[0], ends[-1]), np.diff(ends)
            columns, moved = rows.indices[inside], rows.data[inside].astype(np.float64, copy=False)
            if one is None:
                slope = slopes[np.repeat(labels[part], lengths), columns]
            else:
                slope = one[columns]
            terms = phi(moved + self._zeros[columns])
            terms -= self._heights[columns]
            terms -= slope * moved
            there = np.flatnonzero(lengths)
            if len(there):
                distances[part.start + there] += np.add.reduceat(terms, ends[there] - ends[0])
        return distances

    def _unclear(self, rows: Any, labels: Labels, distances: FloatArray) -> IntArray:
        """Rows near their center, or not zero where a slope has no end."""
        unclear: Mask = ~(distances >= _CLEAR * self._totals[labels])
        if self._edges.any():
            at = np.flatnonzero(self._edges[rows.indices] & (rows.data != 0.0))
            unclear[np.searchsorted(rows.indptr, at, side="right") - 1] = True
        return np.flatnonzero(unclear)

    def _by_differences(self, rows: Any, labels: Labels) -> FloatArray:
        """Non-zeros from the differences, zeros by exact subtraction."""
        row_of = np.repeat(np.arange(len(labels)), np.diff(rows.indptr))
        own = (labels[row_of], rows.indices)
        values = rows.data + self._zeros[rows.indices]
        found = self._measure.between(values, self._centers[own], rows.indices)
        distances = np.zeros(len(labels))
        distances += np.bincount(row_of, found, len(labels))
        for share, total in self._shares:
            distances += total[labels] - np.bincount(row_of, share[own], len(labels))
        if self._endless.any():
            there = np.bincount(row_of, self._endless[own], len(labels))
            distances[self._endless.sum(axis=1)[labels] > there] = np.inf
        return np.maximum(distances, 0.0)


def _lots(indptr: Any) -> Iterator[slice]:
    """Cut sparse rows so that their non-zeros stay in cache."""
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + _LOT_VALUES, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield slice(start, stop)
        start = stop
