"""Means of draws as estimates for all rows, and the gap of two of them."""

from __future__ import annotations

import numpy as np
import pytest

from lwcs.statistics.referee import Mean, SamplingError


def test_equal_weights_have_the_variance_of_a_mean():
    values = np.random.default_rng(0).normal(size=50)
    found = Mean.on_draws(np.full(50, 7.0), np.ones(50, dtype=np.int64), values)
    assert found.value == pytest.approx(values.mean())
    assert found.variance == pytest.approx(values.var(ddof=1) / 50)


def test_a_row_drawn_twice_is_two_draws():
    weights, values = np.array([2.0, 3.0, 3.0]), np.array([1.0, 5.0, 5.0])
    apart = Mean.on_draws(weights, np.ones(3, dtype=np.int64), values)
    together = Mean.on_draws(np.array([2.0, 6.0]), np.array([1, 2]), np.array([1.0, 5.0]))
    assert together.value == pytest.approx(apart.value)
    assert together.variance == pytest.approx(apart.variance)


def test_the_stated_variance_is_that_of_repeated_draws():
    """400 samples of 200 draws; the standard deviation of a variance is 7 %, the limit 20 %.

    The values are far from 0, so that the variance of Σw·v alone would be 100 times as large.
    """
    rng = np.random.default_rng(1)
    rows = 20.0 + rng.normal(size=5_000)
    chances = rng.gamma(2.0, size=5_000) * (1.0 + (rows - 20.0) ** 2)
    chances /= chances.sum()
    found = []
    for _ in range(400):
        at = rng.choice(5_000, 200, p=chances)
        weights = 1.0 / (200 * chances[at])
        found.append(Mean.on_draws(weights, np.ones(200, dtype=np.int64), rows[at]))
    actual = np.var([each.value for each in found])
    assert np.mean([each.variance for each in found]) == pytest.approx(actual, rel=0.2)
    assert np.mean([each.value for each in found]) == pytest.approx(rows.mean(), abs=0.02)


def test_half_the_gap_is_the_estimate_and_all_of_it_the_bound():
    found = SamplingError.of_means(Mean(-1.0, 0.0009), Mean(-1.5, 0.0016))
    assert (found.estimate, found.gap, found.noise) == pytest.approx((0.25, 0.5, 0.05))
    assert found.bound == pytest.approx(0.55)
    better_elsewhere = SamplingError.of_means(Mean(-1.5, 0.0), Mean(-1.0, 0.0004))
    assert (better_elsewhere.estimate, better_elsewhere.bound) == pytest.approx((0.0, 0.02))
