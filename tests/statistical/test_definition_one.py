"""Definition 1 of the paper holds in practice, on KDD."""

from __future__ import annotations

import numpy as np
import pytest

import lwcs
from lwcs.passes import euclidean_cost

SIZE, EPSILON = 5_000, 0.05


def center_sets(X: np.ndarray) -> list[np.ndarray]:
    """200 sets: random rows, k-means++ solutions on other rows, and centers far away."""
    from sklearn.cluster import KMeans

    rng, spread = np.random.default_rng(0), X.std(axis=0)
    sets = [X[rng.choice(len(X), k)] for k in (1, 2, 5, 20, 100) for _ in range(16)]
    for k in (2, 10, 50, 100):
        for seed in range(10):
            some = X[rng.choice(len(X), 2_000)]
            sets.append(
                KMeans(k, n_init=1, max_iter=20, random_state=seed).fit(some).cluster_centers_
            )
    for distance in (1.0, 10.0, 100.0, 1e4):
        sets += [
            X.mean(axis=0) + distance * spread * rng.normal(size=(k, X.shape[1]))
            for k in (1, 10)
            for _ in range(10)
        ]
    return sets


def test_the_two_term_error_stays_within_epsilon(kdd):
    """|φ_X − φ_C| ≤ ε/2·φ_X + ε/2·Φ with ε = 0.05, for 200 sets of centers and m = 5,000."""
    source = lwcs.scan(kdd)
    coreset = lwcs.build(source, SIZE, random_state=0)
    assert coreset.total_cost == pytest.approx(2.352586e12, rel=1e-6)
    sets, errors = center_sets(kdd), []
    assert len(sets) == 200
    for centers in sets:
        full = euclidean_cost(source, centers)
        allowed = 0.5 * full + 0.5 * coreset.total_cost
        errors.append(abs(coreset.cost(centers) - full) / allowed)
    assert max(errors) < EPSILON, max(errors)
