"""The methods that are compared: k-means on all rows, on coresets, and of other libraries.

All have the same settings: k, one start by greedy k-means++, at most `MAX_ITER` iterations, and
`TOL`. Other libraries keep the defaults that make them fast. Times include building a coreset
and solving it; evaluation is not timed. "auto" is a CoresetKMeans with nothing but k given: its
time includes the labels of all rows, by which it checks its solution.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.rows import container
from lwcs.coreset.building import build
from lwcs.estimators.coreset_kmeans import CoresetKMeans
from lwcs.geometry import Geometry
from lwcs.passes import polish
from lwcs.solvers.lloyd import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lwcs.arrays.types import FloatArray
    from lwcs.geometry import Centers
    from lwcs.sources import LocalSource

MAX_ITER, TOL = 300, 1e-4

FULL = ("full", "full-sklearn")
PEERS = ("minibatch", "faiss")
CORESETS = ("uniform", "lightweight", "sensitivity", "refined")
AUTO = "auto"
METHODS = (*FULL, *CORESETS, AUTO, *PEERS)

TITLES = {
    "full": "Full (lwcs)",
    "full-sklearn": "Full (scikit-learn)",
    "uniform": "Uniform",
    "lightweight": "Lightweight",
    "sensitivity": "Sensitivity (CS)",
    "refined": "Refined",
    "auto": "CoresetKMeans(k)",
    "minibatch": "MiniBatchKMeans",
    "faiss": "faiss",
}


@dataclass(frozen=True, slots=True)
class TimedSolution:
    """Centers, and the time that it took to find them."""

    polish: int
    centers: FloatArray
    build_seconds: float
    solve_seconds: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows, the number of clusters to find in them, and a seed."""

    source: LocalSource
    k: int
    seed: int
    n_jobs: int | None


def title(method: str, steps: int = 0) -> str:
    """Return the name of a method in tables and figures."""
    if not steps:
        return TITLES[method]
    return f"{TITLES[method]} + {steps} step{'s' * (steps > 1)}"


def sized(method: str) -> bool:
    """Whether a method has a coreset size m."""
    return method in CORESETS


def missing(method: str, source: LocalSource) -> str | None:
    """Return the reason why a method cannot run on this data, or None if it can."""
    if method == "faiss":
        if find_spec("faiss") is None:
            return "faiss is not installed (pip install faiss-cpu)"
        if container(source.read(0, 1)) == "sparse":
            return "faiss does not support sparse data"
    return None


def solutions(
    method: str, problem: Problem, size: int, polishes: tuple[int, ...]
) -> list[TimedSolution]:
    """Run one method; a coreset method gives one solution per number of polish steps."""
    with warnings.catch_warnings():
        # Convergence is not part of the comparison.
        warnings.simplefilter("ignore")
        if sized(method):
            return list(_on_coreset(method, problem, size, polishes))
        centers, seconds = _timed(lambda: _ALL_ROWS[method](problem))
        return [TimedSolution(0, np.asarray(centers, dtype=np.float64), 0.0, seconds)]


def _on_coreset(
    method: str, problem: Problem, size: int, polishes: tuple[int, ...]
) -> Iterator[TimedSolution]:
    source = problem.source
    coreset, build_seconds = _timed(
        lambda: build(
            source,
            size,
            method=method,
            n_clusters=problem.k,
            random_state=problem.seed,
            n_jobs=problem.n_jobs,
        )
    )
    centers, seconds = _timed(lambda: _solved(problem, coreset.host_points, coreset.host_weights))
    done = 0
    for steps in sorted(polishes):
        for _ in range(steps - done):
            start = time.perf_counter()
            centers = polish(source, centers, problem.n_jobs).centers
            seconds += time.perf_counter() - start
        done = steps
        yield TimedSolution(steps, centers.points, build_seconds, seconds)


def _solved(problem: Problem, points: Any, weights: FloatArray) -> Centers:
    return cluster(
        points,
        weights,
        Geometry(kernel=kernels.choose()),
        problem.k,
        max_iter=MAX_ITER,
        tol=TOL,
        seed=problem.seed,
        n_jobs=problem.n_jobs,
    ).centers


def _full(problem: Problem) -> Any:
    source = problem.source
    weights = kernels.unit_weights(source.weights, source.n_rows)
    return _solved(problem, source.read(0, source.n_rows), weights).points


def _full_sklearn(problem: Problem) -> Any:
    from sklearn.cluster import KMeans

    model = KMeans(problem.k, n_init=1, max_iter=MAX_ITER, tol=TOL, random_state=problem.seed)
    return _fitted(model, problem)


def _minibatch(problem: Problem) -> Any:
    from sklearn.cluster import MiniBatchKMeans

    return _fitted(MiniBatchKMeans(problem.k, random_state=problem.seed), problem)


def _fitted(model: Any, problem: Problem) -> Any:
    source = problem.source
    return model.fit(source.read(0, source.n_rows), sample_weight=source.weights).cluster_centers_


def _auto(problem: Problem) -> Any:
    model = CoresetKMeans(problem.k, random_state=problem.seed, n_jobs=problem.n_jobs)
    return model.fit(problem.source).cluster_centers_


def _faiss(problem: Problem) -> Any:
    import faiss

    source = problem.source
    rows = np.ascontiguousarray(source.read(0, source.n_rows), dtype=np.float32)
    model = faiss.Kmeans(source.n_features, problem.k, seed=problem.seed)
    model.train(rows, weights=None if source.weights is None else source.weights.astype("f4"))
    return model.centroids


_ALL_ROWS: dict[str, Callable[[Problem], Any]] = {
    "full": _full,
    "full-sklearn": _full_sklearn,
    "auto": _auto,
    "minibatch": _minibatch,
    "faiss": _faiss,
}


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start
