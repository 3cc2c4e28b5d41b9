"""A divergence on some data: in its scale, smoothed towards its mean, dense or sparse.

Of sparse rows, zeros are left out. What one of them stands for, b, is then no longer zero if rows
are smoothed or lifted, so `rows` gives x − b, which is sparse as x is, and costs are those of a row
of zeros plus what the non-zeros change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.divergences.separable import SquaredEuclidean
from lwcs.foundation.exact import split_exactly
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.divergences.base import Divergence
    from lwcs.foundation.types import FloatArray, Labels, Rows

# Rows × columns of a dense temporary that stays in cache.
_PIECE_VALUES = 2**15
# A distance above this part of what zeros cost keeps eleven digits by way of tangents.
_CLEAR = 1e-4


@dataclass(frozen=True)
class Measure:
    """What "far" means for the rows of one data set."""

    divergence: Divergence = field(default_factory=SquaredEuclidean)
    scale: FloatArray | None = None
    """Standard deviations of the columns; of squared distances alone."""
    mean: FloatArray | None = None
    """What rows are smoothed towards; in the coordinates of `forward`."""

    @property
    def squared(self) -> bool:
        """Whether it is a squared distance between rows as `rows` gives them."""
        return self.divergence.squared

    @property
    def precision(self) -> FloatArray | None:
        """1/scale², if there is a scale."""
        return None if self.scale is None else self.scale**-2.0

    def rows(self, points: Rows, first_row: int = 0) -> Rows:
        """Rows as they are measured, less what a zero stands for if they are sparse; checked."""
        own = self.divergence
        # One that measures rows as they are, and takes any number, has nothing to do here.
        if own.squared and type(own) is SquaredEuclidean:
            return points
        own.check(points, first_row)
        seen = own.forward(points)
        if own.squared:
            return seen
        tau = 0.0 if self.mean is None else own.smoothing
        if is_sparse(seen):
            if not tau and not own.zero:
                return seen
            moved = seen.data - own.zero if own.zero else seen.data
            return _like(seen, np.multiply(moved, 1.0 - tau, dtype=np.float64))
        wide = seen.astype(np.float64, copy=False)
        if not tau or self.mean is None:
            return wide
        return (1.0 - tau) * wide + tau * self.mean

    def zeros(self, n_features: int) -> FloatArray:
        """What a zero of every column of sparse rows stands for."""
        zeros = np.full(n_features, self.divergence.zero)
        if self.mean is None:
            return zeros
        tau = self.divergence.smoothing
        return np.asarray((1.0 - tau) * zeros + tau * self.mean)

    def whole(self, values: FloatArray, rows: Rows) -> FloatArray:
        """Means or rows that were computed from what `rows` gave, in full."""
        if self.squared or not is_sparse(rows):
            return values
        return values + self.zeros(values.shape[-1])

    def full(self, rows: Rows) -> FloatArray:
        """Rows, as `rows` gives them, dense and in full: as centers."""
        dense = rows.toarray() if is_sparse(rows) else rows
        return self.whole(np.asarray(dense, dtype=np.float64), rows)

    def between(self, x: FloatArray, center: FloatArray, columns: Any = slice(None)) -> FloatArray:
        """D of values of some columns from those of a center."""
        if self.scale is None:
            return self.divergence.between(x, center)
        return (self.scale**-2.0)[columns] * (x - center) ** 2

    def distances(self, rows: Rows, center: FloatArray) -> FloatArray:
        """D of every row, as `rows` gives it, from one center."""
        return self.own_distances(rows, center[None, :], np.zeros(rows.shape[0], dtype=np.int64))

    def own_distances(self, rows: Rows, centers: FloatArray, labels: Labels) -> FloatArray:
        """D of every row, as `rows` gives it, from the center that its label names."""
        if is_sparse(rows):
            return SparseCenters(self, centers).distances(rows, labels)
        out = np.empty(len(rows))
        step = max(1, _PIECE_VALUES // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            wide = rows[part].astype(np.float64, copy=False)
            out[part] = self.between(wide, centers[labels[part]]).sum(axis=1)
        return out

    def tangents(self, centers: FloatArray, *, sparse: bool) -> tuple[FloatArray, FloatArray]:
        """Slopes and offsets of a score row·slope + offset that is larger for nearer centers."""
        slopes, offsets = self.divergence.tangents(centers)
        if sparse and not self.squared:
            offsets = offsets + slopes @ self.zeros(centers.shape[1])
        return slopes, offsets

    def phi(self, rows: Rows) -> FloatArray:
        """φ of every row, as `rows` gives it: its score less than this is its distance."""
        own = self.divergence
        if not is_sparse(rows):
            return own.phi(rows).sum(axis=1)
        zeros = self.zeros(rows.shape[1])
        b = zeros[rows.indices]
        row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        changes = np.bincount(row_of, own.phi(rows.data + b) - own.phi(b), rows.shape[0])
        return np.asarray(own.phi(zeros).sum() + changes)

    def noise(self, mean: FloatArray, weight: float) -> float:
        """What rows that lie on their mean still cost, since a mean is rounded."""
        spread = 8.0 * np.finfo(np.float64).eps
        near = mean * (1.0 - spread)
        with np.errstate(invalid="ignore"):
            return float(weight * np.nan_to_num(self.between(near, mean)).sum())


EUCLIDEAN = Measure()
"""Squared distances, of data as it is."""


def _lots(indptr: Any) -> Iterator[slice]:
    """Cut sparse rows so that their non-zeros stay in cache."""
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + _PIECE_VALUES, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield slice(start, stop)
        start = stop


def _like(rows: Any, data: FloatArray) -> Any:
    """Sparse rows with other values at the same places."""
    other = type(rows)(rows.shape, dtype=data.dtype)
    # Set one by one: the constructor looks at all of them.
    other.data, other.indices, other.indptr = data, rows.indices, rows.indptr
    return other


class SparseCenters:
    """Centers, ready for the distances of sparse rows: those of a row of zeros are known."""

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
            self._heights = measure.divergence.phi(self._zeros)
            self._slopes = measure.divergence.tangents(centers)[0]

    def distances(self, rows: Any, labels: Labels) -> FloatArray:
        """Of every row from the center that its label names."""
        if self._careful:
            return self._by_differences(rows, labels)
        distances = self._by_tangents(rows, labels)
        # Small against what a row of zeros costs, it is a difference of large numbers.
        unclear = np.flatnonzero(distances < _CLEAR * self._totals[labels])
        if len(unclear):
            distances[unclear] = self._by_differences(rows[unclear], labels[unclear])
        return distances

    def _by_tangents(self, rows: Any, labels: Labels) -> FloatArray:
        """What zeros cost, and Σ φ(x) − φ(b) − slope·(x − b) over the non-zeros: one φ each."""
        phi, slopes = self._measure.divergence.phi, self._slopes
        distances = self._totals[labels]
        one = slopes[0] if len(slopes) == 1 else None
        for part in _lots(rows.indptr):
            ends = rows.indptr[part.start : part.stop + 1]
            inside = slice(ends[0], ends[-1])
            columns, moved = rows.indices[inside], rows.data[inside].astype(np.float64, copy=False)
            lengths = np.diff(ends)
            if one is not None:
                slope = one[columns]
            else:
                slope = slopes[np.repeat(labels[part], lengths), columns]
            terms = phi(moved + self._zeros[columns])
            terms -= self._heights[columns]
            terms -= slope * moved
            there = np.flatnonzero(lengths)
            if len(there):
                sums = np.add.reduceat(terms, ends[there] - ends[0])
                distances[part.start + there] += sums
        return distances

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
