"""Where EM starts: means_init, weights_init and precisions_init, as in scikit-learn."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import lwcs
from lwcs import CoresetMixture, divergences
from lwcs.divergences import SquaredEuclidean
from lwcs.solvers import em_starts
from lwcs.solvers.families import Family, available, weighted_means
from lwcs.solvers.families.gaussian import COVARIANCES
from tests.estimators.mixture_cases import (
    COUNTS,
    MEANS,
    ONES,
    POSITIVE,
    X,
    some_precisions,
    whole_start,
)

KINDS = pytest.mark.parametrize("kind", COVARIANCES)


@KINDS
def test_em_starts_from_exactly_the_mixture_that_is_given(kind):
    options = {"covariance_type": kind, "tol": 0.0, "max_iter": 8, **whole_start(kind)}
    with pytest.warns(ConvergenceWarning):
        ours = CoresetMixture(2, **options).fit(X)
    with pytest.warns(ConvergenceWarning):
        theirs = GaussianMixture(2, **options).fit(X)
    assert ours.coreset_.method == "all rows"
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=0, atol=1e-6)
    assert len(ours.lower_bounds_) == ours.n_iter_ == 8
    assert ours.lower_bounds_[-1] == ours.lower_bound_
    # The sequence is one of its own: the mixture of the data begins with another likelihood.
    assert abs(ours.lower_bounds_[0] - ours.lower_bounds_[-1]) > 0.1
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-6)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 1e5])
def test_an_ill_conditioned_precision_keeps_its_digits(scale):
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    precision = np.array([turn @ np.diag([1.0, 1e-6, 1e6]) @ turn.T] * 2) / scale**2
    precision = (precision + np.swapaxes(precision, 1, 2)) / 2.0
    options = {**whole_start("full"), "precisions_init": precision, "max_iter": 1}
    options["means_init"] = MEANS * scale
    bounds = []
    for model in (CoresetMixture(2, **options), GaussianMixture(2, **options)):
        with pytest.warns(ConvergenceWarning):
            bounds.append(model.fit(X * scale).lower_bound_)
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


def as_shares(rows):
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("family", "rows", "means", "distance", "measured"),
    [
        ("poisson", COUNTS, [[1.0, 6.0, 2.0], [9.0, 9.0, 0.2]], divergences.KL(0.0), None),
        ("multinomial", COUNTS, [[0.1, 0.8, 0.1], [0.6, 0.2, 0.2]], divergences.KL(0.0), as_shares),
        ("bernoulli", ONES, [[0.4, 0.6, 0.02], [0.7, 0.1, 0.4]], divergences.Logistic(0.0), None),
        ("exponential", POSITIVE, [[0.2, 3.0, 1.0], [9.0, 9.0, 9.0]], "itakura_saito", None),
        ("gamma", POSITIVE, [[0.2, 3.0, 1.0], [9.0, 9.0, 9.0]], "itakura_saito", None),
        ("gaussian", X, [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "sqeuclidean", None),
    ],
)
def test_given_means_are_assigned_by_the_divergence_of_the_family(
    family, rows, means, distance, measured
):
    shown = rows if measured is None else measured(rows)
    apart = divergences.as_divergence(distance)
    expected = np.argmin([apart(shown, np.broadcast_to(m, shown.shape)) for m in means], axis=0)
    by_squares = np.argmin(((rows[:, None] - np.array(means)) ** 2).sum(axis=2), axis=1)
    assert 0 < expected.mean() < 1
    if family != "gaussian":
        assert np.mean(expected != by_squares) > 0.05
    for make in (np.asarray, sp.csr_array) if available()[family].sparse else (np.asarray,):
        mixing, start = first_mixture(family, make(rows), means)
        np.testing.assert_allclose(mixing, np.bincount(expected) / len(rows))
        np.testing.assert_allclose(start.means, means)
    if family == "gaussian":
        spread = np.cov(rows[expected == 1].T, bias=True)
        np.testing.assert_allclose(start.covariances[1], spread, atol=1e-5)


def first_mixture(family, rows, means, **options):
    """Weights and components that EM starts from."""
    seen = []

    def noted(*arguments, **named):
        mixing = begin(*arguments, **named)
        seen.append((mixing, copy.deepcopy(arguments[2])))
        return mixing

    begin = em_starts.begin
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        patch.setattr(em_starts, "begin", noted)
        CoresetMixture(2, family=family, means_init=means, max_iter=1, **options).fit(rows)
    return seen[0]


@pytest.mark.parametrize(
    ("family", "rows", "density"),
    [
        ("poisson", COUNTS, lambda x, m: stats.poisson.logpmf(x, m).sum(axis=1)),
        ("multinomial", COUNTS, lambda x, m: stats.multinomial.logpmf(x, x.sum(axis=1), m)),
        ("bernoulli", ONES, lambda x, m: stats.bernoulli.logpmf(x, m).sum(axis=1)),
        ("exponential", POSITIVE, lambda x, m: stats.expon.logpdf(x, scale=m).sum(axis=1)),
    ],
)
def test_means_and_weights_are_the_whole_start_of_families_of_one_parameter(family, rows, density):
    means, weights = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]), np.array([0.1, 0.9])
    options = {"means_init": means, "weights_init": weights, "max_iter": 1}
    with pytest.warns(ConvergenceWarning):
        model = CoresetMixture(2, family=family, **options).fit(rows)
    parts = [density(rows, m) + np.log(w) for m, w in zip(means, weights, strict=True)]
    assert model.lower_bounds_[0] == pytest.approx(np.logaddexp(*parts).mean(), rel=1e-9)


def test_probabilities_are_divided_by_their_sum_and_zeros_are_moved_inside():
    counts, shares = (
        first_mixture("multinomial", COUNTS, np.array([[0.0, 1.0, 3.0], [2.0, 1.0, 1.0]]) * scale)
        for scale in (np.array([[1e200], [1.0]]), 0.25)
    )
    np.testing.assert_allclose(counts[1].means, shares[1].means, rtol=1e-12)
    assert (counts[1].means > 0.0).all()
    _, poisson = first_mixture("poisson", COUNTS, [[0.0, 1.0, 3.0], [2.0, 1.0, 1.0]])
    assert (poisson.means > 0.0).all()
    _, ones = first_mixture("bernoulli", ONES, [[0.0, 1.0, 1.0], [1.0, 0.0, 0.5]])
    assert ((ones.means > 0.0) & (ones.means < 1.0)).all()


@KINDS
def test_means_and_precisions_give_weights_by_the_most_likely_component(kind):
    mixing, start = first_mixture(
        "gaussian", X, MEANS, covariance_type=kind, precisions_init=some_precisions(kind)
    )
    np.testing.assert_array_equal(start.means, MEANS)
    np.testing.assert_allclose(start.precisions, some_precisions(kind), rtol=1e-12)
    likeliest = np.argmax(start.log_density(X), axis=1)
    np.testing.assert_allclose(mixing, np.bincount(likeliest) / len(X))


@KINDS
def test_precisions_alone_keep_the_means_of_the_clusters(kind):
    """As in scikit-learn, whose first k-means finds the same clusters here."""
    apart = np.concatenate([X, X + 50.0])
    options = {"covariance_type": kind, "precisions_init": some_precisions(kind), "max_iter": 1}
    bounds = []
    for model in (CoresetMixture(2, **options), GaussianMixture(2, **options)):
        model.set_params(weights_init=[0.5, 0.5], random_state=0)
        if kind != "tied":
            # Which cluster has which precision is arbitrary, unless all are equal.
            same = np.broadcast_to(some_precisions(kind)[0], np.shape(some_precisions(kind)))
            model.set_params(precisions_init=same.copy())
        with pytest.warns(ConvergenceWarning):
            bounds.append(model.fit(apart).lower_bound_)
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


def test_own_families_start_at_given_means():
    class Unit(Family):
        """Normal distributions of variance 1."""

        name, divergence = "own_unit", SquaredEuclidean()

        def fit(self, rows, weights):
            self.means = weighted_means(rows, weights)

        def log_density(self, rows):
            return -0.5 * ((rows[:, None] - self.means) ** 2 + np.log(2.0 * np.pi)).sum(axis=2)

        def sample(self, component, n, rng):
            return self.means[component] + rng.standard_normal((n, self.means.shape[1]))

        def n_parameters(self):
            return self.means.size

    options = {"means_init": MEANS + 0.5, "weights_init": [0.2, 0.8]}
    try:
        ours = CoresetMixture(2, family="own_unit", tol=1e-3, **options).fit(X)
        options["precisions_init"] = np.ones(2)
        theirs = GaussianMixture(2, covariance_type="spherical", max_iter=1, **options)
        with pytest.warns(ConvergenceWarning):
            assert ours.lower_bounds_[0] == pytest.approx(theirs.fit(X).lower_bound_, rel=1e-9)
    finally:
        del Family._registered["own_unit"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"means_init": np.zeros((3, 2))}, ValueError, r"means_init has shape \(3, 2\); pass sh"),
        ({"means_init": [[1.0, 2.0, 3.0], [1.0]]}, ValueError, "means_init is not an array of sha"),
        ({"means_init": [["a", "b", "c"]] * 2}, TypeError, "means_init has dtype"),
        ({"means_init": np.full((2, 3), np.nan)}, ValueError, r"means_init\[0, 0\]=nan is not fin"),
        ({"means_init": np.ma.masked_array(MEANS)}, TypeError, "means_init is a masked array"),
        ({"means_init": MEANS + 1e200}, ValueError, "row 0 is infinitely far from every row of me"),
        (
            {**whole_start("full"), "means_init": MEANS + 1e200},
            ValueError,
            "row 0 is so far from every component that its likelihood is 0; pass other means_init",
        ),
        ({"weights_init": [0.5, 0.3, 0.2]}, ValueError, r"weights_init has shape \(3,\)"),
        ({"weights_init": [0.5, 0.6]}, ValueError, r"weights_init sums to 1\.1; pass .* sum to 1"),
        ({"weights_init": [1.5, -0.5]}, ValueError, r"weights_init\[1\]=-0\.5 is not allowed"),
        (
            {"precisions_init": np.ones((2, 3))},
            ValueError,
            r"precisions_init has shape \(2, 3\); pass shape \(2, 3, 3\) for covariance_type=",
        ),
        (
            {"precisions_init": [np.eye(3), np.triu(np.ones((3, 3)))]},
            ValueError,
            r"precisions_init\[1\] is not symmetric and positive definite; pass the inverse",
        ),
        (
            {"precisions_init": [np.ones((3, 3))] * 2},
            ValueError,
            r"precisions_init\[0\] is not symmetric and positive definite; pass the inverse",
        ),
        (
            {"precisions_init": -np.eye(3), "covariance_type": "tied"},
            ValueError,
            "precisions_init is not symmetric and positive definite",
        ),
        (
            {"precisions_init": [1.0, 0.0], "covariance_type": "spherical"},
            ValueError,
            r"precisions_init\[1\]=0\.0 is not allowed",
        ),
        (
            {"precisions_init": [[1.0, 1.0, -2.0], [1.0, 1.0, 1.0]], "covariance_type": "diag"},
            ValueError,
            r"precisions_init\[0, 2\]=-2\.0 is not allowed",
        ),
        (
            {"precisions_init": np.ones(2), "family": "poisson"},
            ValueError,
            "family='poisson' has no precisions; leave it out",
        ),
        (
            {"means_init": np.zeros((2, 3)), "family": "multinomial"},
            ValueError,
            r"means_init\[0\] sums to 0",
        ),
        (
            {"means_init": [[1.0, 1.0, 1.0], [1.0, 2.0, 0.5]], "family": "bernoulli"},
            ValueError,
            r"means_init\[1, 1\]=2\.0 is not allowed: family='bernoulli' requires 0 <= x <= 1",
        ),
        ({"init": MEANS}, TypeError, "init is of type ndarray; .* passed as means_init="),
    ],
)
def test_what_cannot_be_a_start_is_named(options, error, message):
    rows = ONES if "family" in options else X
    with pytest.raises(error, match=message):
        CoresetMixture(2, **options).fit(rows)


def test_starts_are_checked_before_rows_are_read():
    def batches():
        raise AssertionError("rows were read")
        yield X

    source = lwcs.scan(pd.DataFrame(X))
    source.gather = source.map_rows = batches
    with pytest.raises(ValueError, match="weights_init sums to 2"):
        CoresetMixture(2, coreset_size=10, weights_init=[1.0, 1.0]).fit(source)


def test_restarts_from_given_means_are_one_restart_with_a_warning(monkeypatch):
    options = {"n_init": 4, "random_state": 0}
    with pytest.warns(
        RuntimeWarning, match="only one restart is performed instead of n_init=4"
    ) as caught:
        model = CoresetMixture(2, means_init=MEANS, **options).fit(X)
    assert caught[0].filename == __file__
    assert model.lower_bounds_ == CoresetMixture(2, means_init=MEANS).fit(X).lower_bounds_
    # Weights alone leave the clusters to chance.
    seen = []
    monkeypatch.setattr(
        em_starts,
        "_clusters",
        lambda *a, **_: seen.append(a) or np.arange(len(X)) % 2,
    )
    CoresetMixture(2, weights_init=[0.5, 0.5], tol=1.0, **options).fit(X)
    assert len(seen) == 4


def test_means_of_a_model_are_where_another_goes_on():
    model = CoresetMixture(2, random_state=0, tol=1e-9, max_iter=500).fit(X)
    given = {
        "means_init": model.means_,
        "weights_init": model.weights_,
        "precisions_init": model.precisions_,
    }
    again = CoresetMixture(2, **given).fit(X)
    assert again.n_iter_ == 2
    assert again.lower_bound_ == pytest.approx(model.lower_bound_, abs=1e-8)


def test_given_arrays_are_neither_changed_nor_saved(tmp_path):
    start = whole_start("full")
    before = copy.deepcopy(start)
    model = CoresetMixture(2, **start, random_state=0).fit(X)
    for name, values in start.items():
        np.testing.assert_array_equal(values, before[name])
        assert getattr(model, name) is values
    model.save(tmp_path / "m.parquet")
    again = lwcs.load(tmp_path / "m.parquet")
    assert again.means_init is again.weights_init is again.precisions_init is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_warm_start_is_one_run_whatever_n_init(monkeypatch):
    model = CoresetMixture(2, warm_start=True, n_init=3, random_state=0).fit(X)
    runs, run = [], em_starts.fit_mixture
    monkeypatch.setattr(em_starts, "fit_mixture", lambda *a, **o: runs.append(1) or run(*a, **o))
    model.fit(X)
    assert len(runs) == 1
