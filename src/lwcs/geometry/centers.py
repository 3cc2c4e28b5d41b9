"""Centers in a geometry's coordinates, with what distances of many rows to them need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.exact import split_exactly

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, IntArray, Mask
    from lwcs.geometry.geometry import Geometry
    from lwcs.geometry.metrics import Tangents
    from lwcs.geometry.products import CenterMatrix

SPLIT = 2.0**27 + 1.0
# Larger numbers overflow when they are split.
LARGEST_SPLIT = 1e290


@dataclass(frozen=True, eq=False)
class Centers:
    """k centers as they are measured; made by a `Geometry` or from `Measured` rows.

    What is derived from them is computed once, when it is first needed, and shared by all blocks
    of a pass.
    """

    points: FloatArray
    geometry: Geometry

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, at: slice | IntArray) -> Centers:
        """Some of them."""
        return Centers(self.points[at], self.geometry)

    @cached_property
    def tangents(self) -> Tangents:
        """Slopes and offsets without an origin."""
        metric, d = self.geometry.metric, self.points.shape[1]
        # A center so far away that its square overflows is nobody's nearest.
        with np.errstate(over="ignore", invalid="ignore"):
            return metric.tangents(self.points, self.geometry.plain_frame(d))

    @cached_property
    def sparse_center_matrix(self) -> CenterMatrix:
        """Slopes and offsets for sparse rows, without an origin."""
        from lwcs.geometry.products_sparse import sparse_center_matrix

        return sparse_center_matrix(self.tangents, self.geometry.zeros(self.points.shape[1]))

    @cached_property
    def edges(self) -> Mask | None:
        """Where a slope is infinite and a finite one stands in for it, if anywhere."""
        edges: Mask = ~self.geometry.divergence.domain.interior(self.points)
        return edges if edges.any() else None

    @cached_property
    def zero_costs(self) -> ZeroCosts:
        """What a row of zeros costs."""
        with np.errstate(over="ignore", invalid="ignore"):
            return ZeroCosts.of(self)

    @cached_property
    def references(self) -> FloatArray:
        """Points near the centers that rows are averaged around: with half of the digits.

        Differences to them are then often exact, and a mean that a float can hold comes out.
        """
        if not np.abs(self.points).max(initial=0.0) < LARGEST_SPLIT:
            return self.points
        # Veltkamp's splitting: the upper 26 bits.
        shifted = SPLIT * self.points
        rest = shifted - self.points
        return np.subtract(shifted, rest, out=rest)

    def reach(self, point: FloatArray) -> FloatArray | None:
        """How close to its center, for every center, a row is certain not to be closer to `point`.

        A quarter of the squared distance between the two; None where the triangle inequality does
        not hold.
        """
        if not self.geometry.squared:
            return None
        apart = self.geometry.metric.between(self.points, point).sum(axis=1)
        # Less by more than distances are rounded by.
        return np.asarray(0.25 * (1.0 - 1e-9) * apart)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is derived: tasks travel."""
        return {"points": self.points, "geometry": self.geometry}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True, slots=True)
class ZeroCosts:
    """What a row of implicit zeros costs at every center, so that sparse rows cost their non-zeros.

    A row's distance takes the sum over all columns less the sum over its stored values, which
    cancels where one column is large; both parts of `split_exactly` are therefore kept.
    """

    zeros: FloatArray
    """What an implicit zero stands for, per column."""
    shares: tuple[tuple[FloatArray, FloatArray], ...]
    """Two arrays (centers × columns) that add up to the costs, each with its sum over columns."""
    totals: FloatArray
    sizes: FloatArray
    """Of the terms of a distance by tangents: the totals, and φ of all zeros."""
    infinite: Mask
    """Where a zero would be infinitely far; such columns are counted, since ∞ − ∞ is undefined."""
    n_infinite: FloatArray

    @classmethod
    def of(cls, centers: Centers) -> ZeroCosts:
        """Cost of every column at every center."""
        zeros = centers.geometry.zeros(centers.points.shape[1])
        costs = centers.geometry.metric.between(zeros, centers.points)
        infinite = np.isinf(costs)
        costs[infinite] = 0.0
        parts = zip(*map(split_exactly, costs), strict=True)
        shares = tuple((array, array.sum(axis=1)) for array in map(np.array, parts))
        totals: FloatArray = np.add(*(total for _, total in shares))
        with np.errstate(divide="ignore"):
            heights = np.abs(centers.geometry.divergence.phi(zeros))
        sizes = totals + heights[np.isfinite(heights)].sum()
        return cls(zeros, shares, totals, sizes, infinite, infinite.sum(axis=1))
