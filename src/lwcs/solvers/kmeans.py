"""k-means on weighted points in memory: seed, run Lloyd, keep the best of some restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from lwcs.arrays.checks import check_centers, check_choice
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, workers
from lwcs.runtime.randomness import Stage, generator
from lwcs.solvers.lloyd import Clustering, lloyd
from lwcs.solvers.local_search import local_search
from lwcs.solvers.points import Points
from lwcs.solvers.seeding import FLOAT32_DOWN_TO, kmeans_plusplus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Centers, Geometry

    Init = str | FloatArray | Callable[..., Any]


class HasCost(Protocol):
    """Whatever was found on weighted points, at some cost."""

    @property
    def cost(self) -> float:
        """Σw·d."""


Found = TypeVar("Found", bound=HasCost)

# Products of one iteration from which on threads share it better than they share restarts.
_LARGE = 2**30
# Costs that differ by less are equal: starts that end in the same optimum do, by rounding, which
# depends on the processor.
_ROUNDING = 1e-6
INITS = ("k-means++", "local-search", "plain-k-means++", "random")


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
    journal: Journal | None = None,
) -> Clustering:
    """Cluster weighted points; the best of `n_init` restarts by cost.

    Small restarts run beside one another, large ones share all threads, one after the other; on a
    device, all run one after the other.
    """
    journal, threads = journal or Journal(), as_threads(n_jobs)
    small = len(points) * k * points.rows.n_features < _LARGE
    beside = n_init > 1 and small and points.device_weights is None
    share = max(1, threads // n_init) if beside else threads

    def restart(attempt: int) -> Clustering:
        centers = start(points, k, init, generator(seed, stage, attempt), share, journal)
        return lloyd(points, centers, max_iter=max_iter, tol=tol, n_jobs=share, journal=journal)

    with workers(threads if beside else 1) as run:
        found = list(run(restart, range(n_init)))
    return found[cheapest([each.cost for each in found])]


def cheapest(costs: Sequence[float]) -> int:
    """Index of the lowest cost; the first of those that differ by rounding."""
    best = 0
    for at, cost in enumerate(costs):
        if cost < costs[best] * (1.0 - _ROUNDING):
            best = at
    return best


def cluster(
    data: Rows, weights: FloatArray, geometry: Geometry, k: int, **options: Any
) -> Clustering:
    """Cluster weighted rows of data by `solve`."""
    return precisely(data, weights, geometry, lambda points: solve(points, k, **options))


def precisely(
    data: Rows, weights: FloatArray, geometry: Geometry, how: Callable[[Points], Found]
) -> Found:
    """Cluster weighted rows of data in a precision that is enough.

    float32 rows are clustered by float32 products, and once more by float64 products if the cost
    comes out so small against their spread that float32 had no digits left. On a device, labels
    are nearest and costs are those of differences in any case.
    """
    points = Points.of(data, weights, geometry)
    found = how(points)
    spread = points.average * points.weights.sum()
    single = points.rows.dtype == np.float32 and points.device_weights is None
    if single and not found.cost >= FLOAT32_DOWN_TO * spread:
        found = how(Points.of(data, weights, geometry.in_float64()))
    return found


def start(
    points: Points, k: int, init: Init, rng: np.random.Generator, n_jobs: int | None = 1,
    journal: Journal | None = None,
) -> Centers:  # fmt: skip
    """The initial centers."""
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
    """k different points in proportion to their weights; if there are fewer, all, some twice."""
    shares = points.weights / points.weights.sum()
    there = min(k, int(np.count_nonzero(shares)))
    rows = rng.choice(len(points), there, replace=False, p=shares)
    return np.concatenate([rows, np.repeat(rows[:1], k - there)])
