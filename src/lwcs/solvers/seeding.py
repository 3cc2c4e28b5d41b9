"""Initial centers: weighted k-means++, greedy or plain.

A round of greedy k-means++ draws a few candidates in proportion to w·d(x, centers) and
keeps the one that lowers the cost most (Arthur and Vassilvitskii 2007; 2 + ⌊ln k⌋
candidates, as in scikit-learn). All candidates of a round take one matrix product.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from lwcs.geometry.pairwise import pairwise

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, IntArray
    from lwcs.geometry.pairwise import Pairwise
    from lwcs.solvers.points import Points

# float32 distances err by about 1e-6 of the spread, so they are used until the cost has fallen to
# this part of it; the sampling probabilities are then off by a thousandth at most.
FLOAT32_DOWN_TO = 1e-3


def greedy_candidates(k: int) -> int:
    """2 + ⌊ln k⌋."""
    return 2 + int(log(k))


def kmeans_plusplus(
    points: Points, k: int, rng: np.random.Generator, candidates: int | None = None
) -> IntArray:
    """Choose k points by D² sampling; some twice if there are fewer than k distinct ones.

    Parameters
    ----------
    points : Points
        Points without weight are never chosen.
    k : int
        Number of points to choose.
    rng : Generator
        Draws k × candidates uniform numbers.
    candidates : int, optional
        Candidates per round: 1 is plain k-means++, 2 + ⌊ln k⌋ the default.
    """
    # Below 1 by more than rounding: a draw can then never fall behind the last point.
    uniforms = rng.random((k, greedy_candidates(k) if candidates is None else candidates))
    uniforms *= 1.0 - 1e-15
    chosen = draw_points(np.cumsum(points.weights), uniforms[0, :1])
    # Distances that overflow end the rounds in float32.
    with np.errstate(over="ignore", invalid="ignore"):
        single = pairwise(points.rows, np.float32)
        chosen = _rounds(points, single, uniforms, chosen, FLOAT32_DOWN_TO if single.fast else 0.0)
        if len(chosen) < k and single.fast:
            chosen = _rounds(points, pairwise(points.rows, np.float64), uniforms, chosen, 0.0)
    # Every point is a center already: as in scikit-learn, some are centers twice.
    return np.concatenate([chosen, np.repeat(chosen[:1], k - len(chosen))])


def draw_points(sums: FloatArray, uniforms: FloatArray) -> IntArray:
    """Points in proportion to the steps of `sums`; a point without a step is never drawn."""
    # A uniform number times a sum that is not a normal number can be rounded up to the sum.
    below = np.minimum(uniforms * sums[-1], np.nextafter(sums[-1], 0.0))
    return np.searchsorted(sums, below, side="right")


def _rounds(
    points: Points, distances: Pairwise, uniforms: FloatArray, chosen: IntArray, down_to: float
) -> IntArray:
    """Go on from the points already chosen, until there are k or the cost is a part of the spread.

    `down_to` is that part. Distances that overflow end the rounds, too.
    """
    k, weights = len(uniforms), points.weights / points.weights.sum()
    stop_at = down_to * points.average * distances.unit
    closest = np.maximum(distances(chosen).min(axis=0), 0.0)
    closest[chosen] = 0.0
    picked = chosen.tolist()
    light = weights.astype(closest.dtype)
    mass, sums = np.empty(len(points)), np.empty(len(points))
    while len(picked) < k:
        np.multiply(weights, closest, out=mass)
        np.cumsum(mass, out=sums)
        if not stop_at < sums[-1] < np.inf:
            break
        drawn = draw_points(sums, uniforms[len(picked)])
        reached = distances(drawn)
        np.minimum(reached, closest, out=reached)
        best = int(np.argmin(reached @ light))
        np.maximum(reached[best], 0.0, out=closest)
        closest[drawn[best]] = 0.0
        picked.append(int(drawn[best]))
    return np.array(picked, dtype=np.int64)
