"""Divergences at the edges: of their domains, of what numbers can hold, of what users write."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import kl_div
from sklearn.metrics import adjusted_rand_score

import lwcs
from lwcs import CoresetKMeans, divergences
from lwcs.divergences import Divergence, Domain, as_divergence, available
from lwcs.geometry import Geometry
from tests.estimators.divergence_rows import COUNTS, Burg, blobs, spectra, topics

ONES = (np.random.default_rng(0).random((20_000, 6)) < 0.4).astype(float)
ONES[:, 0] = 1.0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_column_of_ones_costs_nothing_whatever_rounding_does(make):
    for seed in range(8):
        w = np.random.default_rng(seed).random(20_000)
        options = {"divergence": "logistic", "random_state": seed}
        with_ones = CoresetKMeans(3, coreset_size=300, **options).fit(make(ONES), sample_weight=w)
        others = lwcs.build(make(ONES[:, 1:]), 300, sample_weight=w, **options)
        np.testing.assert_array_equal(with_ones.coreset_.indices, others.indices)
        assert with_ones.coreset_.total_cost == pytest.approx(others.total_cost, rel=1e-9)
        mixture = lwcs.CoresetMixture(2, family="bernoulli", coreset_size=300, random_state=seed)
        assert np.isfinite(mixture.fit(make(ONES[:4_000]), sample_weight=w[:4_000]).lower_bound_)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["kl", "kl_simplex", "logistic"])
def test_columns_that_no_row_of_the_fit_used_are_left_out_of_other_rows(name, make):
    """Labels, distances and costs are then those of the other columns."""
    rng = np.random.default_rng(0)
    X = np.minimum(rng.poisson(0.7, (600, 8)), 1) + 0.0
    X[:, 7], X[:, 6] = 0.0, 1.0
    model = CoresetKMeans(3, divergence=name, random_state=0).fit(make(X))
    Y = X.copy()
    Y[::3, 7] = 1.0
    if name == "logistic":
        Y[::5, 6] = 0.0
    if name == "kl_simplex":
        # The other shares are less, since they are shares of all columns.
        rows, shares = (each / each.sum(axis=1, keepdims=True) for each in (X, Y))
        tau = model.geometry_.divergence.smoothing
        smoothed = ((1.0 - tau) * shares + tau * rows.mean(axis=0))[:, None, :7]
        expected = kl_div(smoothed, model.cluster_centers_[:, :7]).sum(axis=2)
        np.testing.assert_allclose(model.transform(make(Y)), expected, rtol=1e-9, atol=1e-12)
        assert model.score(make(Y)) == pytest.approx(-expected.min(axis=1).sum(), rel=1e-12)
    else:
        np.testing.assert_array_equal(model.predict(make(Y)), model.labels_)
        np.testing.assert_allclose(model.transform(make(Y)), model.transform(make(X)), atol=1e-12)
        assert model.score(make(Y)) == pytest.approx(model.score(make(X)), rel=1e-12)


def test_counts_can_be_cross_validated():
    from sklearn.model_selection import GridSearchCV

    X, _ = topics(n=300, d=400)
    search = GridSearchCV(CoresetKMeans(divergence="kl", random_state=0), {"n_clusters": [2, 5]})
    search.fit(X)
    assert search.best_params_ == {"n_clusters": 5}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


WHOLE = np.random.default_rng(0).poisson(3.0, (2_000, 8)) + 1


@pytest.mark.parametrize(
    "divergence", [divergences.KL(smoothing=0.0), "itakura_saito", "exponential", Burg(), "kl"]
)
def test_whole_numbers_are_what_they_are_as_floats(divergence):
    rows = [sp.csr_array(WHOLE), sp.csr_array(WHOLE.astype(np.uint8)), WHOLE, WHOLE * 1.0]
    options = {"divergence": divergence, "coreset_size": 10_000, "random_state": 0}
    first, *others = [CoresetKMeans(5, **options).fit(each) for each in rows]
    for other in others:
        np.testing.assert_allclose(other.cluster_centers_, first.cluster_centers_, rtol=1e-9)
        np.testing.assert_allclose(other.transform(rows[0]), first.transform(rows[2]), rtol=1e-7)


@pytest.mark.parametrize("divergence", ["itakura_saito", "cosine", "kl_simplex", "kl"])
def test_rows_with_gaps_are_dropped(divergence, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = spectra(n=2_000)[0]
    X[7, 3] = np.nan
    X[70:80] = np.nan
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(12)}), tmp_path / "x.parquet")
    source = lwcs.scan(tmp_path / "x.parquet", missing="drop")
    model = CoresetKMeans(3, divergence=divergence, coreset_size=300, random_state=0).fit(source)
    assert model.coreset_.details["dropped"] == 11
    kept = X[np.isfinite(X).all(axis=1)]
    table = pa.table({f"x{j}": kept[:, j] for j in range(12)})
    assert model.inertia_ == pytest.approx(-model.score(table), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-170, 1e-305, 1e200])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_directions_do_not_depend_on_lengths(make, scale):
    X = blobs() + 9.0
    plain = CoresetKMeans(3, divergence="cosine", random_state=0).fit(make(X))
    there = CoresetKMeans(3, divergence="cosine", random_state=0).fit(make(X * scale))
    # Swaps that save equally much may come in another order.
    order = plain.predict(make(there.cluster_centers_))
    assert sorted(order) == [0, 1, 2]
    expected = plain.cluster_centers_[order]
    np.testing.assert_allclose(there.cluster_centers_, expected, rtol=1e-6)


def test_a_finite_center_is_nearer_than_an_infinitely_far_one():
    own = Geometry(divergences.KL(smoothing=0.0))
    x, given = np.array([[0.001, 1.0]]), np.array([[0.0, 1.0], [50.0, 1.0]])
    centers = own.centers(given)
    for rows in (own.measured(x), own.measured(sp.csr_array(x))):
        labels, distances = rows.nearest(centers)
        assert (labels[0], rows.labels(centers)[0]) == (1, 1)
        assert distances[0] == pytest.approx(own.divergence(x[0], given[1]))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_start_is_given_in_the_units_of_the_data(make):
    X = topics()[0].toarray()[:500]
    seen = []

    def first(rows, k, random_state):
        seen.append(rows.toarray() if sp.issparse(rows) else rows)
        return rows[:k]

    by_call, by_array = (
        CoresetKMeans(5, divergence="kl", init=init, coreset_size=500).fit(make(X))
        for init in (first, X[:5])
    )
    np.testing.assert_allclose(seen[0], X, atol=1e-12)
    np.testing.assert_allclose(by_call.cluster_centers_, by_array.cluster_centers_, rtol=1e-9)


def test_given_centers_are_checked():
    coreset = lwcs.build(COUNTS, 50, divergence="kl", random_state=0)
    with pytest.raises(ValueError, match=r"centers\[0, .*=0.0 is not allowed: .* smooth centers"):
        coreset.cost(COUNTS[:3])
    assert coreset.cost(coreset.geometry().smoothed(COUNTS[:3])) > 0
    with pytest.raises(ValueError, match=r"init\[0, 0\]=-1.0 is not allowed: .*requires x >= 0"):
        CoresetKMeans(3, divergence="kl", init=-np.ones((3, 60))).fit(COUNTS)
    with pytest.raises(ValueError, match=r"init\[0, 0\]=-1.0 is not allowed: .*requires x >= 0"):
        lwcs.CoresetMixture(3, family="poisson", means_init=-np.ones((3, 60))).fit(COUNTS)


@pytest.mark.parametrize("method", ["sensitivity", "refined"])
@pytest.mark.parametrize("family", ["poisson", "multinomial", "bernoulli"])
def test_mixtures_are_drawn_by_every_method(family, method):
    X = sp.csr_array(np.minimum(COUNTS, 1.0)) if family == "bernoulli" else topics()[0]
    options = {"family": family, "random_state": 0}
    one = lwcs.CoresetMixture(1, **options).fit(X).score(X)
    full = lwcs.CoresetMixture(4, coreset_size=10_000, **options).fit(X).score(X)
    model = lwcs.CoresetMixture(4, method=method, coreset_size=600, **options).fit(X)
    assert model.coreset_.method == method
    assert model.coreset_.size == 600
    assert model.score(X) - one > 0.9 * (full - one)


def test_the_mean_of_lifted_sparse_rows_is_that_of_dense_ones():
    own, method = divergences.ItakuraSaito(floor=0.5), lwcs.Lightweight(distance="sqeuclidean")
    options = {"divergence": own, "method": method, "random_state": 0}
    for passes in (1, 2):
        sparse = lwcs.build(sp.csr_array(COUNTS), 100, passes=passes, **options)
        dense = lwcs.build(COUNTS, 100, passes=passes, **options)
        np.testing.assert_allclose(sparse.mean, np.maximum(COUNTS, 0.5).mean(axis=0), rtol=1e-9)
        np.testing.assert_array_equal(sparse.indices, dense.indices)


def test_many_equal_rows_cost_nothing():
    X = np.tile([0.1, 0.7, 3.3], (300_000, 1))
    assert lwcs.build(X, 20, divergence="kl", random_state=0).total_cost == 0.0


@pytest.mark.parametrize(
    "divergence", ["sqeuclidean", divergences.KL(smoothing=0.0), "kl", "itakura_saito"]
)
def test_clusters_far_from_zero_and_near_each_other_are_told_apart(divergence):
    """By the three-point identity: scores of values less an origin lose no digits."""
    rng, own = np.random.default_rng(0), np.repeat([0, 1, 2], 50)
    X = 1e9 + np.array([[0.0, 0.0], [40.0, 0.0], [0.0, 40.0]])[own] + rng.normal(0, 2, (150, 2))
    model = CoresetKMeans(3, divergence=divergence, n_init=3, random_state=0).fit(X)
    assert adjusted_rand_score(own, model.labels_) == 1.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.n_iter_ < 20


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_distances_to_all_centers_agree_with_the_cost(make):
    X = np.repeat(np.random.default_rng(0).integers(10**9, 2 * 10**9, (4, 5)) * 1.0, 5, axis=0)
    model = CoresetKMeans(4, divergence="kl", random_state=0).fit(make(X))
    assert model.transform(make(X)).min(axis=1).sum() == pytest.approx(model.inertia_, abs=1e-15)
    # Where the distance is infinite, it is.
    Y = np.array([[0.0, 1], [0, 2], [0, 3], [5, 1], [6, 1], [7, 1]])
    plain = divergences.KL(smoothing=0.0)
    model = CoresetKMeans(2, divergence=plain, random_state=0).fit(make(Y))
    found = model.transform(make(Y))
    assert np.isinf(found[3:]).sum() == 3
    np.testing.assert_array_equal(found.argmin(axis=1), model.labels_)
    np.testing.assert_allclose(found.min(axis=1).sum(), model.inertia_)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", ["kl_simplex", "cosine"])
def test_sums_of_short_floats_do_not_overflow(name, dtype):
    X = (np.random.default_rng(0).poisson(30, (200, 4_000)) + 1).astype(dtype)
    if dtype == np.float32:
        X *= np.float32(1e35)
    short, long = (
        CoresetKMeans(3, divergence=name, random_state=0).fit(rows).inertia_
        for rows in (X, X.astype(np.float64))
    )
    assert short == pytest.approx(long, rel=1e-6)
    assert short > 1.0 if name == "kl_simplex" else short > 0.1


def test_shares_of_the_largest_numbers():
    X = np.random.default_rng(0).random((50, 4))
    large, small = (
        CoresetKMeans(3, divergence="kl_simplex", random_state=0).fit(rows).inertia_
        for rows in (X * 1e308, X)
    )
    assert large == pytest.approx(small, rel=1e-9)


def test_the_least_int8_is_not_zero():
    X = np.array([[-128, 64, 64], [1, 2, 3], [3, 4, 5], [-128, -128, 0]], dtype=np.int8)
    wide = CoresetKMeans(3, divergence="cosine", random_state=0).fit(X.astype(np.float32))
    assert wide.inertia_ > 0.01
    for rows in (X, sp.csr_array(X)):
        model = CoresetKMeans(3, divergence="cosine", random_state=0).fit(rows)
        np.testing.assert_allclose(model.cluster_centers_, wide.cluster_centers_, atol=1e-15)
        np.testing.assert_array_equal(model.labels_, wide.labels_)
        assert model.inertia_ == pytest.approx(wide.inertia_, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_models_own_centers_are_allowed(dtype):
    X = (np.random.default_rng(0).random((3_000, 6)) < 0.3).astype(dtype)
    X[:, 0] = 1.0
    X[0, 5] = 1.0
    model = CoresetKMeans(6, divergence="logistic", coreset_size=60, random_state=0).fit(X)
    assert model.cluster_centers_.dtype == np.float64
    assert np.isfinite(model.coreset_.cost(model.cluster_centers_))
    CoresetKMeans(6, divergence="logistic", init=model.cluster_centers_, max_iter=500).fit(X)


class TestClassesOfUsers:
    """What is wrong with a divergence of a user's own is said."""

    def test_a_class_without_a_name_is_called_like_itself(self):
        class MyKL(divergences.KL):
            pass

        try:
            assert isinstance(as_divergence("mykl"), MyKL)
        finally:
            del Divergence._known["mykl"]

    def test_our_names_are_taken(self):
        with pytest.raises(
            TypeError, match="name='kl' is already the name of KL; choose another name for Mine"
        ):

            class Mine(Burg):
                name = "kl"

        assert available()["kl"] is divergences.KL

    def test_what_no_file_can_hold_is_not_saved(self, tmp_path):
        class Odd(Burg):
            name = "odd"

            def __init__(self, alpha=1.5):
                self.a = alpha

        try:
            coreset = lwcs.build(spectra()[0], 50, divergence=Odd(), random_state=0)
            with pytest.raises(TypeError, match="store every argument of __init__ in an attribute"):
                coreset.save(tmp_path / "c.parquet")
            assert not list(tmp_path.iterdir())
        finally:
            del Divergence._known["odd"]

    def test_a_concave_one_is_noticed(self):
        class Concave(Divergence):
            def phi(self, x):
                return -(x**2)

            def gradient(self, y):
                return -2.0 * y

        try:
            with pytest.raises(ValueError, match="is negative, so its φ is not convex"):
                CoresetKMeans(3, divergence=Concave(), random_state=0).fit(blobs())
        finally:
            del Divergence._known["concave"]

    def test_a_slope_without_end_at_a_closed_end(self):
        class Root(Divergence):
            domain = Domain(low=0.0)

            def phi(self, x):
                return -2.0 * np.sqrt(x)

            def gradient(self, y):
                return -1.0 / np.sqrt(y)

        try:
            assert Root()([0.0, 1.0], [0.0, 4.0]) == pytest.approx(0.5)
            assert Root()([1.0], [0.0]) == np.inf
            assert Root().similarity(0.0, 4.0) == 0.0
            X = np.abs(blobs())
            X[::7, 2] = 0.0
            assert np.isfinite(CoresetKMeans(3, divergence="root", random_state=0).fit(X).inertia_)
        finally:
            del Divergence._known["root"]
