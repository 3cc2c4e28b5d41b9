"""A divergence on some data: in its scale, smoothed towards its mean, dense or sparse.

Of sparse rows, zeros are left out. What one of them stands for, b, is then no longer zero if rows
are smoothed or lifted, so `rows` gives x − b, which is sparse as x is, and costs are those of a row
of zeros plus what the non-zeros change.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.divergences.ready_centers import DenseCenters, SparseCenters
from lwcs.divergences.separable import SquaredEuclidean
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from lwcs.divergences.base import Divergence
    from lwcs.foundation.types import FloatArray, Labels, Mask, Rows

# Rows × columns of a dense temporary that stays in cache.
_PIECE_VALUES = 2**15


@dataclass(frozen=True, eq=False)
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

    @property
    def _tau(self) -> float:
        return 0.0 if self.mean is None else self.divergence.smoothing

    @cached_property
    def _unseen(self) -> Mask | None:
        """Columns whose mean is at the edge of the domain, and other rows are measured without.

        No row that was averaged has left the edge there, so that no center can.
        """
        if not self._tau or self.mean is None:
            return None
        unseen: Mask = ~self.divergence.domain.interior(self.divergence.tidy(self.mean))
        return unseen if unseen.any() else None

    def rows(self, points: Rows, first_row: int = 0) -> Rows:
        """Rows as they are measured, less what a zero stands for if they are sparse; checked."""
        own = self.divergence
        # One that measures rows as they are, and takes any number, has nothing to do here.
        if type(own) is SquaredEuclidean:
            return points
        own.check(points, first_row)
        seen = own.forward(points)
        if is_sparse(seen):
            return self._sparse_rows(seen)
        return seen if own.squared else self.smoothed(seen.astype(np.float64, copy=False))

    def smoothed(self, points: FloatArray) -> FloatArray:
        """Dense rows or centers, a step towards the mean."""
        if not self._tau or self.mean is None:
            return points
        moved: FloatArray = (1.0 - self._tau) * points + self._tau * self.mean
        if self._unseen is not None:
            moved[:, self._unseen] = self.mean[self._unseen]
        return moved

    def _sparse_rows(self, seen: Any) -> Any:
        zero = self.divergence.zero
        if not zero and (self.squared or not self._tau):
            return seen
        moved = seen.data - zero if zero else seen.data
        data = np.multiply(moved, 1.0 - self._tau, dtype=np.float64)
        if self._unseen is not None:
            data[self._unseen[seen.indices]] = 0.0
        return _like(seen, data)

    def zeros(self, n_features: int) -> FloatArray:
        """What a zero of every column of sparse rows stands for."""
        zeros = np.full((1, n_features), self.divergence.zero)
        return self.smoothed(zeros)[0]

    def whole(self, values: FloatArray, rows: Rows) -> FloatArray:
        """Means or rows that were computed from what `rows` gave, in full."""
        if self.squared or not is_sparse(rows):
            return values
        return values + self.zeros(values.shape[-1])

    def full(self, rows: Rows) -> FloatArray:
        """Rows, as `rows` gives them, dense and in full: as centers."""
        dense = rows.toarray() if is_sparse(rows) else rows
        return self.whole(np.asarray(dense, dtype=np.float64), rows)

    def centers(self, given: FloatArray, name: str = "centers") -> FloatArray:
        """Centers in the units of the data, as they are measured; checked against the domain."""
        own = self.divergence
        seen: FloatArray = own.tidy(own.forward(given))
        outside = own.domain.outside(seen)
        why = f"divergence={own.name!r} takes {own.domain}"
        if self._tau and self.mean is not None and not outside.any():
            # Where rows have a mean inside of the domain, centers must be inside, too.
            outside = ~own.domain.interior(seen) & own.domain.interior(own.tidy(self.mean))
            why = "all rows would be infinitely far from it; smooth centers as rows are"
        if outside.any():
            row, column = map(int, np.argwhere(outside)[0])
            value = given[row, column]
            raise ValueError(f"{name}[{row}, {column}]={value} is not allowed: {why}")
        return seen

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
        find = self._differences if self.squared else DenseCenters(self.divergence, centers)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            wide = rows[part].astype(np.float64, copy=False)
            out[part] = find(wide, centers[labels[part]], labels[part])
        return out

    def _differences(self, rows: FloatArray, own: FloatArray, _: Labels) -> FloatArray:
        return self.between(rows, own).sum(axis=1)

    def ready(self, centers: FloatArray) -> SparseCenters:
        """Centers for sparse rows.

        The last ones are kept, since blocks of rows share them; of squared distances, where they
        are soon made, they are not: `EUCLIDEAN` would keep them for good.
        """
        known: SparseCenters | None = self.__dict__.get("_ready")
        if known is None or not np.array_equal(known.centers, centers):
            # A center so far away that its square overflows is nobody's nearest.
            with np.errstate(over="ignore", invalid="ignore"):
                known = SparseCenters(self, centers.copy())
            if not self.squared:
                self.__dict__["_ready"] = known
        return known

    def __getstate__(self) -> dict[str, Any]:
        """All but the centers that are ready: tasks travel."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

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
        with np.errstate(divide="ignore"):
            heights = own.phi(zeros)
        # Where a zero has no φ there is none: the domain was checked.
        heights[np.isinf(heights)] = 0.0
        row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        values = own.phi(rows.data + zeros[rows.indices]) - heights[rows.indices]
        return np.asarray(heights.sum() + np.bincount(row_of, values, rows.shape[0]))

    def noise(self, mean: FloatArray, weight: float, n_rows: int) -> float:
        """What rows that lie on their mean still cost, since a mean of n rows is rounded."""
        spread = 8.0 * np.finfo(np.float64).eps * np.sqrt(n_rows)
        near = mean * (1.0 - spread)
        with np.errstate(invalid="ignore"):
            apart = self.between(near, mean)
        # At an edge of the domain next to the mean is infinitely far, and no row is.
        return float(weight * apart[np.isfinite(apart)].sum())


EUCLIDEAN = Measure()
"""Squared distances, of data as it is."""


def _like(rows: Any, data: FloatArray) -> Any:
    """Sparse rows with other values at the same places."""
    other = type(rows)(rows.shape, dtype=data.dtype)
    # Set one by one: the constructor looks at all of them.
    other.data, other.indices, other.indptr = data, rows.indices, rows.indptr
    return other
