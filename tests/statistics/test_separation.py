"""Two clusters have a valley between them; a cluster that was cut in two has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import sparse

from lwcs import build
from lwcs.divergences import KL
from lwcs.geometry import Geometry
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points
from lwcs.statistics.separation import Neighbours, tell_apart

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray


def judged(
    X: Any, k: int, *, weights: Any = None, counts: Any = None, geometry: Geometry | None = None,
    n_jobs: int = 1, init: Any = "local-search",
) -> tuple[Neighbours, Any]:  # fmt: skip
    """The neighbours among k clusters of some rows, and the labels."""
    points = Points.of(X, weights, geometry)
    found = solve(points, k, init=init, n_init=3, seed=0, n_jobs=1)
    counts = np.ones(len(points), dtype=np.int64) if counts is None else counts
    labels = points.rows.labels(found.centers)
    own = points.rows, points.weights, counts, found.centers, labels
    return tell_apart(*own, n_jobs=n_jobs), labels


def middles(k: int, d: int, distance: float) -> FloatArray:
    """k points, every two of them `distance` apart at least: on a grid, or a simplex."""
    if d >= k:
        return np.eye(k, d) * distance / np.sqrt(2.0)
    side = int(np.ceil(np.sqrt(k)))
    points = np.zeros((k, d))
    points[:, 0], points[:, 1] = np.arange(k) % side, np.arange(k) // side
    return points * distance


def blobs(sizes: list[int], d: int, distance: float, seed: int = 0) -> FloatArray:
    """Gaussians with σ = 1 around these points."""
    centers = middles(len(sizes), d, distance)
    noise = np.random.default_rng(seed).normal(size=(sum(sizes), d))
    return np.repeat(centers, sizes, axis=0) + noise


def gaussian(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    return rng.normal(size=(n, d))


def elongated(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    return rng.normal(size=(n, d)) * np.where(np.arange(d) == 0, 10.0, 1.0)


def uniform(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    return rng.uniform(size=(n, d))


def heavy_tailed(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    return rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(3, (n, 1)) / 3.0)


def moon(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    angles = rng.uniform(0.0, np.pi, n)
    rows = 0.1 * rng.normal(size=(n, d))
    rows[:, 0] += np.cos(angles)
    rows[:, 1] += np.sin(angles)
    return rows


@pytest.mark.parametrize("d", [2, 10, 100])
@pytest.mark.parametrize(
    ("sizes", "distance"),
    [([60, 60], 6.0), ([200] * 4, 6.0), ([150] * 9, 6.0), ([40, 200, 1000, 5000], 8.0)],
    ids=str,
)
def test_separated_gaussians_are_told_apart(sizes: list[int], distance: float, d: int) -> None:
    """Also 40 draws beside 5,000, if k-means starts from the truth: its optimum is another.

    A pair with 60 draws each is missed in about 1 of 100 data sets; seeds are fixed.
    """
    k = len(sizes)
    found, labels = judged(blobs(sizes, d, distance), k, init=middles(k, d, distance))
    assert np.bincount(labels) == pytest.approx(sizes, abs=5)
    assert len(found.apart) >= k - 1
    assert found.joined == []
    assert len(np.unique(found.groups())) == k


@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("d", [2, 10, 50])
@pytest.mark.parametrize("cluster", [gaussian, elongated, uniform, heavy_tailed, moon])
def test_parts_of_one_cluster_are_not_told_apart(cluster: Any, d: int, k: int) -> None:
    """Less than 1 of 100 parts is told apart from all others; seeds are fixed."""
    X = cluster(np.random.default_rng(1), 150 * k, d)
    found, _ = judged(X, k)
    assert len(np.unique(found.groups())) == 1


def test_a_ring_cut_in_two_is_one() -> None:
    """Its projection is densest at the ends, but hardly less dense at the border."""
    angles = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, 3_000)
    found, _ = judged(np.column_stack([np.cos(angles), np.sin(angles)]), 2)
    assert found.joined == [(0, 1)]
    assert found.depth[0] < 0.5


def test_cells_that_share_a_small_facet_are_no_hourglass() -> None:
    """In ten dimensions the cells of uniform noise hardly touch; no pair has a deep valley.

    Without the convex set, some would.
    """
    found, _ = judged(np.random.default_rng(0).uniform(size=(10_000, 10)), 8)
    assert len(found.apart) == 28
    assert not found.apart.any()
    assert np.median(found.depth) < 0.2


def test_draws_do_not_part_by_having_pulled_their_centers() -> None:
    """In 100 dimensions, 50 draws per center open a valley unless each is left out in turn."""
    X = np.random.default_rng(0).normal(size=(200, 100))
    points = Points.of(X, None)
    found = solve(points, 4, init="local-search", n_init=3, seed=0, n_jobs=1)
    own = points.rows, points.weights, np.ones(200, dtype=np.int64), found.centers, found.labels
    assert not tell_apart(*own).apart.any()
    assert tell_apart(*own, fitted=np.zeros(200)).apart.any()


def test_only_the_pair_that_is_one_cluster_is_joined() -> None:
    X = blobs([500] * 5, 2, 8.0)
    found, labels = judged(X, 6)
    (pair,) = found.joined
    halves = X[np.isin(labels, pair)]
    assert len(halves) == 500
    assert len(np.unique(found.groups())) == 5


def test_clusters_that_touch_at_a_corner_alone_are_not_joined() -> None:
    """Few draws of the lower half of a cluster are nearest to both, and on the tail of the other.

    There is no valley between so few, but they are not what the two clusters are.
    """
    rng, k = np.random.default_rng(0), 3
    points = Points.of(
        rng.normal(size=(8_000, 2)) + np.repeat([[0.0, 0.0], [6.4, 1.0]], 4_000, 0), None
    )
    start = np.array([[0.0, -0.8], [0.0, 0.8], [6.4, 1.0]])
    found = solve(points, k, init=start, n_jobs=1)
    own = points.rows, points.weights, np.ones(8_000, dtype=np.int64), found.centers, found.labels
    neighbours = tell_apart(*own)
    assert (0, 2) in zip(neighbours.first, neighbours.second, strict=True)
    assert neighbours.joined == [(0, 1)]


def test_weighted_draws_are_told_apart_as_rows_are() -> None:
    X = blobs([30_000, 30_000, 2_000], 3, 8.0)
    coreset = build(X, 2_000, random_state=0)
    found, _ = judged(coreset.points, 3, weights=coreset.weights, counts=coreset.counts)
    assert found.joined == []
    found, _ = judged(coreset.points, 4, weights=coreset.weights, counts=coreset.counts)
    assert len(found.joined) == 1


def test_few_heavy_draws_are_no_evidence() -> None:
    """Forty draws, of which three have nearly all of the weight, count as about three."""
    X = blobs([40, 40], 2, 8.0)
    weights = np.where(np.arange(80) % 40 < 3, 1.0, 1e-3)
    assert judged(X, 2)[0].joined == []
    assert judged(X, 2, weights=weights)[0].joined == [(0, 1)]


def test_weight_three_counts_for_no_more_than_one_draw_but_three_counts_do() -> None:
    X = blobs([20, 20], 2, 5.0, seed=3)
    once, _ = judged(X, 2)
    heavier, _ = judged(X, 2, weights=np.full(40, 3.0))
    np.testing.assert_allclose(heavier.p_value, once.p_value)
    again, _ = judged(X, 2, weights=np.full(40, 3.0), counts=np.full(40, 3))
    assert (again.p_value < once.p_value**2).all()


def test_divergences_and_sparse_rows_are_told_apart_too() -> None:
    rng = np.random.default_rng(0)
    rates = np.repeat([[2.0, 30.0, 10.0], [30.0, 2.0, 10.0], [10.0, 10.0, 60.0]], 300, axis=0)
    counts = rng.poisson(rates).astype(np.float64)
    geometry = Geometry(KL(), mean=counts.mean(axis=0))
    dense, _ = judged(counts, 3, geometry=geometry)
    assert dense.joined == []
    held, _ = judged(sparse.csr_array(counts), 3, geometry=geometry)
    np.testing.assert_array_equal(held.apart, dense.apart)
    np.testing.assert_allclose(held.depth, dense.depth)
    assert (
        len(np.unique(judged(counts[:300], 3, geometry=Geometry(KL(smoothing=0.0)))[0].groups()))
        == 1
    )


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_the_unit_of_the_numbers_does_not_matter(unit: float) -> None:
    X = blobs([100] * 3, 2, 6.0)
    here, there = judged(X, 3)[0], judged(X * unit, 3)[0]
    np.testing.assert_array_equal(here.apart, there.apart)
    np.testing.assert_allclose(here.depth, there.depth, atol=0.2)


def test_threads_change_nothing() -> None:
    points, counts = Points.of(blobs([10_000] * 4, 2, 4.0), None), np.ones(40_000, dtype=np.int64)
    centers = points.rows.as_centers(np.arange(0, 40_000, 1_000))
    own = points.rows, points.weights, counts, centers, points.rows.labels(centers)
    one, two = tell_apart(*own, n_jobs=1), tell_apart(*own, n_jobs=2)
    assert len(one.apart) > 40
    for name in ("first", "second", "depth", "p_value", "apart"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_a_cluster_of_a_few_draws_is_one_with_its_nearest_alone() -> None:
    """Five draws between two clusters prove nothing, and do not make these two one."""
    rng = np.random.default_rng(0)
    X = np.vstack(
        [
            rng.normal([0.0, 0.0], 1.0, (400, 2)),
            rng.normal([40.0, 0.0], 1.0, (400, 2)),
            rng.normal([18.0, 0.0], 0.5, (5, 2)),
        ]
    )
    found, labels = judged(X, 3)
    first, few, second = labels[0], labels[-1], labels[400]
    assert found.joined == [tuple(sorted((first, few)))]
    assert found.groups()[second] != found.groups()[first]


def test_centers_that_are_equal_or_alone_are_no_error() -> None:
    X = np.zeros((50, 2))
    points = Points.of(X, None)
    counts = np.ones(50, dtype=np.int64)
    centers = points.rows.as_centers(np.array([0, 1]))
    labels = points.rows.labels(centers)
    both = tell_apart(points.rows, points.weights, counts, centers, labels)
    assert both.joined == [(0, 1)]
    one = tell_apart(points.rows, points.weights, counts, centers[:1], labels)
    assert one.joined == []
    assert one.groups().tolist() == [0]


@pytest.mark.parametrize("far", [[(99.0, 0.0)], [(99.0, 0.0), (99.5, 0.0)]], ids=["one", "two"])
def test_a_few_draws_that_no_tail_reaches_are_apart(far: Any) -> None:
    X = np.vstack([blobs([300, 300], 2, 8.0), far])
    found, labels = judged(X, 3)
    assert np.bincount(labels).min() == len(far)
    assert found.joined == []


@pytest.mark.parametrize("columns", [2, 10])
def test_the_tail_of_a_cluster_is_not_apart(columns: int) -> None:
    """The farthest row of t with 3 degrees, alone, is apart in less than 1 of 1,331 data sets."""
    X = heavy_tailed(np.random.default_rng(0), 500, columns)
    lengths = np.linalg.norm(X, axis=1)
    far = np.argsort(lengths)[-3:]
    start = np.vstack([np.zeros(columns), X[far]])
    found, labels = judged(X, 4, init=start)
    assert np.bincount(labels).min() < 13
    assert len(np.unique(found.groups())) == 1
