"""Parts of one cluster are joined, strongest first; resamples say how certain a valley is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.structure_data import segment

from lwcs.geometry import Geometry
from lwcs.statistics.separation import join, resample, tell_apart

N = 3_000


def neighbours_of(X: np.ndarray, centers: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
    """The neighbours among some centers, and the draws that were tested."""
    rows = Geometry().measured(X)
    own = rows.geometry.centers(np.asarray(centers, dtype=float))
    draws = rows, np.ones(len(X)), np.ones(len(X), dtype=np.int64), own, rows.labels(own)
    return tell_apart(*draws), draws


def test_a_segment_is_not_joined_with_the_halves_of_its_neighbour():
    """The lines to both halves are askew and show no valley; that to the whole shows one."""
    X, whose = segment(48)
    halves = [[4.7, 1.3], [4.8, -0.5]]
    found, draws = neighbours_of(
        X, [*halves, X[whose == 0].mean(axis=0), X[whose == 2].mean(axis=0)]
    )
    assert found.joined == [(0, 1), (1, 3)]
    assert join(found, *draws).tolist() == [0, 0, 1, 2]


def test_parts_of_one_cluster_are_one_group():
    X = np.random.default_rng(0).normal(size=(N, 2))
    for k in (2, 5, 9):
        found, draws = neighbours_of(X, X[:k])
        assert len(set(join(found, *draws))) == 1


def test_clusters_that_are_apart_stay_so():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(at, 1.0, (500, 2)) for at in (0.0, 8.0, 16.0)])
    found, draws = neighbours_of(X, [[0, -1], [0, 1], [8, 8], [15, 16], [17, 16]])
    assert join(found, *draws).tolist() == [0, 0, 1, 2, 2]


def test_only_clusters_within_the_same_one_are_joined():
    X = np.random.default_rng(0).normal(size=(N, 2))
    found, draws = neighbours_of(X, [[-1.5, 0.0], [0.0, 0.0], [1.5, 0.0]])
    one, two, three = join(found, *draws, within=np.array([0, 0, 1]))
    assert one == two != three


def resampled(X: np.ndarray, centers: np.ndarray, n_jobs: int = 1) -> np.ndarray:
    found, draws = neighbours_of(X, centers)
    again = np.random.default_rng(1).multinomial(len(X), np.full(len(X), 1 / len(X)), 40)
    return resample(found, again, *draws, n_jobs=n_jobs)


@pytest.mark.parametrize(("apart", "least", "most"), [(2.0, 0, 0), (3.7, 4, 36), (6.0, 40, 40)])
def test_resamples_say_how_certain_a_valley_is(apart, least, most):
    """At 3.4 standard deviations, the density at the border is half of that at the centers."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal([at, 0.0], 1.0, (500, 2)) for at in (0.0, apart)])
    found = resampled(X, [[0.0, 0.0], [apart, 0.0]])
    assert least <= found.sum() <= most
    assert np.array_equal(found, resampled(X, [[0.0, 0.0], [apart, 0.0]], n_jobs=2))


def test_a_resample_of_every_draw_once_is_the_test_itself():
    """With weights, too; where the pair is uncertain, so that it is tested again."""
    rng = np.random.default_rng(0)
    told_apart = 0
    for gap in np.linspace(3.2, 4.0, 9):
        X = np.vstack([rng.normal([at, 0.0], 1.0, (300, 2)) for at in (0.0, gap)])
        rows = Geometry().measured(X)
        own = rows.geometry.centers(np.array([[0.0, 0.0], [gap, 0.0]]))
        counts = rng.integers(1, 4, len(X))
        draws = rows, counts * rng.uniform(0.5, 2.0, len(X)), counts, own, rows.labels(own)
        found = tell_apart(*draws)
        (again,) = resample(found, counts[None], *draws)
        assert again == (not found.joined)
        told_apart += again
    assert 0 < told_apart < 9


def test_few_draws_are_unclear():
    rng = np.random.default_rng(0)
    for n, unclear in ((15, True), (400, False)):
        X = np.vstack([rng.normal([at, 0.0], 1.0, (n, 2)) for at in (0.0, 2.0)])
        found, _ = neighbours_of(X, [[0.0, 0.0], [2.0, 0.0]])
        assert found.joined == [(0, 1)]
        assert found.unclear.tolist() == [unclear]
