"""drift: weights, gaps, tables, coresets and streams; what it refuses, and its words."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

import lwcs
from lwcs import CoresetKMeans, CoresetMixture
from lwcs.evaluation.drift_result import _unlike
from tests.evaluation.drift_rows import PLACES, fitted, rows


@pytest.fixture(scope="module")
def model() -> CoresetKMeans:
    return fitted()


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
    kept = 30_000 - own.coreset_.details["dropped"]
    assert own.fitted_on_.n_samples == kept
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


@pytest.mark.parametrize(("at", "spread", "alarm"), [(0.9, 0.775, False), (1.2, 0.53, True)])
def test_a_fresh_fit_that_is_much_better_is_said_first(at, spread, alarm):
    """One cluster moves and shrinks, so that cost and shares stay as they were.

    A regret of 20 % may come from a better optimum, one of 57 % is an alarm by itself.
    """
    rng = np.random.default_rng(0)
    before = np.vstack([rng.normal(at, 1.0, (5_000, 2)) for at in ([0, 0], [20, 0])])
    after = np.vstack([rng.normal([at, 0], spread, (5_000, 2)), before[5_000:]])
    found = lwcs.drift(lwcs.CoresetKMeans(2, random_state=0).fit(before), after, random_state=0)
    assert found.drifted == alarm
    if alarm:
        assert found.reasons == (
            f"the model costs {100 * found.regret.value:.3g} % more than a fresh fit on these rows",
        )
    else:
        said = "No drift in cost per row and shares of clusters, but a fresh fit"
        assert str(found).startswith(said)
        assert repr(found).startswith("Drift(no alarm, regret 0.2")


def test_shares_that_differ_are_written_differently():
    assert _unlike(0.99996, 1.0) == ("99.996 %", "100 %")
    assert _unlike(0.1, 0.2) == ("10 %", "20 %")
