"""Where the centers start: weighted k-means++, greedy or plain, or a random choice of points.

A round of greedy k-means++ draws a few candidates in proportion to w·d(x, centers) and
keeps the one that lowers the cost most (Arthur and Vassilvitskii 2007; 2 + ⌊ln k⌋
candidates, as scikit-learn). All candidates of a round take one matrix product.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.types import FloatArray, IntArray
    from lwcs.solvers.points import Points

# float32 distances err by about 1e-6 of the spread, so they serve until the cost has fallen to
# this part of it; the law of the draws is then off by a thousandth at most.
FLOAT32_DOWN_TO = 1e-3


def greedy_candidates(k: int) -> int:
    """2 + ⌊ln k⌋."""
    return 2 + int(log(k))


class Distances(Protocol):
    """d(x, candidate) of all points to some of them."""

    def __call__(self, candidates: IntArray) -> npt.NDArray[Any]:
        """One row a candidate; it may be overwritten by the next call."""


def kmeans_plusplus(
    points: Points, k: int, rng: np.random.Generator, candidates: int | None = None
) -> IntArray:
    """Choose k points by D² sampling; some twice if there are fewer than k distinct ones.

    Parameters
    ----------
    points : Points
        Those without weight are never chosen.
    k : int
        How many.
    rng : Generator
        Draws k × candidates uniform numbers.
    candidates : int, optional
        Of a round; 1 is plain k-means++, 2 + ⌊ln k⌋ the default.
    """
    # Below 1 by more than rounding: a draw can then never fall behind the last point.
    uniforms = rng.random((k, greedy_candidates(k) if candidates is None else candidates))
    uniforms *= 1.0 - 1e-15
    chosen = _draw(np.cumsum(points.weights), uniforms[0, :1])
    if is_sparse(points.rows):
        chosen = _rounds(points, _SparseDistances(points), uniforms, chosen, 0.0)
    elif not points.measure.squared:
        chosen = _rounds(points, _DenseDistances(points, np.float64), uniforms, chosen, 0.0)
    else:
        single = _DenseDistances(points, np.float32)
        chosen = _rounds(points, single, uniforms, chosen, FLOAT32_DOWN_TO)
        if len(chosen) < k:
            chosen = _rounds(points, _DenseDistances(points, np.float64), uniforms, chosen, 0.0)
    # No point is left that is not a center already: as scikit-learn, some are centers twice.
    return np.concatenate([chosen, np.repeat(chosen[:1], k - len(chosen))])


def _draw(sums: FloatArray, uniforms: FloatArray) -> IntArray:
    """Points in proportion to the steps of `sums`; one without a step is never drawn."""
    return np.searchsorted(sums, uniforms * sums[-1], side="right")


def _rounds(
    points: Points, distances: Distances, uniforms: FloatArray, chosen: IntArray, stop_at: float
) -> IntArray:
    """Go on from the points already chosen, until k are or the cost is `stop_at` of the spread."""
    k, weights = len(uniforms), points.weights / points.weights.sum()
    closest = np.maximum(distances(chosen).min(axis=0), 0.0)
    closest[chosen] = 0.0
    picked = chosen.tolist()
    light = weights.astype(closest.dtype)
    mass, sums = np.empty(len(points)), np.empty(len(points))
    while len(picked) < k:
        np.multiply(weights, closest, out=mass)
        np.cumsum(mass, out=sums)
        if not sums[-1] > stop_at:
            break
        drawn = _draw(sums, uniforms[len(picked)])
        reached = distances(drawn)
        np.minimum(reached, closest, out=reached)
        best = int(np.argmin(reached @ light))
        np.maximum(reached[best], 0.0, out=closest)
        closest[drawn[best]] = 0.0
        picked.append(int(drawn[best]))
    return np.array(picked, dtype=np.int64)


class _DenseDistances:
    """Height − (x·slope + offset) as one product: heights and offsets ride along as two columns.

    Of squared distances that is ‖x‖² − 2x·c + ‖c‖².
    """

    def __init__(self, points: Points, dtype: type) -> None:
        rows = points.rows.astype(dtype, copy=False)
        heights = points.heights(rows)
        slopes, offsets = points.tangents(rows)
        ones: npt.NDArray[Any] = np.ones(len(rows), dtype=dtype)
        # One column after the other in memory: this way round the product is twice as fast.
        self._all = np.ascontiguousarray(np.vstack([rows.T, heights, ones]))
        self._each = np.column_stack([-slopes, ones, -offsets])
        self._out: npt.NDArray[Any] = np.empty((0, len(rows)), dtype=dtype)

    def __call__(self, candidates: IntArray) -> npt.NDArray[Any]:
        """Rounding may leave some a little below zero."""
        if len(self._out) != len(candidates):
            self._out = np.empty((len(candidates), self._all.shape[1]), dtype=self._all.dtype)
        return np.matmul(self._each[candidates], self._all, out=self._out)


class _SparseDistances:
    def __init__(self, points: Points) -> None:
        self._points, self._heights = points, points.heights(points.rows)

    def __call__(self, candidates: IntArray) -> npt.NDArray[Any]:
        """At the cost of the non-zeros, once a candidate."""
        slopes, offsets = self._points.tangents(self._points.dense(candidates))
        scores = (self._points.rows @ slopes.T).T
        return self._heights - scores - offsets[:, None]
