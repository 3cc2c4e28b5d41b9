"""Methods that fit and answer in one call, and fits that cannot do all that was asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lwcs
from lwcs import CoresetKMeans, CoresetMixture

X = np.random.default_rng(0).normal(size=(900, 2)) + 8 * (np.arange(900) % 3)[:, None]
METHODS = pytest.mark.parametrize(
    ("model", "method"),
    [
        (CoresetKMeans(3, random_state=0), "fit_predict"),
        (CoresetKMeans(3, random_state=0), "fit_transform"),
        (CoresetMixture(3, random_state=0), "fit_predict"),
    ],
)


@METHODS
def test_rows_that_can_be_read_once_are_refused_before_they_are_fitted(model, method):
    model.fit(X)
    before = dict(vars(model))
    wide = np.hstack([X, X])
    reader = pa.table({f"c{i}": wide[:, i] for i in range(4)}).to_reader()
    for once in ((part for part in [wide]), lwcs.scan(part for part in [wide]), reader):
        with pytest.raises(ValueError, match=rf"read only once, but {method} reads.*write them"):
            getattr(model, method)(once)
    assert vars(model) == before


@METHODS
@pytest.mark.parametrize("weights", [None, np.arange(900.0)])
def test_one_call_is_two_calls(model, method, weights):
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(900) * 2)
    second = getattr(model, method.removeprefix("fit_"))
    for rows in (X, frame):
        one = getattr(model, method)(rows, sample_weight=weights)
        names = list(getattr(model, "feature_names_in_", []))
        np.testing.assert_array_equal(one, second(model.fit(rows, sample_weight=weights) and rows))
        assert names == list(getattr(model, "feature_names_in_", []))


@METHODS
def test_a_coreset_is_answered_by_its_points(model, method):
    coreset = lwcs.build(X, 100, random_state=0)
    second = getattr(model, method.removeprefix("fit_"))
    np.testing.assert_array_equal(getattr(model, method)(coreset), second(coreset.points))
    with pytest.raises(ValueError, match="a Coreset has its own weights"):
        getattr(model, method)(coreset, sample_weight=np.ones(len(coreset)))


def test_fit_transform_keeps_the_index_of_a_frame():
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(900) * 2)
    out = CoresetKMeans(3, random_state=0).set_output(transform="pandas").fit_transform(frame)
    assert (list(out.index), out.shape) == (list(frame.index), (900, 3))


def test_distances_of_files_are_refused_before_they_are_fitted(tmp_path):
    pd.DataFrame(X, columns=["a", "b"]).to_parquet(tmp_path / "x.parquet")
    model = CoresetKMeans(3)
    with pytest.raises(TypeError, match="too many for a FileSource; use predict"):
        model.fit_transform(tmp_path / "x.parquet")
    assert not hasattr(model, "n_features_in_")


def test_the_cost_of_polished_centers_is_theirs():
    options = {"coreset_size": 60, "random_state": 0, "compute_labels": False}
    plain = CoresetKMeans(3, **options).fit(X)
    polished = CoresetKMeans(3, polish=2, **options).fit(X)
    assert polished.inertia_ == polished.coreset_.cost(polished.cluster_centers_)
    assert polished.inertia_ > plain.inertia_


def test_a_coreset_cannot_be_polished():
    coreset = lwcs.build(X, 100, random_state=0)
    with pytest.raises(ValueError, match=r"polish=2 needs.*X is a Coreset.*or pass polish=0"):
        CoresetKMeans(3, polish=2).fit(coreset)


@pytest.mark.parametrize(("kind", "name"), [(CoresetKMeans, "n_clusters"), (CoresetMixture, "n_")])
def test_too_few_rows_behind_a_coreset_are_not_blamed_on_its_size(kind, name):
    stream = lwcs.StreamingCoreset(300, random_state=0)
    stream.update(X[:3])
    few = CoresetKMeans(2).fit(X[:4]).coreset_
    for coreset, n in ((stream.coreset(), 3), (few, 4)):
        with pytest.raises(ValueError, match=rf"n_samples={n} should be >= {name}.*more rows"):
            kind(5).fit(coreset)
    drawn = lwcs.build(X, 20, random_state=0)
    with pytest.raises(ValueError, match=rf"build one with size > 20, or pass a smaller {name}"):
        kind(30).fit(drawn)


@pytest.mark.parametrize("kind", [CoresetKMeans, CoresetMixture])
@pytest.mark.parametrize("tol", [-1, np.nan, np.inf, True, "0.1", None])
def test_a_tolerance_is_a_finite_number(kind, tol):
    with pytest.raises(ValueError, match=r"tol=.* is not allowed; pass ('auto' or )?a .*number"):
        kind(2, tol=tol).fit(X)
