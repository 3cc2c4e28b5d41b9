"""Centers moved to where they gain more: some clusters are split in two, as many pairs are merged.

Lloyd's algorithm moves centers only locally: it ends with two centers in one cluster and none in
another. A round here splits the clusters whose halves gain most, merges the pairs of neighbours
whose union loses least, all at once, and iterates from there. It is kept if the cost falls, and
the next round moves half as many centers if it does not. Gains of halves and losses of unions are
known in advance only for the present labels; after some iterations both are better. So a round is
tried even where its splits gain only a fraction of what its merges lose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry import Centers
from lwcs.geometry.dense_rows import DenseRows
from lwcs.geometry.products import PIECE_VALUES
from lwcs.solvers.lloyd import iterating

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Mask
    from lwcs.runtime.journal import Journal
    from lwcs.solvers.lloyd import Clustering
    from lwcs.solvers.points import Points

# A pair is merged for a split that gains at least this part of what the union loses.
_HOPE = 1.0 / 4.0
# Iterations of the halves of all clusters, after which they have cost 12/k iterations of Lloyd.
_HALVING = 2
# Iterations of a round, and the gain at which they end.
_ITERATIONS, _GAIN = 8, 1e-4
_ROUNDS = 40
# Attempts to move a single center, divided by the number of clusters.
_TRIES = 10
# A round that lowers the cost by less is not kept: rounding could have done it.
_WORTH = 1e-5
# After one that gains less than this, and after one that fails, half as many centers are moved.
_WORTH_AS_MANY = 1e-3


def split_merge(
    points: Points,
    centers: Centers,
    rng: np.random.Generator,
    *,
    max_iter: int,
    tol: float = 0.0,
    least_gain: float = 0.0,
    stride: float = 1.0,
    at_most: int | None = None,
    n_jobs: int | None = 1,
    journal: Journal | None = None,
) -> Clustering:
    """Lloyd's algorithm with rounds of splits and merges; these never raise the cost.

    The first round splits up to `at_most` clusters, a quarter by default. The other parameters are
    those of `lloyd`, and say when the iterations after the last round end.
    """
    k, limits = len(centers), (min(_ITERATIONS, max_iter), 0.0, _GAIN, stride)
    with iterating(points, centers, n_jobs, journal, "split and merge") as iterations:
        iterations.run(*limits)
        cost, moves = iterations.cost(), None
        at_most, tries = max(k // 4 if at_most is None else at_most, 1), max(_TRIES // k, 1)
        for _ in range(_ROUNDS if k > 1 else 0):
            moves = moves or _Moves(points, iterations.clustering(), rng)
            moved, many = moves.best(at_most)
            if not many:
                break
            before = iterations.saved()
            iterations.move_to(moved)
            iterations.run(*limits, below=cost)
            found = iterations.cost()
            gain = 1.0 - found / cost
            if gain > _WORTH:
                cost, moves = found, None
            else:
                iterations.restore(before)
            if gain > _WORTH_AS_MANY:
                continue
            at_most = many // 2
            if not at_most:
                # Other halves are drawn: of few clusters, there are few to split instead.
                at_most, tries, moves = 1, tries - 1, None
                if not tries:
                    break
        if iterations.n_iter < max_iter:
            iterations.run(max_iter - iterations.n_iter, tol, least_gain, stride)
        return iterations.clustering()


class _Moves:
    """What splits of all clusters gain, and what unions of neighbours lose."""

    def __init__(self, points: Points, found: Clustering, rng: np.random.Generator) -> None:
        self._centers = found.centers
        k = len(found.centers)
        self._masses: FloatArray = np.bincount(found.labels, points.weights, k).astype(np.float64)
        self._gains, self._halves = _halves(points, found, rng)
        self._losses, self._partners = _unions(found.centers, self._masses)

    def best(self, at_most: int) -> tuple[Centers, int]:
        """Centers after the best moves, none of which touches another, and how many these are."""
        centers, masses, partners = self._centers.points.copy(), self._masses, self._partners
        free, many = np.ones(len(masses), dtype=bool), 0
        cheapest = np.argsort(self._losses, kind="stable")
        for split in np.argsort(-self._gains, kind="stable"):
            if not free[split]:
                continue
            while len(cheapest) and not (free[cheapest[0]] and free[partners[cheapest[0]]]):
                cheapest = cheapest[1:]
            # The center that is left may be split itself.
            pairs = (at for at in cheapest if free[at] and free[partners[at]] and at != split)
            lost = next(pairs, None)
            if lost is None or not self._gains[split] > _HOPE * self._losses[lost]:
                break
            left = partners[lost]
            both = masses[lost] + masses[left]
            share = masses[lost] / both if both > 0.0 else 0.5
            centers[left] = share * centers[lost] + (1.0 - share) * centers[left]
            centers[split], centers[lost] = self._halves[0][split], self._halves[1][split]
            free[[split, lost, left]] = False
            many += 1
            if many == at_most:
                break
        return Centers(centers, self._centers.geometry), many


def _halves(
    points: Points, found: Clustering, rng: np.random.Generator
) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    """What each cluster gains by two centers, and these.

    A point is drawn in proportion to w·d. The other half begins with what is nearer to that point
    than to the center, which finds a few rows far out; or with what is on its side of the center,
    since in many dimensions a single point is far from everything.
    """
    rows, weights, labels, k = points.rows, points.weights, found.labels, len(found.centers)
    geometry, costs, every = rows.geometry, weights * found.distances, np.ones(2 * k, dtype=bool)
    both = Centers(np.repeat(found.centers.points, 2, axis=0), geometry)

    def means(second: Mask) -> tuple[FloatArray, Centers, Centers]:
        totals, sums = rows.cluster_sums(weights, 2 * labels + second, every, both)
        moved = geometry.means(both, totals, sums).points
        halves = Centers(moved[::2].copy(), geometry), Centers(moved[1::2].copy(), geometry)
        apart = DenseRows(geometry, halves[0].points, np.float64).distances(halves[1], np.arange(k))
        return _union(totals[::2], totals[1::2]) * apart, *halves

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The least of exponential times is that of a point in proportion to its rate.
        times, least = rng.exponential(size=len(weights)) / costs, np.full(k, np.inf)
        np.minimum.at(least, labels, times)
        at = np.flatnonzero(times == least[labels])
        drawn = np.zeros(k, dtype=np.int64)
        drawn[labels[at]] = at
        beyond = rows.distances(rows.as_centers(drawn), labels) - found.distances
        masses = np.bincount(labels, weights, k)
        average = np.bincount(labels, weights * beyond, k) / masses
        far, side = means(beyond < 0.0), means(beyond < average[labels])
        better = (side[0] > far[0])[:, None]
        halves = tuple(
            Centers(np.where(better, one.points, other.points), geometry)
            for one, other in zip(side[1:], far[1:], strict=True)
        )
        for _ in range(_HALVING):
            one, other = (rows.distances(half, labels) for half in halves)
            halves = means(other < one)[1:]
        nearer = np.minimum(*(rows.distances(half, labels) for half in halves))
        gains = np.bincount(labels, costs - weights * nearer, k)
    return np.nan_to_num(gains, nan=0.0), (halves[0].points, halves[1].points)


def _union(one: FloatArray, other: FloatArray) -> FloatArray:
    """What a union of clusters of these masses loses, as a multiple of d(c, c')."""
    return np.nan_to_num(one * (other / (one + other)), nan=0.0)


def _unions(centers: Centers, masses: FloatArray) -> tuple[FloatArray, IntArray]:
    """For every cluster, what the cheapest union with another one loses, and that one.

    The loss is d(c, c')·W·W'/(W + W'), which for squared distances is what Ward's method computes,
    and for other divergences approximates it.
    """
    k, own = len(centers), DenseRows(centers.geometry, centers.points, np.float64)
    losses, partners = np.empty(k), np.empty(k, dtype=np.int64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        product = own.products(np.float64)
        prepared, values = product.center_matrix(centers), product.rows(own.values)
        heights = product.heights(own.values, values)[0]
        for part in pieces(k, max(64, PIECE_VALUES // k)):
            at = np.arange(part.start, part.stop)
            apart = heights[part, None] - product.scores(values[part], prepared)
            apart *= product.cost_unit * _union(masses[part, None], masses)
            apart[np.isnan(apart)] = np.inf
            apart[at - part.start, at] = np.inf
            partners[part] = apart.argmin(axis=1)
            losses[part] = apart[at - part.start, partners[part]]
    return losses, partners
