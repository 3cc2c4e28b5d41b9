"""Initial centers: weighted k-means++ (greedy or plain), random points, or given centers.

A round of greedy k-means++ draws a few candidates in proportion to w·d(x, centers) and keeps the
one that lowers the cost most (Arthur and Vassilvitskii 2007; 2 + ⌊ln k⌋ candidates, as in
scikit-learn). All candidates of a round take one matrix product, or one loop of the compiled
kernels. Rounds are in float32 until the cost is so small that float32 has too few digits, then in
float64. The triangle inequality was tried and did not pay: in 74 dimensions it spares less than
half of the points, and gathering the others costs more than the product.

A round is so short that handing it to threads from Python takes as long as computing it. So the
threads of a seeding meet in compiled code: each makes one call for many rounds, claims lots of
tiles, and whichever finishes the last lot of a round chooses the center. No thread waits for one
that has not been scheduled yet.
"""

from __future__ import annotations

from math import log
from time import sleep
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
    from lwcs.runtime.parallel import Map
    from lwcs.solvers.points import Points

    Init = str | FloatArray | Callable[..., Any]

INITS = ("k-means++", "local-search", "plain-k-means++", "random")
# Below this, products of float32 weights and distances may underflow.
_FLOAT32_COST = 1e-25
# Products of a round per thread (some 15 µs), least number of products that a thread claims at a
# time, and most claims that it makes per round.
_MEMBER, _LOT, _LOTS = 2**19, 2**17, 4
# Products after which a thread returns to Python, where it can be interrupted.
_AT_ONCE = 2**28
# Seconds for which a thread sleeps when it has waited for the others in vain.
_REST = 2e-5


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
        Number of threads, for sparse rows and the compiled kernels; the points chosen do not
        depend on it.
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
    with np.errstate(over="ignore", invalid="ignore"), workers(threads) as run:
        single = pairwise(points.rows, np.float32, run)
        down_to = FLOAT32_DOWN_TO if single.fast else 0.0
        chosen = _rounds(points, single, uniforms, chosen, down_to, run, threads)
        if len(chosen) < k and single.fast:
            double = pairwise(points.rows, np.float64, run)
            chosen = _rounds(points, double, uniforms, chosen, 0.0, run, threads)
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
    run: Map,
    threads: int,
) -> IntArray:
    """Choose further points until there are k, or the cost is the part `down_to` of the spread.

    Rounds also end at distances that overflow.
    """
    weights = points.weights / points.weights.sum()
    stop_at = down_to * points.average * distances.unit
    if isinstance(distances, Tiled):
        return _CompiledRounds(distances, weights, uniforms, chosen, stop_at, threads).run(run)
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


class _CompiledRounds:
    """Rounds by the compiled kernels, in which several threads take part."""

    def __init__(
        self,
        distances: Tiled,
        weights: FloatArray,
        uniforms: FloatArray,
        chosen: IntArray,
        stop_at: float,
        threads: int,
    ) -> None:
        kernel, tiles, (k, many) = distances.kernel, distances.tiles, uniforms.shape
        shape, dtype = tiles.heights.shape, tiles.heights.dtype
        products = many * tiles.columns.size
        self._kernel, self._tiles, self._stopped = kernel, tiles, False
        self._members = max(1, min(threads, products // _MEMBER))
        # Few lots per thread, since claims of different threads delay each other.
        longest = -(-distances.n_tiles // (_LOTS * self._members))
        self._lot = max(1, _LOT * distances.n_tiles // products, longest)
        self._at_once = max(1, _AT_ONCE // products)
        lots = -(-distances.n_tiles // self._lot)
        light = np.zeros(shape, dtype)
        light.reshape(-1)[: len(weights)] = weights
        reached = np.empty((shape[0], many, shape[1]), dtype)
        reached[:, 0] = distances.closest(chosen)
        picked = np.empty(k, dtype=np.int64)
        picked[: len(chosen)] = chosen
        counts = np.zeros(kernel.COUNTS, dtype=np.int64)
        # The first round has one candidate, which is chosen already.
        counts[kernel.CHOSEN] = len(chosen) - 1
        self._rounds = kernel.Rounds(
            uniforms,
            light,
            max(stop_at, _FLOAT32_COST) if distances.fast else stop_at,
            distances.centers(np.repeat(chosen[-1:], many)),
            np.empty(shape, dtype),
            reached,
            np.empty((shape[0], many)),
            picked,
            np.zeros(lots, dtype=np.int64),
            counts,
        )

    def run(self, run: Map) -> IntArray:
        """Run all rounds; return the chosen points."""
        try:
            for _ in run(self._take_part, range(self._members)):
                pass
        finally:
            self._stopped = True
        return np.array(self._rounds.chosen[: self._rounds.counts[self._kernel.CHOSEN]])

    def _take_part(self, member: int) -> None:
        home = member * len(self._rounds.claimed) // self._members
        while not self._kernel.take_part(self._tiles, self._rounds, home, self._lot, self._at_once):
            if self._stopped:
                return
            if self._members > 1:
                sleep(_REST)


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
