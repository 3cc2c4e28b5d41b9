"""scikit-learn's own checks, and the conventions that they do not cover."""

from __future__ import annotations

import io

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn import config_context
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lwcs import CoresetKMeans
from tests.estimators.sklearn_failures import expected_failures

X, y = make_blobs(3000, centers=4, n_features=3, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [CoresetKMeans(), CoresetKMeans(3, coreset_size=20, polish=1)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_pipelines_search_and_clone():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipeline = make_pipeline(StandardScaler(), CoresetKMeans(4, random_state=0)).fit(frame)
    assert len(set(pipeline.predict(frame))) == 4
    search = GridSearchCV(CoresetKMeans(random_state=0), {"n_clusters": [2, 4]}, cv=3).fit(X)
    assert search.best_params_ == {"n_clusters": 4}
    assert clone(CoresetKMeans(7, polish=2)).get_params()["polish"] == 2


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_and_feature_names(library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]({"a": X[:, 0], "b": X[:, 1]})
    model = CoresetKMeans(4, random_state=0).set_output(transform=library).fit(frame)
    out = model.transform(frame)
    assert type(out).__module__.startswith(library)
    assert list(out.columns) == [f"coresetkmeans{j}" for j in range(4)]
    assert list(model.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(model.labels_, model.predict(frame))
    np.testing.assert_array_equal(model.labels_, model.predict(frame[["b", "a"]]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["a"]])


def test_metadata_is_routed():
    w = np.where(y == 0, 1.0, 0.0)
    with config_context(enable_metadata_routing=True):
        model = CoresetKMeans(1, coreset_size=3000, random_state=0).set_fit_request(
            sample_weight=True
        )
        pipeline = make_pipeline(FunctionTransformer(), model)
        pipeline.fit(X, sample_weight=w)
    np.testing.assert_allclose(pipeline[-1].cluster_centers_[0], X[y == 0].mean(axis=0))


def test_joblib_and_skops_round_trips():
    model = CoresetKMeans(4, random_state=0).fit(X)
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    data = skops.io.dumps(model)
    trusted = skops.io.get_untrusted_types(data=data)
    assert all(name.startswith("lwcs.") for name in trusted)
    for again in (joblib.load(buffer), skops.io.loads(data, trusted=trusted)):
        np.testing.assert_array_equal(again.predict(X), model.labels_)
        assert again.coreset_ == model.coreset_


def test_html_and_text_repr():
    assert "CoresetKMeans" in CoresetKMeans(3)._repr_html_()
    assert repr(CoresetKMeans(3, polish=1)) == "CoresetKMeans(n_clusters=3, polish=1)"


def test_to_sklearn_is_a_fitted_kmeans():
    model = CoresetKMeans(4, random_state=0).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    other = model.to_sklearn()
    assert type(other) is KMeans
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_array_equal(other.predict(frame), model.labels_)
    np.testing.assert_allclose(other.transform(frame), model.transform(frame))
    assert other.score(frame) == pytest.approx(model.score(frame))
    assert other.inertia_ == model.inertia_
