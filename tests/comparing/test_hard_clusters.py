"""Families of data on which coresets fail: their sizes and places, and what distortion is."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import hard_clusters
from benchmarks.hard_clusters import FAMILIES, distortion

import lwcs


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("k", [1, 20, 100])
def test_rows_lie_around_k_places_far_apart(name, k):
    family = FAMILIES[name]
    X, places = family(3_000, 30, k, 5), family.centers(3_000, 30, k, 5)
    assert X.shape == (3_000, 30)
    assert places.shape == (k, 30)
    distances = np.sqrt(((X[:, None, :] - places) ** 2).sum(axis=2))
    # The square of a distance is noise² times chi-squared with 30 degrees of freedom, so that
    # none of 3,000 is above 10·noise with a probability of 1 − 1e-5.
    assert distances.min(axis=1).max() < 10.0 * family.noise
    assert len(np.unique(distances.argmin(axis=1))) == k
    if k > 1:
        apart = np.sqrt(((places[:, None, :] - places) ** 2).sum(axis=2))
        assert apart[~np.eye(k, dtype=bool)].min() > 50.0 * family.noise
    np.testing.assert_array_equal(X, family(3_000, 30, k, 5))
    assert not np.array_equal(X, family(3_000, 30, k, 6))


def test_sizes_halve_down_to_single_rows():
    rng = np.random.default_rng(0)
    sizes = hard_clusters.halving(1_024, 20, rng)
    assert sizes.sum() == 1_024
    np.testing.assert_allclose(sizes[:8] / sizes[1:9], 2.0, rtol=0.5)
    assert (sizes[-10:] == 1).all()


def test_geometric_sizes_fall_from_most_rows_to_one_by_one_ratio():
    sizes = hard_clusters.decaying(50_000, 20, np.random.default_rng(0))
    assert sizes.sum() == 50_000
    assert sizes.min() == 1
    large = sizes[sizes > 100]
    np.testing.assert_allclose(large[1:-1] / large[:-2], large[-2] / large[-3], rtol=0.05)


def test_all_rows_with_weight_one_have_no_distortion():
    X = FAMILIES["imbalanced"](500, 5, 10, 0)
    same = lwcs.Coreset.from_arrays(X, np.ones(500))
    assert distortion(lwcs.scan(X), same, 10, seed=0) == pytest.approx(1.0)


def test_doubled_weights_and_a_missing_cluster_are_distortion():
    X = FAMILIES["geometric"](500, 5, 4, 0)
    twice = lwcs.Coreset.from_arrays(X, np.full(500, 2.0))
    assert distortion(lwcs.scan(X), twice, 4, seed=0) == pytest.approx(2.0)
    smallest = FAMILIES["geometric"].centers(500, 5, 4, 0)[0]
    rest = X[((X - smallest) ** 2).sum(axis=1) > 0.5]
    assert 490 < len(rest) < 500
    missing = lwcs.Coreset.from_arrays(rest, np.ones(len(rest)))
    assert distortion(lwcs.scan(X), missing, 4, seed=0) > 100.0
