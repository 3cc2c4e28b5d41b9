"""The nearest center and its distance, wherever the rows and the centers are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.divergences import Measure
from lwcs.solvers.assignment import nearest
from lwcs.solvers.passes import full_cost

MAKE = pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def naive(X, centers, scale=1.0):
    d = (((X[:, None, :] - centers) / scale) ** 2).sum(axis=2)
    return d.argmin(axis=1), d.min(axis=1)


@MAKE
@pytest.mark.parametrize("scaled", [False, True])
def test_nearest_is_the_nearest(make, scaled):
    rng = np.random.default_rng(0)
    X, centers = rng.normal(size=(3000, 7)), rng.normal(size=(40, 7))
    X[rng.random(X.shape) < 0.5] = 0.0
    scale = rng.random(7) + 0.5 if scaled else None
    labels, distances = nearest(make(X), centers, Measure(scale=scale))
    expected = naive(X, centers, 1.0 if scale is None else scale)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-12)


@MAKE
@pytest.mark.parametrize("far", [1e6, 1e8, 1e10, 1e200])
def test_a_center_far_away_changes_nothing(make, far):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    centers = np.vstack([X[:9], np.full((1, 4), far)])
    labels, distances = nearest(make(X), centers)
    expected = naive(X, centers[:9])
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-9, atol=1e-15)


@MAKE
@pytest.mark.parametrize("offset", [1e6, 1e8, 1e9])
def test_a_large_column_costs_no_digits(make, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[:, 1] += offset
    X[:, 2] = 0.0
    centers = X[:20] + 0.01
    labels, distances = nearest(make(X), centers)
    expected = naive(X, centers)
    assert (labels == expected[0]).mean() > 0.99
    assert distances.sum() == pytest.approx(expected[1].sum(), rel=1e-6)


@MAKE
def test_rows_of_zeros_have_a_nearest_center(make):
    X = np.zeros((10, 3))
    assert nearest(make(X), np.ones((2, 3)))[1].tolist() == [3.0] * 10
    assert nearest(make(X[:0]), np.ones((2, 3)))[1].tolist() == []


def test_the_full_cost_is_that_of_all_rows():
    rng = np.random.default_rng(0)
    X, centers, w = rng.normal(size=(70_000, 3)), rng.normal(size=(5, 3)), rng.random(70_000)
    expected = naive(X, centers)[1]
    assert full_cost(lwcs.scan(X), centers) == pytest.approx(expected.sum())
    weighted = lwcs.scan(X, sample_weight=w)
    assert full_cost(weighted, centers) == pytest.approx(w @ expected)
