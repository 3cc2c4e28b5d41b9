"""The diagnosis: errors by method, predicted from one set of draws."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from benchmarks.hard_clusters import FAMILIES

import lwcs
from lwcs import CoresetKMeans, Lightweight
from lwcs.geometry import Geometry
from lwcs.sizing.fit_warnings import warn_of_method
from lwcs.solvers.lloyd import cluster
from lwcs.statistics.diagnosis import (
    METHODS,
    Diagnosis,
    errors_by_method,
    family_of,
)
from lwcs.statistics.draw_statistics import DrawStatistics


@pytest.fixture(scope="module")
def unequal() -> np.ndarray:
    """One wide cluster of few rows, far from many rows in tight ones: uniform draws lack it."""
    rng = np.random.default_rng(3)
    many = rng.normal(size=(60_000, 4)) + 30.0 * rng.integers(0, 4, (60_000, 1))
    return rng.permutation(np.vstack([many, [400.0] * 4 + 60.0 * rng.normal(size=(300, 4))]))


def on_draws(
    X: np.ndarray, method: str, centers: np.ndarray, m: int, seed: int = 0
) -> DrawStatistics:
    coreset = lwcs.build(X, m, method=method, n_clusters=len(centers), random_state=seed)
    geometry = coreset.geometry()
    rows, own = geometry.measured(coreset.points), geometry.own_centers(centers)
    return DrawStatistics.of(rows, coreset.weights, coreset.counts, *rows.nearest(own), own, m)


def excess(X: np.ndarray, method: str, best: np.ndarray, m: int, seeds: range) -> float:
    """Mean excess cost of Lloyd's algorithm on draws, from the best centers, over the best."""
    optimum = cluster(X, np.ones(len(X)), Geometry(), len(best), init=best, tol=0.0).cost
    source, lost = lwcs.scan(X), []
    for seed in seeds:
        coreset = lwcs.build(X, m, method=method, n_clusters=len(best), random_state=seed)
        found = cluster(coreset.points, coreset.weights, Geometry(), len(best), init=best)
        centers = found.centers.geometry.own_centers(found.centers.points)
        lost.append(lwcs.passes.full_cost(source, centers) / optimum - 1.0)
    return float(np.mean(lost))


def test_predicted_errors_are_measured_ones_where_uniform_is_five_times_worse(unequal):
    """Within a factor of 1.6; the mean of 40 fits has a standard error of about 15 %.

    Clusters are far apart, so that the second order is all there is: the factor is 1.
    """
    first = CoresetKMeans(5, random_state=0).fit(unequal)
    best = cluster(
        unequal, np.ones(len(unequal)), Geometry(), 5, init=first.cluster_centers_, tol=0.0
    ).centers.points
    m = 2_000
    measured = {method: excess(unequal, method, best, m, range(40)) for method in METHODS}
    assert measured["uniform"] > 5.0 * measured["lightweight"]
    for method in METHODS:
        formulas = on_draws(unequal, method, best, 20_000).formulas(m)
        for other in METHODS:
            assert 1 / 1.6 < formulas[other].means / measured[other] < 1.6, (method, other)


def test_the_formula_written_out():
    """Two clusters of two draws each; the mean is at 5, so that all are about equally far."""
    x = np.array([[0.0], [2.0], [8.0], [10.0]])
    rows = Geometry().measured(x)
    ones, counts = np.ones(4), np.ones(4, dtype=np.int64)
    centers = Geometry().own_centers(np.array([[1.0], [9.0]]))
    seen = DrawStatistics.of(rows, ones, counts, *rows.nearest(centers), centers, 10)
    assert seen.cost_share == pytest.approx(4 / 68)
    assert seen.shares.tolist() == [0.5, 0.5]
    assert seen.heaviest == pytest.approx(1.0)
    assert seen.spread(100) == pytest.approx(np.sqrt(2 * (68 / 4 + 16) / (1.0 * 100)))
    # Σ ω·d·Ω/W over m·φ: every one of two clusters has Var = 1·2/m.
    found = seen.formulas(10)["uniform"]
    assert found.means == pytest.approx(2 / 10)
    # A cluster is missed with probability exp(−10/2), and then half of the rows cost 64 more.
    assert found.missed == pytest.approx(2 * np.exp(-5.0) * 0.5 * 64)


def test_twice_the_draws_halve_the_error_and_units_do_not_matter(unequal):
    centers = unequal[:5]
    seen = on_draws(unequal, "lightweight", centers, 4_000)
    one, two = seen.formulas(1_000), seen.formulas(2_000)
    for method in METHODS:
        assert two[method].means == pytest.approx(one[method].means / 2)
    for factor in (2.0**-470, 2.0**470):
        other = on_draws(unequal * factor, "lightweight", centers * factor, 4_000)
        assert other.formulas(1_000)["refined"].means == pytest.approx(one["refined"].means)


def test_a_measured_error_gives_the_factor_of_the_others(unequal):
    seen = on_draws(unequal, "lightweight", unequal[:5], 4_000)
    plain = {name: each.means for name, each in replace(seen, apart=None).formulas(1_000).items()}
    seen = replace(seen, apart=None)
    told = errors_by_method(seen, "lightweight", 1_000, 3.0 * plain["lightweight"])
    assert told == pytest.approx({method: 3.0 * plain[method] for method in METHODS})
    # Far above the formula, the draws have missed something: one that looks closer would not.
    far = errors_by_method(seen, "lightweight", 1_000, 100.0 * plain["lightweight"])
    assert far["lightweight"] == pytest.approx(100.0 * plain["lightweight"])
    assert far["uniform"] == pytest.approx(100.0 * plain["uniform"])
    assert far["refined"] == pytest.approx(4.0 * plain["refined"])


def test_an_own_sampler_is_judged_by_its_weights(unequal):
    seen = on_draws(unequal, "lightweight", unequal[:5], 20_000)
    errors = errors_by_method(seen, "mine", 1_000)
    assert list(errors) == [*METHODS, "mine"]
    assert errors["mine"] == pytest.approx(errors["lightweight"], rel=0.05)


def test_rows_that_cost_nothing_say_nothing():
    rows = Geometry().measured(np.ones((3, 2)))
    centers = Geometry().own_centers(np.ones((1, 2)))
    seen = DrawStatistics.of(
        rows, np.ones(3), np.ones(3, dtype=np.int64), *rows.nearest(centers), centers, 3
    )
    assert errors_by_method(seen, "uniform", 3) == {}
    assert isnan(seen.cost_share)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            {"coreset_size": 1_000, "method": "lightweight"},
            "1,000 lightweight draws, as requested. Predicted",
        ),
        (
            {"coreset_size": 1_000, "method": Lightweight(draws="stratified")},
            "1,000 stratified lightweight draws, as requested. Predicted",
        ),
        (
            {"coreset_size": 1_000, "method": "sensitivity"},
            "1,000 sensitivity draws, as requested. Predicted",
        ),
        (
            {"coreset_size": 1_000, "method": "auto"},
            "method='auto' chose 1,000 lightweight draws: the size is given, and",
        ),
        ({"coreset_size": 100_000}, "All 60,300 rows were clustered, and nothing was sampled"),
    ],
)
def test_a_file_keeps_the_diagnosis(unequal, kind, words, tmp_path):
    model = CoresetKMeans(5, random_state=0, **kind).fit(unequal)
    model.save(tmp_path / "m.parquet")
    loaded = lwcs.load(tmp_path / "m.parquet")
    assert words in str(model.diagnosis_)
    assert str(loaded.diagnosis_) == str(model.diagnosis_)
    assert loaded.diagnosis_.errors == model.diagnosis_.errors
    assert loaded.method == (model.method if isinstance(model.method, str) else "auto")


def test_iterations_that_ended_early_are_no_sampling_error(tmp_path):
    """All rows were clustered; only the iterations are not at their end."""
    X = np.random.default_rng(1).lognormal(size=(30_000, 10))
    model = CoresetKMeans(250, random_state=0, max_iter=5).fit(X)
    assert model.coreset_.exact
    assert model.sampling_error_ == model.sampling_error_bound_ == 0.0
    assert 1e-4 < model.diagnosis_.unfinished < 0.02
    assert "nothing was sampled" in str(model.diagnosis_)
    assert "Iterations ended early: going on would lower the cost by" in str(model.diagnosis_)
    model.save(tmp_path / "m.parquet")
    assert lwcs.load(tmp_path / "m.parquet").diagnosis_ == model.diagnosis_


def test_a_coreset_is_diagnosed_and_not_warned_of(unequal):
    """Uniform draws of this data are a warning, but those of a coreset were made before."""
    coreset = lwcs.build(unequal, 1_000, method="uniform", random_state=0)
    found = CoresetKMeans(5, random_state=0).fit(coreset).diagnosis_
    assert found.used == "uniform"
    assert str(found).startswith("1,000 uniform draws, made before they were clustered. Predicted")
    assert set(found.errors) == set(METHODS)


def test_a_wrong_method_is_a_warning_that_names_the_better_one():
    X = FAMILIES["imbalanced"](50_000, 10, 20, 0)
    options = {"method": "lightweight", "compute_labels": False, "random_state": 1}
    with pytest.warns(
        UserWarning,
        match=r"^lightweight draws are not right.* with 800 of them.* with method='refined'; "
        r"pass that, or method='auto'$",
    ):
        model = CoresetKMeans(20, coreset_size=800, **options).fit(X)
    assert model.diagnosis_.better() == "refined"


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ("uniform", "uniform draws"),
        ("lightweight, stratified", "stratified lightweight draws"),
        ("sensitivity", "sensitivity draws"),
        ("mine", "mine draws"),
    ],
)
def test_any_label_of_a_wrong_method_is_a_warning(used, words):
    errors = {"uniform": 0.01, "lightweight": 0.01, "refined": 0.01, "mine": 0.01}
    errors[family_of(used)] = 0.9
    found = Diagnosis(used, used, "", 1_000, errors=errors, measured=0.9, noise=0.01)
    better = "lightweight" if used == "uniform" else "uniform"
    with pytest.warns(UserWarning, match=rf"^{words} are not right.*about 0.9.*{better!r}; pass"):
        warn_of_method(found, CoresetKMeans(5, method="lightweight")._request(), rereadable=True)


def test_draws_that_were_replaced_say_what_was_asked_for():
    found = Diagnosis("lightweight", "refined", "the first draws had missed clusters", 1_000)
    assert str(found) == (
        "1,000 refined draws instead of lightweight draws: the first draws had missed clusters."
    )
    assert replace(found, asked="refined").choice == (
        "1,000 refined draws: the first draws had missed clusters"
    )


def test_the_heaviest_draws_are_called_draws():
    """Each stands for as many rows as its weight says."""
    found = Diagnosis("auto", "uniform", "", 90, cost_share=0.5, smallest=0.1, heaviest=0.25)
    assert "the 10 heaviest draws have 25 % of the cost" in str(found)


@pytest.mark.parametrize("divergence", ["sqeuclidean", "kl", "cosine"])
def test_every_center_that_may_be_missed_knows_how_far_the_next_one_is(divergence):
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(500, 3)) + 0.1
    coreset = lwcs.build(X, 200, divergence=divergence, random_state=0)
    geometry = coreset.geometry()
    rows, centers = geometry.measured(coreset.points), geometry.own_centers(X[:30])
    seen = DrawStatistics.of(
        rows, coreset.weights, coreset.counts, *rows.nearest(centers), centers, 200
    )
    assert (seen.apart > 0.0).sum() > 10
    for j in np.flatnonzero(seen.apart):
        others = np.delete(centers.points, j, axis=0)
        apart = geometry.metric.between(centers.points[j], others).sum(axis=1)
        assert seen.apart[j] == pytest.approx(apart.min())


def test_centers_beyond_the_range_of_squares_are_infinitely_far():
    geometry = Geometry()
    rows = geometry.measured(np.array([[0.0], [1.0]]))
    centers = geometry.own_centers(np.array([[0.0], [1e160]]))
    ones, counts, far = np.ones(2), np.ones(2, dtype=np.int64), np.array([0, 1])
    seen = DrawStatistics.of(rows, ones, counts, np.zeros(2, dtype=np.int64), far, centers, 10)
    assert seen.apart.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("size", ["auto", 1_000])
def test_draws_are_looked_at_once(unequal, labels, size, monkeypatch):
    looked, plain = [], DrawStatistics.of
    monkeypatch.setattr(DrawStatistics, "of", lambda *rows: looked.append(rows) or plain(*rows))
    options = {"coreset_size": size, "compute_labels": labels, "random_state": 0}
    model = CoresetKMeans(5, method="auto", **options).fit(unequal)
    of_all = [seen for seen in looked if seen[-1] == model.coreset_.size]
    assert len(of_all) == 1


def test_a_method_that_is_as_good_is_no_warning():
    """12 fits of isotropic and of heavy-tailed rows: none may warn, since warnings are errors."""
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(30_000, 5)), rng.standard_t(4, size=(30_000, 5))):
        for method in ("uniform", "lightweight", "refined"):
            for seed in range(2):
                CoresetKMeans(10, coreset_size=500, method=method, random_state=seed).fit(X)


def test_noise_of_what_was_measured_is_no_reason_to_warn():
    errors = {"uniform": 0.2, "lightweight": 0.05, "refined": 0.04}
    found = Diagnosis("uniform", "uniform", "", 1_000, errors=errors, measured=0.2, noise=0.01)
    assert found.better() == "lightweight", "the first that is about as good as the best"
    assert found.better(("refined",)) == "refined"
    assert replace(found, noise=0.08).better() is None
    assert replace(found, used="lightweight").better() is None
