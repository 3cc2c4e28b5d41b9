"""Every way to a coreset, by name; the tests of this folder hold them all to one law.

The data is small and heavy-tailed: 150 rows, so that local rows make three partitions of
64 (see `small_partitions`), and one row far away.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import lwcs

N, D = 150, 3


def data() -> np.ndarray:
    rng = np.random.default_rng(7)
    X = rng.standard_t(3, size=(N, D)) + 5.0
    X[rng.random(X.shape) < 0.2] = 0.0
    X[140] = 40.0
    return X


def weights() -> np.ndarray:
    w = np.random.default_rng(8).random(N) + 0.1
    w[::10] = 0.0
    return w


def skewed_weights() -> np.ndarray:
    """Nine tenths of the weight on a tenth of the rows, over five decades."""
    return 10.0 ** np.random.default_rng(9).uniform(-5, 0, N)


def build(data: object, seed: int, size: int, **options: object) -> lwcs.Coreset:
    return lwcs.build(data, size, random_state=seed, n_jobs=1, **options)


def partitioned(w: np.ndarray | None = None) -> lwcs.PartitionedSource:
    return in_parts(data(), w)


def in_parts(X: np.ndarray, w: np.ndarray | None = None) -> lwcs.PartitionedSource:
    cuts = [0, 1, 1, 80, N]
    parts = []
    for start, stop in itertools.pairwise(cuts):
        part = X[start:stop]
        if w is not None and len(part):
            part = lwcs.scan(part, weight=w[start:stop])
        if len(X[start:stop]) or w is None:
            parts.append(part)
    return lwcs.PartitionedSource(parts)


def reduced(seed: int, size: int) -> lwcs.Coreset:
    return build(data(), seed, 3 * size).reduce(size, random_state=seed)


def in_files(seed: int, size: int, **options: object) -> lwcs.Coreset:
    """The rows in two Parquet files, written once."""
    folder = Path(tempfile.gettempdir()) / f"lwcs-paths-{os.getpid()}"
    if not folder.exists():
        folder.mkdir()
        rows = pa.table({name: data()[:, j] for j, name in enumerate("xyz")} | {"w": weights()})
        pq.write_table(rows.slice(0, 40), folder / "a.parquet")
        pq.write_table(rows.slice(40), folder / "b.parquet", row_group_size=30)
        atexit.register(shutil.rmtree, folder)
    return build(lwcs.scan(folder, **options), seed, size)


Law = tuple[Callable[[int, int], lwcs.Coreset], np.ndarray | None]

LIGHTWEIGHT: dict[str, Law] = {
    "one read": (lambda s, m: build(data(), s, m, passes=1), None),
    "two passes": (lambda s, m: build(data(), s, m, passes=2), None),
    "partitioned": (lambda s, m: build(partitioned(), s, m), None),
    "sparse, one read": (lambda s, m: build(sp.csr_array(data()), s, m, passes=1), None),
    "sparse, two passes": (lambda s, m: build(sp.csr_array(data()), s, m, passes=2), None),
    "weighted, one read": (
        lambda s, m: build(data(), s, m, passes=1, sample_weight=weights()),
        weights(),
    ),
    "weighted, two passes": (
        lambda s, m: build(data(), s, m, passes=2, sample_weight=weights()),
        weights(),
    ),
    "weighted, partitioned": (lambda s, m: build(partitioned(weights()), s, m), weights()),
    "skewed weights, one read": (
        lambda s, m: build(data(), s, m, passes=1, sample_weight=skewed_weights()),
        skewed_weights(),
    ),
    "skewed weights, two passes": (
        lambda s, m: build(data(), s, m, passes=2, sample_weight=skewed_weights()),
        skewed_weights(),
    ),
    "skewed weights, sparse": (
        lambda s, m: build(sp.csr_array(data()), s, m, sample_weight=skewed_weights()),
        skewed_weights(),
    ),
    "reduced": (reduced, None),
    "files": (lambda s, m: in_files(s, m, columns=["x", "y", "z"]), None),
    "files, weighted": (lambda s, m: in_files(s, m, weight="w"), weights()),
}

UNIFORM: dict[str, Law] = {
    "uniform": (lambda s, m: build(data(), s, m, method="uniform"), None),
    "uniform, two passes": (lambda s, m: build(data(), s, m, method="uniform", passes=2), None),
    "uniform, weighted": (
        lambda s, m: build(data(), s, m, method="uniform", sample_weight=weights()),
        weights(),
    ),
    "uniform, partitioned": (
        lambda s, m: build(partitioned(weights()), s, m, method="uniform"),
        weights(),
    ),
}


def by_sensitivity(method: str) -> dict[str, Law]:
    options = {"method": method, "n_clusters": 4}
    return {
        method: (lambda s, m: build(data(), s, m, **options), None),
        f"{method}, sparse": (lambda s, m: build(sp.csr_array(data()), s, m, **options), None),
        f"{method}, weighted": (
            lambda s, m: build(data(), s, m, sample_weight=weights(), **options),
            weights(),
        ),
        f"{method}, skewed weights": (
            lambda s, m: build(data(), s, m, sample_weight=skewed_weights(), **options),
            skewed_weights(),
        ),
        f"{method}, partitioned": (
            lambda s, m: build(partitioned(weights()), s, m, **options),
            weights(),
        ),
        f"{method}, reduced": (
            lambda s, m: build(data(), s, 3 * m, **options).reduce(m, random_state=s),
            None,
        ),
    }


SENSITIVITY = {**by_sensitivity("sensitivity"), **by_sensitivity("refined")}

STRATIFIED: dict[str, Law] = {
    "stratified": (
        lambda s, m: build(data(), s, m, method=lwcs.Lightweight(draws="stratified")),
        None,
    ),
    "stratified, weighted": (
        lambda s, m: build(
            partitioned(weights()), s, m, method=lwcs.Lightweight(draws="stratified")
        ),
        weights(),
    ),
}


def lightweight_q(w: np.ndarray | None) -> np.ndarray:
    """q(x) = ω/2Ω + ω·d/2Φ, written out."""
    X = data()
    w = np.ones(N) if w is None else w
    mean = (w[:, None] * X).sum(axis=0) / w.sum()
    cost = w * ((X - mean) ** 2).sum(axis=1)
    return 0.5 * w / w.sum() + 0.5 * cost / cost.sum()


def uniform_q(w: np.ndarray | None) -> np.ndarray:
    w = np.ones(N) if w is None else w
    return w / w.sum()
