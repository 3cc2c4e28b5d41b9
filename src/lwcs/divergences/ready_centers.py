"""Centers, ready for the distances of many rows: one φ a value, by way of tangents.

With the tangent at the center, slope and offset, a distance is d(x, c) = φ(x) − (x·slope + offset).
Of sparse rows, what a row of zeros costs is known of every center, and a row differs by its
non-zeros: with b what a zero stands for, each changes the distance by

    d(x, c) − d(b, c) = φ(x) − φ(b) − slope·(x − b).

Where a distance comes out small against the parts that it is made of, it is taken from the
divergences of single values instead, which keep their digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.exact import split_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.divergences.base import Divergence
    from lwcs.divergences.measure import Measure
    from lwcs.foundation.types import FloatArray, IntArray, Labels, Mask

# A distance above this part of what it is made of keeps eleven digits by way of tangents.
CLEAR = 1e-4
# Nearer to the mean, what zeros cost is no measure of the parts of a distance.
_MOST_SMOOTHING = 0.9
_LOT_VALUES = 2**15


class DenseCenters:
    """Centers for dense rows."""

    def __init__(self, divergence: Divergence, centers: FloatArray) -> None:
        self._divergence = divergence
        self._slopes, self._offsets = divergence.tangents(centers)
        edges = ~divergence.domain.interior(centers)
        self._edges = edges if edges.any() else None

    def __call__(self, rows: FloatArray, own: FloatArray, labels: Labels) -> FloatArray:
        """Distances of rows from their own centers, which have these labels."""
        heights, slopes = self._divergence.phi(rows), self._slopes[labels]
        with np.errstate(invalid="ignore", over="ignore"):
            distances = heights.sum(axis=1) - (_dots(rows, slopes) + self._offsets[labels])
            size = np.abs(heights).sum(axis=1) + _dots(np.abs(rows), np.abs(slopes))
            unclear: Mask = ~(distances >= CLEAR * size)
        if self._edges is not None:
            # There a slope has no end, and a finite one stands in for it.
            unclear |= (self._edges[labels] & (rows != own)).any(axis=1)
        at = np.flatnonzero(unclear)
        if len(at):
            parts = self._divergence.between(rows[at], own[at]).sum(axis=1)
            if (parts < -CLEAR * size[at]).any():
                raise ValueError(
                    f"{self._divergence!r} is below zero, so its φ is not convex; φ'' must be >= 0"
                )
            distances[at] = np.maximum(parts, 0.0)
        return distances


def _dots(one: FloatArray, other: FloatArray) -> FloatArray:
    """Products of rows with rows."""
    dots: FloatArray = np.einsum("ij,ij->i", one, other)
    return dots


class SparseCenters:
    """Centers for sparse rows, and what a row of zeros costs at each."""

    def __init__(self, measure: Measure, centers: FloatArray) -> None:
        self._measure, self.centers = measure, centers
        self._zeros = measure.zeros(centers.shape[1])
        costs = measure.between(self._zeros, centers)
        # Columns where a zero would be infinitely far are counted, since ∞ − ∞ is nothing.
        self._endless = np.isinf(costs)
        costs[self._endless] = 0.0
        parts = zip(*map(split_exactly, costs), strict=True)
        # All columns less a row's non-zeros, in two exactly summed parts.
        self._shares = [(array, array.sum(axis=1)) for array in map(np.array, parts)]
        self._totals: FloatArray = np.add(*(total for _, total in self._shares))
        smoothing = measure.divergence.smoothing
        self._careful = measure.squared or bool(self._endless.any()) or smoothing > _MOST_SMOOTHING
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
        distances, lots = self._totals[labels], list(_lots(rows.indptr))
        longest = max((int(rows.indptr[at.stop] - rows.indptr[at.start]) for at in lots), default=0)
        # Kept from lot to lot: fresh memory costs more than what is done with it.
        values, gathered = np.empty(longest), np.empty(longest)
        for part in lots:
            ends = rows.indptr[part.start : part.stop + 1]
            inside, lengths = slice(ends[0], ends[-1]), np.diff(ends)
            columns, moved = rows.indices[inside], rows.data[inside]
            n = len(columns)
            if not n:
                continue
            np.take(self._zeros, columns, mode="clip", out=values[:n])
            values[:n] += moved
            terms = phi(values[:n])
            terms -= np.take(self._heights, columns, mode="clip", out=gathered[:n])
            if len(slopes) == 1:
                np.take(slopes[0], columns, mode="clip", out=gathered[:n])
            else:
                gathered[:n] = slopes[np.repeat(labels[part], lengths), columns]
            gathered[:n] *= moved
            terms -= gathered[:n]
            there = np.flatnonzero(lengths)
            distances[part.start + there] += np.add.reduceat(terms, ends[there] - ends[0])
        return distances

    def _unclear(self, rows: Any, labels: Labels, distances: FloatArray) -> IntArray:
        """Rows near their center, or not zero where a slope has no end."""
        unclear: Mask = ~(distances >= CLEAR * self._totals[labels])
        if self._edges.any():
            at = np.flatnonzero(self._edges[rows.indices] & (rows.data != 0.0))
            unclear[np.searchsorted(rows.indptr, at, side="right") - 1] = True
        return np.flatnonzero(unclear)

    def _by_differences(self, rows: Any, labels: Labels) -> FloatArray:
        """Non-zeros from the differences, zeros by exact subtraction."""
        row_of = np.repeat(np.arange(len(labels)), np.diff(rows.indptr))
        own = (labels[row_of], rows.indices)
        values = rows.data + self._zeros[rows.indices]
        found = self._measure.between(values, self.centers[own], rows.indices)
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
