"""k-means++: the law of its draws, greedy gains, weights, sparse rows, few distinct points."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare

from lwcs.geometry import Geometry
from lwcs.solvers.points import Points
from lwcs.solvers.seeding import greedy_candidates, kmeans_plusplus


def portable(X, w):
    return Points.of(X, w)


def compiled(X, w):
    return Points.of(X, w, Geometry(kernel="compiled"))


def sparse(X, w):
    return Points.of(sp.csr_array(X), w)


MAKE = pytest.mark.parametrize("make", [portable, compiled, sparse])
DENSE = pytest.mark.parametrize("make", [portable, compiled])


def cost(X, w, centers):
    return float((w * ((X[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1)).sum())


@pytest.mark.statistical
@MAKE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_second_center_is_drawn_by_squared_distance(make, dtype):
    """Chi-squared at a false-alarm rate of 1e-4, over 20,000 seedings of two plain centers."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(12, 2)).astype(dtype), rng.random(12) + 0.1
    w[3] = 0.0
    points = make(X, w)
    pairs = np.array(
        [kmeans_plusplus(points, 2, np.random.default_rng(s), 1) for s in range(20_000)]
    )
    distances = w * ((X[:, None, :].astype(float) - X) ** 2).sum(axis=2)
    law = (w / w.sum())[:, None] * distances / distances.sum(axis=1, keepdims=True)
    counts = np.zeros((12, 12))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    there = law > 0
    assert not counts[~there].any()
    assert chisquare(counts[there], 20_000 * law[there]).pvalue > 1e-4


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
