"""What scikit-learn's GaussianMixture has, and CoresetMixture too: attributes, labels, models."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky

import lwcs
from lwcs import CoresetMixture
from lwcs.solvers.families.gaussian import COVARIANCES
from tests.estimators.mixture_cases import COUNTS, X, whole_start

KINDS = pytest.mark.parametrize("kind", COVARIANCES)


@KINDS
def test_covariances_and_precisions_are_those_of_scikit_learn(kind, tmp_path):
    options = {"covariance_type": kind, "tol": 1e-10, "max_iter": 500, **whole_start(kind)}
    theirs = GaussianMixture(2, **options).fit(X)
    ours = CoresetMixture(2, **options).fit(X)
    ours.save(tmp_path / "m.parquet")
    for model in (ours, lwcs.load(tmp_path / "m.parquet")):
        for name in ("covariances_", "precisions_", "precisions_cholesky_"):
            assert name in vars(model)
            np.testing.assert_allclose(
                getattr(model, name), getattr(theirs, name), rtol=1e-5, atol=1e-6
            )
        np.testing.assert_allclose(
            model.precisions_cholesky_,
            _compute_precision_cholesky(model.covariances_, kind),
            rtol=1e-10,
            atol=1e-12,
        )
        assert model.lower_bounds_ == ours.lower_bounds_
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, atol=1e-6)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_fit_predict_is_fit_and_predict(family):
    rows = X if family == "gaussian" else COUNTS
    for size in ("auto", 50):
        options = {"family": family, "coreset_size": size, "random_state": 0}
        labels = CoresetMixture(2, **options).fit_predict(rows)
        np.testing.assert_array_equal(labels, CoresetMixture(2, **options).fit(rows).predict(rows))
    options = {"covariance_type": "full", "tol": 1e-8, "max_iter": 500, **whole_start("full")}
    theirs = GaussianMixture(2, **options).fit_predict(X)
    np.testing.assert_array_equal(CoresetMixture(2, **options).fit_predict(X), theirs)


def test_fit_predict_takes_weights_files_partitions_and_coresets(tmp_path):
    weights = np.random.default_rng(0).integers(1, 9, len(X))
    model = CoresetMixture(2, random_state=0)
    own = CoresetMixture(2, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.fit_predict(X, sample_weight=weights), own.predict(X))
    np.testing.assert_array_equal(model.weights_, own.weights_)
    pd.DataFrame(X, columns=list("abc")).to_parquet(tmp_path / "x.parquet")
    labels = model.fit_predict(X)
    np.testing.assert_array_equal(np.concatenate([*model.fit_predict(parts())]), labels)
    from_file = model.fit_predict(str(tmp_path / "x.parquet"))
    np.testing.assert_array_equal(flat(from_file), labels)
    coreset = lwcs.build(X, 100, random_state=0)
    found = model.fit_predict(coreset)
    np.testing.assert_array_equal(found, model.predict(coreset.points))


def parts():
    return lwcs.PartitionedSource([X[:150], X[150:]])


def flat(labels):
    return np.asarray(labels).ravel()


@pytest.mark.parametrize("open_rows", [iter, lambda batches: lwcs.scan(iter(batches))])
def test_fit_predict_refuses_rows_that_are_gone_after_fit(open_rows):
    batches = [X[:200], X[200:]]
    rows = open_rows(batches)
    model = CoresetMixture(2, random_state=0)
    with pytest.raises(ValueError, match="can be read only once, but fit_predict reads"):
        model.fit_predict(rows)
    # Nothing of them has been read.
    assert model.fit(rows).coreset_.n_samples == len(X)


@KINDS
def test_to_sklearn_answers_alike(kind):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = CoresetMixture(2, covariance_type=kind, random_state=0).fit(frame)
    # Whatever the parameters are afterwards, the mixture is what was fitted.
    theirs = model.set_params(covariance_type="tied", n_components=7).to_sklearn()
    assert type(theirs) is GaussianMixture
    np.testing.assert_array_equal(theirs.predict(frame), model.predict(frame))
    np.testing.assert_allclose(theirs.predict_proba(frame), model.predict_proba(frame), atol=1e-9)
    np.testing.assert_allclose(theirs.score_samples(frame), model.score_samples(frame), rtol=1e-9)
    assert theirs.bic(frame) == pytest.approx(model.bic(frame), rel=1e-9)
    for name in vars(theirs):
        if name.endswith("_"):
            np.testing.assert_array_equal(getattr(theirs, name), getattr(model, name))
    ours, drawn = (each.sample(20_000) for each in (model, theirs))
    # Means and covariances of 20,000 draws, within six standard errors.
    np.testing.assert_allclose(drawn[0].mean(axis=0), ours[0].mean(axis=0), atol=0.2)
    np.testing.assert_allclose(np.cov(drawn[0].T), np.cov(ours[0].T), atol=0.4)
    assert abs(drawn[1].mean() - ours[1].mean()) < 0.03


def test_to_sklearn_goes_on_from_this_mixture_and_shares_no_memory():
    model = CoresetMixture(2, random_state=0, tol=1e-9, max_iter=500).fit(X)
    means = model.means_.copy()
    theirs = model.to_sklearn()
    assert theirs.fit(X).n_iter_ <= 2
    assert theirs.get_params()["max_iter"] == 500
    for values in (theirs.means_, theirs.means_init, theirs.weights_, theirs.precisions_):
        values[:] = 7.0
    np.testing.assert_array_equal(model.means_, means)


def test_to_sklearn_is_for_fitted_gaussians():
    with pytest.raises(NotFittedError):
        CoresetMixture(2).to_sklearn()
    model = CoresetMixture(2, family="poisson", random_state=0).fit(COUNTS)
    with pytest.raises(ValueError, match=r"has family='poisson', but sklearn\.mixture has"):
        model.to_sklearn()


def test_attributes_of_another_family_are_missing_with_words():
    poisson = CoresetMixture(2, family="poisson", random_state=0).fit(COUNTS)
    for name in ("precisions_", "precisions_cholesky_", "covariances_"):
        assert not hasattr(poisson, name)
        with pytest.raises(
            AttributeError, match=f"{name} exists for family='gaussian' only; .* ha"
        ):
            getattr(poisson, name)
    with pytest.raises(AttributeError, match="shapes_ exists for family='gamma' only"):
        poisson.set_params(family="gamma").shapes_  # noqa: B018
    for model in (poisson, CoresetMixture(2)):
        with pytest.raises(AttributeError, match="object has no attribute 'nothing_'"):
            model.nothing_  # noqa: B018
        assert type(pickle.loads(pickle.dumps(model))) is CoresetMixture
        assert copy.deepcopy(model).get_params() == model.get_params()


@pytest.mark.parametrize("estimator", [CoresetMixture, lwcs.CoresetKMeans])
def test_a_stream_is_refused_and_its_coreset_is_taken(estimator):
    stream = lwcs.StreamingCoreset(50, random_state=0)
    stream.update(X)
    with pytest.raises(
        TypeError, match=r"a StreamingCoreset is not a table of rows; .*stream\.coreset\(\)"
    ):
        estimator(2).fit(stream)
    assert estimator(2, random_state=0).fit(stream.coreset()).coreset_.n_samples == len(X)


def test_a_singular_covariance_in_the_last_step_leaves_the_model_unfitted():
    rows = np.concatenate([np.zeros((30, 2)), np.random.default_rng(0).normal(900.0, 1.0, (30, 2))])
    model = CoresetMixture(
        2,
        reg_covar=0.0,
        max_iter=1,
        means_init=[[0.0, 0.0], [900.0, 900.0]],
        weights_init=[0.5, 0.5],
        precisions_init=[np.eye(2), np.eye(2)],
    )
    with pytest.raises(ValueError, match="the covariance of a component is singular"):
        model.fit(rows)
    with pytest.raises(NotFittedError):
        model.predict(rows)
