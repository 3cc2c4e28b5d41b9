"""What two samples differ by beyond chance, on numbers whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lwcs.statistics.drift_tests import (
    Estimate,
    Sample,
    Shares,
    cost_shift,
    is_large_regret,
    optimism,
    recorded_cost,
    relative_regret,
    share_shifts,
)
from lwcs.statistics.record import FittedOn, SampleSize
from lwcs.statistics.referee import Mean, deviations

NOTHING = Mean(0.0)


def sample(n: int, n_rows: float = np.inf) -> Sample:
    return Sample(np.ones(n), np.ones(n, dtype=np.int64), n_rows)


def test_an_interval_of_two_standard_errors_has_95_percent():
    found = Estimate.of(Mean(10.0, 4.0), 0.95)
    assert found.low == pytest.approx(10.0 - 1.96 * 2.0, abs=1e-3)
    assert found.high == pytest.approx(10.0 + 1.96 * 2.0, abs=1e-3)


def test_the_rows_that_were_drawn_from_are_a_sample_too():
    """The variance of a mean is spread/m by the draws, and spread/n by the rows."""
    values = np.array([0.0, 2.0] * 500)
    alone, of_rows = sample(1_000).mean(values), sample(1_000, 500.0).mean(values)
    assert alone.variance == pytest.approx(1.0 / 999)
    assert of_rows.variance == pytest.approx(1.0 / 999 + 1.0 / 500)
    assert sample(1_000, 500.0).of_rows_alone().mean(values) == alone


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_standard_errors_hold_at_any_range(unit):
    values = np.array([1.0, 2.0, 3.0, 4.0] * 50)
    found, plain = sample(200).mean(values * unit), sample(200).mean(values)
    assert found.value / unit == pytest.approx(plain.value)
    ratio = relative_regret(sample(200), values * unit, values[::-1] * unit)
    assert ratio.variance == pytest.approx(
        relative_regret(sample(200), values, values[::-1]).variance
    )


def test_unequal_weights_count_as_fewer_draws():
    weights = np.array([1.0] * 99 + [99.0])
    assert Sample(weights, np.ones(100, dtype=np.int64)).n_effective == pytest.approx(
        198.0**2 / (99 + 99**2)
    )
    twice = Sample(np.full(10, 2.0), np.full(10, 2))
    assert twice.n_effective == pytest.approx(20.0)


def test_centers_of_clusters_of_light_rows_are_known_better():
    """Rows of weight 1 in a cluster that costs all: as if all rows were drawn by that weight."""
    weights = np.array([1.0] * 100 + [9.0] * 100)
    labels = np.repeat([0, 1], 100)
    costs = np.array([1.0] * 100 + [0.0] * 100)
    own = Sample(weights, np.ones(200, dtype=np.int64))
    assert own.n_for_centers(costs, labels, 2) == pytest.approx(1_000.0)
    assert own.n_for_centers(costs[::-1], labels, 2) == pytest.approx(1_000.0 / 9.0)
    assert own.n_for_centers(np.zeros(200), labels, 2) == pytest.approx(own.n_effective)


def test_a_share_that_moves_by_four_standard_errors_has_changed_and_no_other():
    p, n = np.array([0.5, 0.25, 0.15, 0.1]), 10_000
    moved = 4.5 * np.sqrt(2 * 0.15 * 0.85 / n)
    then = Shares(p, np.zeros(4), n)
    now = Shares(p + np.array([-0.01, 0.01 - moved, moved, 0.0]), np.zeros(4), n)
    found = share_shifts(then, now, 0.05)
    assert [share.changed for share in found] == [False, False, True, False]
    assert found[2].standard_error == pytest.approx(1.05 * moved / 4.5, rel=0.05)
    assert found[2].difference == pytest.approx(moved)


def test_the_variance_of_the_draws_counts():
    p, n = np.array([0.7, 0.3]), 1_000_000
    then = Shares(p, np.full(2, 0.01**2), n)
    now = Shares(np.array([0.68, 0.32]), np.zeros(2), n)
    assert not any(share.changed for share in share_shifts(then, now, 0.05))
    exactly = replace(then, variances=np.zeros(2))
    assert all(share.changed for share in share_shifts(exactly, now, 0.05))


def test_a_cluster_that_draws_have_not_met_is_no_change():
    """One row in a thousand, and 1,000 draws without it: the probability of that is a third."""
    then = Shares(np.array([0.999, 0.001]), np.zeros(2), 1e9)
    now = Shares(np.array([1.0, 0.0]), np.zeros(2), 1_000)
    # Its own share would give a variance of nothing.
    assert now.noise[1] == 0.0
    assert not any(share.changed for share in share_shifts(then, now, 0.05))
    assert not any(share.changed for share in share_shifts(now, then, 0.05))
    met = sample(1_000).shares(np.zeros(1_000, dtype=np.int64), 2)
    assert not any(share.changed for share in share_shifts(then, met, 0.05))
    many = replace(now, n_rows=20_000)
    assert all(share.changed for share in share_shifts(then, many, 0.05))


@pytest.mark.parametrize("k", [1, 20])
def test_shares_of_one_population_change_as_rarely_as_is_asked_for(k):
    """Multinomial counts of 2,000 rows, 2,000 times.

    False alarms at 5 % would be up to 5 % + 3·√(0.05·0.95/2000) = 6.5 %, but for 1 in 700 seeds.
    """
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(k))
    alarms = 0
    for _ in range(2_000):
        one, other = (rng.multinomial(2_000, p) / 2_000 for _ in range(2))
        shifts = share_shifts(*(Shares(each, np.zeros(k), 2_000) for each in (one, other)), 0.05)
        alarms += any(share.changed for share in shifts)
    assert alarms / 2_000 <= 0.065


def test_a_variance_of_few_rows_has_few_degrees_of_freedom():
    """As many as rows for a normal distribution; twice as many as rows that have all of it."""
    rng = np.random.default_rng(0)
    assert sample(10_000).degrees(rng.normal(size=10_000)) == pytest.approx(20_000 / 3, rel=0.1)
    one = np.zeros(10_000)
    one[:3] = 1.0
    assert sample(10_000).degrees(one) == pytest.approx(6.0, rel=0.01)
    assert sample(10).degrees(np.ones(10)) == np.inf
    assert deviations(0.05, 6.0) == pytest.approx(2.447, abs=1e-3)
    then, now = Mean(10.0, 1.0), Mean(12.2)
    assert cost_shift(then, now, NOTHING, 0.05).changed
    assert not cost_shift(then, now, NOTHING, 0.05, degrees=6.0).changed


def test_a_cost_changes_beyond_chance_in_both_directions():
    then, reach = Mean(10.0, 0.03), deviations(0.05) * 0.2
    for sign in (-1.0, 1.0):
        beyond = cost_shift(then, Mean(10.0 + sign * 1.01 * reach, 0.01), NOTHING, 0.05)
        within = cost_shift(then, Mean(10.0 + sign * 0.99 * reach, 0.01), NOTHING, 0.05)
        assert beyond.changed
        assert not within.changed


def test_what_a_fit_gains_on_its_own_rows_is_no_change_but_explains_no_fall():
    then, reach = Mean(10.0, 0.0), deviations(0.05) * 0.2
    gain = Mean(1.0, 0.04)
    assert not cost_shift(then, Mean(11.0), gain, 0.05).changed
    assert cost_shift(then, Mean(11.0 + 1.01 * reach), gain, 0.05).changed
    assert cost_shift(then, Mean(9.0), gain, 0.05).changed
    assert not cost_shift(then, Mean(10.0 - 0.99 * reach), gain, 0.05).changed


def test_intervals_without_a_common_cost_are_a_change_and_none_is_below_0():
    """At any noise, any gain and any number of degrees of freedom."""
    rng = np.random.default_rng(0)
    apart = 0
    for _ in range(500):
        then, now, gain = (Mean(*rng.exponential(size=2) * scale) for scale in (1.0, 2.0, 0.3))
        shift = cost_shift(then, now, gain, 0.02, degrees=rng.choice([2.0, 10.0, np.inf]))
        one, other = shift.intervals(then, now, gain, least=0.0)
        assert min(one.low, other.low) >= 0.0
        if one.high < other.low or other.high < one.low:
            apart += 1
            assert shift.changed
    assert apart > 20
    assert Estimate.of(Mean(1.0, 4.0), 0.95, least=0.0).low == 0.0
    assert Estimate.of(Mean(1.0, 4.0), 0.95).low < 0.0


def test_a_regret_is_large_beyond_that_of_fits_on_as_few_rows():
    usual = [Mean(0.1), Mean(0.3), Mean(0.2)]
    assert not is_large_regret(Mean(0.6, 4e-3), [NOTHING], 0.05)
    assert is_large_regret(Mean(0.6, 1e-4), [NOTHING], 0.05)
    assert not is_large_regret(Mean(0.69), [Mean(0.2)] * 3, 0.05)
    assert is_large_regret(Mean(0.71), [Mean(0.2)] * 3, 0.05)
    assert not is_large_regret(Mean(0.71), usual, 0.05)
    assert is_large_regret(Mean(np.inf), usual, 0.05)
    assert not is_large_regret(Mean(np.inf), [Mean(np.inf)], 0.05)


def test_equal_costs_of_nothing_are_no_change():
    assert not cost_shift(NOTHING, NOTHING, NOTHING, 0.05).changed
    assert cost_shift(NOTHING, Mean(1e-300), NOTHING, 0.05).changed


def test_optimism_is_the_gap_of_a_fit_less_that_of_other_centers():
    """Costs on the second half are higher by 3 for both; the fit alone gains 2 on its own."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 400))
    old = noise[0] + 5.0, noise[1] + 8.0
    fresh = noise[0] + 4.0, noise[1] + 9.0
    found = optimism(sample(400), sample(400), old, fresh, 0.5)
    assert found.value == pytest.approx(1.25 * 0.5 * 2.0)
    assert found.variance == pytest.approx(0.0, abs=1e-20)


def test_regret_is_the_ratio_of_costs_of_the_same_rows():
    """Noise that both share cancels in the ratio."""
    rng = np.random.default_rng(0)
    fresh = rng.exponential(size=500)
    found = relative_regret(sample(500), 1.3 * fresh, fresh)
    assert found.value == pytest.approx(0.3)
    assert found.variance == pytest.approx(0.0, abs=1e-20)
    assert relative_regret(sample(5), np.ones(5), np.zeros(5)).value == np.inf
    assert relative_regret(sample(5), np.zeros(5), np.zeros(5)).value == 0.0


def record(cost: Mean, spread: float) -> FittedOn:
    return FittedOn(200, SampleSize(100.0), 200.0, 0, "", cost, spread, np.ones(1), np.zeros(1))


def test_the_cost_then_has_the_noise_of_its_rows_and_of_its_correction():
    assert recorded_cost(record(Mean(3.0), 4.0)) == Mean(3.0, 0.04)
    found = recorded_cost(record(Mean(3.0, 0.01), 4.0))
    assert found is not None
    assert found.variance == pytest.approx(0.04 + 4 * 0.01)


def test_how_far_a_cost_may_be_too_low_is_no_rise():
    then = Mean(10.0, 0.04)
    assert cost_shift(then, Mean(11.0), NOTHING, 0.05).changed
    assert not cost_shift(then, Mean(11.0), NOTHING, 0.05, bound=0.7).changed
    assert cost_shift(then, Mean(9.0), NOTHING, 0.05, bound=0.7).changed


@pytest.mark.parametrize(
    ("cost", "spread"), [(Mean(3.0), np.nan), (Mean(3.0, np.inf), 1.0), (Mean(1e-200), 0.0)]
)
def test_a_cost_whose_noise_is_beyond_the_range_is_not_known(cost, spread):
    assert recorded_cost(record(cost, spread)) is None
