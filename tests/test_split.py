"""Splitting the draws of a coreset: two coresets that add up to it, and what cannot be split."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.runtime.randomness import deal, part_of


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    X = np.random.default_rng(0).standard_t(3, size=(600, 4))
    X[5] = 200.0  # drawn many times
    return X


def union(X: np.ndarray) -> lwcs.Coreset:
    return lwcs.build(X[:300], 150, random_state=0) + lwcs.build(X[300:], 150, random_state=1)


KINDS = {
    "lightweight": lambda X: lwcs.build(X, 300, random_state=0),
    "uniform": lambda X: lwcs.build(X, 300, method="uniform", random_state=0),
    "refined": lambda X: lwcs.build(X, 300, method="refined", n_clusters=5, random_state=0),
    "stratified": lambda X: lwcs.build(
        X, 300, method=lwcs.Lightweight(draws="stratified"), random_state=0
    ),
    "sparse": lambda X: lwcs.build(sp.csr_array(X), 300, random_state=0),
    "weighted": lambda X: lwcs.build(X, 300, sample_weight=np.arange(600), random_state=0),
    "reduced": lambda X: lwcs.build(X, 500, random_state=0).reduce(300, random_state=1),
    "union": union,
    "reduced union": lambda X: union(X).reduce(300, random_state=2),
}


def spread_out(coreset: lwcs.Coreset, values: np.ndarray) -> np.ndarray:
    full = np.zeros(coreset.n_samples)
    full[coreset.indices] = values
    return full


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 100, 299])
def test_the_parts_add_up_to_the_whole(X, kind, size):
    whole = KINDS[kind](X)
    assert whole.counts.max() > 1
    first, second = whole.split(size, random_state=3)
    assert (first.size, second.size) == (size, 300 - size)
    counts = [spread_out(each, each.counts) for each in (first, second)]
    np.testing.assert_array_equal(counts[0] + counts[1], spread_out(whole, whole.counts))
    own = [spread_out(each, each.weights) for each in (first, second)]
    weights = (size * own[0] + (300 - size) * own[1]) / 300
    np.testing.assert_allclose(weights, spread_out(whole, whole.weights), rtol=1e-12)
    for each in (first, second):
        assert (each.counts > 0).all()
        assert sp.issparse(each.points) == (kind == "sparse")
        rows = each.points.toarray() if kind == "sparse" else each.points
        np.testing.assert_array_equal(rows, X[each.indices])
        for name in ("n_samples", "total_weight", "total_cost", "method", "depth", "divergence"):
            assert getattr(each, name) == getattr(whole, name)
        assert each.seed == 3


def test_every_draw_of_a_row_weighs_the_same_in_both_parts_but_for_their_sizes(X):
    whole = lwcs.build(X, 300, random_state=0)
    per_draw = spread_out(whole, whole.weights / whole.counts)
    for each in whole.split(100, random_state=0):
        share = 300 / each.size
        expected = share * per_draw[each.indices]
        np.testing.assert_allclose(each.weights / each.counts, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["lightweight", "stratified", "reduced", "sparse"])
def test_the_first_part_is_the_reduction_of_the_same_seed(X, kind):
    whole = KINDS[kind](X)
    assert whole.split(80, random_state=4)[0] == whole.reduce(80, random_state=4)


def test_same_seed_same_parts_and_another_seed_others(X):
    whole = lwcs.build(X, 300, random_state=0)
    assert whole.split(100, random_state=1) == whole.split(100, random_state=1)
    assert whole.split(100, random_state=1) != whole.split(100, random_state=2)


def test_parts_can_be_split_again(X):
    whole = lwcs.build(X, 300, random_state=0)
    first, rest = whole.split(200, random_state=0)
    pieces = (*first.split(150, random_state=1), rest)
    assert [each.size for each in pieces] == [150, 50, 100]
    weights = sum(each.size * spread_out(each, each.weights) for each in pieces) / 300
    np.testing.assert_allclose(weights, spread_out(whole, whole.weights), rtol=1e-12)


@pytest.mark.parametrize("size", [300, 301, 10**9])
def test_a_part_of_all_draws_is_refused(X, size):
    whole = lwcs.build(X, 300, random_state=0)
    with pytest.raises(ValueError, match=f"^size={size} leaves nothing of the 300 draws .* < 300$"):
        whole.split(size)


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-3, ValueError), (2.5, TypeError)])
def test_sizes_that_are_no_counts_are_refused(X, size, error):
    with pytest.raises(error, match=f"size={size}"):
        lwcs.build(X, 300, random_state=0).split(size)


def test_a_single_draw_is_refused(X):
    with pytest.raises(ValueError, match="size=1 leaves nothing of the 1 draws"):
        lwcs.build(X, 1, random_state=0).split(1)


def test_all_rows_are_no_draws_but_a_sample_of_them_is(X):
    rows = lwcs.Coreset.from_arrays(X, np.ones(600), method="all rows", depth=0)
    with pytest.raises(ValueError, match=r"all rows of the data.*lwcs\.build"):
        rows.split(100)
    assert [each.size for each in rows.reduce(300, random_state=0).split(100)] == [100, 200]


def test_dealt_parts_are_disjoint_and_may_leave_some_over():
    counts = np.array([3, 1, 4, 1, 5])
    parts = deal(counts, [4, 6], np.random.default_rng(0))
    assert [part.sum() for part in parts] == [4, 6]
    assert (sum(parts) <= counts).all()
    assert all((part >= 0).all() for part in parts)


def test_a_part_written_out():
    """Of 4 draws, one of the two of the first row and the one of the last: times 4/2."""
    part = part_of(np.array([6.0, 5.0, 7.0]), np.array([2, 1, 1]), np.array([1, 0, 1]))
    assert part.at.tolist() == [0, 2]
    assert part.counts.tolist() == [1, 1]
    assert part.weights.tolist() == [6.0, 14.0]
