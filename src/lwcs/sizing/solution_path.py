"""k-means for many numbers of clusters on one sample, each started from its neighbours.

Upwards, from k to more clusters, clusters are split. Some are drawn in proportion to their cost and
split between two of their points; the split that lowers the cost most is taken. Swaps
(`local_search`) move centers that were right for k clusters and are not for more, and Lloyd's
algorithm goes on from there. Downwards, once all are solved, the center whose removal costs least
is left out, and the result is kept where it is better. Below the number of clusters in the data,
this finds which of them belong together; starts from random points seldom do.

Solutions on the path cost less on average than fits from scratch, in half of the time. A single
point is a poor center in many dimensions, so that a split takes the means of both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lwcs.geometry import Centers
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import workers
from lwcs.runtime.randomness import Stage, generator
from lwcs.sizing.levels import STRIDE
from lwcs.solvers.lloyd import Clustering, cheapest, lloyd
from lwcs.solvers.local_search import local_search
from lwcs.solvers.points import FLOAT32_DOWN_TO, Points, draw_points
from lwcs.solvers.seeding import greedy_candidates, start
from lwcs.statistics.indices import TwoNearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.runtime.parallel import Map

# Few clusters are also started afresh, which costs little there; the first number of clusters has
# no other starts.
_FRESH_UP_TO, _FRESH, _FIRST = 8, 3, 8
_SWAPS = 32
# Number of iterations after which starts are compared and of the best one; and when they end.
_BRIEFLY, _MAX_ITER, _TOL, _LEAST_GAIN = 3, 100, 1e-4, 1e-4
# On the way down, candidates that cost more than this after a few iterations are dropped.
_HOPELESS = 1.02


@dataclass(frozen=True, slots=True)
class SolutionPath:
    """Weighted rows, and the parameters of their clustering."""

    rows: Rows
    weights: FloatArray
    geometry: Geometry
    seed: int
    n_jobs: int | None
    journal: Journal = field(default_factory=Journal, compare=False)

    def solve(self, ks: Sequence[int]) -> list[Clustering]:
        """Cluster the rows for every k; these are in increasing order."""
        points, solved = self._points(self.geometry), list[Clustering]()
        with self.journal.stage("k-means", 2 * len(ks) - 1, note=_words(ks)) as stage:
            for k in ks:
                before = solved[-1] if solved else None
                found = self._up(points, k, before)
                if points.rows.dtype == np.float32 and not _is_clear(points, found):
                    points = self._points(self.geometry.in_float64())
                    found = self._up(points, k, before)
                solved.append(found)
                stage.step()
            for at in range(len(ks) - 2, -1, -1):
                solved[at] = self._down(points, solved[at], solved[at + 1])
                stage.step()
        return solved

    def _points(self, geometry: Geometry) -> Points:
        return Points.of(self.rows, self.weights, geometry)

    def _up(self, points: Points, k: int, before: Clustering | None) -> Clustering:
        """The best solution from split clusters, and for few clusters from fresh starts."""
        rng = generator(self.seed, Stage.SEEDING, k)
        fresh = _FIRST if before is None else _FRESH if k <= _FRESH_UP_TO else 0
        starts = [start(points, k, "k-means++", rng, self.n_jobs) for _ in range(fresh)]
        if before is not None:
            starts.append(_with_more(points, before, k, rng))
        swapped = (local_search(points, each, rng, _SWAPS, n_jobs=self.n_jobs) for each in starts)
        found = [self._iterated(points, each, _BRIEFLY) for each in swapped]
        best = found[cheapest([each.cost for each in found])]
        return self._iterated(points, best.centers, _MAX_ITER)

    def _down(self, points: Points, found: Clustering, above: Clustering) -> Clustering:
        """The better of a solution and the one from the centers of the next larger k."""
        with workers(self.n_jobs) as run:
            fewer = _with_fewer(points, above, len(found.centers), run)
        other = self._iterated(points, fewer, _BRIEFLY)
        if other.cost < _HOPELESS * found.cost:
            other = self._iterated(points, other.centers, _MAX_ITER)
        return (found, other)[cheapest([found.cost, other.cost])]

    def _iterated(self, points: Points, centers: Centers, max_iter: int) -> Clustering:
        return lloyd(
            points,
            Centers(centers.points, points.rows.geometry),
            max_iter=max_iter,
            tol=_TOL,
            least_gain=_LEAST_GAIN,
            stride=STRIDE,
            n_jobs=self.n_jobs,
        )


def _words(ks: Sequence[int]) -> str:
    return f"{ks[0]} to {ks[-1]} clusters" if len(ks) > 1 else f"{ks[0]} clusters"


def _is_clear(points: Points, found: Clustering) -> bool:
    """Whether the cost is large enough, relative to the spread, for float32."""
    return bool(found.cost >= FLOAT32_DOWN_TO * points.average * points.weights.sum())


def _with_more(points: Points, before: Clustering, k: int, rng: np.random.Generator) -> Centers:
    """Centers of which some are split in two, until there are k."""
    rows, centers = points.rows, before.centers.points
    costs, labels = points.weights * before.distances, before.labels
    while len(centers) < k:
        splits = [
            split
            for _ in range(greedy_candidates(k))
            if (split := _Split.of(points, costs, labels, rng)) is not None
        ]
        if not splits:
            # Every point is a center already; as in k-means++, centers are repeated.
            again = np.repeat(centers[:1], k - len(centers), axis=0)
            centers = np.concatenate([centers, again])
            break
        best = splits[cheapest([-split.gain for split in splits])]
        costs, labels = costs.copy(), labels.copy()
        costs[best.at] = best.costs
        labels[best.at[best.beyond]] = len(centers)
        centers = np.concatenate([centers, best.centers[1:]])
        centers[best.cluster] = best.centers[0]
    return Centers(centers, rows.geometry)


@dataclass(frozen=True, slots=True)
class _Split:
    """A cluster in two: which of its points go to the second center, and what they cost then."""

    cluster: int
    at: IntArray
    """The points of the cluster."""
    beyond: IntArray
    """Those of them that are nearer to the second center."""
    centers: FloatArray
    costs: FloatArray
    gain: float

    @classmethod
    def of(
        cls, points: Points, costs: FloatArray, labels: IntArray, rng: np.random.Generator
    ) -> _Split | None:
        """Split a cluster, drawn by its cost, between two of its points, drawn by theirs.

        The centers are the means of both sides. Points themselves would be poor ones in many
        dimensions, where a point is nearer to the mean of its cluster than to any other point.
        None if nothing costs anything.
        """
        uniforms = rng.random(3) * (1.0 - 1e-15)
        sums = np.cumsum(costs)
        if not 0.0 < sums[-1] < np.inf:
            return None
        cluster = int(labels[draw_points(sums, uniforms[:1])[0]])
        at = np.flatnonzero(labels == cluster)
        rows, weights = points.rows[at], points.weights[at]
        drawn = draw_points(np.cumsum(costs[at]), uniforms[1:])
        ends = rows.as_centers(drawn)
        sides, _ = rows.nearest(ends)
        both = np.ones(2, dtype=bool)
        means = rows.geometry.means(ends, *rows.cluster_sums(weights, sides, both, ends))
        sides, distances = rows.nearest(means)
        after = weights * distances
        gain = float(costs[at].sum() - after.sum())
        return cls(cluster, at, np.flatnonzero(sides), means.points, after, gain)


def _with_fewer(points: Points, above: Clustering, k: int, run: Map) -> Centers:
    """Leave out the centers whose removal costs least, until there are k."""
    centers = Centers(above.centers.points, points.rows.geometry)
    while len(centers) > k:
        near = TwoNearest.of(points.rows, centers, run)
        losses = points.weights * (near.second - near.nearest)
        lost = int(np.argmin(np.bincount(near.labels, losses, len(centers))))
        centers = centers[np.delete(np.arange(len(centers)), lost)]
    return centers
