"""drift: no alarm for rows of the same population, an alarm that names what has changed."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

import lwcs
from lwcs import CoresetKMeans, CoresetMixture
from lwcs.choosing.summaries import summarize
from lwcs.divergences import KL
from lwcs.judging import drifting
from lwcs.judging.drift_words import _unlike

PLACES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def rows(seed: int, n: int = 4_000, places: np.ndarray = PLACES, sizes=None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return places[rng.choice(len(places), n, p=sizes)] + rng.normal(size=(n, 2))


def fitted(n: int = 4_000, **how) -> CoresetKMeans:
    return CoresetKMeans(4, random_state=0, **how).fit(rows(1, n))


def at(model: CoresetKMeans, place: np.ndarray) -> int:
    """The cluster at a place."""
    return int(np.argmin(np.sum((model.cluster_centers_ - place) ** 2, axis=1)))


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

    monkeypatch.setattr(drifting, "summarize", noted)
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


def test_weights_count_as_repetition_and_noise_as_that_of_fewer_rows(model):
    new = rows(2, 3_000)
    weights = np.random.default_rng(0).integers(1, 4, 3_000)
    weighted = lwcs.drift(model, new, sample_weight=weights, random_state=0)
    repeated = lwcs.drift(model, np.repeat(new, weights, axis=0), random_state=0)
    assert weighted.now.value == pytest.approx(repeated.now.value)
    assert weighted.now.standard_error > 1.2 * repeated.now.standard_error
    many = rows(2, 60_000)
    heavy = np.where(np.arange(60_000) % 100, 1e-3, 1.0)
    few = lwcs.drift(model, many, sample_weight=heavy, size=50_000, random_state=0)
    all_alike = lwcs.drift(model, many, size=50_000, random_state=0)
    assert few.now.standard_error > 3 * all_alike.now.standard_error


def with_gaps(seed: int, n: int, part: float) -> lwcs.Source:
    """Rows of which a part has missing values, and is dropped."""
    X = rows(seed, n)
    X[np.random.default_rng(seed).random(n) < part, 0] = np.nan
    return lwcs.scan(X, missing="drop")


def test_rows_that_were_dropped_do_not_count_as_rows():
    """Nine of ten rows are dropped: chance is that of the tenth, before and after."""
    own = CoresetKMeans(4, random_state=0).fit(with_gaps(1, 30_000, 0.9))
    assert own.fitted_on_.n_samples == 30_000
    kept = 30_000 - own.coreset_.details["dropped"]
    found, few = (
        lwcs.drift(each, rows(2), random_state=0)
        for each in (own, CoresetKMeans(4, random_state=0).fit(rows(1, kept)))
    )
    assert found.then.standard_error == pytest.approx(few.then.standard_error, rel=0.1)
    gaps, whole = (
        lwcs.drift(own, lwcs.build(each, 2_000, random_state=0), random_state=0)
        for each in (with_gaps(2, 20_000, 0.95), rows(2, 1_000))
    )
    assert gaps.now.standard_error == pytest.approx(whole.now.standard_error, rel=0.1)


@pytest.mark.parametrize("coreset_size", ["auto", 2_000])
@pytest.mark.parametrize("kind", [CoresetKMeans, CoresetMixture])
def test_weights_of_a_fit_count_as_fewer_rows(kind, coreset_size):
    weights = np.where(np.arange(4_000) % 100, 1e-3, 1.0)
    few, many = (
        kind(4, coreset_size=coreset_size, random_state=0).fit(rows(1), sample_weight=each)
        for each in (weights, None)
    )
    assert few.fitted_on_.rows.n == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert many.fitted_on_.rows.n == pytest.approx(4_000)
    one, other = (lwcs.drift(each, rows(2), random_state=0) for each in (few, many))
    assert one.shares[0].standard_error > 3 * other.shares[0].standard_error
    assert not any("weight" in note for note in one.notes)


def test_weights_that_are_not_at_hand_are_told(tmp_path):
    """They are of mean 1, so that their sum does not tell."""
    weights = np.tile([0.5, 1.5], 15_000)
    table = pd.DataFrame(rows(1, 30_000), columns=["x", "y"]).assign(w=weights)
    table.to_parquet(tmp_path / "w.parquet")
    file = lwcs.scan(tmp_path / "w.parquet", weight="w")
    own = CoresetKMeans(4, coreset_size=2_000, random_state=0).fit(file)
    own.save(tmp_path / "model.parquet")
    new = table[["x", "y"]]
    for each in (own, lwcs.load(tmp_path / "model.parquet")):
        notes = lwcs.drift(each, new, random_state=0).notes
        assert any("rows that the model was fitted on count as" in note for note in notes)
    found = lwcs.drift(CoresetKMeans(4, random_state=0).fit(new), file, size=2_000, random_state=0)
    assert any("rows that are new count as" in note for note in found.notes)
    coreset = lwcs.build(rows(2, 30_000), 2_000, sample_weight=2 * weights, random_state=0)
    found = lwcs.drift(fitted(), coreset, random_state=0)
    assert any("rows that are new count as" in note for note in found.notes)


def test_rows_without_weight_do_not_count(model):
    new, weights = rows(2, 2_000), np.arange(2_000) % 2
    found = lwcs.drift(model, new, sample_weight=weights, random_state=0)
    assert found.now.value == lwcs.drift(model, new[1::2], random_state=0).now.value
    with pytest.raises(ValueError, match="6 distinct rows, but each half"):
        lwcs.drift(model, new, sample_weight=np.arange(2_000) < 6, random_state=0)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_columns_that_the_model_cannot_see_are_told(container):
    """For KL, a column of zeros in all rows that were fitted does not count in other rows."""
    counts = np.random.default_rng(0).poisson([[1, 5, 0], [6, 1, 0]], (1_000, 2, 3))
    counts = counts.reshape(-1, 3).astype(float)
    own = CoresetKMeans(2, divergence="kl", random_state=0).fit(container(counts))
    assert not any("columns" in n for n in lwcs.drift(own, container(counts)).notes)
    counts[:, 2] = 1.0
    assert any("1 columns were at the end" in n for n in lwcs.drift(own, container(counts)).notes)


def test_a_table_is_read_by_the_names_of_its_columns(tmp_path):
    table = pd.DataFrame(rows(1), columns=["x", "y"])
    own = CoresetKMeans(4, random_state=0).fit(table)
    new = pd.DataFrame(rows(2), columns=["x", "y"])
    mixed = new.assign(name="n")[["name", "y", "x"]]
    mixed.to_parquet(tmp_path / "new.parquet")
    found = lwcs.drift(own, new, random_state=0)
    for data in (mixed, tmp_path / "new.parquet"):
        assert lwcs.drift(own, data, random_state=0, memory_limit="64MB") == found
    batches = (batch for batch in np.array_split(rows(2), 4))
    stream = lwcs.drift(fitted(), batches, size=2_000, random_state=0)
    assert stream.size == pytest.approx(2_000, rel=0.3)
    assert not stream.drifted


def test_a_coreset_of_the_new_rows_will_do(model):
    coreset = lwcs.build(rows(2, 20_000), 4_000, random_state=0)
    assert not lwcs.drift(model, coreset, random_state=0).drifted
    with pytest.raises(ValueError, match="not drawn directly from rows"):
        lwcs.drift(model, coreset + coreset, random_state=0)
    own = CoresetKMeans(4, random_state=0).fit(coreset)
    with pytest.raises(ValueError, match="the coreset that the model was fitted on"):
        lwcs.drift(own, coreset)
    with pytest.raises(ValueError, match="leave out sample_weight"):
        lwcs.drift(model, coreset, sample_weight=np.ones(5))


def streamed(seed: int, batches: int, **how) -> lwcs.StreamingCoreset:
    stream = lwcs.StreamingCoreset(1_000, random_state=seed)
    for each in range(batches):
        stream.update(rows(1_000 * seed + each, 1_500, **how))
    return stream


def test_a_stream_of_the_new_rows_will_do(model):
    stream = streamed(2, 12)
    found = lwcs.drift(model, stream, random_state=0)
    assert found == lwcs.drift(model, stream.coreset(), random_state=0)
    assert not found.drifted
    sizes = [0.4, 0.2, 0.2, 0.2]
    assert lwcs.drift(model, streamed(2, 12, sizes=sizes), random_state=0).drifted
    with pytest.raises(ValueError, match="no rows yet"):
        lwcs.drift(model, lwcs.StreamingCoreset(1_000))


def test_stability_is_judged_by_a_stream(model):
    stream = streamed(2, 4)
    one, other = (model.stability(each, n_bootstrap=3) for each in (stream, stream.coreset()))
    np.testing.assert_array_equal(one.score, other.score)


def test_more_is_known_of_more_rows(model):
    few, many = (lwcs.drift(model, rows(2, n), random_state=0) for n in (1_000, 16_000))
    assert few.now.standard_error == pytest.approx(4 * many.now.standard_error, rel=0.2)
    wide = lwcs.drift(model, rows(2, 1_000), confidence=0.999, random_state=0)
    assert wide.now.high - wide.now.low > 1.5 * (few.now.high - few.now.low)
    assert "99.9 % confidence" in str(wide)


def test_json_has_all_of_it_and_nothing_but_numbers(model):
    found = lwcs.drift(model, rows(2, places=PLACES[:2]), random_state=0)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["drifted"] is True
    assert plain["regret"]["low"] == found.regret.low
    assert [share["cluster"] for share in plain["shares"]] == [0, 1, 2, 3]
    assert plain["reasons"] == list(found.reasons)


def test_rows_that_a_fresh_fit_has_for_nothing_are_regretted_without_bound(model):
    same = np.repeat([[50.0, 50.0], [60.0, 60.0], [70.0, 70.0], [80.0, 80.0]], 50, axis=0)
    found = lwcs.drift(model, same, random_state=0)
    assert found.drifted
    assert found.regret.low == np.inf
    assert found.to_dict()["regret"]["low"] is None
    assert "a fresh fit costs nothing on the new rows" in str(found)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1, np.nan, "0.9", True, None])
def test_a_confidence_is_between_0_and_1(model, confidence):
    with pytest.raises(ValueError, match=r"confidence=.* above 0 and below 1"):
        lwcs.drift(model, rows(2), confidence=confidence)


@pytest.mark.parametrize(
    ("size", "error", "says"),
    [
        ("many", ValueError, "pass 'auto' or an integer"),
        (7, ValueError, "pass size >= 8"),
        (2.5, TypeError, "not an integer"),
    ],
)
def test_a_size_is_large_enough_for_two_halves(model, size, error, says):
    with pytest.raises(error, match=says):
        lwcs.drift(model, rows(2), size=size)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (CoresetKMeans, TypeError, "the class CoresetKMeans, not a fitted model"),
        (PLACES, TypeError, "a ndarray, not a fitted model"),
        (CoresetKMeans(3), NotFittedError, "not fitted"),
        (CoresetMixture(3), NotFittedError, "not fitted"),
        (KMeans(3), NotFittedError, "not fitted"),
        (GaussianMixture(2).fit(PLACES), TypeError, "no cluster_centers_"),
    ],
)
def test_what_is_no_fitted_model_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        lwcs.drift(given, rows(2))


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (rows(2, 7), "7 distinct rows, but each half of them needs one for each of the 4"),
        (rows(2, 3), "pass at least 8 rows"),
        (rows(2)[:, :1], "1 features"),
        (np.where(rows(2) > 11.0, np.nan, rows(2)), "is nan"),
        (np.empty((0, 2)), "0 sample"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused(model, new, says):
    with pytest.raises(ValueError, match=says):
        lwcs.drift(model, new)


def test_small_batches_of_heavy_tails_raise_no_alarm():
    """Of 20 batches, 1 alarm is expected at most; the tail is hardly ever among 300 rows."""
    rng = np.random.default_rng(5)
    model = lwcs.CoresetKMeans(3, random_state=0).fit(rng.lognormal(0.0, 2.0, (30_000, 2)))
    found = [
        lwcs.drift(model, rng.lognormal(0.0, 2.0, (300, 2)), random_state=s) for s in range(20)
    ]
    assert sum(map(bool, found)) <= 2


def test_a_fresh_fit_that_is_much_better_is_said_first():
    """One cluster moves and shrinks, so that cost and shares stay as they were."""
    rng = np.random.default_rng(0)
    before = np.vstack([rng.normal(at, 1.0, (5_000, 2)) for at in ([0, 0], [20, 0])])
    after = np.vstack([rng.normal([1.2, 0], 0.53, (5_000, 2)), before[5_000:]])
    found = lwcs.drift(lwcs.CoresetKMeans(2, random_state=0).fit(before), after, random_state=0)
    assert not found
    assert str(found).startswith("No drift in cost per row and shares of clusters, but a fresh fit")
    assert repr(found).startswith("Drift(no alarm, regret 0.5")


def test_shares_that_differ_are_written_differently():
    assert _unlike(0.99996, 1.0) == ("99.996 %", "100 %")
    assert _unlike(0.1, 0.2) == ("10 %", "20 %")
