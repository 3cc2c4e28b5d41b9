"""Seeding, Lloyd, assignment and whole fits, against scikit-learn and faiss.

Weighted points are coresets of KDD where LWCS_DATA has it, else of heavy-tailed rows of
the same shape; the table says which.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus

import lwcs
from benchmarks.measure import Result, interleaved, latencies
from lwcs import CoresetKMeans
from lwcs.geometry import Geometry
from lwcs.passes import euclidean_cost
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.runtime.randomness import Stage, generator
from lwcs.solvers import seeding
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points

SHAPES = ((1_000, 100), (5_000, 100), (20_000, 500))
# Rows, k, repetitions and seeds of generated weighted points.
LARGE = ((10_000, 100, 5, 10), (100_000, 1_000, 2, 1))


def real_or_made() -> tuple[str, np.ndarray]:
    path = Path(os.environ.get("LWCS_DATA", "")) / "kdd_bio_train.parquet"
    if path.is_file():
        import pyarrow.parquet as pq

        table = pq.read_table(path).drop_columns(["block_id", "example_id", "target"])
        return "KDD", np.stack([column.to_numpy() for column in table.columns], axis=1)
    rng = np.random.default_rng(0)
    return "made", rng.standard_t(3, size=(145_751, 74)).astype(np.float32)


def benchmarks() -> Iterator[Result]:
    """Every line of this table."""
    name, X = real_or_made()
    for size, k in SHAPES:
        coreset = lwcs.build(X, size, random_state=0)
        for dtype in (np.float32, np.float64):
            yield from solver(name, coreset.points.astype(dtype), coreset.weights, k)
    rng = np.random.default_rng(0)
    for n, k, rounds, seeds in LARGE:
        rows = rng.standard_t(3, size=(n, 32)).astype(np.float32)
        yield from solver("made", rows, rng.random(n) + 0.1, k, rounds, seeds)
    yield from assignment()
    yield from few_rows()
    yield from fits(name, X)


def solver(
    name: str, rows: np.ndarray, weights: np.ndarray, k: int, rounds: int = 5, n_seeds: int = 20
) -> Iterator[Result]:
    what = f"{name}, k={k}, {rows.dtype.name}"

    def seed() -> object:
        points = Points.of(rows, weights, Geometry(kernel="native"))
        with single_threaded_blas():
            return seeding.kmeans_plusplus(points, k, generator(0, Stage.SEEDING), n_jobs=None)

    times = interleaved(
        rounds,
        ours=seed,
        theirs=lambda: kmeans_plusplus(rows, k, sample_weight=weights, random_state=0),
    )
    yield _faster(f"seeding, {what}", rows.shape, times, "kmeans_plusplus", 4.0)

    def ours(seed: int = 0) -> float:
        points = Points.of(rows, weights, Geometry(kernel="native"))
        return solve(points, k, seed=seed).cost

    def theirs(seed: int = 0) -> float:
        return KMeans(k, n_init=1, random_state=seed).fit(rows, sample_weight=weights).inertia_

    times = interleaved(rounds, ours=ours, theirs=theirs)
    seeds = range(min(n_seeds, 5) if k > 100 else n_seeds)
    excess = np.mean([ours(s) for s in seeds]) / np.mean([theirs(s) for s in seeds]) - 1
    result = _faster(
        f"seeding + Lloyd, {what}, cost {excess:+.2%}", rows.shape, times, "KMeans", 3.0
    )
    yield result if excess < 0.01 else _missed(result)


def assignment() -> Iterator[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500_000, 64), dtype=np.float32)
    model = CoresetKMeans(256, coreset_size=5_000, random_state=0, compute_labels=False).fit(X)
    theirs = model.to_sklearn()
    index = faiss.IndexFlatL2(64)
    index.add(np.ascontiguousarray(model.cluster_centers_))
    times = interleaved(
        7,
        ours=lambda: model.predict(X),
        sklearn=lambda: theirs.predict(X),
        faiss=lambda: index.search(X, 1),
    )
    for peer in ("sklearn", "faiss"):
        ratio = times["ours"] / times[peer]
        what = "assignment to k=256"
        yield Result(
            what,
            *X.shape,
            times["ours"],
            f"{peer} predict",
            times[peer],
            ratio,
            "≤ 1 ×",
            ratio <= 1,
        )


def few_rows() -> Iterator[Result]:
    """What a prediction service does: one call for one row, or for a hundred."""
    X = np.random.default_rng(0).standard_normal((20_000, 16))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for kind, data in (("array", X), ("DataFrame", frame)):
        model = CoresetKMeans(20, random_state=0).fit(data)
        theirs = KMeans(20, n_init=1, random_state=0).fit(data)
        for n in (1, 100):
            rows = data[:n]
            found = latencies(
                3_000,
                ours=partial(model.predict, rows),
                theirs=partial(theirs.predict, rows),
            )
            for percent in (50, 99):
                own, other = (float(np.percentile(found[who], percent)) for who in found)
                yield Result(
                    f"predict, {kind}, k=20, p{percent}", *rows.shape, own,
                    "KMeans.predict", other, own / other, "≤ 1 ×", own <= other,
                )  # fmt: skip


def fits(name: str, X: np.ndarray) -> Iterator[Result]:
    full = [KMeans(100, n_init=1, random_state=s).fit(X) for s in range(3)]
    best_cost = float(np.mean([model.inertia_ for model in full]))

    def error(make: Callable[[int], np.ndarray], seeds: int) -> float:
        source = lwcs.scan(X)
        scored = [euclidean_cost(source, make(s)) for s in range(seeds)]
        return float(np.mean(scored)) / best_cost - 1

    small = partial(CoresetKMeans, 100, coreset_size=1_000, compute_labels=False)
    large = partial(CoresetKMeans, 100, coreset_size=5_000, polish=1)

    def minibatch(seed: int) -> np.ndarray:
        return MiniBatchKMeans(100, n_init=1, random_state=seed).fit(X).cluster_centers_

    def faiss_kmeans(seed: int) -> np.ndarray:
        model = faiss.Kmeans(X.shape[1], 100, seed=seed + 1, verbose=False)
        model.train(X)
        return model.centroids

    times = interleaved(
        3,
        small=lambda: small(random_state=0).fit(X),
        large=lambda: large(random_state=0).fit(X),
        minibatch=lambda: minibatch(0),
        faiss=lambda: faiss_kmeans(0),
        full=lambda: KMeans(100, n_init=1, random_state=0).fit(X),
    )
    small_error = error(lambda s: small(random_state=s).fit(X).cluster_centers_, 20)
    large_error = error(lambda s: large(random_state=s).fit(X).cluster_centers_, 20)
    ratio = times["full"] / times["small"]
    yield Result(
        f"fit {name}, m=1000, no labels, error {small_error:.1%}", *X.shape, times["small"],
        "full KMeans", times["full"], ratio, "≥ 400 × at ≤ 18.5 %",
        ratio >= 400 and small_error <= 0.185,
    )  # fmt: skip
    for peer, make in (("minibatch", minibatch), ("faiss", faiss_kmeans)):
        peer_error = error(make, 3)
        ratio = times[peer] / times["large"]
        yield Result(
            f"fit {name}, m=5000, polish=1, error {large_error:.1%}", *X.shape, times["large"],
            f"{peer}, error {peer_error:.1%}", times[peer], ratio, "> 1 × at a lower cost",
            ratio > 1 and large_error < peer_error,
        )  # fmt: skip


def _faster(
    what: str, shape: tuple[int, int], times: dict[str, float], peer: str, least: float
) -> Result:
    ratio = times["theirs"] / times["ours"]
    target = f"≥ {least:g} × faster"
    return Result(what, *shape, times["ours"], peer, times["theirs"], ratio, target, ratio >= least)


def _missed(result: Result) -> Result:
    from dataclasses import replace

    return replace(result, reached=False)
