"""Mixtures: a fit on a coreset against scikit-learn's GaussianMixture on all rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.mixture import GaussianMixture

import lwcs
from benchmarks.measure import Result, interleaved

ROWS, COLUMNS, K, SIZE = 1_000_000, 16, 20, 20_000


def benchmarks() -> Iterator[Result]:
    """Full covariances, as in the target; the loss is measured on held-out rows."""
    X, held_out = rows(0, ROWS), rows(1, 100_000)
    model = lwcs.CoresetMixture(K, coreset_size=SIZE, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = interleaved(2, ours=lambda: model.fit(X))
        start = time.perf_counter()
        full = GaussianMixture(K, random_state=0).fit(X)
        theirs = time.perf_counter() - start
        one = GaussianMixture(1).fit(X).score(held_out)
    gain = full.score(held_out) - one
    lost = 100.0 * (1.0 - (model.score(held_out) - one) / gain)
    faster = theirs / times["ours"]
    yield Result(
        f"CoresetMixture({K}), coreset of {SIZE:,}; {lost:.2f} % of the gain lost",
        ROWS, COLUMNS, times["ours"], "GaussianMixture on all rows", theirs, faster,
        "≥ 30 × faster, ≤ 1 % lost", faster >= 30.0 and lost <= 1.0,
    )  # fmt: skip


def rows(seed: int, n: int) -> np.ndarray:
    """Gaussians of different sizes and shapes that overlap a little."""
    shared, rng = np.random.default_rng(99), np.random.default_rng(seed)
    means = 3.0 * shared.standard_normal((K, COLUMNS))
    factors = shared.standard_normal((K, COLUMNS, COLUMNS)) / 4.0
    shares = shared.dirichlet(np.full(K, 3.0))
    own = np.sort(rng.choice(K, n, p=shares))
    X = rng.standard_normal((n, COLUMNS))
    for j in range(K):
        X[own == j] = X[own == j] @ factors[j] + means[j]
    return rng.permutation(X)
