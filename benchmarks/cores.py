"""Scaling: the same work on 1, 2, 4, … threads, against limits and peers.

Peers get as many threads in the same run: faiss by `omp_set_num_threads`, scikit-learn by
threadpoolctl, the bare read and pyarrow by pools of that size. LWCS_BENCH_SCALE=0.1 takes a tenth
of the rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import faiss
import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

import lwcs
from benchmarks.files import KINDS, bare_scan, rows_of, written
from benchmarks.kmeans import real_or_made
from benchmarks.measure import Result, interleaved
from lwcs import CoresetKMeans
from lwcs.geometry import Geometry
from lwcs.passes import LabelTask, euclidean_cost
from lwcs.runtime.parallel import usable_cores
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points

SCALE = float(os.environ.get("LWCS_BENCH_SCALE", "1"))
BUILDS = ((4_000_000, 74, 1.6, 2.5), (40_000_000, 16, 2.5, 3.5))
LABELS = (
    (4_000_000, 8, 100, 1.0, 1.0),
    (2_000_000, 32, 100, 1.0, 1.0),
    (1_000_000, 64, 256, 1.0, 3.0),
    (400_000, 128, 1_024, 1.0, 3.0),
)


def threads() -> list[int]:
    """1, 2, 4, … up to the number of cores."""
    cores = usable_cores()
    return sorted({2**i for i in range(cores.bit_length()) if 2**i <= cores} | {cores})


def benchmarks() -> Iterator[Result]:
    """Every line of this table."""
    for rows, columns, *targets in BUILDS:
        yield from _build(_normal(rows, columns), *targets)
    yield from _solve(10_000, 100)
    yield from _solve(100_000, 1_000)
    for rows, columns, k, *least in LABELS:
        yield from _labels(_normal(rows, columns), k, *least)
    yield from _fit(_normal(2_000_000, 32))
    yield from _large_fit()
    yield from _kdd()
    yield from _parquet()


def _normal(rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((int(SCALE * rows), columns), dtype=np.float32)


def _line(
    what: str,
    shape: tuple[int, int],
    count: int,
    times: dict[str, float],
    peer: str,
    goals: dict[int, float],
    *,
    faster: bool,
) -> Result:
    """A line with a target where one is set for this number of threads, on as many cores."""
    ours, theirs = times["ours"], times["theirs"]
    ratio = theirs / ours if faster else ours / theirs
    goal = goals.get(count) if count == usable_cores() else None
    target = "" if goal is None else f"≥ {goal:g} × faster" if faster else f"≤ {goal:g} ×"
    reached = goal is None or (ratio >= goal if faster else ratio <= goal)
    what = f"{what}, {count} thread{'s' * (count > 1)}"
    return Result(what, *shape, ours, peer, theirs, ratio, target, reached)


def _bare_read(X: np.ndarray, count: int) -> None:
    """The limit: `np.max` on as many threads, in one stretch each."""
    step = -(-len(X) // count)
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda a: X[a : a + step].max(), range(0, len(X), step)))


def _build(X: np.ndarray, on_two: float, on_sixteen: float) -> Iterator[Result]:
    for count in threads():
        times = interleaved(
            5,
            ours=partial(lwcs.build, X, 10_000, random_state=0, n_jobs=count),
            theirs=partial(_bare_read, X, count),
        )
        goals = {2: on_two, 16: on_sixteen}
        yield _line("build", X.shape, count, times, "a bare read", goals, faster=False)


@cache
def _clusters() -> np.ndarray:
    return rows_of(0)


def _solve(size: int, k: int) -> Iterator[Result]:
    """Seeding and Lloyd on weighted points: a coreset of heavy-tailed clusters."""
    coreset = lwcs.build(_clusters(), int(SCALE * size), random_state=0)
    rows, weights = coreset.points, coreset.weights

    def ours(count: int, seed: int = 0) -> float:
        points = Points.of(rows, weights, Geometry(kernel="native"))
        return solve(points, k, seed=seed, n_jobs=count).cost

    def theirs(seed: int = 0) -> float:
        return KMeans(k, n_init=1, random_state=seed).fit(rows, sample_weight=weights).inertia_

    seeds = range(10 if k < 500 else 2)
    excess = np.mean([ours(usable_cores(), s) for s in seeds])
    excess = excess / np.mean([theirs(s) for s in seeds]) - 1
    what = f"seeding + Lloyd, k = {k:,}, cost {excess:+.2%}"
    counts, rounds = (threads(), 5) if k < 500 else ([1, usable_cores()], 2)
    alone = None
    for count in counts:
        with threadpool_limits(count):
            times = interleaved(rounds, warm=False, ours=partial(ours, count), theirs=theirs)
        yield _line(what, rows.shape, count, times, "KMeans", {2: 3.0, 16: 3.0}, faster=True)
        alone = alone or times["ours"]
    if k >= 500:
        times["theirs"] = alone
        yield _line(what, rows.shape, count, times, "1 thread", {16: 6.0}, faster=True)


def _labels(X: np.ndarray, k: int, on_two: float, on_sixteen: float) -> Iterator[Result]:
    centers = X[:k] + np.float32(0.1)
    own, source = Geometry(kernel="native").centers(centers), lwcs.scan(X)
    for count in threads():
        faiss.omp_set_num_threads(count)
        times = interleaved(
            5,
            ours=lambda count=count: source.map_rows(LabelTask(own), n_jobs=count),
            theirs=lambda: faiss.knn(X, centers, 1),
        )
        goals = {2: on_two, 16: on_sixteen}
        yield _line(f"labels, k = {k:,}", X.shape, count, times, "faiss.knn", goals, faster=True)
    with threadpool_limits(1):
        times = interleaved(
            3,
            ours=lambda: source.map_rows(LabelTask(own), n_jobs=1),
            theirs=lambda: _products(X, centers),
        )
    yield _line(f"labels, k = {k:,}", X.shape, 1, times, "the products alone", {}, faster=False)


def _products(X: np.ndarray, centers: np.ndarray) -> None:
    """The limit: all scores, computed a few MB at a time and discarded."""
    step = 2**19 // len(centers)
    out = np.empty((step, len(centers)), dtype=X.dtype)
    for start in range(0, len(X) - step, step):
        np.matmul(X[start : start + step], centers.T, out=out)


def _fit(X: np.ndarray) -> Iterator[Result]:
    source = lwcs.scan(X)

    def ours(count: int) -> np.ndarray:
        model = CoresetKMeans(100, compute_labels=False, random_state=0, n_jobs=count)
        return model.fit(X).cluster_centers_

    def theirs() -> np.ndarray:
        model = faiss.Kmeans(X.shape[1], 100, seed=1, verbose=False)
        model.train(X)
        return model.centroids

    excess = euclidean_cost(source, ours(usable_cores())) / euclidean_cost(source, theirs()) - 1
    for count in threads():
        faiss.omp_set_num_threads(count)
        times = interleaved(5, ours=partial(ours, count), theirs=theirs)
        what = f"default fit, k = 100, no labels, cost {excess:+.2%}"
        yield _line(what, X.shape, count, times, "faiss.Kmeans", {2: 1.0, 16: 1.0}, faster=True)


def _large_fit() -> Iterator[Result]:
    """The quantiser of a vector index: 1,024 centers."""
    X = _normal(20_000_000, 64)
    count = usable_cores()
    for size in (20_480, 102_400):
        model = CoresetKMeans(
            1_024, coreset_size=size, compute_labels=False, random_state=0, n_jobs=count
        )
        times = interleaved(
            2, warm=False, ours=partial(model.fit, X), theirs=partial(_bare_read, X, count)
        )
        what = f"fit, k = 1,024, {size:,} draws"
        yield _line(what, X.shape, count, times, "a bare read", {}, faster=False)


def _kdd() -> Iterator[Result]:
    name, X = real_or_made()
    model = CoresetKMeans(100, coreset_size=1_000, compute_labels=False, random_state=0)
    peer = KMeans(100, n_init=1, random_state=0)
    times = interleaved(2, theirs=partial(peer.fit, X)) | interleaved(
        50, ours=partial(model.fit, X)
    )
    what = f"fit {name}, m = 1,000, no labels"
    yield _line(what, X.shape, usable_cores(), times, "full KMeans", {2: 828.0}, faster=True)


def _parquet() -> Iterator[Result]:
    import pyarrow as pa

    folder = Path(tempfile.mkdtemp(prefix="lwcs-bench-"))
    before = pa.cpu_count()
    try:
        for kind in KINDS[:2]:
            path = written(folder / str(kind.group), 3, kind)
            for count in threads():
                pa.set_cpu_count(count)
                times = interleaved(
                    5,
                    ours=partial(lwcs.build, path, 10_000, random_state=0, n_jobs=count),
                    theirs=lambda p=path: (bare_scan(p), bare_scan(p)),
                )
                what = f"two-pass build of Parquet, row groups of {kind.group:,}"
                shape, goals = (3_000_000, 32), {2: kind.most}
                yield _line(what, shape, count, times, "two bare scans", goals, faster=False)
    finally:
        pa.set_cpu_count(before)
        shutil.rmtree(folder)
