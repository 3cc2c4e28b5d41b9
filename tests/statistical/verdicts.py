"""What the statistical tests ask of every path: its draws follow q, its costs are unbiased."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from tests.statistical.paths import Law, N, data

FALSE_ALARM = 1e-4
CORESETS, SIZE = 2_000, 30
# Costs of so many coresets are their own; those of the others are taken from the rows, which is
# much faster.
AS_THEMSELVES = 20


def assert_follows(counts: np.ndarray, q: np.ndarray) -> None:
    assert not counts[q == 0.0].any()
    expected = counts.sum() * q
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    pooled = int(np.searchsorted(np.cumsum(expected), 5.0)) + 1
    counts = np.append(counts[:pooled].sum(), counts[pooled:])
    expected = np.append(expected[:pooled].sum(), expected[pooled:])
    assert chisquare(counts, expected, sum_check=False).pvalue > FALSE_ALARM


def total_counts(path: Law, coresets: int, size: int) -> np.ndarray:
    make, _ = path
    counts = np.zeros(150, dtype=np.int64)
    for seed in range(coresets):
        coreset = make(seed, size)
        counts[coreset.indices] += coreset.counts
    assert counts.sum() == coresets * size
    return counts


def center_sets() -> list[np.ndarray]:
    X, rng = data(), np.random.default_rng(3)
    return [
        X.mean(axis=0, keepdims=True),
        X[rng.choice(N, 5)],
        rng.normal(5.0, 2.0, (20, 3)),
        np.array([[40.0, 40.0, 40.0], [0.0, 0.0, 0.0]]),
        np.full((1, 3), 1000.0),
    ]


def distances_to(centers: np.ndarray) -> np.ndarray:
    """d(x, centers) of every row."""
    return ((data()[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1)


def assert_unbiased(path: Law, *, identity: bool, coresets: int = CORESETS) -> None:
    make, w = path
    sets = center_sets()
    distances = np.array([distances_to(centers) for centers in sets])
    around_mean = distances_to(np.average(data(), axis=0, weights=w)[None, :])
    estimates = np.empty((coresets, len(sets)))
    for seed in range(coresets):
        coreset = make(seed, SIZE)
        estimates[seed] = distances[:, coreset.indices] @ coreset.weights
        if seed < AS_THEMSELVES:
            assert [coreset.cost(centers) for centers in sets] == pytest.approx(estimates[seed])
        if identity:
            at_mean = coreset.weights @ around_mean[coreset.indices] / coreset.total_cost
            assert coreset.weights.sum() / coreset.total_weight + at_mean == pytest.approx(2.0)
    truth = distances.sum(axis=1) if w is None else distances @ w
    error = estimates.std(axis=0, ddof=1) / np.sqrt(coresets)
    z = (estimates.mean(axis=0) - truth) / error
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / 2 / len(sets)), z
