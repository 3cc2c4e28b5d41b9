"""The Coreset: frozen, equal by content, united, reduced, and its cost."""

from __future__ import annotations

import tracemalloc
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs import divergences


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).standard_t(4, size=(2000, 6))


def naive_cost(X, w, centers):
    return float((w * ((X[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1)).sum())


def test_a_coreset_cannot_be_changed(X):
    coreset = lwcs.build(X, 100, random_state=0)
    with pytest.raises(FrozenInstanceError):
        coreset.weights = None
    for array in (coreset.points, coreset.weights, coreset.indices, coreset.counts, coreset.mean):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert X.flags.writeable, "the data itself is left alone"


def test_rows_come_in_the_order_of_their_numbers(X):
    coreset = lwcs.build(X, 500, random_state=0)
    assert (np.diff(coreset.indices) > 0).all()
    assert coreset.counts.sum() == coreset.size == 500
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])


def test_equality_is_by_content(X):
    X = X.astype(np.float32).astype(np.float64)
    a, b = lwcs.build(X, 100, random_state=0), lwcs.build(X.copy(), 100, random_state=0)
    assert a == b
    others = {
        "points": [a.points + 1.0, a.points.astype(np.float32), sp.csr_array(a.points)],
        "weights": [2.0 * a.weights],
        "indices": [a.indices + 1],
        "counts": [a.counts + 1],
        "n_samples": [1],
        "total_weight": [1.0],
        "mean": [a.mean + 1.0, None],
        "total_cost": [1.0, None],
        "scale": [np.ones(6)],
        "method": ["uniform"],
        "divergence": [divergences.Cosine()],
        "seed": [1, None],
        "feature_names": [tuple("abcdef")],
        "depth": [1],
        "details": [{"dropped": 1}],
    }
    assert others.keys() == {each.name for each in fields(lwcs.Coreset)}
    for name, values in others.items():
        for value in values:
            assert replace(a, **{name: value}) != a, name
    assert a != "a coreset"


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("k", [1, 2, 50])
def test_cost_is_the_weighted_quantization_error(X, make, k):
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0.0
    coreset = lwcs.build(make(X), 300, random_state=0)
    centers = np.random.default_rng(2).normal(size=(k, 6))
    expected = naive_cost(X[coreset.indices], coreset.weights, centers)
    assert coreset.cost(centers) == pytest.approx(expected, rel=1e-12)
    assert coreset.cost(centers.tolist()) == coreset.cost(centers)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_cost_keeps_its_digits_far_from_the_origin(make):
    X = np.random.default_rng(0).normal(size=(500, 4)) + 1e6
    coreset = lwcs.build(make(X), 200, random_state=0)
    centers = X[:5] + 0.1
    expected = naive_cost(X[coreset.indices], coreset.weights, centers)
    assert coreset.cost(centers) == pytest.approx(expected, rel=1e-9)


def test_cost_needs_no_large_temporary():
    X = np.random.default_rng(0).normal(size=(20_000, 50))
    coreset = lwcs.build(X, 20_000, random_state=0)
    centers = X[:1000]
    coreset.cost(centers[:2])
    tracemalloc.start()
    coreset.cost(centers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6, "m × k alone would be 160 MB"


def test_union_stands_for_both_data_sets(X):
    a = lwcs.build(X[:1200], 300, random_state=0)
    b = lwcs.build(X[1200:], 200, random_state=1)
    union = a + b
    assert union.n_samples == 2000
    assert union.size == 500
    np.testing.assert_array_equal(union.points, X[union.indices])
    np.testing.assert_allclose(union.mean, X.mean(axis=0), rtol=1e-10, atol=1e-12)
    assert union.total_cost == pytest.approx(((X - X.mean(axis=0)) ** 2).sum(), rel=1e-12)
    centers = X[:4]
    assert union.cost(centers) == pytest.approx(a.cost(centers) + b.cost(centers))
    third = lwcs.build(X, 100, random_state=2)
    assert sum([b, third], a) == union + third
    assert sum([b, third], a).n_samples == 4000


def test_union_of_sparse_coresets_is_sparse(X):
    rows = sp.csr_array(X)
    union = lwcs.build(rows[:1000], 50, random_state=0) + lwcs.build(
        rows[1000:], 50, random_state=0
    )
    np.testing.assert_array_equal(union.points.toarray(), X[union.indices])


def test_coresets_that_do_not_match_have_no_union(X):
    a = lwcs.build(X, 50, random_state=0)
    with pytest.raises(ValueError, match="6 columns and one with 5"):
        a + lwcs.build(X[:, :5], 50, random_state=0)
    with pytest.raises(ValueError, match="different scales"):
        a + lwcs.build(lwcs.scan(X, scale="standard"), 50, random_state=0)
    with pytest.raises(ValueError, match="sparse and the other dense"):
        a + lwcs.build(sp.csr_array(X), 50, random_state=0)
    with pytest.raises(TypeError):
        a + 1


def test_reducing_a_direct_coreset_keeps_the_identity(X):
    coreset = lwcs.build(X, 1000, random_state=0).reduce(100, random_state=0)
    assert coreset.size == 100
    at_mean = coreset.cost(coreset.mean[None, :]) / coreset.total_cost
    assert coreset.weights.sum() / coreset.total_weight + at_mean == pytest.approx(2.0)
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])
    assert coreset.depth == 0


def test_reducing_a_union_is_a_second_sampling(X):
    union = lwcs.build(X[:1000], 400, random_state=0) + lwcs.build(X[1000:], 400, random_state=1)
    reduced = union.reduce(100, random_state=0)
    assert (union.depth, reduced.depth, (reduced + union).depth) == (1, 2, 2)
    assert reduced.size == 100
    assert reduced.n_samples == 2000
    np.testing.assert_array_equal(reduced.points, X[reduced.indices])
    assert reduced == union.reduce(100, random_state=0)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_scaled_unions_are_reduced_in_their_scale(make):
    """Two days with the same standard deviations; one column dominates if the scale is lost."""
    X = np.random.default_rng(0).normal(size=(1000, 3)) * [1.0, 1.0, 1e6]
    day = lwcs.build(lwcs.scan(make(X), scale="standard"), 400, random_state=0)
    union = day + day
    assert union.total_cost == pytest.approx(6000)
    reduced = union.reduce(300, random_state=0)
    assert reduced.cost(union.mean[None, :]) == pytest.approx(6000, rel=0.15)
    assert reduced.scale is union.scale


def test_a_direct_coreset_cannot_grow(X):
    with pytest.raises(ValueError, match="size=200 is larger than the 100 draws"):
        lwcs.build(X, 100, random_state=0).reduce(200)


def test_repr_says_what_it_is(X):
    text = repr(lwcs.build(X, 100, random_state=0))
    assert "100 draws by lightweight, of 2,000 rows" in text
