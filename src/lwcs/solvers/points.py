"""Points as the solvers want them: as they are measured, weighted.

k-means does not mind a shift, and all columns may share one factor. Around the mean and
of size one, products of float32 numbers neither overflow nor drown the distances in norms. Other
divergences do mind: their points are in float64, of one size, and an origin is taken off for
the products alone (`Divergence.tangents_around`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.divergences.measure import EUCLIDEAN
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lwcs.divergences import Measure
    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.kernels import KernelName


@dataclass(frozen=True, slots=True)
class Points:
    """Weighted rows in solver units: (rows as measured − origin)/unit, column by column."""

    rows: Rows
    weights: FloatArray
    origin: FloatArray
    unit: FloatArray
    cost_unit: float
    """What a cost of 1 in solver units is in the data's, or in its scaled ones."""
    average: float
    """What a row costs around the mean, on average, in solver units."""
    kernel: KernelName
    measure: Measure
    """Of the points themselves: the data's scale is in their units already."""

    @classmethod
    def of(
        cls,
        data: Rows,
        weights: FloatArray | None,
        measure: Measure = EUCLIDEAN,
        kernel: KernelName = "portable",
    ) -> Points:
        """Bring data into solver units; sparse data stays sparse."""
        omega = kernels.unit_weights(weights, data.shape[0])
        seen = measure.rows(data)
        moments = kernels.moments(seen, omega, kernel)
        d = seen.shape[1]
        if not measure.squared:
            seen = seen.astype(np.float64, copy=False)
            mean = measure.whole(moments.mean, seen)
            average = float(omega @ measure.distances(seen, mean)) / moments.weight
            origin = np.zeros(d) if is_sparse(seen) else mean
            rows = seen if is_sparse(seen) else seen - origin
            return cls(rows, omega, origin, np.ones(d), 1.0, average, kernel, measure)
        each = np.ones(d) if measure.scale is None else measure.scale
        variances = np.maximum(moments.scatter, 0.0) / moments.weight / each**2
        spread = float(np.sqrt(variances.sum())) or 1.0
        unit = each * spread
        own = replace(measure, scale=None)
        if is_sparse(seen):
            # A shift would make zeros into numbers.
            rows, origin = (seen.astype(np.float64) * (1.0 / unit)).tocsr(), np.zeros(d)
            return cls(rows, omega, origin, unit, spread**2, 1.0, kernel, own)
        rows = kernels.as_floats(seen)
        origin = moments.mean.astype(rows.dtype)
        rows = (rows - origin) * (1.0 / unit).astype(rows.dtype)
        wide = origin.astype(np.float64)
        return cls(rows, omega, wide, unit, spread**2, 1.0, kernel, own)

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def variance(self) -> float:
        """The same, on average over the columns too: with squared distances, a variance."""
        return self.average / self.rows.shape[1]

    @property
    def _around(self) -> bool:
        """Whether rows are less an origin that their divergence minds."""
        return not self.measure.squared and not is_sparse(self.rows)

    def tangents(self, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Slopes and offsets of a score row·slope + offset that is larger for nearer centers."""
        if self._around:
            own = self.measure.divergence
            return own.tangents_around(centers + self.origin, self.origin)
        return self.measure.tangents(centers, sparse=is_sparse(self.rows))

    def heights(self, rows: Rows) -> FloatArray:
        """What distances of rows are, but for their scores."""
        if self._around:
            return self.measure.distances(rows + self.origin, self.origin)
        if is_sparse(rows):
            return self.measure.phi(rows)
        return np.asarray(np.einsum("ij,ij->i", rows, rows))

    def means(self, sums: FloatArray, totals: FloatArray) -> FloatArray:
        """Centers of clusters, from the sums of their rows and weights."""
        means = self.measure.whole(sums / totals[:, None], self.rows)
        if self.measure.divergence.constrained:
            return self.to_units(self.to_data(means))
        if self.measure.squared:
            return means
        return self.measure.divergence.tidy(means + self.origin) - self.origin

    def moved(self, new: FloatArray, old: FloatArray) -> float:
        """How far centers have gone, all together."""
        if self._around:
            new, old = new + self.origin, old + self.origin
        return float(self.measure.between(new, old).sum())

    def from_own(self, centers: FloatArray) -> Callable[[slice, IntArray], FloatArray]:
        """What measures some points from the centers that their labels name.

        By differences, so that small distances keep their digits.
        """
        if is_sparse(self.rows):
            ready = self.measure.ready(centers)
            return lambda piece, labels: ready.distances(self.rows[piece], labels)
        if self.measure.squared:
            return lambda piece, labels: kernels.own_distances(
                self.rows[piece], centers, labels, None, self.kernel
            )
        own = centers + self.origin
        return lambda piece, labels: self.measure.own_distances(
            self.rows[piece] + self.origin, own, labels
        )

    def to_units(self, centers: FloatArray) -> FloatArray:
        """Bring centers from the data's units into the solver's."""
        divergence = self.measure.divergence
        return (divergence.settled(divergence.inward(centers)) - self.origin) / self.unit

    def to_data(self, centers: FloatArray) -> FloatArray:
        """Bring centers from the solver's units into the data's."""
        return self.measure.divergence.backward(centers * self.unit + self.origin)

    def to_data_rows(self) -> Rows:
        """The rows in the data's units, for whoever is to see them."""
        measure, tau = self.measure, self.measure.divergence.smoothing
        if measure.squared and is_sparse(self.rows):
            return (self.rows * self.unit).tocsr()
        if measure.squared:
            return self.to_data(self.rows).astype(self.rows.dtype)
        if is_sparse(self.rows):
            rows = self.rows.copy()
            rows.data = rows.data / (1.0 - tau) + measure.divergence.zero
            return rows
        rows, domain = self.rows + self.origin, measure.divergence.domain
        if measure.mean is not None:
            rows = (rows - tau * measure.mean) / (1.0 - tau)
        return np.clip(rows, domain.low, domain.high)

    def starting(self, centers: FloatArray) -> FloatArray:
        """Centers that somebody gave, in solver units: smoothed, as the rows are."""
        measure = self.measure
        seen = measure.smoothed(replace(measure, mean=None).centers(centers, "init"))
        return (seen - self.origin) / self.unit

    def dense(self, at: IntArray) -> FloatArray:
        """Some rows as float64, dense: as centers."""
        return self.measure.full(self.rows[at])

    def pieces(self, n_centers: int) -> Iterator[slice]:
        """Cut the rows so that a piece times the centers stays in cache, always the same way."""
        step = max(64, _PIECE_VALUES // max(1, n_centers))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)))


_PIECE_VALUES = 2**19
