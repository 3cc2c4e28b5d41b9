"""The parts of choose_k: solutions on a path, indices, the verdict."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import davies_bouldin_score

import lwcs
from lwcs.evaluation.k_selection_result import Interval, KRow
from lwcs.evaluation.k_selection_verdict import elbow, judge_clusters, passes
from lwcs.geometry import Centers, Geometry
from lwcs.sizing.solution_path import SolutionPath
from lwcs.sizing.stability import STABLE
from lwcs.statistics.indices import TwoNearest, davies_bouldin, silhouette
from tests.evaluation.mixtures import separated


@pytest.fixture(scope="module")
def four() -> np.ndarray:
    return separated(12_000, 2, 4, seed=0)


def test_a_path_is_as_good_as_fresh_fits():
    X = separated(3_000, 5, 12, seed=2, ratio=5.0)
    ks = range(2, 15)
    found = SolutionPath(X, np.ones(len(X)), Geometry(), 0, 1).solve(ks)
    fresh = [
        lwcs.CoresetKMeans(k, n_init=4, init="local-search", random_state=0).fit(X).inertia_
        for k in ks
    ]
    assert [len(each.centers) for each in found] == list(ks)
    assert np.mean([each.cost for each in found] / np.array(fresh)) < 1.005


def test_a_path_goes_on_in_float64_where_float32_has_no_digits():
    rng = np.random.default_rng(0)
    X = (np.repeat([[0.0], [1e4]], 1_000, axis=0) + rng.normal(0, 1e-1, (2_000, 1))).astype("f4")
    two, three = SolutionPath(X, np.ones(len(X)), Geometry(), 0, 1).solve([2, 3])
    spread = X.astype(float).reshape(2, -1).var(axis=1).sum() * 1_000
    assert two.cost == pytest.approx(spread, rel=1e-6)
    assert three.cost < 0.75 * two.cost
    for found in (two, three):
        assert found.centers.geometry.precision_of_products == "float64"


def test_more_clusters_than_distinct_rows():
    X = np.repeat(np.eye(3), 5, axis=0)
    costs = [each.cost for each in SolutionPath(X, np.ones(15), Geometry(), 0, 1).solve([2, 3, 5])]
    assert costs[0] > 0.0
    assert costs[1:] == [0.0, 0.0]


def two_nearest(X: np.ndarray, centers: np.ndarray) -> tuple[TwoNearest, Centers]:
    rows = Geometry().measured(X)
    own = rows.geometry.centers(centers)
    return TwoNearest.of(rows, own), own


def test_davies_bouldin_is_that_of_scikit_learn(four):
    X = four[:1_000]
    labels = lwcs.CoresetKMeans(4, random_state=0).fit(X).labels_
    means = np.array([X[labels == j].mean(axis=0) for j in range(4)])
    near, own = two_nearest(X, means)
    assert np.array_equal(near.labels, labels)
    assert davies_bouldin(np.ones(1_000), near, own) == pytest.approx(
        davies_bouldin_score(X, labels), rel=1e-9
    )


def test_a_weight_of_three_is_three_rows_for_the_indices(four):
    X, centers = four[:50], four[[0, 1, 2]]
    weights = np.random.default_rng(0).integers(1, 4, 50)
    once, own = two_nearest(X, centers)
    often, _ = two_nearest(np.repeat(X, weights, axis=0), centers)
    ones = np.ones(weights.sum())
    assert davies_bouldin(weights.astype(float), once, own) == pytest.approx(
        davies_bouldin(ones, often, own)
    )
    assert silhouette(weights.astype(float), weights, once, Geometry()).value == pytest.approx(
        silhouette(ones, ones.astype(np.int64), often, Geometry()).value
    )


def test_the_silhouette_compares_the_two_nearest_centers():
    near, _ = two_nearest(np.array([[0.0], [1.0], [4.0]]), np.array([[0.0], [4.0]]))
    found = silhouette(np.ones(3), np.ones(3, dtype=np.int64), near, Geometry())
    assert found.value == pytest.approx((1.0 + (1.0 - 1.0 / 3.0) + 1.0) / 3.0)


def test_clusters_that_do_not_recur_are_not_recommended():
    rows = [
        KRow(2, separated=True, stability=0.9),
        KRow(3, separated=True, stability=0.3),
        KRow(4, separated=False),
    ]
    verdict = judge_clusters(rows, np.full(5, 2))
    assert verdict.k == 2
    assert "one of them does not recur" in verdict.rows[1].why
    verdict = judge_clusters(rows[1:], np.zeros(5, dtype=int))
    assert (verdict.k, verdict.outcome) == (None, "none stands out")
    assert "do not recur" in verdict.reason


def test_stable_means_the_same_as_in_a_table_of_stability():
    low, high = (KRow(2, separated=True, stability=STABLE + add) for add in (-0.01, 0.01))
    assert not passes(low)
    assert passes(high)


def test_the_elbow_is_furthest_below_the_line():
    costs = {1: 100.0, 2: 60.0, 3: 20.0, 4: 15.0, 5: 10.0}
    rows = [KRow(k, Interval(cost, cost, cost)) for k, cost in costs.items()]
    assert elbow(rows) == 3
    assert elbow(rows[:2]) is None
