"""k-means on weighted points in memory: seed, run Lloyd, keep the best of some restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.checks import check_centers, check_choice
from lwcs.foundation.parallel import single_threaded_blas
from lwcs.foundation.randomness import Stage, generator
from lwcs.solvers.lloyd import Clustering, lloyd
from lwcs.solvers.points import Points
from lwcs.solvers.seeding import FLOAT32_DOWN_TO, kmeans_plusplus

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.divergences import Measure
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.kernels import KernelName

    Init = str | FloatArray | Callable[..., Any]

INITS = ("k-means++", "plain-k-means++", "random")


def solve(
    points: Points,
    k: int,
    *,
    init: Init = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    seed: int = 0,
    stage: Stage = Stage.SEEDING,
    n_jobs: int | None = None,
) -> Clustering:
    """Cluster weighted points; the best of `n_init` restarts by cost, in solver units."""
    best: Clustering | None = None
    for attempt in range(n_init):
        rng = generator(seed, stage, attempt)
        with single_threaded_blas():
            centers = start(points, k, init, rng)
        found = lloyd(points, centers, max_iter=max_iter, tol=tol, n_jobs=n_jobs)
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return best


def cluster(
    data: Rows,
    weights: FloatArray,
    measure: Measure,
    k: int,
    *,
    kernel: KernelName,
    **options: Any,
) -> Clustering:
    """Cluster weighted rows; centers and cost are in the units of the data.

    float32 rows are clustered in float32, and once more in float64 if the cost comes out so
    small against their spread that float32 distances had no digits left.
    """
    points = Points.of(data, weights, measure, kernel)
    found = solve(points, k, **options)
    if points.rows.dtype == np.float32 and found.cost < FLOAT32_DOWN_TO * points.weights.sum():
        points = Points.of(data.astype(np.float64), weights, measure, kernel)
        found = solve(points, k, **options)
    return replace(found, centers=points.to_data(found.centers), cost=found.cost * points.cost_unit)


def start(points: Points, k: int, init: Init, rng: np.random.Generator) -> FloatArray:
    """The centers to start from, in solver units."""
    if isinstance(init, str):
        check_choice(init, "init", INITS)
        if init == "random":
            return points.dense(_random_rows(points, k, rng))
        candidates = 1 if init == "plain-k-means++" else None
        return points.dense(kmeans_plusplus(points, k, rng, candidates))
    given = init
    if callable(init):
        state = np.random.RandomState(rng.integers(2**32))
        given = init(points.to_data_rows(), k, random_state=state)
    if not callable(init) and not hasattr(init, "__len__"):
        raise TypeError(
            f"init={init!r} is no way to start; pass one of {', '.join(map(repr, INITS))}, an "
            "array of centers or a callable"
        )
    centers = check_centers(given, points.rows.shape[1])
    if len(centers) != k:
        raise ValueError(
            f"init has {len(centers)} centers but n_clusters={k}; pass shape ({k}, "
            f"{points.rows.shape[1]})"
        )
    return points.starting(centers)


def _random_rows(points: Points, k: int, rng: np.random.Generator) -> Any:
    """Different points, k of them, in proportion to their weights, or all there are, some twice."""
    shares = points.weights / points.weights.sum()
    there = min(k, int(np.count_nonzero(shares)))
    rows = rng.choice(len(points), there, replace=False, p=shares)
    return np.concatenate([rows, np.repeat(rows[:1], k - there)])
