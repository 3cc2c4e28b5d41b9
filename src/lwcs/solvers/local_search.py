"""Local search: initial centers made better by swaps (Lattanzi and Sohler 2019).

A point is drawn in proportion to w·d(x, centers), and takes the place of the center whose loss
costs least, if that lowers the cost. The distances of every point to its nearest and its second
nearest center say what each loss would cost, so that one swap is decided by one distance per
point. k-means++ often puts two centers into one cluster and none into another: Lloyd cannot mend
that, a swap can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.rows import pieces
from lwcs.geometry import Centers
from lwcs.geometry.nearest import PIECE_VALUES
from lwcs.geometry.pairwise import pairwise
from lwcs.solvers.seeding import FLOAT32_DOWN_TO, draw_points

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.types import FloatArray, IntArray
    from lwcs.solvers.points import Points

STEPS = 100
# Candidates that share one matrix product. They are drawn by the distances before the first of
# them is taken; whether a swap pays is always decided by the present ones.
_TOGETHER = 8
# A swap has to lower the cost by more than rounding.
_WORTH = 1e-6


def local_search(
    points: Points, centers: Centers, rng: np.random.Generator, steps: int = STEPS
) -> Centers:
    """Try `steps` swaps of a center for a point; the cost never rises."""
    # Distances that overflow are not finite, and no swap is accepted by them.
    with np.errstate(over="ignore", invalid="ignore"):
        search = _Search(points, centers, np.float32)
        if search.fast and not search.cost > FLOAT32_DOWN_TO * points.average * search.unit:
            search = _Search(points, centers, np.float64)
        for first in range(0, steps, _TOGETHER):
            uniforms = rng.random(min(_TOGETHER, steps - first)) * (1.0 - 1e-15)
            if not search.swap(uniforms):
                break
    return search.centers


class _Search:
    """Centers, and the nearest and second nearest one of every point."""

    def __init__(self, points: Points, centers: Centers, dtype: npt.DTypeLike) -> None:
        self._rows, self.centers = points.rows, centers
        self._weights = points.weights / points.weights.sum()
        self._candidates = pairwise(points.rows, dtype)
        self.fast, self.unit = self._candidates.fast, self._candidates.unit
        self._product = points.rows.products(dtype)
        self._values = self._product.rows(points.rows.values)
        self._heights = self._product.heights(points.rows.values, self._values)[0]
        n = len(points)
        self._labels, self._others = np.empty((2, n), dtype=np.int64)
        self._nearest, self._second = np.empty((2, n), dtype=self._product.dtype)
        step = max(64, PIECE_VALUES // len(centers))
        for part in pieces(n, step):
            self._look(part)
        self.cost = self._total()

    def _total(self) -> float:
        return float(self._weights @ self._nearest)

    def _look(self, at: slice | IntArray) -> None:
        """Find the two nearest centers of some points."""
        prepared = self._product.center_matrix(self.centers)
        scores: Any = self._product.scores(self._values[at], prepared)
        each, heights = np.arange(len(scores)), self._heights[at]
        for labels, distances in (
            (self._labels, self._nearest),
            (self._others, self._second),
        ):
            best = np.argmax(scores, axis=1)
            labels[at], distances[at] = best, np.maximum(heights - scores[each, best], 0.0)
            scores[each, best] = -np.inf

    def swap(self, uniforms: FloatArray) -> bool:
        """Try some points; False if all points are centers already."""
        sums = np.cumsum(self._weights * self._nearest)
        if not 0.0 < sums[-1] < np.inf:
            return False
        drawn = draw_points(sums, uniforms)
        for point, distances in zip(drawn, self._candidates(drawn), strict=True):
            np.maximum(distances, 0.0, out=distances)
            distances[point] = 0.0
            self._try(int(point), distances)
        return True

    def _try(self, point: int, distances: Any) -> None:
        """Swap a point for the center whose loss costs least, if that pays."""
        with_point = np.minimum(self._nearest, distances)
        losses = np.minimum(self._second, distances)
        losses -= with_point
        losses *= self._weights
        by_center = np.bincount(self._labels, losses, len(self.centers))
        lost = int(np.argmin(by_center))
        cost = float(self._weights @ with_point + by_center[lost])
        if cost < (1.0 - _WORTH) * self.cost:
            self._replace(lost, point, distances)

    def _replace(self, lost: int, point: int, distances: Any) -> None:
        moved = self.centers.points.copy()
        moved[lost] = self._rows.full(np.array([point]))[0]
        self.centers = Centers(moved, self.centers.geometry)
        bereft = np.flatnonzero((self._labels == lost) | (self._others == lost))
        nearer = distances < self._nearest
        between = ~nearer & (distances < self._second)
        np.copyto(self._second, self._nearest, where=nearer)
        np.copyto(self._others, self._labels, where=nearer)
        np.copyto(self._nearest, distances, where=nearer)
        self._labels[nearer] = lost
        np.copyto(self._second, distances, where=between)
        self._others[between] = lost
        if len(bereft):
            self._look(bereft)
        self.cost = self._total()
