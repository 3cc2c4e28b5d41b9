"""Parts of one cluster, joined again: the strongest pairs first, and what they give tested anew.

Where a cluster was cut in two, the line from a third one to either half runs askew, and may show no
valley although there is one between the third and the whole. Joined at once, all three would count
as one. So two parts are joined only if neither has a stronger pair. Their common center takes the
place of both, and the others are tested again. Cells of any centers are convex: the test holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.geometry import Centers
from lwcs.statistics.separation import FEWEST_DRAWS, Neighbours, tell_apart

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Labels
    from lwcs.geometry import Measured


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
