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

Parts of one cluster are joined again (`join`), the strongest pairs first, and the others are tested
anew with the common center of both. Where a cluster was cut in two, the line from a third one to
either half runs askew, and may show no valley although there is one between the third and the
whole: joined at once, all three would count as one. So two parts are joined only if neither has a
stronger pair. Cells of any centers are convex, so that the test holds for the common ones, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry import Centers
from lwcs.geometry.products import PIECE_VALUES
from lwcs.runtime.parallel import workers
from lwcs.statistics.valleys import (
    HARDLY_TOUCHING,
    LEVEL,
    TOUCHING,
    Entries,
    Histograms,
    JudgedDraws,
    find_valleys,
    spans,
)

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask
    from lwcs.geometry import Measured

# Fewer draws than this are told apart from their nearest cluster only if they are far away...
FEWEST_DRAWS = 13
# ... beyond a gap of more than this many times the farthest draw from the center, on either side.
# Of two values in the tail of t with 3 degrees, one is so far beyond the other in 1 of 1,331 cases.
_FAR = 10.0
# Resamples are not asked about pairs with such p-values, and a valley as deep as that.
_SURELY, _SURELY_NOT, _DEEP = 1e-7, 0.9, 0.75
# A pair has few draws if they would not show a valley that has this part of the density beside it.
_CLEAR_VALLEY = 0.25


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
    unclear: Mask
    """Whether there are too few draws to show a valley that is clear in the data."""
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
        return Neighbours(k, none, none, nothing, nothing, none > 0, none > 0, nothing, np.zeros(k))
    draws = JudgedDraws.of(rows, weights, counts, labels, weights if fitted is None else fitted, k)
    parts = _parts(at, k)

    def profiles(part: IntArray) -> Histograms:
        return Entries.of(draws, part, centers).profiles(draws.weights, draws.squares)

    with workers(n_jobs) as run:
        together = Histograms.together(list(run(profiles, parts)))
    return _judged(together, draws, centers)


def resample(
    found: Neighbours,
    resamples: IntArray,
    rows: Measured,
    weights: FloatArray,
    counts: IntArray,
    centers: Centers,
    labels: Labels,
    *,
    fitted: FloatArray | None = None,
    n_jobs: int | None = 1,
) -> Mask:
    """Whether all clusters are told apart in resamples of the draws, with the same centers.

    Parameters are those of `tell_apart`; `found` is what it has found, and `resamples`, one row
    each, is how often every draw was drawn again. Only pairs that may go either way are tested;
    clusters of few draws stay what they are.
    """
    every = np.ones(len(resamples), dtype=bool)
    few = found.draws < FEWEST_DRAWS
    few = few[found.first] | few[found.second]
    joined = ~found.apart & (few | ((found.p_value > _SURELY_NOT) & (found.contact > TOUCHING)))
    if joined.any() or not len(found.apart):
        return ~every
    sure = found.apart & (few | ((found.p_value < _SURELY) & (found.depth > _DEEP)))
    sure |= found.contact < 0.5 * HARDLY_TOUCHING
    keys = found.keys[~sure]
    if not len(keys):
        return every
    k = len(centers)
    draws = JudgedDraws.of(rows, weights, counts, labels, weights if fitted is None else fitted, k)
    open_ = np.zeros(k, dtype=bool)
    open_[np.concatenate([keys // k, keys % k])] = True
    with workers(n_jobs) as run:
        parts = _parts(np.flatnonzero((weights > 0.0) & open_[labels]), k)
        entries = list(run(lambda part: Entries.of(draws, part, centers).of_pairs(keys), parts))
        return np.array(list(run(lambda each: _apart(entries, draws, each / counts), resamples)))


def _apart(entries: list[Entries], draws: JudgedDraws, times: FloatArray) -> bool:
    """Whether some pairs are told apart if the weights of draws are multiplied by `times`."""
    weights, squares = draws.weights * times, draws.squares * times
    k = len(draws.totals)
    profiles = Histograms.together([each.profiles(weights, squares) for each in entries])
    totals: FloatArray = np.bincount(draws.labels, weights, k).astype(np.float64)
    return bool(find_valleys(profiles, totals).apart.all())


def _parts(at: IntArray, k: int) -> list[IntArray]:
    """Draws in pieces whose distances to k centers fit into memory."""
    return [at[part] for part in pieces(len(at), max(64, PIECE_VALUES // k))]


def _judged(profiles: Histograms, draws: JudgedDraws, centers: Centers) -> Neighbours:
    """Test the pairs of clusters by their profiles."""
    k = len(centers)
    first, second = profiles.keys // k, profiles.keys % k
    seen = find_valleys(profiles, draws.totals)
    apart = seen.apart.copy()
    few = draws.sizes < FEWEST_DRAWS
    apart |= few[first] | few[second]
    depth = np.clip(1.0 - seen.ratio, 0.0, 1.0)
    supposed = find_valleys(profiles, draws.totals, supposed=_CLEAR_VALLEY).p_value
    unclear = supposed >= LEVEL
    found = Neighbours(
        k, first, second, depth, seen.p_value, apart, unclear, seen.contact, draws.sizes
    )
    near = np.flatnonzero(few & ~_far_away(draws, centers, few, found.groups()))
    apart[_nearest_of(near, first, second, profiles.seconds)] = False
    return found


def _far_away(draws: JudgedDraws, centers: Centers, few: Mask, groups: IntArray) -> Mask:
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
        nearest = int(many[np.argmin(spans(centers, many * len(centers) + cluster))])
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


def join(
    found: Neighbours,
    rows: Measured,
    weights: FloatArray,
    counts: IntArray,
    centers: Centers,
    labels: Labels,
    *,
    within: IntArray | None = None,
    fitted: FloatArray | None = None,
    n_jobs: int | None = 1,
) -> IntArray:
    """The number of the group of every cluster, from what `tell_apart` has found for the same.

    Only clusters that it could not tell apart are joined: for a long cluster that was joined, the
    middle between centers may not be where the border is. With `within`, a number for every
    cluster, only those with the same number are.
    """
    groups, linked = np.arange(found.k), found.keys
    within = np.zeros(found.k, dtype=np.int64) if within is None else within
    while True:
        few = found.draws < FEWEST_DRAWS
        again = few[found.first] | few[found.second] | np.isin(found.keys, linked)
        again &= within[found.first] == within[found.second]
        at = np.flatnonzero(~found.apart & again)
        if not len(at):
            return groups
        first, second = found.first[at], found.second[at]
        pairs = _strongest(first, second, found.depth[at], found.contact[at])
        into = np.arange(found.k)
        into[second[pairs]] = first[pairs]
        kept, into = np.unique(into, return_inverse=True)
        within = within[kept]
        sizes = np.maximum(np.bincount(labels, weights, found.k), np.finfo(float).tiny)
        shares = sizes / np.bincount(into, sizes)[into]
        centers = Centers(summed(shares[:, None] * centers.points, into), centers.geometry)
        groups, ends = into[groups], np.sort([into[first], into[second]], axis=0)
        linked = ends[0] * len(centers) + ends[1]
        if len(centers) < 2:
            return groups
        labels = rows.labels(centers)
        found = tell_apart(rows, weights, counts, centers, labels, fitted=fitted, n_jobs=n_jobs)


def _strongest(
    first: IntArray, second: IntArray, depth: FloatArray, contact: FloatArray
) -> IntArray:
    """The pairs of which neither cluster is in a pair with less of a valley, or with more contact.

    There is always one, and no cluster is in two of them.
    """
    order = np.lexsort((-contact, depth))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    best = np.full(int(second.max()) + 1, len(order))
    np.minimum.at(best, first, ranks)
    np.minimum.at(best, second, ranks)
    return np.flatnonzero((best[first] == ranks) & (best[second] == ranks))


def summed(values: FloatArray, groups: IntArray) -> FloatArray:
    """Sums of the rows of every group."""
    found = np.zeros((int(groups.max()) + 1, *values.shape[1:]))
    np.add.at(found, groups, values)
    return found
