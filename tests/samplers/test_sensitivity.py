"""Sensitivity and refined coresets: the identity of their scores, corners, passes, errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.geometry import Geometry
from lwcs.samplers.around_centers import (
    Assignment,
    ClustersTask,
    ClusterTotals,
    approximation_factor,
    assign,
    sensitivities,
)
from lwcs.samplers.sampler import Run
from lwcs.samplers.sensitivity import d2_sampling

METHOD = pytest.mark.parametrize("method", ["sensitivity", "refined"])
MAKE = pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def blobs(n: int = 600, d: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) + 20.0 * rng.integers(0, 5, size=(n, 1))


def naive(X: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest center and squared distance of every row."""
    distances = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    return distances.argmin(axis=1), distances.min(axis=1)


def scores(source: lwcs.Source, initial: Assignment, k: int) -> tuple[np.ndarray, np.ndarray, int]:
    """s and ω of every row, by the library's parts, and the number of clusters with rows."""
    blocks = [block for i in range(source.count_partitions()) for block in source.blocks(i)]
    total = ClustersTask(initial, [0])(iter(blocks[:1]), 0)
    assert len(blocks) == 1
    s = sensitivities(total, k)(initial.labels, initial.distances)
    weights = source.weights if source.weights is not None else np.ones(source.n_rows)
    return s, weights, int(np.count_nonzero(total.weights))


@MAKE
@pytest.mark.parametrize("k", [1, 2, 7, 50])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_sensitivity_is_three_alpha_plus_four_clusters(make, k, weighted, kernel):
    X, w = blobs(), np.random.default_rng(1).random(600) * (np.arange(600) % 7 > 0)
    source = lwcs.scan(make(X), weight=w if weighted else None)
    geometry = Geometry(kernel=kernel)
    initial = d2_sampling(source, k, geometry, Run(3, geometry, 1))
    assert len(initial.centers) == k
    s, omega, clusters = scores(source, initial, k)
    alpha = 16.0 * (np.log(k) + 2.0)
    assert omega @ s / omega.sum() == pytest.approx(3.0 * alpha + 4.0 * clusters, rel=1e-12)


def test_sensitivities_are_those_of_the_formula():
    X, k = blobs(), 6
    source = lwcs.scan(X)
    initial = d2_sampling(source, k, Geometry(), Run(0, Geometry(), 1))
    s, _, _ = scores(source, initial, k)
    labels, d = naive(X, initial.centers.points)
    c, alpha = d.mean(), 16 * (np.log(k) + 2)
    for i in range(0, 600, 37):
        own = labels == labels[i]
        expected = (
            alpha * d[i] / c + 2 * alpha * d[own].sum() / (own.sum() * c) + 4 * 600 / own.sum()
        )
        assert s[i] == pytest.approx(expected, rel=1e-9)


@MAKE
def test_seeding_keeps_the_distance_to_the_nearest_center(make, kernel):
    X = blobs(5_000)
    source = lwcs.scan(make(X))
    geometry = Geometry(kernel=kernel)
    initial = d2_sampling(source, 40, geometry, Run(1, geometry, 2))
    labels, distances = naive(X, initial.centers.points)
    np.testing.assert_allclose(initial.distances, distances, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(initial.labels, labels)


def test_centers_of_the_seeding_are_rows():
    X = blobs()
    centers = d2_sampling(lwcs.scan(X), 20, Geometry(), Run(1, Geometry(), 1)).centers.points
    assert all((center == X).all(axis=1).any() for center in centers)
    assert len(np.unique(centers, axis=0)) == 20


def test_assigning_measures_every_row():
    X = blobs()
    found = assign(lwcs.scan(X), Geometry().centers(X[:5]), Run(1, Geometry(), 1))
    labels, distances = naive(X, X[:5])
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.distances, distances)


@METHOD
@MAKE
def test_data_that_costs_nothing_is_drawn_by_its_clusters(method, make):
    """Three distinct rows, k = 3: c = 0, and each distinct row gets a third of the draws."""
    X = np.repeat([[1.0, 0.0], [0.0, 5.0], [7.0, 7.0]], [10, 100, 890], axis=0)
    coreset = lwcs.build(make(X), 3_000, method=method, n_clusters=3, random_state=0)
    drawn = [
        coreset.counts[(coreset.indices >= a) & (coreset.indices < b)].sum()
        for a, b in ((0, 10), (10, 110), (110, 1000))
    ]
    # Binomial(3000, 1/3): six standard deviations, false alarm below 1e-8.
    assert all(abs(n - 1000) < 6 * np.sqrt(3000 * 2 / 9) for n in drawn), drawn
    assert coreset.cost(np.unique(X, axis=0)) == pytest.approx(0.0, abs=1e-9)


@METHOD
@MAKE
@pytest.mark.parametrize("k", [1, 20])
def test_up_to_as_many_clusters_as_rows(method, make, k):
    X = np.random.default_rng(0).normal(size=(20, 3))
    coreset = lwcs.build(make(X), 5_000, method=method, n_clusters=k, random_state=0)
    assert coreset.size == 5_000
    assert coreset.weights.sum() == pytest.approx(20.0, rel=0.1)


@METHOD
@MAKE
def test_more_clusters_than_rows_are_refused(method, make):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match="n_samples=20 should be >= n_clusters=21"):
        lwcs.build(make(X), 5_000, method=method, n_clusters=21, random_state=0)


@METHOD
@MAKE
def test_equal_rows(method, make, kernel):
    X = np.full((1000, 3), 0.1, dtype=np.float32)
    coreset = lwcs.build(make(X), 50, method=method, n_clusters=4, random_state=0)
    np.testing.assert_allclose(coreset.weights, coreset.counts * 20.0)


@METHOD
def test_rows_without_weight_are_never_drawn(method):
    X, w = blobs(), np.ones(600)
    w[::3] = 0.0
    X[::3] = 1e6
    coreset = lwcs.build(X, 500, method=method, n_clusters=5, sample_weight=w, random_state=0)
    assert (coreset.indices % 3 != 0).all()


@pytest.mark.statistical
@METHOD
def test_weight_three_equals_three_copies(method):
    """Expected cost of one set of centers, over 300 coresets each way: z-test at 1e-4."""
    X = blobs(60)
    w = 1.0 + 2.0 * (np.arange(60) % 2)
    copies = np.repeat(X, w.astype(int), axis=0)
    centers = X[::13]

    def costs(data, **options):
        return np.array(
            [
                lwcs.build(
                    data, 40, method=method, n_clusters=5, random_state=s, n_jobs=1, **options
                ).cost(centers)
                for s in range(300)
            ]
        )

    a, b = costs(X, sample_weight=w), costs(copies)
    z = (a.mean() - b.mean()) / np.sqrt((a.var() + b.var()) / 300)
    assert abs(z) < 3.9


@METHOD
def test_distances_are_measured_in_standard_deviations(method):
    X = blobs() * [1.0, 1e6, 1e-6, 1.0]
    scaled = X / X.std(axis=0)
    a = lwcs.build(lwcs.scan(X, scale="standard"), 200, method=method, n_clusters=5, random_state=0)
    b = lwcs.build(scaled, 200, method=method, n_clusters=5, random_state=0)
    np.testing.assert_allclose(a.scale, X.std(axis=0))
    if method == "sensitivity":
        np.testing.assert_array_equal(a.indices, b.indices)
        np.testing.assert_allclose(a.weights, b.weights, rtol=1e-9)
    assert a.cost(X[:5]) == pytest.approx(b.cost(scaled[:5]), rel=0.3)


@METHOD
@pytest.mark.usefixtures("small_partitions")
def test_threads_do_not_matter(method, kernel):
    X = blobs(3_000)
    one, four = (
        lwcs.build(X, 200, method=method, n_clusters=9, random_state=5, n_jobs=n) for n in (1, 4)
    )
    assert one == four


@METHOD
def test_kernels_draw_the_same_rows(method, monkeypatch):
    coresets = []
    for kernel in ("numpy", "native"):
        monkeypatch.setenv("LWCS_KERNEL", kernel)
        coresets.append(lwcs.build(blobs(), 200, method=method, n_clusters=9, random_state=5))
    np.testing.assert_array_equal(coresets[0].indices, coresets[1].indices)
    np.testing.assert_allclose(coresets[0].weights, coresets[1].weights, rtol=1e-9)


@METHOD
def test_partitions_serve_too(method):
    X = blobs()
    source = lwcs.PartitionedSource([X[:100], X[100:450], X[450:]])
    coreset = lwcs.build(source, 300, method=method, n_clusters=5, random_state=0)
    assert coreset.n_samples == 600
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])
    assert coreset.weights.sum() == pytest.approx(600.0, rel=0.2)


@METHOD
def test_what_is_missing_or_impossible_is_said(method):
    X = blobs()
    with pytest.raises(ValueError, match="pass n_clusters=k"):
        lwcs.build(X, 50, method=method)
    with pytest.raises(ValueError, match="passes over this data"):
        lwcs.build(X, 50, method=method, n_clusters=3, passes=1)
    with pytest.raises(ValueError, match="n_clusters"):
        lwcs.build(X, 50, method=method, n_clusters=0)
    with pytest.raises(ValueError, match="all weights are zero"):
        lwcs.build(X, 50, method=method, n_clusters=3, sample_weight=np.zeros(600))
    X[17, 2] = np.nan
    for data in (X, sp.csr_array(X), lwcs.PartitionedSource([X[:10], X[10:]])):
        with pytest.raises(ValueError, match=r"column 2.* is nan"):
            lwcs.build(data, 50, method=method, n_clusters=3, random_state=0)


def test_an_object_keeps_its_own_number_of_clusters():
    a = lwcs.build(blobs(), 50, method=lwcs.Refined(n_clusters=7), n_clusters=3, random_state=0)
    b = lwcs.build(blobs(), 50, method="refined", n_clusters=7, random_state=0)
    assert a == b


@METHOD
def test_the_estimator_passes_its_clusters_on(method):
    X = blobs(2_000)
    model = lwcs.CoresetKMeans(5, coreset_size=200, method=method, random_state=0).fit(X)
    assert model.coreset_.method == method
    assert model.coreset_ == lwcs.build(X, 200, method=method, n_clusters=5, random_state=0)
    best = lwcs.CoresetKMeans(5, coreset_size=10**6, n_init=5, random_state=0).fit(X).inertia_
    assert model.inertia_ < 1.2 * best


def test_small_clusters_at_the_mean_are_kept():
    """MATH: a small cluster where the mean is, which lightweight misses."""
    rng = np.random.default_rng(0)
    ring = rng.normal(size=(20_000, 2))
    ring *= 1000.0 / np.linalg.norm(ring, axis=1, keepdims=True)
    X = np.vstack([np.round(ring / 500.0) * 500.0, rng.normal(0.0, 1e-3, (20, 2))])
    for method in ("sensitivity", "refined"):
        coreset = lwcs.build(X, 500, method=method, n_clusters=16, random_state=0)
        middle = (coreset.indices >= 20_000) @ coreset.weights
        assert middle == pytest.approx(20.0, rel=0.6)


def test_alpha_is_that_of_the_paper():
    assert approximation_factor(1) == 32.0
    assert approximation_factor(100) == pytest.approx(105.68, abs=0.01)


def test_clusters_add_up():
    a = ClusterTotals(2, np.array([1.0, 1.0]), np.array([0.5, 0.0]))
    assert (a + a).rows == 4
    np.testing.assert_array_equal((a + a).costs, [1.0, 0.0])
