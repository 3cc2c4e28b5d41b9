"""A family defined outside of the package works wherever the built-in ones do."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import lwcs
from lwcs import CoresetMixture
from lwcs.divergences import KL, SquaredEuclidean
from lwcs.solvers import families
from lwcs.solvers.families import Family, Poisson
from tests.cli.test_commands import run

LOCATIONS = np.array([[0.0, 5.0], [9.0, -5.0]])
SCALES = np.array([[1.0, 0.5], [0.5, 2.0]])


class Laplace(Family):
    """Laplace distributions, independent by column."""

    name, divergence = "own_laplace", SquaredEuclidean()
    fitted: ClassVar = {"scale": "scales"}

    def fit(self, rows, weights):
        """Weighted medians, and weighted mean absolute deviations from them."""
        parts = [weighted_medians(rows, own) for own in weights.T]
        self.means = np.array(parts)
        self.scales = np.array(
            [
                own @ np.abs(rows - m) / own.sum()
                for m, own in zip(self.means, weights.T, strict=True)
            ]
        )

    def log_density(self, rows):
        """Σ −|x − m|/b − ln 2b."""
        parts = np.abs(rows[:, None] - self.means) / self.scales + np.log(2.0 * self.scales)
        return -parts.sum(axis=2)

    def sample(self, component, n, rng):
        shape = (n, self.means.shape[1])
        return rng.laplace(self.means[component], self.scales[component], shape)

    def n_parameters(self):
        return 2 * self.means.size


def weighted_medians(rows, weights):
    order = np.argsort(rows, axis=0)
    reached = np.cumsum(weights[order], axis=0) >= 0.5 * weights.sum()
    first = np.argmax(reached, axis=0)
    columns = np.arange(rows.shape[1])
    return rows[order[first, columns], columns]


def drawn(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    own = (rng.random(n) < 0.3).astype(int)
    return rng.laplace(LOCATIONS[own], SCALES[own]), own


@pytest.fixture(scope="module")
def model():
    X = drawn()[0]
    return CoresetMixture(2, family="own_laplace", coreset_size=4_000, random_state=0).fit(X)


def test_it_is_listed():
    assert families.available()["own_laplace"] is Laplace
    assert "gaussian" in families.available()


def test_its_parameters_are_recovered_and_shown(model):
    """Means of 1,200 effective draws at least: 0.3 is over four standard errors of the widest."""
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(model.means_[order], LOCATIONS, atol=0.3)
    np.testing.assert_allclose(model.scales_[order], SCALES, atol=0.3)
    assert model.coreset_.size == 4_000
    assert not hasattr(model, "covariances_")


def test_it_predicts_scores_and_samples(model):
    X, own = drawn(3_000, seed=1)
    order = np.argsort(model.means_[:, 0])
    assert np.mean(order[own] == model.predict(X)) > 0.99
    parts = [
        stats.laplace.logpdf(X, model.means_[j], model.scales_[j]).sum(axis=1)
        + np.log(model.weights_[j])
        for j in range(2)
    ]
    np.testing.assert_allclose(model.score_samples(X), np.logaddexp(*parts), rtol=1e-9)
    assert model.bic(X) == pytest.approx(-2.0 * np.logaddexp(*parts).sum() + 9 * np.log(3_000))
    sampled, labels = model.sample(20_000)
    for j in range(2):
        np.testing.assert_allclose(sampled[labels == j].mean(axis=0), model.means_[j], atol=0.2)


def test_it_is_saved_loaded_and_used_by_the_command_line(model, tmp_path):
    X = drawn(500, seed=2)[0]
    path = tmp_path / "m.parquet"
    model.save(path)
    again = lwcs.load(path)
    np.testing.assert_array_equal(again.scales_, model.scales_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.sample(5)[0], model.sample(5)[0])
    assert again.get_params() == model.get_params()
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_parquet(tmp_path / "X.parquet")
    rows, fitted = str(tmp_path / "X.parquet"), str(tmp_path / "n.parquet")
    options = ["-n", "2", "--family", "own_laplace", "--seed", "0", "-q"]
    assert run("mixture", rows, *options, "-o", fitted)[0] == 0
    assert json.loads(run("inspect", fitted, "--json")[1])["family"] == "own_laplace"
    assert lwcs.load(fitted).score(frame) == pytest.approx(model.score(X), rel=0.1)


def test_a_model_whose_class_is_not_defined_says_so(model, tmp_path, monkeypatch):
    model.save(tmp_path / "m.parquet")
    monkeypatch.delitem(Family._registered, "own_laplace")
    with pytest.raises(ValueError, match="family='own_laplace', which is not defined; import"):
        lwcs.load(tmp_path / "m.parquet")


def test_arrays_of_any_shape_and_numbers_are_saved(tmp_path):
    class Decorated(Laplace):
        name = "own_decorated"
        fitted: ClassVar = {
            "scale": "scales", "one": "ones", "matrix": "matrices", "count": "count",
        }  # fmt: skip

        def fit(self, rows, weights):
            super().fit(rows, weights)
            self.ones, self.count = weights.sum(axis=0), np.int64(len(rows))
            self.matrices = np.arange(12.0).reshape(2, 2, 3)

    model = CoresetMixture(2, family="own_decorated", random_state=0).fit(drawn(500)[0])
    model.save(tmp_path / "m.parquet")
    again = lwcs.load(tmp_path / "m.parquet")
    assert again.count_ == 500
    assert again.ones_.shape == (2,)
    for name in ("ones_", "matrices_", "scales_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    model.mixture_.family.ones = np.ones(3)
    with pytest.raises(ValueError, match=r"'one' of family='own_decorated' has shape \(3,\)"):
        model.save(tmp_path / "m.parquet")


def test_errors_about_rows_name_it_and_leave_the_divergence_of_others_alone():
    shared = KL(smoothing=0.0)

    class Counts(Poisson):
        name, divergence, start = "own_counts", shared, shared

    X = np.ones((20, 2))
    X[3, 1] = -1.0
    with pytest.raises(ValueError, match=r"column 1 is -1\.0; family='own_counts' requires x >="):
        CoresetMixture(family="own_counts").fit(X)
    with pytest.raises(ValueError, match="divergence='kl' requires x >="):
        shared(X[3], X[0])


def test_a_name_that_is_taken_is_refused_and_a_class_of_ours_may_be_defined_again():
    with pytest.raises(TypeError, match="'gamma' is the name of the built-in family Gamma; choose"):

        class Clash(Laplace):
            name = "gamma"

    assert families.available()["gamma"] is families.Gamma
    for _ in range(2):

        class Again(Laplace):
            name = "own_again"

    assert families.available()["own_again"] is Again


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"name": "own_incomplete"}, "Incomplete has no divergence"),
        (
            {"divergence": KL(), "fitted": {"weight": "w", "b": "means"}},
            r"reserved names \['means', 'weight'\]",
        ),
        ({"divergence": KL(), "derived": ("n_iter",)}, r"reserved names \['n_iter'\]"),
    ],
)
def test_a_class_that_cannot_work_is_refused_when_it_is_defined(members, message):
    with pytest.raises(TypeError, match=message):
        type("Incomplete", (Family,), {"name": "own_incomplete", **members})
    assert "own_incomplete" not in families.available()


def test_options_are_parameters_of_the_estimator():
    class Wishful(Laplace):
        name, options = "own_wishful", ("shape",)

    with pytest.raises(TypeError, match=r"options \['shape'\], which are not parameters"):
        CoresetMixture(family="own_wishful").fit(np.ones((5, 2)))
