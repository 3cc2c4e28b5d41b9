"""Whether draws tell neighbouring clusters apart, or whether one cluster was cut in two.

Draws of a pair of clusters are projected on the line through both centers,

    t = ½ + (d(x, c_i) − d(x, c_j))/(d(c_i, c_j) + d(c_j, c_i)),

which is linear in x for every Bregman divergence. For squared distances, t is 0 at c_i, 1 at c_j
and ½ at the border between them. Two clusters have a valley near the border, where the density is
far below that on either side; a Gaussian or uniform cluster that was cut in two has none.

That is a theorem for every log-concave cluster, if all draws of a convex set are projected. Two
Voronoi cells together are not convex: cells that share a small facet have the shape of an
hourglass, whose waist looks like a valley. So only draws are taken with

    ½·(d(x, c_i) + d(x, c_j)) ≤ d(x, c_l)   for every other center c_l,

an intersection of half-spaces that lies within the two cells.

Centers are means of the draws, and every draw has pulled its own center towards itself: in many
dimensions that alone opens a valley. So every draw is measured from the center that its cluster has
without that draw, which multiplies d by (1 − share of the draw in the cluster)⁻².

A few draws cannot show a valley, and count with their nearest cluster, unless an empty gap between
them is several times as long as the extent of either side: then no tail of that cluster reaches
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry.products import PIECE_VALUES
from lwcs.runtime.parallel import workers

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask
    from lwcs.geometry import Centers, Measured

# Cells of a histogram of t, from the first to the last value that counts.
_FROM, _TO, _CELLS = -0.25, 1.25, 30
_PER_CELL = (_TO - _FROM) / _CELLS
# A valley is so many cells wide, and begins at one of these.
_VALLEY = 4
_VALLEYS = range(_CELLS // 2 - _VALLEY // 2 - 3, _CELLS // 2 - _VALLEY // 2 + 4)
# A side reaches from the valley to its center, or a quarter of the way beyond; with the cells on
# both sides of the center, where all draws are if they have the same value.
_BEYOND = (0, 4)
# At the border, the density is below this part of that on both sides...
_SHALLOW = 0.5
# ... and no more likely to be so by chance in one cluster, at one place and side of it.
_LEVEL = 0.03
# Fewer draws than this are told apart from their nearest cluster only if they are far away...
FEWEST_DRAWS = 13
# ... beyond a gap of more than so many times the farthest draw from the center, on either side. Of
# two values in the tail of t with 3 degrees, one is so far beyond the other in 1 of 1,331 cases.
_FAR = 10.0
# Two clusters touch if both have at least this part of the draws between them, relative to the
# weight of the smaller one: the first if there are no draws at the border, else the second.
_TOUCHING, _HARDLY_TOUCHING = 0.25, 0.1
# A draw that is nearly all of its cluster is taken for this part of it.
_LARGEST_SHARE = 0.9
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Pairs of clusters that are the two nearest ones of some draw, and what is between them."""

    k: int
    """Number of clusters, neighbours or not."""
    first: IntArray
    second: IntArray
    """The clusters of each pair, the first one having the smaller number."""
    depth: FloatArray
    """Depth of the valley relative to the density on both sides: 1 if it has no draws."""
    p_value: FloatArray
    """Probability of such draws if there were no valley: 1 where none is found."""
    apart: Mask
    """Whether the draws separate the two clusters."""
    contact: FloatArray
    """Weight of the draws between them on the side that has less, relative to the smaller one."""
    draws: FloatArray
    """Effective number of draws of every cluster."""

    @property
    def keys(self) -> IntArray:
        """One number for each pair."""
        return self.first * self.k + self.second

    @property
    def joined(self) -> list[tuple[int, int]]:
        """The pairs that cannot be told apart."""
        at = np.flatnonzero(~self.apart)
        return list(zip(self.first[at].tolist(), self.second[at].tolist(), strict=True))

    def groups(self) -> IntArray:
        """The number of the group of every cluster: those that cannot be told apart are one."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        at = np.flatnonzero(~self.apart)
        links = coo_array((np.ones(len(at)), (self.first[at], self.second[at])), (self.k, self.k))
        found: IntArray = connected_components(links, directed=False)[1].astype(np.int64)
        return found


def tell_apart(
    rows: Measured,
    weights: FloatArray,
    counts: IntArray,
    centers: Centers,
    labels: Labels,
    *,
    fitted: FloatArray | None = None,
    n_jobs: int | None = 1,
) -> Neighbours:
    """Test all neighbouring clusters of some centers by draws.

    Parameters
    ----------
    rows, weights, counts : Measured, array and array
        Draws: distinct rows, their weights, and how often each was drawn.
    centers, labels : Centers and array
        Centers in the geometry of the rows, and the nearest one of every row.
    fitted : array, optional
        The weights that these rows had when the centers were fitted, 0 for rows that had no part
        in it; `weights` by default.
    n_jobs : int, optional
        Number of threads, on which the result does not depend.
    """
    k, at = len(centers), np.flatnonzero(weights > 0.0)
    if k < 2 or not len(at):
        none = np.empty(0, dtype=np.int64)
        nothing = np.empty(0)
        return Neighbours(
            k, none, none, nothing, nothing, np.empty(0, dtype=bool), nothing, np.zeros(k)
        )
    draws = _Draws.of(rows, weights, counts, labels, weights if fitted is None else fitted, k)
    with workers(n_jobs) as run:
        step = max(64, PIECE_VALUES // k)
        parts = [at[part] for part in pieces(len(at), step)]
        profiles = _Profiles.together(
            list(run(lambda part: _profiles(draws, part, centers), parts))
        )
    return _judged(profiles, draws, centers)


@dataclass(frozen=True, slots=True)
class _Draws:
    """Draws with their labels and weights, and the size of every cluster."""

    rows: Measured
    weights: FloatArray
    squares: FloatArray
    """w²/counts: their sum is the variance of a sum of weights."""
    labels: Labels
    factors: FloatArray
    """Factors on the distances to centers that leave out the draw itself."""
    sizes: FloatArray
    """Effective number of draws of every cluster."""
    totals: FloatArray
    """Weight of every cluster."""

    @classmethod
    def of(
        cls, rows: Measured, weights: FloatArray, counts: IntArray, labels: Labels,
        fitted: FloatArray, k: int,
    ) -> _Draws:  # fmt: skip
        # Only ratios of weights matter, whose squares may be out of range.
        weights, fitted = weights / weights.max(), fitted / max(fitted.max(), _TINY)
        squares = weights * (weights / counts)
        totals: FloatArray = np.bincount(labels, weights, k).astype(np.float64)
        sizes = totals**2 / np.maximum(np.bincount(labels, squares, k), _TINY)
        shares = fitted / np.maximum(np.bincount(labels, fitted, k)[labels], _TINY)
        factors = (1.0 - np.minimum(shares, _LARGEST_SHARE)) ** -2.0
        return cls(rows, weights, squares, labels, factors, sizes, totals)


@dataclass(frozen=True, slots=True)
class _Profiles:
    """Histograms of t, one row per pair of clusters."""

    keys: IntArray
    """i·k + j of the pairs, in order."""
    weights: DenseRows
    squares: DenseRows
    seconds: DenseRows
    """Weight of the draws of either cluster whose second nearest is the other."""

    @classmethod
    def together(cls, parts: list[_Profiles]) -> _Profiles:
        """The sums of the histograms of several parts."""
        keys, at = np.unique(np.concatenate([each.keys for each in parts]), return_inverse=True)
        sums = []
        for name in ("weights", "squares", "seconds"):
            values = np.concatenate([getattr(each, name) for each in parts])
            total = np.zeros((len(keys), values.shape[1]))
            np.add.at(total, at, values)
            sums.append(total)
        found = cls(keys, *sums)
        # Pairs that are not the two nearest centers of any draw do not touch.
        near = np.flatnonzero(found.seconds.any(axis=1))
        return cls(found.keys[near], *(each[near] for each in sums))


def _profiles(draws: _Draws, at: IntArray, centers: Centers) -> _Profiles:
    """The histograms of some draws."""
    k, rows, each = len(centers), draws.rows[at], np.arange(len(at))
    distances: Any = rows.all_distances(centers)
    if rows.geometry.squared:
        np.square(distances, out=distances)
    distances[each, draws.labels[at]] *= draws.factors[at]
    own = np.argmin(distances, axis=1)
    nearest = distances[each, own]
    distances[each, own] = np.inf
    second = np.argmin(distances, axis=1)
    # The mean of both distances is at most the third for the second nearest center, and for
    # others at most the second.
    row, other = np.nonzero(distances <= (2.0 * distances[each, second] - nearest)[:, None])
    ahead = own[row] < other
    i, j = np.where(ahead, own[row], other), np.where(ahead, other, own[row])
    keys, pairs = np.unique(i * k + j, return_inverse=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        nearer = (distances[row, other] - nearest[row]) / _spans(centers, keys)[pairs]
        cells = np.floor((0.5 - np.where(ahead, nearer, -nearer) - _FROM) / _PER_CELL)
    inside = np.flatnonzero((cells >= 0) & (cells < _CELLS))
    places = pairs[inside] * _CELLS + cells[inside].astype(np.int64)
    weights, squares = (
        np.bincount(places, values[at][row[inside]], len(keys) * _CELLS).reshape(-1, _CELLS)
        for values in (draws.weights, draws.squares)
    )
    near = np.flatnonzero(other == second[row])
    sides = 2 * pairs[near] + (own[row[near]] == j[near])
    seconds = np.bincount(sides, draws.weights[at][row[near]], 2 * len(keys)).reshape(-1, 2)
    return _Profiles(keys, weights, squares, seconds)


def _spans(centers: Centers, keys: IntArray) -> FloatArray:
    """d(c_i, c_j) + d(c_j, c_i) of the pairs; twice the one that is finite, if only one is."""
    k, points, metric = len(centers), centers.points, centers.geometry.metric
    one, other = points[keys // k], points[keys % k]
    with np.errstate(all="ignore"):
        there = metric.between(one, other).sum(axis=1)
        back = metric.between(other, one).sum(axis=1)
        finite = np.where(np.isfinite(there), there, back)
        return np.asarray(finite + np.where(np.isfinite(back), back, finite))


def _judged(profiles: _Profiles, draws: _Draws, centers: Centers) -> Neighbours:
    """Test the pairs of clusters by their profiles."""
    k = len(centers)
    first, second = profiles.keys // k, profiles.keys % k
    ratios, p_values = _valleys(profiles)
    apart = (ratios < _SHALLOW) & (p_values < _LEVEL)

    ends = np.cumsum(np.pad(profiles.weights, ((0, 0), (1, 0))), axis=1)
    empty = np.any([ends[:, at + _VALLEY] == ends[:, at] for at in _VALLEYS], axis=0)
    left, right = ends[:, _CELLS // 2], ends[:, -1] - ends[:, _CELLS // 2]
    smaller = np.minimum(draws.totals[first], draws.totals[second])
    between = np.minimum(left, right) / np.maximum(smaller, _TINY)
    apart |= between < np.where(empty, _TOUCHING, _HARDLY_TOUCHING)

    few = draws.sizes < FEWEST_DRAWS
    apart |= few[first] | few[second]
    depth = np.clip(1.0 - ratios, 0.0, 1.0)
    found = Neighbours(k, first, second, depth, p_values, apart, between, draws.sizes)
    near = np.flatnonzero(few & ~_far_away(draws, centers, few, found.groups()))
    apart[_nearest_of(near, first, second, profiles.seconds)] = False
    return found


def _far_away(draws: _Draws, centers: Centers, few: Mask, groups: IntArray) -> Mask:
    """Which clusters of a few draws are beyond any tail of their nearest group of clusters.

    Draws of other small clusters that are nearer than the group count as its tail.
    """
    far = np.zeros(len(centers), dtype=bool)
    many, some = np.flatnonzero(~few), np.flatnonzero(few & (draws.totals > 0.0))
    if not len(many) or not len(some):
        return far
    at = np.flatnonzero(draws.weights > 0.0)
    rows, labels = draws.rows[at], draws.labels[at]
    # Roots of divergences are compared as lengths are.
    lengths: dict[int, FloatArray] = {}
    for cluster in some:
        from_it = np.sqrt(rows.distances_to(centers[cluster : cluster + 1]))
        inside = labels == cluster
        nearest = int(many[np.argmin(_spans(centers, many * len(centers) + cluster))])
        if nearest not in lengths:
            lengths[nearest] = np.sqrt(rows.distances_to(centers[nearest : nearest + 1]))
        around = lengths[nearest]
        distance = around[inside].min()
        of_group = (groups[labels] == groups[nearest]) | (
            few[labels] & ~inside & (from_it < distance)
        )
        reach = around[of_group & (around < distance)].max(initial=0.0)
        own = from_it[inside].max()
        far[cluster] = from_it[~inside].min() - own > _FAR * max(reach, own)
    return far


def _nearest_of(
    clusters: IntArray, first: IntArray, second: IntArray, seconds: DenseRows
) -> list[int]:
    """The pair of each of some clusters with its nearest one, by the second choice of its draws.

    A cluster of very few draws is joined with that one only, so that it does not connect clusters
    that are apart. For a cluster without draws, the draws of others decide.
    """
    found = []
    for cluster in clusters:
        own = np.where(first == cluster, seconds[:, 0], 0.0)
        own += np.where(second == cluster, seconds[:, 1], 0.0)
        if not own.any():
            own = np.where((first == cluster) | (second == cluster), seconds.sum(axis=1), 0.0)
        if own.any():
            found.append(int(np.argmax(own)))
    return found


def _valleys(profiles: _Profiles) -> tuple[FloatArray, FloatArray]:
    """The clearest valley of every pair: its density as a part of that on the sides, and p.

    The sides are judged one by one, and the one that is less clear counts.
    """
    sums = [
        np.cumsum(np.pad(each, ((0, 0), (1, 0))), axis=1)
        for each in (profiles.weights, profiles.squares)
    ]
    ratios, p_values = np.full(len(profiles.keys), np.inf), np.ones(len(profiles.keys))
    for low in _VALLEYS:
        high = low + _VALLEY
        left = [_lower(sums, (low, high), (beyond, low)) for beyond in _BEYOND]
        right = [_lower(sums, (low, high), (high, _CELLS - beyond)) for beyond in _BEYOND]
        (ratio, p), (other_ratio, other_p) = _clear(left), _clear(right)
        ratio, p = np.maximum(ratio, other_ratio), np.maximum(p, other_p)
        clearer = (p < p_values) & (ratio < 1.0)
        ratios, p_values = np.where(clearer, ratio, ratios), np.where(clearer, p, p_values)
    return ratios, p_values


def _clear(found: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Judge a side by both of its widths.

    The wide one has more draws, and tells more from chance. But it must be deep beside the narrow
    one, too: a ring that was cut in two is densest beyond its centers.
    """
    (ratio, p), (other_ratio, other_p) = found
    return np.maximum(ratio, other_ratio), np.minimum(p, other_p)


def _lower(
    sums: list[FloatArray], valley: tuple[int, int], side: tuple[int, int]
) -> tuple[FloatArray, FloatArray]:
    """How much lower the density is in a valley than on a side, and how likely by chance.

    With one density on both, the draws of the valley are binomial; weighted draws are taken for
    the number of equal ones whose sum has the same relative variance.
    """
    from scipy.special import betainc

    (inside, spread), (peak, peak_spread) = (
        [each[:, high] - each[:, low] for each in sums] for low, high in (valley, side)
    )
    widths = valley[1] - valley[0], side[1] - side[0]
    total = inside + peak
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (inside / widths[0]) / (peak / widths[1])
        n = total**2 / (spread + peak_spread)
        hits = n * (inside / total)
        # P(at most `hits` of n), which the incomplete beta function continues to real numbers.
        p = betainc(n - hits, hits + 1.0, widths[1] / sum(widths))
    known = (peak > 0.0) & np.isfinite(p)
    return np.where(known, ratio, np.inf), np.where(known, p, 1.0)
