"""Local search: the cost never rises, misplaced centers are mended, what it keeps is true."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.divergences import KL
from lwcs.geometry import Geometry
from lwcs.solvers.lloyd import solve
from lwcs.solvers.local_search import FEWEST_STEPS, _Search, local_search
from lwcs.solvers.points import Points
from lwcs.solvers.seeding import kmeans_plusplus, start
from tests.solvers.kinds import MAKE, native, portable

DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def cost(points, centers):
    return float(points.weights @ points.rows.nearest(centers)[1])


def rows(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(n, d)) + rng.normal(scale=5, size=(12, d))[rng.integers(12, size=n)]
    w = rng.random(n) + 0.01
    w[::5] = 0.0
    return X, w


def random_start(points, k, rng):
    return points.rows.as_centers(rng.choice(np.flatnonzero(points.weights), k))


def searched(points, k, seed=0, steps=FEWEST_STEPS):
    """The cost of random centers, and after the search."""
    rng = np.random.default_rng(seed)
    first = random_start(points, k, rng)
    found = local_search(points, first, rng, steps)
    assert found.points.shape == first.points.shape
    return cost(points, first), cost(points, found)


@MAKE
@DTYPE
@pytest.mark.parametrize("k", [2, 3, 20, 200])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_the_cost_falls_at_any_offset(make, dtype, k, offset):
    X, w = rows()
    before, after = searched(make((X + offset).astype(dtype), w), k)
    assert after < 0.99 * before


@MAKE
@pytest.mark.parametrize("factor", [1e-150, 1e-30, 1e30, 1e150])
def test_the_search_does_not_depend_on_the_units(make, factor):
    X, w = rows()
    rng = np.random.default_rng
    plain, scaled = (make(each, w) for each in (X, X * factor))
    first = np.arange(1, 21, 2)
    found = local_search(plain, plain.rows.as_centers(first), rng(1)).points
    again = local_search(scaled, scaled.rows.as_centers(first), rng(1)).points
    assert (found != X[first]).any()
    np.testing.assert_allclose(again, found * factor, rtol=1e-12)


@MAKE
@DTYPE
def test_the_cost_never_rises_from_step_to_step(make, dtype):
    """100 single searches of eight steps, also from centers that are not points."""
    X, w = rows()
    points, rng = make(X.astype(dtype), w), np.random.default_rng(0)
    centers = Geometry().centers(rng.normal(scale=5, size=(15, 4)))
    costs = [cost(points, centers)]
    for _ in range(100):
        centers = local_search(points, centers, rng, 8)
        costs.append(cost(points, centers))
    assert (np.diff(costs) <= 0.0).all()
    assert costs[-1] < 0.7 * costs[0]


@MAKE
@pytest.mark.parametrize("spread", [1e-2, 1e-4, 1e-6])
def test_structure_far_below_the_spread_is_searched(make, spread):
    """Once every cluster has a center, distances are too small for float32 products.

    The search then goes on in float64: to within 2 % of where more steps do not lead further,
    which decisions by rounding miss by a third.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8, 5))[rng.integers(8, size=500)] + spread * rng.normal(size=(500, 5))
    points = make(X, None)
    found = local_search(points, points.rows.as_centers(np.arange(12)), rng, 400)
    more = local_search(points, found, rng, 800)
    scatter = 5 * spread**2 * 500
    assert cost(points, found) < 1.6 * scatter
    assert 0.9 * cost(points, found) < cost(points, more) <= cost(points, found)


@MAKE
def test_two_centers_in_one_cluster_are_mended(make):
    """Nine clusters, the last without a center and the first with two: Lloyd stays there."""
    rng, own = np.random.default_rng(0), np.repeat(np.arange(9), 60)
    X = 20.0 * np.stack(np.divmod(own, 3), axis=1) + rng.normal(size=(540, 2))
    points = make(X, None)
    first = points.rows.as_centers(np.array([0, 1, *range(60, 480, 60)]))
    found = local_search(points, first, rng)
    nearest = found.points.round(-1) // 20
    assert len({tuple(each) for each in nearest}) == 9
    stuck, mended = (solve(points, 9, init=each.points).cost for each in (first, found))
    assert mended < 1.2 * 2 * 540
    assert stuck > 5.0 * mended


@MAKE
@DTYPE
@pytest.mark.parametrize("k", [2, 9, 10, 11, 15])
def test_duplicates_and_as_many_centers_as_distinct_points(make, dtype, k):
    """Ten distinct points, 30 times each, from a start with few of them."""
    distinct = np.random.default_rng(1).normal(size=(10, 3)).astype(dtype)
    X = np.repeat(distinct, 30, axis=0)
    points = make(X, None)
    first = points.rows.as_centers(np.arange(k) % 2)
    found = local_search(points, first, np.random.default_rng(0))
    assert cost(points, found) < cost(points, first)
    assert len(np.unique(found.points, axis=0)) == min(k, 10)
    if k >= 10:
        assert cost(points, found) == 0.0


@MAKE
def test_points_without_weight_never_become_centers(make):
    X, w = rows()
    X[::5] *= 30.0  # far away, and so of the largest distances
    points, rng = make(X, w), np.random.default_rng(0)
    found = local_search(points, random_start(points, 25, rng), rng, 400)
    weighed = {tuple(each) for each in X[w > 0.0]}
    assert all(tuple(each) in weighed for each in found.points)


@MAKE
def test_a_single_center_stays(make):
    X, w = rows()
    points = make(X, w)
    first = points.rows.as_centers(np.array([1]))
    found = local_search(points, first, np.random.default_rng(0))
    np.testing.assert_array_equal(found.points, first.points)


def test_no_steps_change_nothing():
    before, after = searched(Points.of(*rows()), 10, steps=0)
    assert after == before


@MAKE
def test_same_seed_same_answer(make):
    points = make(rows()[0], rows()[1])
    first = points.rows.as_centers(np.arange(1, 40, 3))
    one, same, other = (
        local_search(points, first, np.random.default_rng(seed)).points for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@MAKE
def test_the_same_answer_for_any_number_of_threads(make, monkeypatch):
    monkeypatch.setattr("lwcs.solvers.local_search.WORTH_THREADS", 0)
    X, w = rows(n=6_000)
    points = make(X, w)
    first = points.rows.as_centers(np.arange(1, 40, 3))
    one, *others = (
        local_search(points, first, np.random.default_rng(1), n_jobs=n_jobs).points
        for n_jobs in (1, 2, 5)
    )
    assert (one != first.points).any()
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_both_kernels_find_the_same_centers():
    X, w = rows(n=2_000)
    one, other = (
        local_search(
            points, points.rows.as_centers(np.arange(1, 40, 3)), np.random.default_rng(1)
        ).points
        for points in (portable(X, w), native(X, w))
    )
    np.testing.assert_array_equal(one, other)


@MAKE
def test_given_centers_are_not_changed_in_place(make):
    points = make(rows()[0], rows()[1])
    first = points.rows.as_centers(np.arange(1, 40, 3))
    kept, matrix = first.points.copy(), first.sparse_center_matrix.matrix.copy()
    found = local_search(points, first, np.random.default_rng(0))
    assert (found.points != kept).any()
    np.testing.assert_array_equal(first.points, kept)
    np.testing.assert_array_equal(first.sparse_center_matrix.matrix, matrix)


@MAKE
@DTYPE
@pytest.mark.parametrize("k", [2, 5, 40])
def test_what_is_kept_of_every_point_is_what_brute_force_gives(make, dtype, k):
    X, w = rows()
    points, rng = make(X, w), np.random.default_rng(0)
    first = random_start(points, k, rng)
    search = _Search(points, first, dtype)
    for _ in range(20):
        assert search.swap(rng.random(8))
    centers = search.centers.points
    assert (centers != first.points).any(axis=1).sum() > min(k // 2, 10)
    distances = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    order, each = np.argsort(distances, axis=1), np.arange(len(X))
    close = {"rtol": 1e-5, "atol": 1e-3} if search.fast else {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(search._nearest, distances[each, order[:, 0]], **close)
    np.testing.assert_allclose(search._second, distances[each, order[:, 1]], **close)
    np.testing.assert_allclose(distances[each, search._labels], search._nearest, **close)
    np.testing.assert_allclose(distances[each, search._others], search._second, **close)
    assert (search._labels != search._others).all()
    assert search.cost == pytest.approx(w @ distances.min(axis=1) / w.sum(), rel=1e-5)
    without = [w @ np.delete(distances, j, axis=1).min(axis=1) / w.sum() for j in range(k)]
    np.testing.assert_allclose(search.cost + search._losses, without, rtol=1e-5)


@MAKE
def test_a_swap_is_the_one_that_brute_force_chooses(make):
    """One point is offered at a time: the best of k swaps is taken if it lowers the cost."""
    X, w = rows(n=120)
    points, rng = make(X, w), np.random.default_rng(0)
    search, taken = _Search(points, random_start(points, 6, rng), np.float64), 0
    for _ in range(60):
        before, uniform = search.centers.points, rng.random(1)
        nearest = ((X[:, None, :] - before) ** 2).sum(axis=2).min(axis=1)
        offered = int(np.searchsorted(np.cumsum(w * nearest), uniform * (w @ nearest), "right")[0])
        swapped = []
        for j in range(6):
            trial = before.copy()
            trial[j] = X[offered]
            swapped.append(w @ ((X[:, None, :] - trial) ** 2).sum(axis=2).min(axis=1))
        expected = before.copy()
        if min(swapped) < w @ nearest:
            expected[int(np.argmin(swapped))] = X[offered]
            taken += 1
        search.swap(uniform)
        np.testing.assert_array_equal(search.centers.points, expected)
    assert 5 < taken < 60


@pytest.mark.parametrize(
    "first",
    [[7, *range(8, 22)], [7, 7, *range(8, 21)], [*range(8, 23)]],
    ids=["once", "twice", "no"],
)
def test_one_row_far_out_of_the_range_of_float32_does_not_stop_the_search(first):
    """Its square overflows there, and next to it, 1e34 is rounding in float64.

    The search ends with one center on it, and better ones for the others.
    """
    X, w = rows()
    X[7] = [1e25, 3e24, -7.7e24, 1.3e25]
    points, near = Points.of(X, w), np.arange(len(X)) != 7
    found = local_search(points, points.rows.as_centers(np.array(first)), np.random.default_rng(0))
    assert (found.points == X[7]).all(axis=1).sum() == 1
    alone = points.rows[near], points.rows.as_centers(np.arange(8, 22))
    before, after = (w[near] @ alone[0].nearest(each)[1] for each in (alone[1], found))
    assert after < 0.95 * before


def test_a_center_far_out_of_the_range_of_float32_is_given_up():
    points = Points.of(*rows())
    first = Geometry().centers(np.array([[0.0, 0.0, 0.0, 0.0], [1e25, 1e25, 1e25, 1e25]]))
    found = local_search(points, first, np.random.default_rng(0))
    assert np.abs(found.points).max() < 1e3
    assert cost(points, found) < 0.9 * cost(points, first)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("smoothing", [0.0, 0.01])
def test_kl_of_counts(make, smoothing):
    """Without smoothing, a row is infinitely far from centers that lack what it has."""
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.7, 8.0, (6, 5))[rng.integers(6, size=400)]).astype(float)
    coreset = lwcs.Coreset.from_arrays(make(X), np.ones(400), divergence=KL(smoothing=smoothing))
    points = Points.of(coreset.points, coreset.weights, coreset.geometry())
    first = Geometry(coreset.divergence).centers(rng.gamma(2.0, 2.0, (8, 5)) + 0.1)
    found = local_search(points, first, rng)
    assert cost(points, found) < 0.8 * cost(points, first)


def heavy_tailed(n=1500, d=3, seed=0):
    """40 clusters of very different sizes and widths, with a heavy tail."""
    rng = np.random.default_rng(seed)
    shares = rng.pareto(1.0, 40) + 0.02
    own = rng.choice(40, n, p=shares / shares.sum())
    centers, widths = rng.normal(scale=20, size=(40, d)), rng.lognormal(0.0, 1.0, 40)
    return centers[own] + widths[own, None] * rng.standard_t(3, size=(n, d))


def test_local_search_by_name_is_k_means_plus_plus_and_the_search():
    points = Points.of(heavy_tailed(), None)
    rng = np.random.default_rng(5)
    seeds = points.rows.as_centers(kmeans_plusplus(points, 12, rng))
    expected = local_search(points, seeds, rng).points
    found = start(points, 12, "local-search", np.random.default_rng(5)).points
    np.testing.assert_array_equal(found, expected)
    assert (found != seeds.points).any()


def test_solutions_from_a_local_search_cost_less_than_those_from_one_seeding():
    """Mean after Lloyd over 20 fixed seeds; the worst of one is no worse than that of the other."""
    points = Points.of(heavy_tailed(), None)
    seeded, found = (
        np.array([solve(points, 20, init=init, seed=seed).cost for seed in range(20)])
        for init in ("k-means++", "local-search")
    )
    assert found.mean() < 0.97 * seeded.mean()
    assert found.max() < seeded.max()


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "kl", "cosine"])
def test_models_start_from_a_local_search_by_name(kind):
    X = np.abs(heavy_tailed()) + 0.1
    data = {"float32": X.astype(np.float32), "sparse": sp.csr_array(X)}.get(kind, X)
    options = {"divergence": kind} if kind in ("kl", "cosine") else {}
    costs = []
    for init in ("k-means++", "local-search"):
        model = lwcs.CoresetKMeans(
            12, coreset_size=800, init=init, n_init=1, max_iter=1, random_state=0, **options
        )
        with pytest.warns(UserWarning, match="max_iter"):
            costs.append(model.fit(data).coreset_.cost(model.cluster_centers_))
    assert costs[1] < costs[0]
