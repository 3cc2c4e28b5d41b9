"""describe(): sizes, costs, neighbours and telling columns of clusters, and their map."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_samples

import lwcs
from lwcs.arrays.rows import weighted_quantiles
from lwcs.description import describe
from lwcs.description.projection import _signs

CENTERS = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [9.0, 6.0, 0.0], [0.0, 40.0, 0.0]])
SIZES = (400, 200, 300, 100)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(c, 1.0, (n, 3)) for c, n in zip(CENTERS, SIZES, strict=True)]
    return np.vstack(parts)


def by_place(model, centers=CENTERS):
    """The cluster of the model at each of the true centers."""
    apart = ((model.cluster_centers_[None] - centers[:, None]) ** 2).sum(axis=2)
    return apart.argmin(axis=1)


@pytest.fixture(scope="module")
def found():
    X = rows()
    return describe(lwcs.CoresetKMeans(4, random_state=0).fit(X)), X


def test_sizes_shares_and_costs_are_those_of_all_rows(found):
    own, X = found
    labels = own.model.labels_
    np.testing.assert_allclose(own.size, np.bincount(labels, minlength=4))
    np.testing.assert_allclose(own.share, own.size / 1_000)
    assert not own.share_error.any()
    costs = ((X - own.model.cluster_centers_[labels]) ** 2).sum(axis=1)
    np.testing.assert_allclose(own.cost, np.bincount(labels, costs))
    assert own.cost.sum() == pytest.approx(own.model.inertia_)
    np.testing.assert_allclose(own.spread**2, own.cost / own.size)


def test_intervals_of_shares_have_the_truth():
    """Twelve 95 % intervals; with this seed all have it. Chance of two or more misses: 12 %."""
    X = np.repeat(rows(), 40, axis=0) + np.random.default_rng(1).normal(0, 0.1, (40_000, 3))
    misses = 0
    for seed in range(3):
        model = lwcs.CoresetKMeans(4, coreset_size=1_000, random_state=seed).fit(X)
        true = np.bincount(model.labels_, minlength=4) / len(X)
        counted = describe(model)
        np.testing.assert_allclose(counted.share, true)
        assert not counted.share_error.any()
        own = describe(model, lwcs.build(X, 1_000, random_state=100 + seed))
        assert (own.share_error > 0.0).all()
        low, high = own.share_interval
        misses += int(((true < low) | (true > high)).sum())
    assert misses <= 1


def test_the_nearest_other_cluster_and_how_far_it_is(found):
    own, _ = found
    at = by_place(own.model)
    assert own.nearest[at[1]] == at[2]
    assert own.nearest[at[0]] == at[1]
    assert own.nearest[at[3]] == at[2]
    assert own.apart[at[1]] == pytest.approx(6.0, abs=0.3)


def test_the_column_that_tells_a_cluster_apart_comes_first(found):
    own, X = found
    at = by_place(own.model)
    first = own.telling(at[3])[0]
    assert (first.column, first.name) == (1, "column 1")
    expected = (own.centers[at[3], 1] - X[:, 1].mean()) / X[:, 1].std()
    assert first.deviations == pytest.approx(expected)
    assert own.telling_columns.tolist()[2] == 2


def test_a_column_without_any_difference_tells_nothing():
    X = np.column_stack([rows()[:, :2], np.full(1_000, 7.0)])
    own = describe(lwcs.CoresetKMeans(4, random_state=0).fit(X))
    assert {each.column for each in own.telling(0)} <= {0, 1}


def test_names_of_columns_are_those_of_the_table():
    import pandas as pd

    X = pd.DataFrame(rows(), columns=["a", "<b>", "c"])
    assert describe(lwcs.CoresetKMeans(2, random_state=0).fit(X)).names == ("a", "<b>", "c")


def test_scaled_columns_count_as_distances_count_them():
    X = rows() * [1.0, 1e6, 1e-3]
    model = lwcs.CoresetKMeans(4, random_state=0).fit(lwcs.scan(X, scale="standard"))
    own = describe(model)
    assert own.spread.max() < 3.0
    assert own.projection.explained[0] < 0.6


def test_a_mixture_is_described_by_its_components():
    X = rows()
    model = lwcs.CoresetMixture(4, random_state=0).fit(X)
    own = describe(model)
    np.testing.assert_allclose(own.share, model.predict_proba(X).mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(own.labels, model.predict(X))
    np.testing.assert_allclose(own.costs, -model.score_samples(X), rtol=1e-9)
    np.testing.assert_array_equal(own.centers, model.means_)
    assert own.is_mixture


def test_what_is_described_has_one_name():
    X = rows()
    assert describe(lwcs.CoresetKMeans(2, random_state=0).fit(X)).called == "cluster"
    assert describe(lwcs.CoresetMixture(2, random_state=0).fit(X)).called == "component"


def test_sparse_rows_are_described_as_dense_ones():
    X = np.random.default_rng(0).poisson(0.4, (500, 300)).astype(float)
    for divergence in ("sqeuclidean", "kl"):
        model = lwcs.CoresetKMeans(3, divergence=divergence, random_state=0).fit(sp.csr_array(X))
        own = describe(model)
        dense = lwcs.build(lwcs.scan(X), 5_000, method="uniform", random_state=0)
        other = describe(model, dense)
        sparse = lwcs.build(sp.csr_array(X), 5_000, method="uniform", random_state=0)
        same = describe(model, sparse)
        np.testing.assert_allclose(same.profile, other.profile, atol=1e-9)
        np.testing.assert_allclose(same.deviation, other.deviation)
        assert own.projection.points.shape == (500, 2)


def test_a_model_of_scikit_learn_is_described_by_a_given_coreset():
    X = rows()
    model = KMeans(4, n_init=3, random_state=0).fit(X)
    own = describe(model, lwcs.build(X, 20_000, random_state=0))
    np.testing.assert_allclose(own.size, np.bincount(model.labels_), rtol=0.1)


def test_a_loaded_model_asks_for_a_coreset(tmp_path):
    lwcs.CoresetKMeans(2, random_state=0).fit(rows()).save(tmp_path / "m.parquet")
    model = lwcs.load(tmp_path / "m.parquet")
    with pytest.raises(ValueError, match=r"has no coreset .* pass one: coreset=lwcs.build"):
        describe(model)
    with pytest.raises(TypeError, match="coreset is a ndarray, not a Coreset"):
        describe(model, rows())
    with pytest.raises(ValueError, match="has 2 columns, but the model was fitted on 3"):
        describe(model, lwcs.build(rows()[:, :2], 100))


def test_rows_have_weights_only_if_these_are_not_their_number():
    X = rows()
    X[:100, 0] = np.nan
    dropped = lwcs.CoresetKMeans(4, random_state=0).fit(lwcs.scan(X, missing="drop"))
    assert not describe(dropped).has_weights
    drawn = lwcs.build(lwcs.scan(X, missing="drop"), 300, random_state=0)
    assert not describe(dropped, drawn).has_weights
    weighted = lwcs.CoresetKMeans(4, random_state=0).fit(rows(), sample_weight=np.full(1_000, 2.0))
    assert describe(weighted).has_weights


def test_silhouettes_compare_the_two_nearest_centers(found):
    own, X = found
    apart = np.sort(np.linalg.norm(X[:, None] - own.centers, axis=2), axis=1)
    np.testing.assert_allclose(own.silhouette, 1.0 - apart[:, 0] / apart[:, 1], rtol=1e-9)
    assert np.corrcoef(own.silhouette, silhouette_samples(X, own.labels))[0, 1] > 0.9


@pytest.mark.parametrize("d", [1, 2])
def test_one_or_two_columns_are_shown_as_they_are(d):
    X = rows()[:, :d]
    own = describe(lwcs.CoresetKMeans(2, random_state=0).fit(X)).projection
    np.testing.assert_array_equal(own.points[:, :d], X)
    assert own.axes[0] == "column 0"
    assert own.explained is None


@pytest.mark.parametrize("d", [3, 300, 1_500])
def test_more_columns_are_projected_to_their_principal_components(d):
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    flat = rng.uniform(-1.0, 1.0, (2_000, 2)) * [10.0, 3.0]
    X = flat @ turn.T + 5.0
    own = describe(lwcs.CoresetKMeans(3, random_state=0).fit(X)).projection
    assert own.explained[0] + own.explained[1] == pytest.approx(1.0, abs=1e-3)
    along = np.abs(np.corrcoef(own.points[:, 0], flat[:, 0])[0, 1])
    assert along > 0.999


def test_parts_that_differ_by_rounding_do_not_turn_an_axis():
    one = np.array([[-0.5, 0.6], [0.5, -0.8]])
    for rounding in (-1e-15, 1e-15):
        found = _signs(one * [[1.0], [1.0 + rounding]])
        assert found.tolist() == [-1.0, -1.0]


def test_an_outlier_neither_turns_the_axes_nor_fills_the_view():
    X = rows()
    X[0] = [0.0, 0.0, 1e6]
    own = describe(lwcs.CoresetKMeans(4, random_state=0).fit(X)).projection
    assert own.view[0][1] - own.view[0][0] < 1e3
    assert 0.0 < own.outside < 0.05


@pytest.mark.parametrize("factor", [1e-100, 1e140])
def test_numbers_of_any_range_are_projected(factor):
    X = rows()
    model = lwcs.CoresetKMeans(4, random_state=0).fit(X * factor)
    own, plain = describe(model), describe(lwcs.CoresetKMeans(4, random_state=0).fit(X))
    assert np.isfinite(own.projection.points).all()
    points = own.projection.points / factor
    np.testing.assert_allclose(points, plain.projection.points, atol=1e-6)
    np.testing.assert_allclose(own.profile, plain.profile, rtol=1e-6)


def test_the_map_has_the_units_of_the_data_and_tells_its_part_of_the_variance():
    """A heavy tail does not choose the axes, but it is a part of the variance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 3)) * (30.0, 10.0, 1.0)
    X[0, 2] = 500.0
    own = describe(lwcs.CoresetKMeans(2, random_state=0).fit(X)).projection
    np.testing.assert_allclose(np.abs(own.points[:, 0]).std(), np.abs(X[:, 0]).std(), rtol=0.05)
    shares = X.var(axis=0) / X.var(axis=0).sum()
    np.testing.assert_allclose(own.explained, shares[:2], atol=0.005)


def test_centers_that_are_not_in_the_view_are_known():
    X = np.vstack([np.random.default_rng(0).normal(size=(2_000, 2)), [[1e5, 0.0]]])
    model = lwcs.CoresetKMeans(2, random_state=0).fit(X)
    far = int(np.argmax(model.cluster_centers_[:, 0]))
    assert describe(model).projection.hidden == (far,)


def test_identical_rows_have_a_map():
    own = describe(lwcs.CoresetKMeans(1).fit(np.ones((10, 4))))
    assert not own.projection.points.any()
    assert own.nearest.tolist() == [-1]
    assert own.telling(0) == []


def test_quantiles_go_by_weight():
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 98.0])
    assert weighted_quantiles(values, weights, (0.005, 0.5, 1.0)).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("divergence", ["sqeuclidean", "kl"])
def test_sparse_rows_are_on_the_map_where_dense_ones_are(divergence, columns):
    """Smoothing moves zeros, which sparse rows do not store."""
    X = np.random.default_rng(0).poisson(1.5, (300, columns)) + np.eye(300, columns)
    model = lwcs.CoresetKMeans(2, divergence=divergence, random_state=0)
    dense, sparse = (describe(model.fit(rows)).projection for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.points, dense.points, atol=1e-9)
    np.testing.assert_allclose(sparse.view, dense.view, atol=1e-9)
