"""Initial centers: weighted k-means++ (greedy or plain), random points, or given centers.

A round of greedy k-means++ draws a few candidates in proportion to w·d(x, centers) and keeps the
one that lowers the cost most (Arthur and Vassilvitskii 2007; 2 + ⌊ln k⌋ candidates, as in
scikit-learn). All candidates of a round take one matrix product, or one loop of the native
kernels. Rounds are in float32 until the cost is so small that float32 has too few digits, then in
float64. The triangle inequality was tried and did not pay: in 74 dimensions it spares less than
half of the points, and gathering the others costs more than the product.

A round is so short that handing it to threads from Python takes as long as computing it. So all
rounds are one call of the native kernels, whose threads share the points of each round.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_centers, check_choice
from lwcs.geometry.pairwise import Tiled, pairwise
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, workers
from lwcs.solvers.local_search import local_search
from lwcs.solvers.points import FLOAT32_DOWN_TO, WORTH_THREADS, draw_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.geometry import Centers
    from lwcs.geometry.pairwise import Pairwise
    from lwcs.solvers.points import Points

    Init = str | FloatArray | Callable[..., Any]

INITS = ("k-means++", "local-search", "plain-k-means++", "random")
# Below this, products of float32 weights and distances may underflow.
_FLOAT32_COST = 1e-25
# Products after which the rounds return to Python, where they can be interrupted.
_AT_ONCE = 2**31


def greedy_candidates(k: int) -> int:
    """Number of candidates per round for k centers: 2 + ⌊ln k⌋."""
    return 2 + int(log(k))


def kmeans_plusplus(
    points: Points,
    k: int,
    rng: np.random.Generator,
    candidates: int | None = None,
    n_jobs: int | None = 1,
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
    n_jobs : int, optional
        Number of threads, for sparse rows and the native kernels; the points chosen do not depend
        on it.
    """
    # Below 1 by more than rounding, so that no draw falls behind the last point.
    uniforms = rng.random((k, greedy_candidates(k) if candidates is None else candidates))
    uniforms *= 1.0 - 1e-15
    chosen = draw_points(np.cumsum(points.weights), uniforms[0, :1])
    if points.device_weights is not None:
        from lwcs.solvers.device_kmeans import choose_on_device

        return _filled(choose_on_device(points, uniforms, chosen, FLOAT32_DOWN_TO), k)
    products = uniforms.size * points.rows.work_per_center
    threads = as_threads(n_jobs) if products >= WORTH_THREADS else 1
    # Rounds in float32 end at distances that overflow.
    with (
        np.errstate(over="ignore", invalid="ignore"),
        workers(threads) as run,
        points.rows.geometry.kernels.team(threads),
    ):
        single = pairwise(points.rows, np.float32, run)
        down_to = FLOAT32_DOWN_TO if single.fast else 0.0
        chosen = _rounds(points, single, uniforms, chosen, down_to)
        if len(chosen) < k and single.fast:
            double = pairwise(points.rows, np.float64, run)
            chosen = _rounds(points, double, uniforms, chosen, 0.0)
    return _filled(chosen, k)


def _filled(chosen: IntArray, k: int) -> IntArray:
    """Repeat the first point until there are k, where every point is a center already."""
    return np.concatenate([chosen, np.repeat(chosen[:1], k - len(chosen))])


def _rounds(
    points: Points,
    distances: Pairwise,
    uniforms: FloatArray,
    chosen: IntArray,
    down_to: float,
) -> IntArray:
    """Choose further points until there are k, or the cost is the part `down_to` of the spread.

    Rounds also end at distances that overflow.
    """
    weights = points.weights / points.weights.sum()
    stop_at = down_to * points.average * distances.unit
    if isinstance(distances, Tiled):
        least = max(stop_at, _FLOAT32_COST) if distances.fast else stop_at
        found: IntArray = distances.seeding.choose(weights, uniforms, chosen, least, _AT_ONCE)
        return found
    k = len(uniforms)
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


def start(
    points: Points, k: int, init: Init, rng: np.random.Generator, n_jobs: int | None = 1,
    journal: Journal | None = None,
) -> Centers:  # fmt: skip
    """Initial centers by `init`: a method, an array or a callable."""
    journal = journal or Journal()
    with journal.stage("seeding"):
        seeds = _seeds(points, k, init, rng, n_jobs)
    if isinstance(init, str) and init == "local-search":
        return local_search(points, seeds, rng, n_jobs=n_jobs, journal=journal)
    return seeds


def _seeds(
    points: Points, k: int, init: Init, rng: np.random.Generator, n_jobs: int | None
) -> Centers:
    rows = points.rows
    if isinstance(init, str):
        check_choice(init, "init", INITS)
        if init == "random":
            return rows.as_centers(_random_rows(points, k, rng))
        candidates = 1 if init == "plain-k-means++" else None
        return rows.as_centers(kmeans_plusplus(points, k, rng, candidates, n_jobs))
    given = init
    if callable(init):
        state = np.random.RandomState(rng.integers(2**32))
        given = init(rows.geometry.rows_to_data(rows), k, random_state=state)
    elif not hasattr(init, "__len__"):
        raise TypeError(
            f"init={init!r} is not a valid init; pass one of {', '.join(map(repr, INITS))}, an "
            "array of centers or a callable"
        )
    centers = check_centers(given, rows.n_features)
    if len(centers) != k:
        raise ValueError(
            f"init has {len(centers)} centers but n_clusters={k}; pass an array of shape "
            f"({k}, {rows.n_features})"
        )
    return rows.geometry.initial_centers(centers)


def _random_rows(points: Points, k: int, rng: np.random.Generator) -> IntArray:
    """k different points in proportion to their weights, or all points if there are fewer."""
    shares = points.weights / points.weights.sum()
    n_points = min(k, int(np.count_nonzero(shares)))
    return _filled(rng.choice(len(points), n_points, replace=False, p=shares), k)
