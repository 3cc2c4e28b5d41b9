"""The referee: prices and their variances, its arithmetic, and the law that it rests on."""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest
from scipy.stats import norm

import lwcs
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points
from lwcs.statistics.referee import NONE, UNKNOWN, Price, SamplingError

FALSE_ALARM = 1e-4


def distances(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    return ((rows[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1)


def priced(weights: list[float], counts: list[int], costs: list[float]) -> Price:
    return Price.on_draws(np.array(weights), np.array(counts), np.array(costs))


def test_a_price_written_out():
    """Draws of 3·w·d = 6, 12, 3: mean 7, variance of the mean 21/3."""
    price = priced([1.0, 2.0, 1.0], [1, 1, 1], [2.0, 2.0, 1.0])
    assert price.cost == pytest.approx(7.0)
    assert price.variance == pytest.approx(21.0 / 3.0 / 7.0**2)


def test_a_row_drawn_three_times_is_three_rows():
    rng = np.random.default_rng(0)
    weights, counts, costs = rng.random(50), rng.integers(1, 5, 50), rng.exponential(size=50)
    once = Price.on_draws(weights, counts, costs)
    each = Price.on_draws(
        np.repeat(weights / counts, counts), np.ones(counts.sum(), int), np.repeat(costs, counts)
    )
    assert once.cost == pytest.approx(each.cost, rel=1e-12)
    assert once.variance == pytest.approx(each.variance, rel=1e-12)
    assert once.variance > 0.0


@pytest.mark.parametrize("factor", [1e-300, 1e-170, 1e170, 1e300])
def test_the_variance_does_not_depend_on_the_units(factor):
    plain = priced([1.0, 2.0, 1.0], [1, 2, 1], [2.0, 2.0, 1.0])
    scaled = priced([1.0, 2.0, 1.0], [1, 2, 1], [2.0 * factor, 2.0 * factor, 1.0 * factor])
    assert scaled.cost == pytest.approx(factor * plain.cost)
    assert scaled.variance == pytest.approx(plain.variance)


def test_draws_that_are_all_alike_have_no_variance():
    assert priced([3.0, 6.0], [1, 2], [0.1, 0.1]).variance == pytest.approx(0.0, abs=1e-15)
    assert priced([1.0, 2.0], [1, 2], [0.0, 0.0]) == Price(0.0, 0.0)
    assert priced([5.0], [1], [2.0]) == Price(10.0, 0.0)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["lightweight", "uniform"])
def test_the_variance_is_that_of_the_cost_over_many_coresets(method):
    """(cost − truth)² less the variance has mean zero: a z-test over 1,000 coresets at 1e-4.

    And it is not only zero within a wide interval: that is below 30 % of the variance.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + 4.0 * rng.integers(0, 3, (300, 2))
    X[:3] += 15.0
    centers = X[[0, 50, 100, 150]]
    each = distances(X, centers)
    squares, variances = np.empty((2, 1_000))
    for seed in range(1_000):
        coreset = lwcs.build(X, 60, method=method, random_state=seed, n_jobs=1)
        price = Price.on_draws(coreset.weights, coreset.counts, each[coreset.indices])
        squares[seed] = (price.cost - each.sum()) ** 2
        variances[seed] = price.variance * price.cost**2
    differ = squares - variances
    error = differ.std(ddof=1) / np.sqrt(len(differ))
    limit = norm.isf(FALSE_ALARM / 2)
    assert abs(differ.mean()) < limit * error
    assert limit * error < 0.3 * squares.mean()


def test_half_of_the_gap_is_the_estimate_and_all_of_it_and_the_noise_the_bound():
    error = SamplingError.of(Price(10.0, 0.0009), Price(11.0, 0.0016))
    assert error.gap == pytest.approx(0.1)
    assert error.estimate == pytest.approx(0.05)
    assert error.noise == pytest.approx(1.1 * 0.05)
    assert error.bound == pytest.approx(0.1 + 0.055)
    assert error.known


def test_all_rows_add_no_noise():
    error = SamplingError.of(Price(10.0, 0.0009), Price(12.0))
    assert error.noise == pytest.approx(1.2 * 0.03)
    assert SamplingError.of(Price(10.0), Price(12.0)).noise == 0.0


def test_a_referee_that_finds_less_gives_no_error_but_its_noise():
    error = SamplingError.of(Price(10.0, 0.0004), Price(9.0))
    assert error.gap == pytest.approx(-0.1)
    assert error.estimate == 0.0
    assert error.bound == pytest.approx(0.9 * 0.02)


def test_a_cost_of_zero():
    assert SamplingError.of(Price(0.0), Price(0.0)) == NONE
    assert NONE.bound == 0.0
    assert NONE.known
    missed = SamplingError.of(Price(0.0), Price(3.0, 0.1))
    assert (missed.estimate, missed.gap, missed.bound) == (inf, inf, inf)
    nothing = SamplingError.of(Price(3.0, 0.04), Price(0.0))
    assert (nothing.estimate, nothing.gap, nothing.bound) == (0.0, -1.0, 0.0)


@pytest.mark.parametrize("variance", [0.0, 0.01])
def test_an_infinite_cost_elsewhere_is_an_infinite_error(variance):
    error = SamplingError.of(Price(1.0, variance), Price(inf))
    assert (error.estimate, error.gap, error.bound) == (inf, inf, inf)
    assert error.scaled(0.5).bound == inf
    assert error.less(0.3).estimate == inf


def test_costs_at_the_ends_of_the_range_of_numbers():
    for factor in (1e-300, 1e300):
        error = SamplingError.of(Price(factor, 0.0009), Price(1.1 * factor, 0.0016))
        assert error.estimate == pytest.approx(0.05)
        assert error.noise == pytest.approx(1.1 * 0.05)


def test_an_error_of_another_size_is_in_proportion():
    error = SamplingError(0.04, 0.08, 0.02).scaled(0.25)
    assert error == SamplingError(0.01, 0.02, 0.005)
    assert SamplingError(0.0, -0.08, 0.02).scaled(0.5).bound == pytest.approx(0.01)
    assert NONE.scaled(3.0) == NONE


def test_what_was_gained_on_all_rows_is_taken_off():
    error = SamplingError(0.04, 0.08, 0.02)
    assert error.less(0.0) == error
    after = error.less(0.01)
    assert after.estimate == pytest.approx(0.03)
    assert after.bound == pytest.approx(0.07 + 0.02)
    gone = error.less(0.5)
    assert gone.estimate == 0.0
    assert gone.bound == pytest.approx(0.02)


def test_what_iterations_would_still_gain_is_added():
    """The gap is twice the error, and grows twice as much."""
    error = SamplingError(0.04, 0.08, 0.02).unfinished(0.01)
    assert error.estimate == pytest.approx(0.05)
    assert error.bound == pytest.approx(0.1 + 0.02)


def test_without_anything_to_compare_with_nothing_is_known():
    for error in (UNKNOWN, UNKNOWN.scaled(2.0), UNKNOWN.less(0.1), SamplingError(nan, nan, nan)):
        assert not error.known
        assert isnan(error.estimate)
        assert isnan(error.bound)


def grid_of_clusters() -> np.ndarray:
    """16 clusters far apart, 400 rows each: the optimum is regular."""
    rng, own = np.random.default_rng(0), np.repeat(np.arange(16), 400)
    return 20.0 * np.stack(np.divmod(own, 4), axis=1) + rng.normal(size=(6400, 2))


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["lightweight", "uniform"])
def test_half_of_the_gap_is_the_excess_at_a_regular_optimum(method):
    """Means over 200 coresets of 400 draws, with the cost of all rows as the referee.

    The excess is about 16/400. The means agree within 15 % of that (the terms of second order)
    and 3.9 standard errors, which a correct estimate leaves with probability 1e-4; and the
    interval alone is narrow enough to tell half of the gap from the whole.
    """
    X = grid_of_clusters()
    best = solve(Points.of(X, None), 16, init=X[::400], tol=0.0)
    start = best.centers.points
    errors, excess = [], []
    for seed in range(200):
        coreset = lwcs.build(X, 400, method=method, random_state=seed, n_jobs=1)
        found = solve(Points.of(coreset.points, coreset.weights), 16, init=start, tol=0.0)
        own = distances(coreset.points, found.centers.points)
        exact = float(distances(X, found.centers.points).sum())
        price = Price.on_draws(coreset.weights, coreset.counts, own)
        assert price.cost == pytest.approx(found.cost)
        errors.append(SamplingError.of(price, Price(exact)))
        excess.append(exact / best.cost - 1.0)
    true = np.array(excess)
    half = np.array([0.5 * error.gap for error in errors])
    interval = norm.isf(FALSE_ALARM / 2) * (half - true).std(ddof=1) / np.sqrt(200)
    assert abs(half.mean() - true.mean()) < interval + 0.15 * true.mean()
    assert interval < 0.5 * true.mean()
    assert np.mean([error.gap for error in errors] > true) > 0.7
    assert np.mean([error.bound for error in errors] > true) > 0.9
