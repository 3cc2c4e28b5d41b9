"""drift: no alarm for rows of the same population, an alarm that names what has changed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

import lwcs
from lwcs import CoresetKMeans, CoresetMixture
from lwcs.divergences import KL
from lwcs.evaluation import drift_detection
from lwcs.sizing.solution import summarize
from tests.evaluation.drift_rows import PLACES, at, fitted, rows


@pytest.fixture(scope="module")
def model() -> CoresetKMeans:
    return fitted()


def test_rows_of_the_same_population_are_no_drift():
    """12 pairs of samples. With alarms in 5 % of them, more than 2 come once in 50 seeds."""
    alarms = 0
    for seed in range(12):
        own = CoresetKMeans(4, random_state=seed).fit(rows(2 * seed, 1_000))
        found = lwcs.drift(own, rows(2 * seed + 1, 1_000), random_state=seed)
        alarms += found.drifted
        assert found.regret.low < 0.02
    assert alarms <= 2


def test_the_gain_of_a_fit_on_its_own_rows_is_no_drift():
    """30 clusters of 1,500 rows without clusters cost many standard errors more on other rows.

    6 pairs of samples. With alarms in 5 % of them, more than 1 come once in 30 seeds.
    """
    alarms = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        then, now = rng.random((2, 1_500, 4))
        own = CoresetKMeans(30, random_state=seed).fit(then)
        found = lwcs.drift(own, now, random_state=seed)
        assert found.then is not None
        assert found.now.value - found.then.value > 3 * found.now.standard_error
        alarms += found.drifted
    assert alarms <= 1


def test_few_rows_at_the_fit_are_no_drift_of_many():
    """6 pairs of samples. With alarms in 5 % of them, more than 1 come once in 30 seeds."""
    alarms = 0
    for seed in range(6):
        own = CoresetKMeans(8, random_state=seed).fit(rows(2 * seed, 150))
        alarms += lwcs.drift(own, rows(2 * seed + 1, 8_000), random_state=seed).drifted
    assert alarms <= 1


@pytest.mark.parametrize("seed", range(2))
def test_few_rows_at_the_fit_do_not_hide_a_large_change_of_many(seed):
    """What a fit gains on its own rows is not multiplied by 20,000 / 300."""
    few, new = fitted(300), rows(seed + 2, 20_000)
    assert lwcs.drift(few, new + 1.0, random_state=seed).drifted
    new[:400] += 100.0 * np.random.default_rng(seed).normal(size=(400, 2))
    found = lwcs.drift(fitted(2_000), new, random_state=seed)
    assert found.drifted
    assert found.now.low > found.then.high > found.then.value > found.then.low >= 0.0


@pytest.mark.parametrize("draws", ["auto", 3_000])
def test_a_new_cluster_of_two_percent_is_drift(model, draws):
    for seed, place in product(range(3), ([[5.0, 5.0]], [[200.0, -80.0]])):
        new = np.vstack([rows(seed + 5), rows(seed, 80, np.array(place))])
        assert lwcs.drift(model, new, size=draws, random_state=seed).drifted


def test_the_alarm_names_the_cluster_that_changed(model):
    """One cluster grows from 25 % to 31 % of the rows, the others shrink by 2 points each."""
    grown = at(model, PLACES[2])
    sizes = np.full(4, 0.23)
    sizes[2] = 0.31
    found = lwcs.drift(model, rows(9, 4_000, sizes=sizes), random_state=0)
    assert found.drifted
    assert grown in found.changed_clusters
    share = found.shares[grown]
    assert share.changed
    assert share.cluster == grown
    assert share.difference == pytest.approx(0.06, abs=0.03)
    assert any(f"cluster {grown} has 3" in reason for reason in found.reasons)
    assert f"cluster {grown} has 3" in str(found)


def test_a_cluster_that_moved_costs_and_is_regretted(model):
    places = PLACES.copy()
    places[3] += 2.0
    found = lwcs.drift(model, rows(3, places=places), random_state=0)
    assert found.drifted
    assert "the cost per row has risen from" in found.reasons[0]
    # Moved by √8, a quarter of the rows cost 8 more: 2 on average, as much as before.
    assert found.regret.low < 1.0 < found.regret.high
    assert found.fresh.value == pytest.approx(2.0, rel=0.1)


def test_rows_that_come_closer_are_drift_too(model):
    rng = np.random.default_rng(0)
    new = PLACES[rng.integers(4, size=4_000)] + 0.5 * rng.normal(size=(4_000, 2))
    found = lwcs.drift(model, new, random_state=0)
    assert "the cost per row has fallen from" in found.reasons[0]


def test_intervals_hold_the_costs_of_the_population(model):
    """The cost per row of 200,000 rows, by 40,000 draws: off by 4 standard errors in 1 of 10⁴."""
    new = rows(5, 200_000)
    found = lwcs.drift(model, new, random_state=0)
    assert found.size == 40_000
    truth = -model.score(new) / len(new)
    assert abs(found.now.value - truth) < 4 * found.now.standard_error
    assert found.now.low < found.now.value < found.now.high
    labels = np.bincount(model.predict(new), minlength=4) / len(new)
    np.testing.assert_allclose([share.now for share in found.shares], labels, atol=0.02)


def test_the_same_seed_gives_the_same_answer_and_threads_do_not_matter(model):
    new = rows(5, 60_000)
    one, other = (lwcs.drift(model, new, random_state=3, n_jobs=jobs) for jobs in (1, 2))
    assert one == other
    assert one != lwcs.drift(model, new, random_state=4)


def test_draws_are_independent_of_those_of_a_fit_with_the_same_seed(monkeypatch):
    """On the very rows that were fitted, the same draws would cost less than all rows."""
    seen: list[np.ndarray] = []

    def noted(*args, **how):
        coreset = summarize(*args, **how)
        seen.append(coreset.indices)
        return coreset

    monkeypatch.setattr(drift_detection, "summarize", noted)
    X = rows(1, 100_000)
    own = CoresetKMeans(4, coreset_size=2_000, random_state=0).fit(X)
    found = lwcs.drift(own, X, size=2_000, random_state=0)
    assert found.size == 2_000
    (drawn,) = seen
    fitted_on = own.coreset_.indices
    # Of 100,000 rows, about 40 are among 2,000 draws of each by chance.
    assert len(np.intersect1d(drawn, fitted_on)) < 0.1 * len(fitted_on)


def test_a_model_from_a_file_answers_alike(model, tmp_path):
    model.save(tmp_path / "m.parquet")
    new = rows(5)
    loaded = lwcs.load(tmp_path / "m.parquet")
    assert lwcs.drift(loaded, new, random_state=0) == lwcs.drift(model, new, random_state=0)


def test_without_a_record_there_is_a_regret_and_no_alarm():
    then, new = rows(1), rows(2, places=PLACES * 1.5)
    own = KMeans(4, n_init=3, random_state=0).fit(then)
    found = lwcs.drift(own, new, random_state=0)
    assert not found.drifted
    assert found.then is None
    assert found.shares[0].then is None
    assert found.regret.low > 1.0
    assert "has no record of the rows" in found.notes[0]
    assert str(found).startswith("Cannot tell whether the rows have drifted.")
    assert "share at fit" in found._repr_html_()


def test_a_model_of_an_earlier_version_has_no_record(model):
    from copy import copy

    own = copy(model)
    own.fitted_on_ = None
    assert lwcs.drift(own, rows(2), random_state=0).then is None


def test_a_cost_that_is_too_low_by_an_unknown_amount_is_not_compared():
    X = rows(1, 30_000)
    own = CoresetKMeans(4, coreset_size=200, compute_labels=False, random_state=0).fit(X)
    assert np.isnan(own.sampling_error_)
    found = lwcs.drift(own, rows(2, 30_000), random_state=0)
    assert found.then is None
    assert not found.drifted
    assert "only shares are compared" in found.notes[0]
    assert "No drift: shares of clusters" in str(found)
    sizes = [0.6, 0.2, 0.1, 0.1]
    assert lwcs.drift(own, rows(2, 30_000, sizes=sizes), random_state=0).drifted


def test_mixtures_regret_nats():
    own = CoresetMixture(4, random_state=0, n_init=8).fit(rows(1))
    same = lwcs.drift(own, rows(2), random_state=0)
    assert not same.drifted
    assert same.in_nats
    places = PLACES.copy()
    places[3] += 3.0
    moved = rows(3, places=places)
    found = lwcs.drift(own, moved, random_state=0)
    assert found.drifted
    assert found.now.value == pytest.approx(-own.score(moved))
    # A quarter of the rows is √18 away from a component of unit variance: 9 nats, less what the
    # mean of squares of those that were near gains; a fresh fit has them all.
    assert found.regret.value == pytest.approx(9 / 4, rel=0.15)
    assert "nats per row" in str(found)


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_mixtures_of_other_families_and_sparse_rows_are_compared(family):
    rng = np.random.default_rng(0)
    rates = np.array([[0.1, 0.9, 0.5], [0.8, 0.2, 0.4]])

    def made(n: int, p: float) -> sp.csr_array:
        return sp.csr_array(rng.binomial(1, rates[(rng.random(n) < p).astype(int)]).astype(float))

    own = CoresetMixture(2, family=family, random_state=0).fit(made(4_000, 0.5))
    assert not lwcs.drift(own, made(4_000, 0.5), random_state=0).drifted
    assert lwcs.drift(own, made(4_000, 0.7), random_state=0).drifted


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito", "cosine", "exponential", "logistic"])
def test_every_divergence_is_measured_as_the_model_does(divergence):
    rng = np.random.default_rng(0)
    places = np.array([[0.2, 0.6, 0.3], [0.7, 0.2, 0.5]])

    def made(n: int, p: float) -> np.ndarray:
        near = places[(rng.random(n) < p).astype(int)]
        return np.clip(near + 0.05 * rng.normal(size=(n, 3)), 0.01, 0.99)

    own = CoresetKMeans(2, divergence=divergence, random_state=0).fit(made(3_000, 0.5))
    new = made(3_000, 0.5)
    found = lwcs.drift(own, new, random_state=0)
    assert not found.drifted
    assert found.now.value == pytest.approx(-own.score(new) / len(new))
    # A fresh fit is measured by the same mean.
    assert abs(found.regret.value) < 0.05
    assert lwcs.drift(own, made(3_000, 0.6), random_state=0).drifted


@pytest.mark.parametrize("size", ["auto", 2_000])
def test_a_model_with_a_scale_measures_by_its_own(size):
    X, new = rows(1), rows(2)
    stretch = np.array([1.0, 1e6])
    own = CoresetKMeans(4, random_state=0).fit(lwcs.scan(X * stretch, scale="standard"))
    found = lwcs.drift(own, new * stretch, size=size, random_state=0)
    assert not found.drifted
    truth = -own.score(new * stretch) / len(new)
    assert abs(found.now.value - truth) <= 4 * found.now.standard_error
    assert abs(found.regret.value) < 0.05
    wider = lwcs.drift(own, new * stretch * 1.1, random_state=0)
    assert wider.drifted
    assert wider.now.value > 1.05 * truth


def test_a_fresh_fit_is_measured_by_the_scale_of_the_model():
    """By their own scale, the new rows would be cut by the first column, with a regret of 0.3."""
    then = rows(1, places=PLACES * [0.3, 1.0])
    own = CoresetKMeans(2, random_state=0).fit(lwcs.scan(then, scale="standard"))
    rng = np.random.default_rng(0)
    new = PLACES[rng.integers(4, size=3_000)] * [1.0, 0.5] + rng.normal(size=(3_000, 2)) * [1, 3]
    found = lwcs.drift(own, new * [1.0, 20.0], random_state=0)
    assert found.regret.value > 2.0


def test_a_fresh_fit_is_smoothed_towards_the_mean_of_the_model():
    """Smoothed towards the mean of the new rows, centers would cost a third more."""
    rng = np.random.default_rng(0)
    rates = np.array([[1.0, 40.0], [40.0, 1.0]])

    def made(p: float) -> np.ndarray:
        return rng.poisson(rates[(rng.random(3_000) < p).astype(int)]).astype(float)

    own = CoresetKMeans(2, divergence=KL(smoothing=0.5), random_state=0).fit(made(0.1))
    assert lwcs.drift(own, made(0.9), random_state=0).regret.value > -0.02


@pytest.mark.parametrize("unit", [1e-140, 1e-30, 1e30, 1e140])
def test_any_range_of_numbers_is_compared(unit):
    own = CoresetKMeans(4, random_state=0).fit(rows(1) * unit)
    assert not lwcs.drift(own, rows(2) * unit, random_state=0).drifted
    sizes = [0.4, 0.2, 0.2, 0.2]
    found = lwcs.drift(own, rows(2, sizes=sizes) * unit, random_state=0)
    assert found.drifted
    assert np.isfinite(found.regret.low)
