"""Hard clustering by a divergence, through the estimator: the same Lloyd, other distances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import lwcs
from lwcs import CoresetKMeans, divergences
from lwcs.divergences import Divergence
from lwcs.geometry import Geometry
from lwcs.solvers.lloyd import lloyd
from lwcs.solvers.points import Points
from tests.estimators.divergence_rows import COUNTS, Burg, blobs, spectra, topics
from tests.estimators.sklearn_failures import expected_failures


class OwnEuclidean(Divergence):
    """Squared distances by the way of any other divergence."""

    name = "own_euclidean"

    def phi(self, x):
        return x * x

    def gradient(self, y):
        return 2.0 * y


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("method", ["lightweight", "refined"])
def test_squared_distances_by_the_bregman_way_are_k_means(make, method):
    """From the same coreset and start; the steps of Lloyd's algorithm are then the same."""
    X = blobs()
    coreset = lwcs.build(make(X), 800, method=method, n_clusters=6, random_state=0)
    options = {"coreset_size": 800, "init": X[:6], "random_state": 0}
    plain = CoresetKMeans(6, **options).fit(coreset)
    bregman = CoresetKMeans(6, divergence=OwnEuclidean(), **options).fit(coreset)
    np.testing.assert_allclose(bregman.cluster_centers_, plain.cluster_centers_, rtol=1e-9)
    assert bregman.inertia_ == pytest.approx(plain.inertia_, rel=1e-9)
    assert bregman.n_iter_ == plain.n_iter_
    np.testing.assert_array_equal(bregman.predict(X), plain.predict(X))
    np.testing.assert_allclose(bregman.transform(X), plain.transform(X) ** 2, rtol=1e-9, atol=1e-9)
    assert bregman.score(X) == pytest.approx(plain.score(X), rel=1e-12)


@pytest.mark.statistical
def test_the_bregman_way_draws_and_seeds_by_the_same_law():
    """Same cost on average over 40 seeds, each from its own coreset and k-means++ start."""
    X = blobs(k=12)
    costs = {
        divergence: [
            CoresetKMeans(12, coreset_size=300, divergence=divergence, random_state=s)
            .fit(X)
            .inertia_
            for s in range(40)
        ]
        for divergence in ("sqeuclidean", "own_euclidean")
    }
    a, b = (np.array(cost) for cost in costs.values())
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    # A correct one fails with probability 1e-4.
    assert abs(a.mean() - b.mean()) < 3.9 * error


@pytest.mark.parametrize("polish", [0, 2])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_mahalanobis_is_k_means_in_its_coordinates(make, polish):
    X, rng = blobs(), np.random.default_rng(1)
    A = rng.normal(size=(5, 5))
    own = divergences.Mahalanobis(A @ A.T + 0.2 * np.eye(5))
    L = np.linalg.cholesky(own.precision)
    options = {"coreset_size": 600, "polish": polish, "random_state": 3}
    there = CoresetKMeans(6, divergence=own, **options).fit(make(X))
    mapped = CoresetKMeans(6, **options).fit(X @ L)
    np.testing.assert_allclose(there.cluster_centers_ @ L, mapped.cluster_centers_, rtol=1e-8)
    np.testing.assert_array_equal(there.labels_, mapped.labels_)
    assert there.inertia_ == pytest.approx(mapped.inertia_, rel=1e-9)
    points = there.coreset_.points
    assert sp.issparse(points) == (make is sp.csr_array)
    dense = points.toarray() if sp.issparse(points) else points
    np.testing.assert_allclose(dense, X[there.coreset_.indices])
    np.testing.assert_allclose(there.coreset_.mean, X.mean(axis=0), rtol=1e-8)


def test_cosine_is_k_means_on_the_sphere():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(4, 8))
    label = rng.integers(4, size=3_000)
    X = (directions[label] * 2.0 + 0.3 * rng.normal(size=(3_000, 8))) * rng.uniform(
        0.01, 100.0, size=(3_000, 1)
    )
    model = CoresetKMeans(4, divergence="cosine", coreset_size=500, random_state=0).fit(X)
    assert adjusted_rand_score(label, model.labels_) > 0.99
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = unit @ model.cluster_centers_.T
    np.testing.assert_array_equal(model.labels_, cosines.argmax(axis=1))
    assert model.inertia_ == pytest.approx(2.0 * (1.0 - cosines.max(axis=1)).sum())
    assert adjusted_rand_score(label, CoresetKMeans(4, random_state=0).fit(X).labels_) < 0.9


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["kl", "kl_simplex"])
def test_kl_finds_topics(make, name):
    X, label = topics()
    X = make(X.toarray())
    model = CoresetKMeans(5, divergence=name, coreset_size=1_000, n_init=3, random_state=0).fit(X)
    assert adjusted_rand_score(label, model.labels_) > 0.95
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert model.inertia_ == pytest.approx(-model.score(X))
    np.testing.assert_array_equal(model.transform(X).argmin(axis=1), model.labels_)
    seen = np.asarray(X.sum(axis=0)).ravel() > 0
    assert (model.cluster_centers_[:, seen] > 0).all()


def test_sparse_and_dense_counts_give_one_answer():
    X, _ = topics()
    options = {"divergence": "kl", "coreset_size": 700, "random_state": 1}
    sparse, dense = (CoresetKMeans(5, **options).fit(rows) for rows in (X, X.toarray()))
    np.testing.assert_array_equal(sparse.coreset_.indices, dense.coreset_.indices)
    np.testing.assert_allclose(sparse.cluster_centers_, dense.cluster_centers_, rtol=1e-9)
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    assert sp.issparse(sparse.coreset_.points)


@pytest.mark.parametrize("divergence", ["itakura_saito", Burg()], ids=["ours", "a user's"])
@pytest.mark.parametrize("method", ["lightweight", "uniform", "sensitivity", "refined"])
def test_itakura_saito_finds_spectra(divergence, method):
    X, label = spectra()
    model = CoresetKMeans(
        4, divergence=divergence, method=method, coreset_size=800, n_init=3, random_state=0
    ).fit(X)
    assert adjusted_rand_score(label, model.labels_) > 0.99
    # Scales differ by six decades, and k-means sees the loudest bands alone.
    assert adjusted_rand_score(label, KMeans(4, n_init=3, random_state=0).fit_predict(X)) < 0.97


@pytest.mark.parametrize(
    ("divergence", "X"),
    [
        (divergences.KL(), topics()[0]),
        (divergences.ItakuraSaito(), spectra()[0]),
        (divergences.Logistic(), np.minimum(topics()[0].toarray(), 1.0)),
        (divergences.Exponential(), blobs() / 8.0),
        (divergences.Cosine(), blobs() + 9.0),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_lloyd_never_raises_the_cost(divergence, X):
    mean = Geometry(divergence).measured(X).moments(None).mean
    points = Points.of(X, None, Geometry(divergence, mean=mean))
    centers = points.rows.as_centers(np.arange(7))
    costs = [
        lloyd(points, centers, max_iter=iterations, tol=0.0).cost
        for iterations in (1, 2, 3, 5, 8, 13, 40)
    ]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(costs))
    assert costs[-1] < costs[0]


def test_weight_three_equals_three_copies():
    X, _ = topics(n=300)
    X, w = X.toarray(), np.random.default_rng(0).integers(0, 4, size=300)
    options = {"divergence": "kl", "init": X[:4] + 0.1, "coreset_size": 2_000}
    weighted = CoresetKMeans(4, **options).fit(X, sample_weight=w)
    copied = CoresetKMeans(4, **options).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(weighted.cluster_centers_, copied.cluster_centers_, rtol=1e-9)
    assert weighted.inertia_ == pytest.approx(copied.inertia_)


def test_polish_lowers_the_cost_on_all_rows():
    X, _ = topics()
    costs = [
        CoresetKMeans(8, divergence="kl", coreset_size=200, polish=steps, random_state=0)
        .fit(X)
        .inertia_
        for steps in (0, 1, 3)
    ]
    assert costs[0] > costs[1] > costs[2]


def spoiled(value: float, X: np.ndarray = COUNTS) -> np.ndarray:
    X = X.copy()
    X[7, 2] = value
    return X


BAD = {
    "negative counts": (spoiled(-1.0), "kl", "row 7, column 2 is -1.0; .*'kl' requires x >= 0"),
    "negative, sparse": (sp.csr_array(spoiled(-1.0)), "kl", "row 7, column 2 is -1.0"),
    "negative shares": (spoiled(-1.0), "kl_simplex", "row 7, column 2 is -1.0"),
    "a zero for spectra": (
        spoiled(0.0, spectra()[0]),
        "itakura_saito",
        r"row 7, column 2 is 0.0; .* requires x > 0: .*ItakuraSaito\(floor=",
    ),
    "sparse zeros for spectra": (sp.csr_array(COUNTS), "itakura_saito", "row 0, column .* is 0.0"),
    "above one": (
        spoiled(1.5, np.minimum(COUNTS, 1.0)),
        "logistic",
        "row 7, column 2 is 1.5; .*requires 0 <= x <= 1",
    ),
    "an empty row of shares": (
        np.where(np.arange(4_000)[:, None] == 9, 0.0, COUNTS),
        "kl_simplex",
        "row 9 has no shares",
    ),
    "an empty row of directions": (
        np.where(np.arange(4_000)[:, None] == 9, 0.0, COUNTS),
        "cosine",
        "row 9 has no direction",
    ),
    "NaN": (spoiled(np.nan), "kl", "row 7, column 2 is nan; every value must be finite"),
    "infinity": (
        spoiled(np.inf, spectra()[0]),
        "itakura_saito",
        "row 7, column 2 is inf; every value must be finite",
    ),
    "minus infinity": (
        spoiled(-np.inf, spectra()[0]),
        divergences.ItakuraSaito(floor=0.1),
        "row 7, column 2 is -inf; every value must be finite",
    ),
    "infinite shares": (spoiled(np.inf), "kl_simplex", "row 7, column 2 is inf"),
    "next to nothing": (spoiled(1e-310, spectra()[0]), "itakura_saito", "1/x overflows"),
    "a class": (COUNTS, "KLD", "did you mean 'kl'"),
    "another width": (
        COUNTS,
        divergences.Mahalanobis(np.eye(3)),
        "precision is for 3 columns but the data has 60",
    ),
    "a typo": (COUNTS, "itakura-saito", "did you mean 'itakura_saito'"),
    "scaled": (
        lwcs.scan(COUNTS, scale="standard"),
        "kl",
        "scale='standard' is only for squared Euclidean distances, not for KL",
    ),
}


@pytest.mark.parametrize("size", [100, 100_000], ids=["drawn", "all rows"])
@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_named(name, size):
    rows, divergence, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        CoresetKMeans(4, divergence=divergence, coreset_size=size, random_state=0).fit(rows)


def test_bad_rows_are_named_when_predicting_and_by_column():
    pd = pytest.importorskip("pandas")
    model = CoresetKMeans(4, divergence="kl", random_state=0).fit(COUNTS)
    with pytest.raises(ValueError, match=r"row 7, column 2 is -1.0"):
        model.predict(spoiled(-1.0))
    frame = pd.DataFrame(spoiled(-1.0), columns=[f"w{j}" for j in range(60)])
    with pytest.raises(ValueError, match=r"row 7, column 2 \('w2'\) is -1.0"):
        CoresetKMeans(4, divergence="kl").fit(frame)


def test_centers_outside_of_the_domain_are_named():
    coreset = lwcs.build(spectra()[0], 50, divergence="itakura_saito", random_state=0)
    with pytest.raises(ValueError, match=r"centers\[0, 0\]=0.0 is not allowed.*requires x > 0"):
        coreset.cost(np.zeros((1, 12)))


def test_without_smoothing_a_row_may_be_infinitely_far():
    own = divergences.KL(smoothing=0.0)
    coreset = lwcs.build(COUNTS, 50, divergence=own, random_state=0)
    with pytest.raises(ValueError, match=r"infinitely far from every center.*smoothing=0.1"):
        coreset.cost(np.eye(60)[:1])


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito", "cosine"])
def test_equal_rows_cost_nothing(divergence):
    X = np.tile([0.1, 0.7, 3.3], (500, 1))
    coreset = lwcs.build(X, 20, divergence=divergence, random_state=0)
    assert coreset.total_cost == pytest.approx(0.0, abs=1e-25)
    np.testing.assert_allclose(coreset.weights, coreset.counts * 25.0)
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        model = CoresetKMeans(3, divergence=divergence, random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize("jobs", [1, 2])
def test_same_seed_same_model_for_any_threads(jobs):
    X, _ = topics()
    options = {"divergence": "kl", "method": "refined", "coreset_size": 500, "random_state": 5}
    one, other = (CoresetKMeans(5, n_jobs=n, **options).fit(X) for n in (jobs, 3))
    assert one.coreset_ == other.coreset_
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert one.inertia_ == other.inertia_


def test_files_give_the_coreset_of_the_same_rows_in_memory(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, _ = spectra()
    table = pa.table({f"x{j}": X[:, j] for j in range(12)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=700)
    options = {"divergence": "itakura_saito", "random_state": 0}
    for method in ("lightweight", "refined"):
        here = lwcs.build(table, 200, method=method, n_clusters=4, **options)
        there = lwcs.build(str(tmp_path / "x.parquet"), 200, method=method, n_clusters=4, **options)
        np.testing.assert_array_equal(here.indices, there.indices)
        np.testing.assert_allclose(here.weights, there.weights, rtol=1e-12)
    with pytest.raises(ValueError, match="makes 3 passes over this data"):
        lwcs.build(str(tmp_path / "x.parquet"), 200, passes=2, **options)


def _not_for(estimator: CoresetKMeans) -> dict[str, str]:
    """Checks whose rows a divergence does not take, with the reason."""
    known = expected_failures(estimator)
    if estimator.divergence == "cosine":
        kinds = ("tag", "array", "matrix")
        checks = ("check_estimators_dtypes", *(f"check_estimator_sparse_{kind}" for kind in kinds))
        return known | dict.fromkeys(checks, "it has rows of zeros, which have no direction")
    checks = ("check_clusterer_compute_labels_predict", "check_clustering")
    return known | dict.fromkeys(checks, "it has negative numbers, whatever the tags say")


@parametrize_with_checks(
    [
        CoresetKMeans(3, divergence="cosine", random_state=0),
        CoresetKMeans(3, divergence=divergences.KL(), random_state=0),
    ],
    expected_failed_checks=_not_for,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
