"""Sensitivity and refined coresets: a D² round against a bare read, and against each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import lwcs
from benchmarks.build import bare_read
from benchmarks.measure import Result, interleaved
from lwcs.comparing.comparison_data import read_known

ROUNDS = 50
SHAPES = ((2_000_000, 74), (8_000_000, 8), (1_000_000, 90))
REAL = (("KDD", "kdd_bio_train.parquet", 3.0), ("RNA", "cod_rna_331152.parquet", 2.0))


def benchmarks() -> Iterator[Result]:
    """Every line of this table; real data sets only if LWCS_DATA names their folder."""
    for rows, columns in SHAPES:
        X = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
        yield _round("a D² round", X)
    folder = os.environ.get("LWCS_DATA")
    for name, file, least in REAL if folder else ():
        title, X = read_known(name, Path(folder or "") / file)
        yield _round(f"a D² round, {title}", X)
        times = interleaved(
            5,
            refined=lambda X=X: _build(X, "refined", 500),
            sensitivity=lambda X=X: _build(X, "sensitivity", 500),
        )
        ratio = times["sensitivity"] / times["refined"]
        yield Result(
            f"refined, k = 500, {title}", *X.shape, times["refined"], "sensitivity",
            times["sensitivity"], ratio, f"≥ {least} × faster", ratio >= least,
        )  # fmt: skip


def _round(what: str, X: np.ndarray) -> Result:
    """The time per additional center: that of many centers less that of one, by their number."""
    times = interleaved(
        5,
        many=lambda: _build(X, "sensitivity", 1 + ROUNDS),
        one=lambda: _build(X, "sensitivity", 1),
        read=lambda: bare_read(X),
    )
    ours = (times["many"] - times["one"]) / ROUNDS
    ratio = ours / times["read"]
    return Result(
        what, *X.shape, ours, "a bare read", times["read"], ratio, "≤ 2 ×", ratio <= 2.0
    )  # fmt: skip


def _build(X: np.ndarray, method: str, k: int) -> None:
    lwcs.build(X, 1_000, method=method, n_clusters=k, random_state=0)
