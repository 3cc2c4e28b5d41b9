"""Local search: initial centers improved by swaps (Lattanzi and Sohler 2019).

A point is drawn in proportion to w·d(x, centers), and takes the place of the center whose loss
costs least, if that lowers the cost. The loss of each center follows from the distances of every
point to its nearest and second nearest center, so that a swap needs one distance per point.
k-means++ often puts two centers into one cluster and none into another, which Lloyd cannot repair,
but a swap can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry import Centers
from lwcs.geometry.pairwise import Tiled, pairwise
from lwcs.geometry.products import PIECE_VALUES
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import workers
from lwcs.solvers.points import FLOAT32_DOWN_TO, WORTH_THREADS, draw_points

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.kernels import TiledKernels
    from lwcs.runtime.parallel import Map
    from lwcs.solvers.device_kmeans import DeviceSearch
    from lwcs.solvers.points import Points

# Least number of swaps that are tried, which are at least one per center; many more gain little.
FEWEST_STEPS = 100
# Candidates that share one matrix product. They are drawn by the distances before the first swap;
# whether a swap pays is decided by the present distances.
_TOGETHER = 8
# A swap must lower the cost by more than this part of it, which exceeds rounding.
WORTH = 1e-6
# Below this part of their terms, distances from products in float64 have too few digits.
_ACCURATE = 1e-11
# Differences below this part of their terms have cancelled.
CANCELLED = 1e-12


def local_search(
    points: Points,
    centers: Centers,
    rng: np.random.Generator,
    steps: int | None = None,
    n_jobs: int | None = 1,
    journal: Journal | None = None,
) -> Centers:
    """Try `steps` swaps of a center for a point; the cost never rises.

    By default, one per center, and at least 100. The result does not depend on the number of
    threads. A single center is not changed, since Lloyd finds the best one in one iteration.
    """
    if len(centers) == 1:
        return centers
    steps = max(FEWEST_STEPS, len(centers)) if steps is None else steps
    threads = n_jobs if len(points) * centers.points.size >= WORTH_THREADS else 1
    # No swap is accepted by distances that overflow.
    with (
        np.errstate(over="ignore", invalid="ignore"),
        (journal or Journal()).stage("local search", -(-steps // _TOGETHER)) as stage,
        workers(threads) as run,
    ):
        search = _search(points, centers, np.float32, run)
        for first in range(0, steps, _TOGETHER):
            if search.fast and not search.clear:
                search = _search(points, search.centers, np.float64, run)
            uniforms = rng.random(min(_TOGETHER, steps - first)) * (1.0 - 1e-15)
            swapped = search.swap(uniforms)
            stage.step()
            if not swapped:
                break
    return search.centers


def _search(
    points: Points, centers: Centers, dtype: npt.DTypeLike, run: Map
) -> _Search | DeviceSearch:
    if points.device_weights is None:
        return _Search(points, centers, dtype, run)
    from lwcs.solvers.device_kmeans import DeviceSearch

    return DeviceSearch(points, centers, dtype)


class _Search:
    """The centers, and the nearest and second nearest one of every point."""

    def __init__(
        self, points: Points, centers: Centers, dtype: npt.DTypeLike, run: Map = map
    ) -> None:
        self._rows, self._geometry = points.rows, centers.geometry
        self._weights = points.weights / points.weights.sum()
        self._candidates = pairwise(points.rows, dtype, run)
        self.fast = self._candidates.fast
        self._clear_down_to = FLOAT32_DOWN_TO * points.average * self._candidates.unit
        self._product = points.rows.products(dtype)
        self._values = self._product.rows(points.rows.values)
        self._heights, self._sizes = self._product.heights(points.rows.values, self._values)
        self._points = centers.points.copy()
        prepared = self._product.center_matrix(centers)
        self._prepared = type(prepared)(*(each.copy() for each in prepared))
        n = len(points)
        self._labels, self._others = np.empty((2, n), dtype=np.int64)
        self._nearest, self._second = np.empty((2, n), dtype=self._product.dtype)
        for _ in run(self._find_two, pieces(n, max(64, PIECE_VALUES // len(centers)))):
            pass
        self._add_up()

    @property
    def centers(self) -> Centers:
        """The present centers."""
        return Centers(self._points.copy(), self._geometry)

    @property
    def clear(self) -> bool:
        """Whether float32 has enough digits: no distance overflows, and the cost is above noise."""
        return self._clear_down_to < self.cost and bool(np.isfinite(self._losses).all())

    @np.errstate(over="ignore", invalid="ignore")
    def _find_two(self, at: slice | IntArray) -> None:
        """Find the two nearest centers of some points."""
        scores: Any = self._product.scores(self._values[at], self._prepared)
        each, heights = np.arange(len(scores)), self._heights[at]
        for labels, distances in (
            (self._labels, self._nearest),
            (self._others, self._second),
        ):
            best = np.argmax(scores, axis=1)
            approximate = np.maximum(heights - scores[each, best], 0.0)
            if not self.fast:
                self._mend(approximate, at, best)
            labels[at], distances[at] = best, approximate
            scores[each, best] = -np.inf

    def _mend(self, approximate: FloatArray, at: slice | IntArray, labels: IntArray) -> None:
        """Replace distances from products that have too few digits by those from differences."""
        lost = np.flatnonzero(~(approximate > _ACCURATE * self._sizes[at]))
        if len(lost):
            rows = np.arange(len(self._weights))[at][lost]
            centers = Centers(self._points[labels[lost]], self._geometry)
            exact = self._candidates.unit * self._rows[rows].distances(
                centers, np.arange(len(rows))
            )
            approximate[lost] = np.where(np.isfinite(exact), exact, approximate[lost])

    def _add_up(self) -> None:
        """Compute the cost, and by how much it would rise without each center."""
        self.cost = float(self._weights @ self._nearest)
        losses = self._weights * (self._second - self._nearest)
        self._losses = np.bincount(self._labels, losses, len(self._points))

    def swap(self, uniforms: FloatArray) -> bool:
        """Try some points as centers; return False if all points are centers already."""
        sums = np.cumsum(self._weights * self._nearest)
        if not 0.0 < sums[-1] < np.inf:
            return False
        drawn = draw_points(sums, uniforms)
        candidates = self._candidates(drawn)
        candidates[np.arange(len(drawn)), drawn] = 0.0
        if isinstance(self._candidates, Tiled):
            self._try_all(self._candidates.native, drawn, candidates)
        else:
            for point, distances in zip(drawn, candidates, strict=True):
                self._try(int(point), distances)
        return True

    def _try_all(self, native: TiledKernels, drawn: IntArray, candidates: Any) -> None:
        """`_try` for one point after the other, in one call up to the next that pays."""
        at = 0
        while found := native.first_swap(
            candidates, at, self._nearest, self._second, self._weights, self._labels, self._losses,
            CANCELLED, WORTH * self.cost,
        ):  # fmt: skip
            at, lost = found
            nearer = np.flatnonzero(candidates[at] < self._second)
            apart = np.maximum(candidates[at][nearer], 0.0)
            self._replace(lost, int(drawn[at]), nearer, apart)
            at += 1

    def _try(self, point: int, distances: Any) -> None:
        """Put a point in the place of the center whose loss costs least, if that pays."""
        # For points that the candidate is not nearer to, only the loss of their center matters.
        at = np.flatnonzero(distances < self._second)
        apart, nearest, second = np.maximum(distances[at], 0.0), self._nearest[at], self._second[at]
        weights, closest = self._weights[at], np.minimum(nearest, apart)
        gain = float(weights @ (nearest - closest))
        # For the others, the loss of their center then costs apart − closest instead.
        saved = weights * ((second - nearest) - (apart - closest))
        losses = self._losses - np.bincount(self._labels[at], saved, len(self._losses))
        # Neither a rounded difference nor infinite distances are a reason to lose a center.
        losses = np.fmax(losses, CANCELLED * self._losses)
        lost = int(np.argmin(losses))
        if gain - losses[lost] > WORTH * self.cost:
            self._replace(lost, point, at, apart)

    def _replace(self, lost: int, point: int, at: IntArray, apart: Any) -> None:
        """Put a point in the place of a center, where the points `at` are `apart` from it."""
        bereft = np.flatnonzero((self._labels == lost) | (self._others == lost))
        self._put(lost, point)
        labels, nearest = self._labels[at], self._nearest[at]
        nearer = apart < nearest
        self._labels[at] = np.where(nearer, lost, labels)
        self._others[at] = np.where(nearer, labels, lost)
        self._nearest[at] = np.where(nearer, apart, nearest)
        self._second[at] = np.where(nearer, nearest, apart)
        if len(bereft):
            self._find_two(bereft)
        self._add_up()

    def _put(self, lost: int, point: int) -> None:
        center = self._rows.as_centers(np.array([point]))
        one = self._product.center_matrix(center)
        self._points[lost] = center.points[0]
        self._prepared.matrix[:, lost] = one.matrix[:, 0]
        self._prepared.offsets[lost], self._prepared.sizes[lost] = one.offsets[0], one.sizes[0]
