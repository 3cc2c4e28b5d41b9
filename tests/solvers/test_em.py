"""EM on weighted rows, against scikit-learn and against what is written out here."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.mixture import GaussianMixture

from lwcs.solvers.em import fit_mixture, log_joint, maximize
from lwcs.solvers.families import (
    Bernoulli,
    ExponentialDistribution,
    Gamma,
    Gaussian,
    Multinomial,
    Poisson,
)
from lwcs.solvers.families.gaussian import COVARIANCES

RNG = np.random.default_rng(0)
TRUE = np.array([[0.0, 0.0, 1.0], [4.0, 1.0, -2.0], [-3.0, 5.0, 0.0]])
OWN = RNG.integers(0, 3, 900)
X = RNG.normal(size=(900, 3)) * [1.0, 0.5, 2.0] + TRUE[OWN]


def one_hot(labels, k=3):
    return np.eye(k)[labels]


def fit_from(rows, weights, family, shares, **options):
    """EM from responsibilities."""
    mixing = maximize(rows, weights, family, shares)
    return fit_mixture(rows, weights, family, mixing, **options)


def rough_labels(n=900, k=3):
    """A bad start, the same for everybody."""
    return np.random.default_rng(5).integers(0, k, n)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_all_rows_give_what_scikit_learn_gives(kind):
    start = Gaussian(kind, 1e-6)
    start.fit(X, one_hot(rough_labels()))
    ours = fit_from(
        X, np.ones(900), Gaussian(kind, 1e-6), one_hot(rough_labels()), max_iter=200, tol=1e-9
    )
    factors = start.precisions_cholesky
    precisions = {
        "full": lambda: factors @ np.swapaxes(factors, 1, 2),
        "tied": lambda: factors @ factors.T,
    }.get(kind, lambda: factors**2)()
    theirs = GaussianMixture(
        3,
        covariance_type=kind,
        weights_init=np.bincount(rough_labels()) / 900,
        means_init=start.means,
        precisions_init=precisions,
        max_iter=200,
        tol=1e-9,
    ).fit(X)
    assert ours.lower_bound == pytest.approx(theirs.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(ours.family.means, theirs.means_, atol=1e-4)
    np.testing.assert_allclose(ours.family.covariances, theirs.covariances_, atol=1e-4)
    assert ours.family.n_parameters() == theirs._n_parameters() - 2


def counts(family):
    rng = np.random.default_rng(3)
    own = rng.integers(0, 2, 600)
    if family == "poisson":
        return rng.poisson(np.array([[1.0, 6.0, 2.0], [5.0, 1.0, 3.0]])[own]).astype(float), own
    if family == "multinomial":
        chances = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
        return np.array([rng.multinomial(20, chances[j]) for j in own], dtype=float), own
    if family == "bernoulli":
        return rng.binomial(1, np.array([[0.9, 0.1, 0.8], [0.2, 0.7, 0.3]])[own]).astype(float), own
    if family == "exponential":
        return rng.exponential(np.array([[1.0, 9.0, 1.0], [8.0, 1.0, 20.0]])[own]), own
    return rng.gamma(np.array([[2.0, 5.0, 1.0], [9.0, 1.5, 4.0]])[own], 2.0), own


MAKE = {
    "poisson": Poisson,
    "multinomial": Multinomial,
    "bernoulli": Bernoulli,
    "exponential": ExponentialDistribution,
    "gamma": Gamma,
}
FAMILIES = pytest.mark.parametrize("name", list(MAKE))


@FAMILIES
def test_densities_are_those_of_scipy(name):
    rows, own = counts(name)
    family = MAKE[name]()
    family.fit(rows, one_hot(own, 2))
    got = family.log_density(rows)
    for j, mean in enumerate(family.means):
        np.testing.assert_allclose(got[:, j], by_scipy(name, rows, family, j, mean), rtol=1e-9)


def by_scipy(name, rows, family, j, mean):
    if name == "poisson":
        return stats.poisson.logpmf(rows, mean).sum(axis=1)
    if name == "multinomial":
        return stats.multinomial.logpmf(rows, rows.sum(axis=1), mean)
    if name == "bernoulli":
        return stats.bernoulli.logpmf(rows, mean).sum(axis=1)
    if name == "exponential":
        return stats.expon.logpdf(rows, scale=mean).sum(axis=1)
    shape = family.shapes[j]
    return stats.gamma.logpdf(rows, shape, scale=mean / shape).sum(axis=1)


@FAMILIES
def test_the_log_likelihood_never_falls_and_the_parts_are_found(name):
    rows, own = counts(name)
    rng = np.random.default_rng(1)
    weights = rng.exponential(size=len(rows))
    found = fit_from(
        rows, weights, MAKE[name](), rng.dirichlet([1, 1], len(rows)), max_iter=300, tol=1e-9
    )
    assert np.all(np.diff(found.bounds) >= -1e-10)
    labels = np.argmax(log_joint(found.family, found.weights, rows), axis=1)
    agree = np.mean(labels == own)
    assert max(agree, 1.0 - agree) > 0.8


@FAMILIES
def test_weight_three_is_three_copies(name):
    rows, _ = counts(name)
    shares = np.random.default_rng(2).dirichlet([1, 1], len(rows))
    weights = np.random.default_rng(2).integers(1, 4, len(rows))
    once = fit_from(rows, weights * 1.0, MAKE[name](), shares, max_iter=20, tol=0.0)
    copies = np.repeat(np.arange(len(rows)), weights)
    again = fit_from(
        rows[copies], np.ones(len(copies)), MAKE[name](), shares[copies], max_iter=20, tol=0.0
    )
    np.testing.assert_allclose(once.family.means, again.family.means, rtol=1e-9)
    np.testing.assert_allclose(once.bounds, again.bounds, rtol=1e-9)


@pytest.mark.parametrize("name", ["poisson", "multinomial", "bernoulli"])
def test_sparse_rows_give_the_same(name):
    rows, _ = counts(name)
    shares = np.random.default_rng(2).dirichlet([1, 1], len(rows))
    ones = np.ones(len(rows))
    dense = fit_from(rows, ones, MAKE[name](), shares, max_iter=20, tol=0.0)
    sparse = fit_from(sp.csr_array(rows), ones, MAKE[name](), shares, max_iter=20, tol=0.0)
    np.testing.assert_allclose(dense.family.means, sparse.family.means, rtol=1e-10)
    np.testing.assert_allclose(dense.bounds, sparse.bounds, rtol=1e-10)


def test_one_step_of_poisson_written_out():
    rows = np.array([[1.0], [2.0], [9.0]])
    shares = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    weights = np.array([1.0, 2.0, 1.0])
    found = fit_from(rows, weights, Poisson(), shares, max_iter=1, tol=0.0)
    # From shares: rates (1·1 + 1·2)/2 and (1·2 + 1·9)/2, both with half of the weight.
    low, high = stats.poisson.pmf(rows[:, 0], 1.5), stats.poisson.pmf(rows[:, 0], 5.5)
    evidence = 0.5 * low + 0.5 * high
    assert found.lower_bound == pytest.approx(weights @ np.log(evidence) / 4.0)
    owned = weights * 0.5 * low / evidence
    assert found.family.means[0, 0] == pytest.approx(owned @ rows[:, 0] / owned.sum())
    assert found.weights[0] == pytest.approx(owned.sum() / 4.0)


def test_a_component_without_rows_stays_finite():
    shares = np.zeros((900, 4))
    shares[:, :3] = one_hot(OWN)
    found = fit_from(X, np.ones(900), Gaussian("full", 1e-6), shares, max_iter=50, tol=1e-6)
    assert np.isfinite(found.lower_bound)
    assert np.isfinite(found.family.covariances).all()
    assert np.all(np.diff(found.bounds) >= -1e-9)


def test_a_singular_component_is_refused_with_the_way_out():
    rows = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    with pytest.raises(ValueError, match="a larger reg_covar"):
        fit_from(rows, np.ones(20), Gaussian("full", 0.0), one_hot(np.repeat([0, 1], 10), 2),
            max_iter=5, tol=0.0,
        )  # fmt: skip


@pytest.mark.parametrize("kind", COVARIANCES)
def test_samples_of_a_gaussian_have_its_moments(kind):
    """Bounds of six standard errors."""
    family = Gaussian(kind, 1e-6)
    family.fit(X, one_hot(OWN))
    drawn = family.sample(1, 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), family.means[1], atol=6 * 2.5 / 200)
    variances = {
        "full": lambda: np.diag(family.covariances[1]),
        "tied": lambda: np.diag(family.covariances),
    }.get(kind, lambda: np.broadcast_to(family.covariances[1], 3))()
    np.testing.assert_allclose(drawn.var(axis=0), variances, rtol=6 * np.sqrt(2 / 40_000))


def test_one_step_of_multinomial_written_out():
    rows = np.array([[3.0, 1.0], [2.0, 2.0], [0.0, 5.0]])
    shares = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    weights = np.array([1.0, 2.0, 1.0])
    found = fit_from(rows, weights, Multinomial(), shares, max_iter=1, tol=0.0)
    # From shares: counts (3 + 2, 1 + 2) and (2, 2 + 5), both with half of the weight.
    trials = rows.sum(axis=1).astype(int)
    low = stats.multinomial.pmf(rows, trials, [5 / 8, 3 / 8])
    high = stats.multinomial.pmf(rows, trials, [2 / 9, 7 / 9])
    evidence = 0.5 * low + 0.5 * high
    assert found.lower_bound == pytest.approx(weights @ np.log(evidence) / 4.0)
    owned = weights * 0.5 * low / evidence
    np.testing.assert_allclose(found.family.means[0], owned @ rows / (owned @ trials), rtol=1e-9)
    assert found.weights[0] == pytest.approx(owned.sum() / 4.0)
