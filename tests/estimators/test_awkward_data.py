"""CoresetKMeans where numbers, names and types are awkward."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

import lwcs
from lwcs import CoresetKMeans

X, _ = make_blobs(20_000, centers=12, n_features=5, random_state=0)


def naive_cost(X, centers):
    return float(((X[:, None, :].astype(float) - centers) ** 2).sum(axis=2).min(axis=1).sum())


def far_apart(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(3000, 4)) + 3 * rng.integers(0, 5, (3000, 1))
    if name == "two clumps":
        B[::2] += 1e4
    elif name == "one outlier":
        B[7] = 1e9
    elif name == "offset":
        B += 1e5
    elif name == "tiny":
        B *= 1e-25
    elif name == "huge":
        B *= 1e18
    return B.astype(np.float32)


@pytest.mark.parametrize("name", ["two clumps", "one outlier", "offset", "tiny", "huge"])
@pytest.mark.parametrize("size", [500, 10**6])
def test_float32_is_as_good_as_float64_wherever_the_data_is(name, size):
    Y = far_apart(name)
    narrow = CoresetKMeans(12, coreset_size=size, random_state=0).fit(Y)
    wide = CoresetKMeans(12, coreset_size=size, random_state=0).fit(Y.astype(np.float64))
    assert narrow.inertia_ == pytest.approx(
        naive_cost(Y, narrow.cluster_centers_.astype(float)), rel=1e-3
    )
    assert narrow.inertia_ < 1.1 * wide.inertia_
    np.testing.assert_array_equal(narrow.labels_, narrow.predict(Y))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float16, np.float32])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_transform_of_any_dtype(dtype, make):
    if make is sp.csr_array and dtype is np.float16:
        pytest.skip("scipy has no float16")
    Y = np.random.default_rng(0).integers(0, 3, (500, 6)).astype(dtype)
    model = CoresetKMeans(5, random_state=0).fit(make(Y))
    expected = np.sqrt(((Y[:, None, :].astype(float) - model.cluster_centers_) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.transform(make(Y)), expected, rtol=1e-5, atol=1e-5)


def test_transform_keeps_its_digits_at_an_offset():
    model = CoresetKMeans(5, random_state=0).fit(X + 1e9)
    expected = np.sqrt(((X[:300, None, :] - (model.cluster_centers_ - 1e9)) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.transform(X[:300] + 1e9), expected, rtol=1e-5)


def test_feature_names_bind_sources_and_coresets_too():
    frame = pd.DataFrame(X, columns=list("abcde"))
    turned = frame[list("edcba")]
    by_coreset = CoresetKMeans(4, random_state=0).fit(lwcs.build(frame, 300, random_state=0))
    assert list(by_coreset.feature_names_in_) == list("abcde")
    for model in (by_coreset, CoresetKMeans(4, random_state=0).fit(frame)):
        assert model.score(lwcs.scan(frame)) < 0
        np.testing.assert_array_equal(model.predict(turned), model.predict(frame))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(lwcs.scan(turned))


def test_numpy_parameters_are_saved_as_numbers(tmp_path):
    model = CoresetKMeans(np.int64(5), compute_labels=np.bool_(False), init=X[:5], random_state=0)
    model.fit(X).save(tmp_path / "m.parquet")
    again = lwcs.load(tmp_path / "m.parquet")
    assert (again.n_clusters, again.compute_labels) == (5, False)
    assert again.to_sklearn().n_clusters == 5


def test_bad_values_are_named_in_later_partitions():
    model = CoresetKMeans(4, random_state=0).fit(X)
    bad = np.vstack([X] * 8)
    bad[150_000, 1] = np.inf
    parts = lwcs.PartitionedSource([bad[:140_000], bad[140_000:]])
    polishing = CoresetKMeans(4, coreset_size=100, method="uniform", polish=1, random_state=0)
    for method in (model.score, model.predict, model.transform, polishing.fit):
        with pytest.raises(ValueError, match="row 150000, column 1 is inf"):
            method(bad)
    for method in (model.score, model.predict):
        with pytest.raises(ValueError, match="row 10000, column 1 of partition 1 is inf"):
            method(parts)


def test_fewer_distinct_draws_than_clusters_is_a_warning():
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        model = CoresetKMeans(100, coreset_size=100, method="uniform", random_state=1).fit(X[:150])
    assert model.cluster_centers_.shape == (100, 5)


def test_to_sklearn_stands_alone():
    model = CoresetKMeans(4, random_state=0).fit(X)
    other = model.set_params(n_clusters=3).to_sklearn()
    assert other.n_clusters == 4
    other.cluster_centers_[:] = 0.0
    assert model.cluster_centers_.any()


def test_a_failed_refit_leaves_nothing_behind():
    model = CoresetKMeans(4, random_state=0).fit(X)
    with pytest.raises(ValueError, match="nan"):
        model.fit(np.full((50, 2), np.nan))
    assert not [name for name in vars(model) if name.endswith("_") or name.startswith("_n")]
    with pytest.raises(TypeError, match=r"coreset\.points"):
        CoresetKMeans(4, random_state=0).fit(X).predict(lwcs.build(X, 10))
