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
from lwcs.divergences.sparse_centers import SparseCenters
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from lwcs.divergences.base import Divergence
    from lwcs.foundation.types import FloatArray, Labels, Rows

# Rows × columns of a dense temporary that stays in cache.
_PIECE_VALUES = 2**15


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
            return self.ready(centers).distances(rows, labels)
        out = np.empty(len(rows))
        step = max(1, _PIECE_VALUES // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            wide = rows[part].astype(np.float64, copy=False)
            out[part] = self.between(wide, centers[labels[part]]).sum(axis=1)
        return out

    def ready(self, centers: FloatArray) -> SparseCenters:
        """Centers for sparse rows; the last ones are kept, since blocks of rows share them."""
        known: tuple[FloatArray, SparseCenters] | None = self.__dict__.get("_ready")
        if known is None or known[0] is not centers:
            # A center so far away that its square overflows is nobody's nearest.
            with np.errstate(over="ignore", invalid="ignore"):
                known = (centers, SparseCenters(self, centers))
            self.__dict__["_ready"] = known
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        """All but the centers that are ready: tasks travel."""
        return {name: value for name, value in vars(self).items() if name != "_ready"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

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


def _like(rows: Any, data: FloatArray) -> Any:
    """Sparse rows with other values at the same places."""
    other = type(rows)(rows.shape, dtype=data.dtype)
    # Set one by one: the constructor looks at all of them.
    other.data, other.indices, other.indptr = data, rows.indices, rows.indptr
    return other
