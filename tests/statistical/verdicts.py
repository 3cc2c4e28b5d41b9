"""What the statistical tests ask of every path: its draws follow q, its costs are unbiased."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare, norm

from tests.statistical.paths import Law, N, data

FALSE_ALARM = 1e-4
CORESETS, SIZE = 600, 30
# Costs of so many coresets are their own; those of the others are computed here, for all sets of
# centers at once, which is much faster.
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


def distances_to(points: np.ndarray, sets: list[np.ndarray]) -> np.ndarray:
    """d(x, centers) of every point from every set of centers, all at once."""
    rows = points.toarray() if sp.issparse(points) else points
    each = ((rows - np.concatenate(sets)[:, None, :]) ** 2).sum(axis=2)
    return np.minimum.reduceat(each, np.cumsum([0, *map(len, sets[:-1])]))


def assert_unbiased(path: Law, *, identity: bool) -> None:
    make, w = path
    sets = center_sets()
    mean = np.average(data(), axis=0, weights=w)[None, :]
    estimates = np.empty((CORESETS, len(sets)))
    for seed in range(CORESETS):
        coreset = make(seed, SIZE)
        costs = distances_to(coreset.points, [*sets, mean]) @ coreset.weights
        estimates[seed] = costs[:-1]
        if seed < AS_THEMSELVES:
            assert [coreset.cost(centers) for centers in sets] == pytest.approx(list(costs[:-1]))
        if identity:
            at_mean = costs[-1] / coreset.total_cost
            assert coreset.weights.sum() / coreset.total_weight + at_mean == pytest.approx(2.0)
    distances = distances_to(data(), sets)
    truth = distances.sum(axis=1) if w is None else distances @ w
    error = estimates.std(axis=0, ddof=1) / np.sqrt(CORESETS)
    z = (estimates.mean(axis=0) - truth) / error
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / 2 / len(sets)), z
