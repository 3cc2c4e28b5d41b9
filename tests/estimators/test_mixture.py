"""CoresetMixture: what it gives on all rows, on a coreset, and on bad rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

import lwcs
from lwcs import CoresetMixture
from lwcs.divergences import available
from lwcs.solvers import em_starts
from lwcs.solvers.families.gaussian import COVARIANCES
from lwcs.solvers.lloyd import cluster
from tests.estimators.sklearn_failures import expected_failures

MEANS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 9.0]])


def blobs(n=60_000, seed=0):
    rng = np.random.default_rng(seed)
    own = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    shapes = np.array(
        [[[1.0, 0.6], [0.6, 1.0]], [[2.0, 0.0], [0.0, 0.2]], [[0.5, 0.0], [0.0, 0.5]]]
    )
    noise = rng.standard_normal((n, 2))
    return np.einsum("nij,nj->ni", shapes[own], noise) + MEANS[own]


def _not_for(model: CoresetMixture) -> dict[str, str]:
    if model.n_components > 1:
        return expected_failures(model)
    if model.family == "gaussian":
        return {}
    checks = ("check_estimator_sparse_array", "check_estimator_sparse_matrix")
    return dict.fromkeys(checks, "it takes whatever has predict_proba for a classifier")


@parametrize_with_checks(
    [
        CoresetMixture(),
        CoresetMixture(2, covariance_type="diag", coreset_size=20),
        CoresetMixture(family="poisson"),
        CoresetMixture(family="multinomial"),
    ],
    expected_failed_checks=_not_for,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_a_coreset_of_two_percent_loses_less_than_a_percent_of_the_gain(kind):
    train, held_out = blobs(), blobs(20_000, seed=1)
    one = GaussianMixture(1, covariance_type=kind).fit(train).score(held_out)
    full = GaussianMixture(3, covariance_type=kind, random_state=0, tol=1e-5, max_iter=300)
    gain = full.fit(train).score(held_out) - one
    ours = CoresetMixture(
        3, covariance_type=kind, coreset_size=1_200, random_state=0, tol=1e-5, max_iter=300
    ).fit(train)
    assert ours.coreset_.size == 1_200
    lost = 1.0 - (ours.score(held_out) - one) / gain
    assert lost < 0.01


@pytest.mark.parametrize("kind", COVARIANCES)
def test_all_rows_and_the_same_start_are_scikit_learns_mixture(kind):
    X = blobs(3_000)
    options = {"covariance_type": kind, "tol": 1e-12, "max_iter": 2_000}
    ours = CoresetMixture(3, means_init=MEANS, **options).fit(X)
    theirs = GaussianMixture(3, means_init=MEANS, random_state=0, **options).fit(X)
    assert ours.coreset_.method == "all rows"
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=1e-6)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-4)


def test_a_warm_start_of_another_kind_starts_afresh():
    X = np.abs(blobs(2_000))
    model = CoresetMixture(3, warm_start=True, random_state=0).fit(X)
    for options in ({"n_components": 5}, {"n_components": 5, "family": "poisson"}):
        fresh = CoresetMixture(random_state=0, **options).fit(X)
        model.set_params(**options).fit(X)
        np.testing.assert_array_equal(model.means_, fresh.means_)
        np.testing.assert_array_equal(model.weights_, fresh.weights_)


def test_few_rows_are_fitted_themselves_and_weights_are_copies():
    X = blobs(500)
    model = CoresetMixture(3, random_state=0).fit(X)
    assert model.coreset_.method == "all rows"
    w = np.random.default_rng(0).integers(1, 4, 500)
    start = X[:3]
    once = CoresetMixture(3, means_init=start, tol=1e-8, max_iter=500).fit(X, sample_weight=w)
    copies = CoresetMixture(3, means_init=start, tol=1e-8, max_iter=500).fit(
        np.repeat(X, w, axis=0)
    )
    np.testing.assert_allclose(once.means_, copies.means_, atol=1e-6)
    np.testing.assert_allclose(once.covariances_, copies.covariances_, atol=1e-6)


def test_answers_agree_with_each_other_and_with_scikit_learn():
    X = blobs(3_000)
    model = CoresetMixture(3, random_state=0, tol=1e-8, max_iter=500).fit(X)
    theirs = GaussianMixture(3, means_init=model.means_, tol=1e-8, max_iter=500).fit(X)
    np.testing.assert_allclose(model.score_samples(X), theirs.score_samples(X), atol=1e-3)
    assert model.bic(X) == pytest.approx(theirs.bic(X), rel=1e-5)
    assert model.aic(X) == pytest.approx(theirs.aic(X), rel=1e-5)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), np.argmax(shares, axis=1))
    drawn, labels = model.sample(2_000)
    assert drawn.shape == (2_000, 2)
    assert np.mean(model.predict(drawn) == labels) > 0.95


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("family", ["poisson", "multinomial"])
def test_topics_of_counts_are_found(family, make):
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(30, 0.2), 4)
    own = rng.integers(0, 4, 20_000)
    X = rng.poisson(40.0 * chances[own]).astype(float)
    model = CoresetMixture(4, family=family, coreset_size=1_000, random_state=0).fit(make(X))
    labels = model.predict(make(X))
    found = model.means_ / model.means_.sum(axis=1, keepdims=True)
    nearest = np.argmin(((found[:, None] - chances[None]) ** 2).sum(axis=2), axis=1)
    assert sorted(nearest) == [0, 1, 2, 3]
    assert np.mean(nearest[labels] == own) > 0.95


@pytest.mark.parametrize("family", ["bernoulli", "exponential", "gamma"])
def test_the_other_families_gain_over_one_component(family):
    rng = np.random.default_rng(0)
    own = rng.integers(0, 2, 20_000)
    means = np.array([[0.2, 0.8, 0.5, 0.9], [0.7, 0.3, 0.9, 0.2]])[own]
    X = rng.binomial(1, means).astype(float) if family == "bernoulli" else rng.exponential(means)
    fitted = [
        CoresetMixture(k, family=family, coreset_size=2_000, random_state=0, max_iter=500).fit(X)
        for k in (1, 2)
    ]
    assert fitted[1].bic(X) < fitted[0].bic(X)
    assert np.isfinite(fitted[1].sample(10)[0]).all()
    assert hasattr(fitted[1], "shapes_") == (family == "gamma")


def test_containers():
    X = blobs(5_000)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = CoresetMixture(3, coreset_size=900, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    parts = lwcs.PartitionedSource([X[:2_000], X[2_000:]])
    assert [len(labels) for labels in CoresetMixture(2).fit(parts).predict(parts)] == [2_000, 3_000]
    coreset = lwcs.build(X, 900, random_state=0)
    assert CoresetMixture(3, random_state=0).fit(coreset).coreset_ is coreset
    with pytest.raises(TypeError, match="supports predict only"):
        CoresetMixture(2).fit(parts).predict_proba(parts)


def test_a_warm_start_goes_on_where_the_last_fit_ended():
    X = blobs(5_000)
    model = CoresetMixture(3, random_state=0, max_iter=2, warm_start=True, tol=1e-6)
    bounds = []
    for _ in range(2):
        with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=2"):
            bounds.append(model.fit(X).lower_bound_)
    # Afresh, the same seed would give the same again.
    assert bounds[1] > bounds[0]


@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_two_fits_of_one_iteration_are_one_of_two_and_converge_in_the_end():
    X = blobs(3_000)
    twice = CoresetMixture(3, random_state=0, max_iter=1, warm_start=True).fit(X)
    assert not twice.converged_
    twice.fit(X)
    once = CoresetMixture(3, random_state=0, max_iter=2).fit(X)
    assert twice.n_iter_ == 1
    assert twice.lower_bound_ == pytest.approx(once.lower_bound_, rel=1e-12)
    np.testing.assert_allclose(twice.weights_, once.weights_, rtol=1e-9)
    np.testing.assert_allclose(twice.covariances_, once.covariances_, rtol=1e-9)
    for _ in range(50):
        if twice.fit(X).converged_:
            break
    whole = CoresetMixture(3, random_state=0).fit(X)
    assert twice.converged_
    assert twice.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)


@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_a_warm_start_on_draws_converges_in_the_end():
    X = blobs(30_000)
    model = CoresetMixture(3, random_state=0, max_iter=1, warm_start=True, target_error=1.0)
    assert any(model.fit(X).converged_ for _ in range(50))
    assert not model.coreset_.exact


def test_restarts_keep_the_likeliest():
    X = blobs(3_000)
    bounds = [
        CoresetMixture(3, init="random", n_init=n, random_state=3, max_iter=500).fit(X).lower_bound_
        for n in (1, 5)
    ]
    assert bounds[1] > bounds[0]


def test_restarts_are_keyed_and_the_first_one_is_the_only_one_of_a_single_run(monkeypatch):
    seeds = []

    def noted(*arguments, seed, **options):
        seeds.append(seed)
        return cluster(*arguments, seed=seed, **options)

    monkeypatch.setattr(em_starts, "cluster", noted)
    for seed in (3, 4):
        CoresetMixture(2, n_init=3, random_state=seed).fit(blobs(300))
    assert (seeds[0], seeds[3]) == (3, 4)
    assert len(set(seeds)) == 6


@pytest.mark.parametrize(
    ("family", "value", "allowed"),
    [
        ("poisson", -1.0, "x >= 0"),
        ("multinomial", -0.5, "x >= 0"),
        ("bernoulli", 1.5, "0 <= x <= 1"),
        ("exponential", 0.0, "x > 0"),
        ("gamma", -2.0, "x > 0"),
    ],
)
def test_rows_outside_of_a_family_are_named(family, value, allowed):
    X = np.full((50, 3), 0.5)
    X[7, 2] = value
    with pytest.raises(ValueError, match=f"row 7, column 2 is {value}.*{allowed}"):
        CoresetMixture(2, family=family).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "gausian"}, "did you mean 'gaussian'"),
        ({"covariance_type": "diagonal"}, "did you mean 'diag'"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 100}, "n_samples=50 should be >= n_components=100"),
        ({"coreset_size": 1, "n_components": 2}, "coreset_size >= 2"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"reg_covar": -1.0}, "reg_covar=-1.0"),
        ({"init": "kmeans"}, "did you mean 'k-means'"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        CoresetMixture(**options).fit(np.random.default_rng(0).random((50, 2)))


def test_a_scale_is_refused():
    with pytest.raises(ValueError, match="scale='standard' is not supported"):
        CoresetMixture(2).fit(lwcs.scan(blobs(50), scale="standard"))


def drawn_from(family: str, n: int, seed: int) -> np.ndarray:
    """Rows of two components, 30 and 70 percent, of known means."""
    rng = np.random.default_rng(seed)
    own = (rng.random(n) < 0.7).astype(int)
    mean = PARTS[family][own]
    if family == "gaussian":
        return mean + rng.standard_normal((n, 3)) @ FACTOR
    if family == "poisson":
        return rng.poisson(mean).astype(float)
    if family == "multinomial":
        return rng.multinomial(40, mean).astype(float)
    if family == "bernoulli":
        return rng.binomial(1, mean).astype(float)
    shape = {"exponential": 1.0, "gamma": 4.0}[family]
    return rng.gamma(shape, mean / shape)


FACTOR = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.7]])
PARTS = {
    "gaussian": np.array([[0.0, 1.0, -2.0], [3.0, -2.0, 1.0]]),
    "poisson": np.array([[2.0, 9.0, 1.0, 4.0], [6.0, 3.0, 2.0, 4.0]]),
    "multinomial": np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]),
    "bernoulli": np.tile([[0.2, 0.7], [0.8, 0.3]], (1, 5)),
    "exponential": np.tile([[1.0, 9.0], [5.0, 2.0]], (1, 3)),
    "gamma": np.tile([[1.0, 9.0], [5.0, 2.0]], (1, 3)),
}


@pytest.mark.statistical
@pytest.mark.parametrize("family", PARTS)
def test_parameters_of_every_family_are_recovered(family):
    """On 10 coresets of m draws: each within five standard deviations of a fit on m/2 rows.

    Weights between 0 and twice the average make the variance of a mean up to twice as large. The
    deviations are estimated from 10 samples; all that is random has a fixed seed.
    """
    n, m = 60_000, 4_000
    options = {"family": family, "tol": 1e-6, "max_iter": 300}
    X = drawn_from(family, n, 0)
    found = {"coreset": [], "sample": []}
    for seed in range(10):
        models = {
            "coreset": CoresetMixture(2, coreset_size=m, random_state=seed, **options).fit(X),
            "sample": CoresetMixture(2, coreset_size=2 * m, random_state=seed, **options).fit(
                drawn_from(family, m // 2, 1 + seed)
            ),
        }
        for name, model in models.items():
            order = np.argsort(model.weights_)
            own = [model.weights_[order][:1], model.means_[order].ravel()]
            if family == "gaussian":
                own.append(model.covariances_.ravel())
            found[name].append(np.concatenate(own))
    truth = np.append(0.3, PARTS[family])
    if family == "gaussian":
        truth = np.append(truth, np.tile(FACTOR.T @ FACTOR, (2, 1, 1)))
    deviation = np.std(found["sample"], axis=0, ddof=1)
    errors = np.abs(np.array(found["coreset"]) - truth) / deviation
    assert errors.max() <= 5.0
    assert models["coreset"].coreset_.size == m
    assert models["sample"].coreset_.method == "all rows"


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("gaussian", "sqeuclidean"),
        ("poisson", "kl"),
        ("bernoulli", "logistic"),
        ("gamma", "itakura_saito"),
    ],
)
def test_rows_are_drawn_by_the_divergence_of_the_family(family, name):
    X = drawn_from("poisson" if family == "gaussian" else family, 3_000, 0)
    model = CoresetMixture(2, family=family, coreset_size=300, random_state=0).fit(X)
    divergence = available()[name]
    own = divergence(smoothing=0.0) if divergence().smoothing else divergence()
    assert model.coreset_ == lwcs.build(X, 300, divergence=own, random_state=0)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "multinomial", "gamma"])
def test_the_scale_of_the_weights_does_not_matter(family):
    X = drawn_from(family, 2_000, 0)
    w = np.random.default_rng(0).random(2_000)
    models = [
        CoresetMixture(2, family=family, random_state=0).fit(X, sample_weight=w * scale)
        for scale in (1.0, 1e-20, 1e20)
    ]
    for model in models[1:]:
        assert model.score(X) == pytest.approx(models[0].score(X), rel=1e-6)


def test_scores_are_weighted_and_of_any_source(tmp_path):
    X, w = blobs(3_000), np.random.default_rng(0).integers(0, 4, 3_000)
    model = CoresetMixture(3, random_state=0).fit(X)
    copies = np.repeat(X, w, axis=0)
    expected = model.score_samples(copies).mean()
    for score in (
        model.score(X, sample_weight=w),
        model.score(lwcs.scan(X, weight=w)),
        model.score(copies),
    ):
        assert score == pytest.approx(expected, rel=1e-12)
    assert model.score(X) != pytest.approx(expected, rel=1e-6)
    assert model.bic(lwcs.scan(X, weight=w)) == pytest.approx(model.bic(copies))
    parts = lwcs.PartitionedSource([X[:100], X[100:]])
    assert model.aic(parts) == pytest.approx(model.aic(X))
    with pytest.raises(ValueError, match="sample_weight has shape"):
        model.score(X, sample_weight=w[:5])
    with pytest.raises(ValueError, match="all weights are zero"):
        model.score(X, sample_weight=np.zeros(3_000))


def test_a_fit_forgets_the_last_one():
    X = drawn_from("gamma", 500, 0)
    model = CoresetMixture(2, max_iter=500, random_state=0).fit(X)
    model.set_params(family="gamma").fit(X)
    assert not hasattr(model, "covariances_")
    with pytest.raises(ValueError, match="family='gamma' requires x > 0"):
        model.fit(-X[:, :3])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_rows_too_far_to_be_likely_are_named():
    X = blobs(500)
    model = CoresetMixture(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"row 3 are so large \(up to 1e\+160\)"):
        model.predict_proba(np.where(np.arange(500)[:, None] == 3, 1e160, X))
