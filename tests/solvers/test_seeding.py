"""k-means++: the law of its draws, greedy gains, weights, sparse rows, few distinct points."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare

from lwcs.geometry import Geometry
from lwcs.geometry import pairwise as pairwise_module
from lwcs.geometry.pairwise import pairwise
from lwcs.geometry.sparse_rows import SparseProducts
from lwcs.runtime.parallel import workers
from lwcs.solvers import seeding
from lwcs.solvers.points import Points
from lwcs.solvers.seeding import greedy_candidates, kmeans_plusplus
from tests.solvers.kinds import DENSE, MAKE, native, portable, sparse


def cost(X, w, centers):
    return float((w * ((X[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1)).sum())


@pytest.mark.statistical
@MAKE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_second_center_is_drawn_by_squared_distance(make, dtype):
    """Chi-squared at a false-alarm rate of 1e-4, over 5,000 seedings of two plain centers."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(12, 2)).astype(dtype), rng.random(12) + 0.1
    w[3] = 0.0
    points = make(X, w)
    pairs = np.array(
        [kmeans_plusplus(points, 2, np.random.default_rng(s), 1) for s in range(5_000)]
    )
    distances = w * ((X[:, None, :].astype(float) - X) ** 2).sum(axis=2)
    law = (w / w.sum())[:, None] * distances / distances.sum(axis=1, keepdims=True)
    counts = np.zeros((12, 12))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    there = law > 0
    assert not counts[~there].any()
    assert chisquare(counts[there], 5_000 * law[there]).pvalue > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [1.0, 1e31], ids=["float32", "float64"])
def test_points_of_many_tiles_are_drawn_by_squared_distance(factor):
    """Chi-squared at a false-alarm rate of 1e-4, over 5,000 seedings of two plain centers.

    600 points are three tiles, counted in groups of 50. Distances of values like 1e31 overflow in
    float32.
    """
    rng = np.random.default_rng(0)
    X, w = rng.standard_t(3, size=(600, 2)) + np.linspace(0, 9, 600)[:, None], rng.random(600)
    w[::7] = 0.0
    points = native(factor * X, w)
    assert pairwise(points.rows, np.float32).fast == (factor == 1.0)
    pairs = np.array(
        [kmeans_plusplus(points, 2, np.random.default_rng(s), 1) for s in range(5_000)]
    )
    assert (w[pairs] > 0.0).all()
    distances = w * ((X[:, None, :] - X) ** 2).sum(axis=2)
    law = (w / w.sum())[:, None] * distances / distances.sum(axis=1, keepdims=True)
    grouped = law.reshape(12, 50, 12, 50).sum(axis=(1, 3))
    counts = np.zeros((12, 12))
    np.add.at(counts, tuple(pairs.T // 50), 1)
    assert chisquare(counts.ravel(), 5_000 * grouped.ravel()).pvalue > 1e-4


def clustered(n=3_000, seed=0):
    """Tight clusters, and more centers wanted than these: float32 rounds, then float64 rounds."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_t(3, size=(15, 6))
    return centers[rng.integers(15, size=n)] + 0.03 * rng.normal(size=(n, 6)), rng.random(n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [None, np.array([1.0, 3.0, 0.2, 1.0, 1.0, 7.0])])
@pytest.mark.parametrize("candidates", [1, 2, None])
def test_both_kernels_choose_the_same_points(dtype, scale, candidates):
    X, w = clustered()
    chosen = [
        kmeans_plusplus(
            Points.of(X.astype(dtype), w, Geometry(kernel=kernel, scale=scale)),
            40,
            np.random.default_rng(0),
            candidates,
        )
        for kernel in ("numpy", "native")
    ]
    np.testing.assert_array_equal(*chosen)
    assert len(set(chosen[0])) == 40


def test_weights_far_below_the_range_of_float32_are_drawn_by():
    """One point has all of the weight; products of the others' would have no digits in float32."""
    X, w = 1e-4 * clustered()[0], 1e-37 * clustered()[1]
    w[0] = 1.0
    chosen = [
        kmeans_plusplus(make(X, w), 40, np.random.default_rng(0), candidates=1)
        for make in (portable, native)
    ]
    np.testing.assert_array_equal(*chosen)


@pytest.fixture
def small_lots(monkeypatch):
    """Threads for problems of any size."""
    monkeypatch.setattr(seeding, "WORTH_THREADS", 0)


@pytest.mark.usefixtures("small_lots")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_points_for_any_number_of_threads(dtype):
    X, w = clustered(n=9_000)
    points = native(X.astype(dtype), w)
    one, *others = (
        kmeans_plusplus(points, 60, np.random.default_rng(3), n_jobs=n_jobs)
        for n_jobs in (1, 2, 3, 8, 50)
    )
    for other in others:
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("small_lots")
def test_the_same_points_of_sparse_rows_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(pairwise_module, "_LOT_VALUES", 1_000)
    X, w = clustered(n=3_000)
    points, scores = sparse(X, w), SparseProducts.scores
    both, met = threading.Barrier(2, timeout=60), threading.Event()

    def meet_once(*arguments):
        if not met.is_set():
            both.wait()
            met.set()
        return scores(*arguments)

    one = kmeans_plusplus(points, 60, np.random.default_rng(3), n_jobs=1)
    monkeypatch.setattr(SparseProducts, "scores", meet_once)
    for n_jobs in (2, 3, 8):
        other = kmeans_plusplus(points, 60, np.random.default_rng(3), n_jobs=n_jobs)
        np.testing.assert_array_equal(one, other)


def test_lots_of_sparse_rows_change_no_bit(monkeypatch):
    points, chosen = sparse(*clustered(n=3_000)), np.array([5, 700, 2_999])
    whole = pairwise(points.rows, np.float64)(chosen)
    monkeypatch.setattr(pairwise_module, "_LOT_VALUES", 1_000)
    lots = []

    def run(function, arguments):
        lots.extend(arguments)
        return map(function, reversed(lots))

    np.testing.assert_array_equal(pairwise(points.rows, np.float64, run)(chosen), whole)
    assert len(lots) > 3


def test_threads_help_by_the_stored_values_of_sparse_rows(monkeypatch):
    """As many rows and columns as would be worth it, but hardly a value."""
    asked = []
    monkeypatch.setattr(seeding, "workers", lambda n: asked.append(n) or workers(1))
    for density in (1e-3, 0.5):
        X = sp.random_array((4_000, 1_000), density=density, rng=np.random.default_rng(0))
        points = Points.of(sp.csr_array(X), None)
        kmeans_plusplus(points, 8, np.random.default_rng(0), n_jobs=3)
    assert asked == [1, 3]


@pytest.mark.usefixtures("small_lots")
@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 1e-4), (np.float64, 1e-20)])
def test_distances_of_tiles_are_those_of_differences(dtype, error):
    """In float64 also those that are below what products can tell: points 1e-9 apart."""
    X, w = clustered()
    X[1::2] = X[::2] + 1e-9
    chosen = np.array([0, 255, 256, 2_999, 17])
    with workers(3) as run:
        found = pairwise(native(X, w).rows, dtype, run)(chosen)
    exact = ((X[:, None, :] - X[chosen]) ** 2).sum(axis=2).T
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=error)
    assert (found[np.arange(5), chosen] == 0.0).all()


@DENSE
def test_greedy_candidates_lower_the_cost(make):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(800, 5)), np.ones(800)
    points = make(X, w)
    mean = {
        candidates: np.mean(
            [
                cost(X, w, X[kmeans_plusplus(points, 20, np.random.default_rng(s), candidates)])
                for s in range(30)
            ]
        )
        for candidates in (1, greedy_candidates(20))
    }
    assert greedy_candidates(20) == 4
    assert mean[4] < 0.95 * mean[1]


@MAKE
def test_a_weight_of_zero_is_never_chosen(make):
    X = np.random.default_rng(0).normal(size=(50, 3))
    w = np.zeros(50)
    w[10:20] = 1.0
    chosen = kmeans_plusplus(make(X, w), 10, np.random.default_rng(0))
    assert set(chosen) == set(range(10, 20))


@MAKE
def test_every_distinct_point_is_found_before_one_comes_twice(make):
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 50, axis=0)
    chosen = kmeans_plusplus(make(X, None), 6, np.random.default_rng(0))
    assert len({tuple(X[i]) for i in chosen}) == 6
    more = kmeans_plusplus(make(X, None), 9, np.random.default_rng(0))
    assert len(more) == 9


@DENSE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_structure_far_below_the_spread_is_seen(make, dtype):
    """Two groups 1,000 apart, each of four points 0.01 apart: float32 products cannot see them."""
    corners = 0.01 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    X = np.repeat(np.vstack([corners, corners + 1.0]), 25, axis=0) * 1000
    X = np.ascontiguousarray(X.astype(dtype))
    for seed in range(10):
        chosen = kmeans_plusplus(make(X, None), 8, np.random.default_rng(seed))
        assert len({tuple(X[i]) for i in chosen}) == 8


@DENSE
@pytest.mark.parametrize("factor", [1e-12, 1e12, 1e30])
def test_seeding_does_not_depend_on_the_units(make, factor):
    X = np.random.default_rng(0).normal(size=(300, 4))
    plain = kmeans_plusplus(make(X, None), 10, np.random.default_rng(1))
    scaled = kmeans_plusplus(make(X * factor, None), 10, np.random.default_rng(1))
    np.testing.assert_array_equal(plain, scaled)


@DENSE
def test_seeding_does_not_depend_on_an_offset(make):
    X = np.random.default_rng(0).normal(size=(300, 4)).round(3)
    plain = kmeans_plusplus(make(X, None), 10, np.random.default_rng(1))
    shifted = kmeans_plusplus(make(X + 1e6, None), 10, np.random.default_rng(1))
    np.testing.assert_array_equal(plain, shifted)


@DENSE
def test_costs_below_the_normal_numbers_are_drawn_by(make):
    """A uniform number times a cost of 4·5e-324 is rounded, but never up to the whole cost."""
    points = make(np.array([[0.0], [1e-161], [2.0], [1.0]]), None)
    for seed in range(50):
        chosen = kmeans_plusplus(points, 4, np.random.default_rng(seed))
        assert sorted(chosen) == [0, 1, 2, 3]
