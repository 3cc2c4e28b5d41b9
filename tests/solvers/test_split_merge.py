"""Splits and merges: the cost never rises, every cluster is found, what is kept is consistent."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.divergences import KL
from lwcs.geometry import Centers, Geometry
from lwcs.solvers.lloyd import lloyd
from lwcs.solvers.points import Points
from lwcs.solvers.split_merge import split_merge
from tests.solvers.kinds import MAKE, native

DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def groups(n=3_000, k=30, d=4, seed=0):
    """Rows of clusters far apart, some ten times as large as others; and their centers."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-50.0, 50.0, (k, d))
    shares = np.linspace(1.0, 10.0, k)
    labels = rng.choice(k, n, p=shares / shares.sum())
    return centers[labels] + rng.standard_normal((n, d)), centers


def from_random(points, k, seed=0, **options):
    """Lloyd's algorithm and `split_merge` from the same random points."""
    rng = np.random.default_rng(seed)
    first = points.rows.as_centers(rng.choice(np.flatnonzero(points.weights), k))
    options = {"max_iter": 100, "tol": 0.0} | options
    return lloyd(points, first, **options), split_merge(points, first, rng, **options)


def assert_consistent(points, found):
    """Labels are nearest, and distances and cost are those of the labels."""
    labels, distances = points.rows.nearest(found.centers)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-4, atol=1e-9 * points.average)
    assert (found.labels == labels).mean() > 0.999
    assert found.cost == pytest.approx(float(points.weights @ found.distances), rel=1e-12)


@MAKE
@DTYPE
@pytest.mark.parametrize("stride", [1.0, 1.8])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_every_cluster_is_found_from_random_points(make, dtype, stride, offset):
    X, truth = groups()
    points = make((X + offset).astype(dtype), np.ones(len(X)))
    before, found = from_random(points, len(truth), stride=stride)
    assert before.cost > 2.0 * found.cost
    nearest = np.sqrt(((truth[:, None] + offset - found.centers.points) ** 2).sum(axis=2)).min(1)
    assert nearest.max() < 2.0
    assert_consistent(points, found)


@MAKE
def test_clusters_in_many_columns_are_split_where_a_single_point_is_far_from_all(make):
    rng = np.random.default_rng(0)
    truth = np.zeros((4, 50))
    truth[:, 0] = 5.0, 10.0, 15.0, 20.0
    X = np.repeat(truth, [100, 100, 100, 1_000], axis=0) + rng.standard_normal((1_300, 50))
    points = make(X, np.ones(len(X)))
    # One center for the first two clusters, and two for the last one.
    two, one = X[:200].mean(axis=0), X[200:300].mean(axis=0)
    first = Centers(np.stack([two, one, X[300], X[301]]), points.rows.geometry)
    found = split_merge(points, first, rng, max_iter=100)
    nearest = ((truth[:, None] - found.centers.points) ** 2).sum(axis=2).min(axis=1)
    assert nearest.max() < 2.0


@MAKE
@DTYPE
@pytest.mark.parametrize("k", [1, 2, 3, 20, 200])
@pytest.mark.parametrize("factor", [1e-140, 1.0, 1e140])
def test_the_cost_is_not_above_that_of_lloyd(make, dtype, k, factor):
    if dtype == np.float32:
        factor **= 0.1
    rng = np.random.default_rng(1)
    X = (rng.standard_t(3, size=(600, 3)) * factor).astype(dtype)
    weights = rng.random(600)
    weights[::5] = 0.0
    points = make(X, weights)
    before, found = from_random(points, k)
    # Both may end in other optima; the iterations before the first round are few.
    assert found.cost <= 1.01 * before.cost
    if k == 20:
        assert found.cost < 0.97 * before.cost
    assert_consistent(points, found)


@pytest.mark.parametrize("k", [3, 20])
def test_equal_rows_and_fewer_rows_than_clusters_are_no_error(k):
    for X in (np.ones((50, 2)), np.repeat(np.eye(5), 3, axis=0)):
        points = native(X, np.ones(len(X)))
        _, found = from_random(points, k)
        assert np.isfinite(found.centers.points).all()
        assert_consistent(points, found)


def test_the_result_does_not_depend_on_threads():
    X, truth = groups(60_000, 40, 8)
    points = native(X.astype(np.float32), np.ones(len(X)))
    one, two = (from_random(points, len(truth), n_jobs=threads)[1] for threads in (1, 2))
    np.testing.assert_array_equal(one.centers.points, two.centers.points)
    assert one.n_iter == two.n_iter


def test_iterations_end_where_they_are_told_to():
    X, _ = groups()
    points = native(X, np.ones(len(X)))
    for max_iter in (1, 3, 30):
        assert from_random(points, 60, max_iter=max_iter)[1].n_iter <= max_iter
    found = from_random(points, 60, max_iter=300)[1]
    again = lloyd(points, found.centers, max_iter=300, tol=0.0)
    assert again.n_iter <= 1
    assert found.converged


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_other_divergences_are_split_and_merged(make):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 12)
    X = np.concatenate([rng.multinomial(200, topic, 80) for topic in topics]).astype(float)
    points = Points.of(make(X), np.ones(len(X)), Geometry(KL(smoothing=0.1), mean=X.mean(axis=0)))
    before, found = from_random(points, 12, seed=3)
    assert found.cost < 0.9 * before.cost
    assert_consistent(points, found)


def test_the_default_finds_clusters_of_very_different_sizes():
    rng = np.random.default_rng(2)
    centers = np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3) * 10.0
    sizes = np.exp(rng.uniform(np.log(50), np.log(5_000), len(centers))).astype(int)
    X = np.repeat(centers, sizes, axis=0) + 0.5 * rng.standard_normal((sizes.sum(), 3))
    for seed in range(5):
        found = lwcs.CoresetKMeans(64, random_state=seed).fit(X).cluster_centers_
        apart = np.sqrt(((centers[:, None] - found) ** 2).sum(axis=2)).min(axis=1)
        assert (apart < 1.0).all()
