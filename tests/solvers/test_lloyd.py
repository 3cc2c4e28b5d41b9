"""Lloyd: it is Lloyd, it never gets worse, it ends at a local optimum, weights are copies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from lwcs import divergences, kernels
from lwcs.geometry import Geometry
from lwcs.solvers.lloyd import Clustering, cheapest, lloyd, solve
from lwcs.solvers.points import Points

MAKE = pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def data(n=2000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(4, size=(n, d)) + rng.normal(scale=4, size=(30, d))[rng.integers(30, size=n)]
    X[rng.random(X.shape) < 0.2] = 0.0
    return X, rng.random(n) + 0.01


def textbook(X, w, centers, rounds):
    """Weighted Lloyd, written out."""
    for _ in range(rounds):
        labels = ((X[:, None, :] - centers) ** 2).sum(axis=2).argmin(axis=1)
        for j in range(len(centers)):
            if (labels == j).any():
                centers[j] = np.average(X[labels == j], axis=0, weights=w[labels == j])
    distances = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    return centers, distances.argmin(axis=1), float((w * distances.min(axis=1)).sum())


@MAKE
@pytest.mark.parametrize("kernel", ["numpy", "native"])
@pytest.mark.parametrize("rounds", [1, 2, 5, 30])
def test_comparing_with_moved_centers_alone_is_still_lloyd(make, rounds, kernel):
    X, w = data()
    geometry, start = Geometry(kernel=kernel), X[:40].copy()
    points = Points.of(make(X), w, geometry)
    found = lloyd(points, geometry.centers(start), max_iter=rounds, tol=0.0)
    centers, labels, cost = textbook(X, w, start, rounds)
    np.testing.assert_allclose(geometry.to_data(found.centers), centers, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(found.labels, labels)
    assert found.cost == pytest.approx(cost)


@MAKE
@DTYPE
def test_the_cost_never_rises(make, dtype):
    X, w = data()
    points = Points.of(make(X.astype(dtype)), w)
    start = points.rows.as_centers(np.arange(60))
    costs = [lloyd(points, start, max_iter=i, tol=0.0).cost for i in range(1, 60)]
    slack = 1e-6 if dtype == np.float32 else 1e-12
    assert all(b <= a * (1 + slack) for a, b in itertools.pairwise(costs))
    assert costs[-1] < costs[0]


@MAKE
def test_it_ends_at_a_local_optimum(make):
    X, w = data()
    points = Points.of(make(X), w)
    found = solve(points, 25, tol=0.0, seed=1)
    assert found.converged
    centers = found.centers.points
    distances = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found.labels, distances.argmin(axis=1))
    for j in range(25):
        mean = np.average(X[found.labels == j], axis=0, weights=w[found.labels == j])
        np.testing.assert_allclose(centers[j], mean, rtol=1e-9, atol=1e-9)


def test_it_says_that_it_ran_out_of_rounds():
    X, w = data()
    points = Points.of(X, w)
    assert not solve(points, 40, max_iter=2, tol=0.0).converged
    assert solve(points, 40, max_iter=2, tol=0.0).n_iter == 2
    assert solve(points, 40, max_iter=300, tol=1e-4).converged


@MAKE
def test_labels_belong_to_the_final_centers(make):
    X, w = data()
    points = Points.of(make(X), w)
    for max_iter, tol in ((1, 0.0), (3, 0.0), (300, 0.05)):
        found = solve(points, 30, max_iter=max_iter, tol=tol)
        distances = ((X[:, None, :] - found.centers.points) ** 2).sum(axis=2)
        np.testing.assert_array_equal(found.labels, distances.argmin(axis=1))


@MAKE
@DTYPE
@pytest.mark.parametrize("kernel", ["numpy", "native"])
def test_weight_three_equals_three_copies_given_the_same_start(make, dtype, kernel):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(300, 4)).astype(dtype), rng.integers(0, 4, 300)
    start = X[w > 0][:12].astype(np.float64)
    geometry = Geometry(kernel=kernel)
    weighted = Points.of(make(X), w.astype(float), geometry)
    copied = Points.of(make(np.repeat(X, w, axis=0)), None, geometry)
    one, other = (
        lloyd(each, geometry.centers(start), max_iter=100, tol=0.0) for each in (weighted, copied)
    )
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(
        one.centers.points, other.centers.points, rtol=tolerance, atol=tolerance
    )
    np.testing.assert_array_equal(np.repeat(one.labels, w), other.labels)


@MAKE
def test_an_empty_cluster_moves_to_the_costliest_point(make):
    X = np.vstack([np.random.default_rng(0).normal(size=(50, 2)), [[100.0, 100.0]]])
    points = Points.of(make(X), None)
    start = np.array([[0.0, 0.0], [-1e6, 0.0]])  # nobody's nearest
    found = lloyd(points, Geometry().centers(start), max_iter=100, tol=0.0)
    assert found.labels[50] == 1
    np.testing.assert_allclose(found.centers.points[1], [100.0, 100.0])


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_tol_is_measured_in_the_weighted_variance(scale):
    """A row of great spread and no weight must not loosen the tolerance."""
    X, w = data()
    plain = solve(Points.of(X * scale, w), 30, tol=1e-3)
    noisy = np.vstack([X, np.full((1, 6), 1e5)]) * scale
    weighted = solve(Points.of(noisy, np.append(w, 0.0)), 30, tol=1e-3)
    assert weighted.n_iter == plain.n_iter


@MAKE
@pytest.mark.parametrize("kernel", ["numpy", "native"])
def test_threads_change_nothing(kernel, make, monkeypatch):
    monkeypatch.setattr("lwcs.solvers.lloyd._WORTH_THREADS", 0)
    monkeypatch.setattr("lwcs.solvers.seeding.WORTH_THREADS", 0)
    monkeypatch.setattr("lwcs.geometry.products.PIECE_VALUES", 2**12)
    monkeypatch.setattr("lwcs.solvers.lloyd._LOT_ROWS", 2**8)
    X, w = data()
    points = Points.of(make(X), w, Geometry(kernel=kernel))
    found = [solve(points, 40, n_jobs=jobs) for jobs in (1, 2, 7)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].centers.points, other.centers.points)
        np.testing.assert_array_equal(found[0].labels, other.labels)


@pytest.mark.parametrize("kernel", ["numpy", "native"])
def test_sums_are_taken_lot_by_lot_by_kernels_without_threads(kernel, monkeypatch):
    monkeypatch.setattr("lwcs.solvers.lloyd._LOT_ROWS", 2**8)
    lots, loops = [], kernels.named(kernel)
    own = loops.cluster_sums

    def spy(rows, *others):
        lots.append(rows.shape[0])
        return own(rows, *others)

    monkeypatch.setattr(loops, "cluster_sums", spy)
    X, w = data()
    solve(Points.of(sp.csr_array(X), w, Geometry(kernel=kernel)), 5, max_iter=2)
    assert set(lots) == ({2000} if loops.shares_calls else {256, 2000 % 256})


def test_the_best_restart_is_kept():
    X, w = data()
    points = Points.of(X, w)
    costs = [solve(points, 20, seed=0, n_init=n).cost for n in (1, 2, 5)]
    assert costs[0] >= costs[1] >= costs[2]
    assert costs[0] > costs[2]


@pytest.mark.parametrize(
    ("costs", "first"),
    [
        ([2.0, 1.0, 1.0 - 1e-12], 1),
        ([1.0 + 1e-12, 1.0], 0),
        ([1.0, 0.99], 1),
        ([-10.0, -10.0 - 1e-11], 0),
        ([-10.0, -10.1, -9.0], 1),
        ([np.inf, 1.0], 1),
        ([1.0, -np.inf], 1),
        ([0.0, 0.0], 0),
    ],
)
def test_of_starts_with_the_same_cost_up_to_rounding_the_first_is_kept(costs, first):
    assert cheapest(costs) == first


def test_points_of_offset_data_keep_their_digits():
    X, w = data()
    far = Points.of((X.round(3) + 1e6), w)
    near = Points.of(X.round(3), w)
    a, b = (solve(p, 10, tol=0.0).cost for p in (far, near))
    assert a == pytest.approx(b, rel=1e-6)


def means_of(points: Points, found: Clustering) -> np.ndarray:
    rows = points.rows.full(slice(None))
    return np.array(
        [
            np.average(rows[found.labels == j], axis=0, weights=points.weights[found.labels == j])
            for j in range(len(found.centers))
        ]
    )


def test_with_a_stride_half_as_many_iterations_reach_the_same_cost():
    rng = np.random.default_rng(0)
    points = Points.of(rng.standard_normal((5_000, 6)), rng.exponential(size=5_000))
    start = points.rows.as_centers(np.arange(40))
    plain = [lloyd(points, start, max_iter=n, tol=0.0).cost for n in (8, 16)]
    far = lloyd(points, start, max_iter=8, tol=0.0, stride=1.8)
    assert far.n_iter == 8
    assert far.cost <= 1.002 * plain[1] < plain[0]


def test_the_cost_never_rises_with_a_stride_and_the_last_iteration_goes_to_the_means():
    rng = np.random.default_rng(1)
    points = Points.of(rng.standard_t(2, size=(2_000, 3)), rng.exponential(size=2_000))
    start = points.rows.as_centers(np.arange(15))
    costs = [lloyd(points, start, max_iter=n, tol=0.0, stride=1.8).cost for n in range(2, 30)]
    assert all(later <= cost * (1 + 1e-12) for cost, later in itertools.pairwise(costs))
    settled = lloyd(points, start, max_iter=500, tol=0.0, stride=1.8)
    assert settled.converged
    np.testing.assert_allclose(settled.centers.points, means_of(points, settled), rtol=1e-9)


def test_a_stride_is_for_squared_distances_only():
    rng = np.random.default_rng(2)
    points = Points.of(rng.gamma(1.0, size=(500, 3)), None, Geometry(divergences.KL(smoothing=0.0)))
    start = points.rows.as_centers(np.arange(5))
    plain, far = (lloyd(points, start, max_iter=5, tol=0.0, stride=s) for s in (1.0, 1.8))
    np.testing.assert_array_equal(plain.centers.points, far.centers.points)


def test_iterations_end_where_they_gain_little_and_say_what_is_left():
    rng = np.random.default_rng(3)
    points = Points.of(rng.standard_normal((5_000, 4)), None)
    start = points.rows.as_centers(np.arange(30))
    short = lloyd(points, start, max_iter=500, tol=0.0, least_gain=1e-3)
    whole = lloyd(points, start, max_iter=500, tol=0.0)
    assert short.converged
    assert 3 < short.n_iter < whole.n_iter / 3
    left = short.cost / whole.cost - 1.0
    assert 0.1 * left < short.remaining < 10.0 * left, "the order of magnitude"
    assert whole.remaining == 0.0
