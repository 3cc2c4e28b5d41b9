"""The corners: equal rows, one row, more draws than rows, no weight, large offsets, copies."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.geometry import Geometry
from lwcs.runtime.randomness import Stage
from lwcs.samplers.lightweight import MeanDrawTask
from lwcs.samplers.two_rounds import Quota
from lwcs.sources import Block

PASSES = pytest.mark.parametrize("passes", [1, 2])
MAKE = pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def identity(coreset: lwcs.Coreset) -> float:
    at_mean = coreset.cost(coreset.mean[None, :]) / coreset.total_cost
    return coreset.weights.sum() / coreset.total_weight + at_mean


@PASSES
@MAKE
def test_equal_rows_cost_nothing_and_are_drawn_uniformly(make, passes, kernel):
    X = np.full((1000, 3), 0.1, dtype=np.float32)
    coreset = lwcs.build(make(X), 50, passes=passes, random_state=0)
    assert coreset.total_cost == 0.0
    np.testing.assert_allclose(coreset.weights, coreset.counts * 20.0)
    np.testing.assert_array_equal(coreset.mean, X[0].astype(np.float64))


@PASSES
@MAKE
def test_one_row_is_its_own_coreset(make, passes):
    coreset = lwcs.build(make([[1.0, 0.0, 2.0]]), 5, passes=passes, random_state=0)
    assert coreset.indices.tolist() == [0]
    assert coreset.counts.tolist() == [5]
    assert coreset.weights.tolist() == [1.0]


@PASSES
def test_size_may_exceed_the_rows(passes):
    X = np.random.default_rng(0).normal(size=(20, 3))
    coreset = lwcs.build(X, 5000, passes=passes, random_state=0)
    assert coreset.size == 5000
    assert len(coreset.indices) == 20
    assert coreset.cost(X[:2]) == pytest.approx(
        ((X[:, None] - X[:2]) ** 2).sum(axis=2).min(axis=1).sum(), rel=0.1
    )


@PASSES
def test_a_single_draw_is_a_coreset(passes):
    X = np.random.default_rng(0).normal(size=(500, 3))
    coreset = lwcs.build(X, 1, passes=passes, random_state=0)
    assert coreset.size == len(coreset.indices) == 1
    assert identity(coreset) == pytest.approx(2.0)


@PASSES
@MAKE
@pytest.mark.parametrize("method", ["lightweight", "uniform"])
def test_rows_without_weight_are_never_drawn(make, passes, method):
    X = np.random.default_rng(0).normal(size=(400, 2))
    X[::2] += 1e6
    w = np.zeros(400)
    w[1::2] = 1.0
    coreset = lwcs.build(
        make(X), 5000, sample_weight=w, passes=passes, method=method, random_state=0
    )
    assert set(coreset.indices % 2) == {1}
    assert coreset.total_weight == 200.0


@PASSES
def test_weight_three_equals_three_copies(passes):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(50, 3)), rng.integers(0, 4, 50)
    weighted = lwcs.build(X, 100, sample_weight=w, passes=passes, random_state=0)
    copied = lwcs.build(np.repeat(X, w, axis=0), 100, passes=passes, random_state=0)
    np.testing.assert_allclose(weighted.mean, copied.mean, rtol=1e-12)
    assert weighted.total_cost == pytest.approx(copied.total_cost, rel=1e-12)
    assert weighted.total_weight == copied.total_weight
    # A weight of a coreset depends on the row alone: one draw stands for the same either way.
    per_row = dict(zip(map(tuple, copied.points), copied.weights / copied.counts, strict=True))
    common = [i for i, row in enumerate(weighted.points) if tuple(row) in per_row]
    assert len(common) > 10
    for i in common:
        expected = per_row[tuple(weighted.points[i])]
        assert weighted.weights[i] / weighted.counts[i] == pytest.approx(expected, rel=1e-12)


@PASSES
@MAKE
def test_offset_of_a_million_costs_no_accuracy(make, passes, kernel):
    X = (np.random.default_rng(0).normal(size=(5000, 4)) + 1e6).astype(np.float32)
    coreset = lwcs.build(make(X), 300, passes=passes, random_state=0)
    exact = X.astype(np.float64)
    exact -= exact.mean(axis=0)
    assert coreset.total_cost == pytest.approx((exact**2).sum(), rel=1e-10)
    assert identity(coreset) == pytest.approx(2.0, rel=1e-9)
    assert coreset.points.dtype == np.float32


@PASSES
def test_one_row_with_all_of_the_cost(passes):
    X = np.zeros((100_000, 2))
    X[77_777] = 1e8
    coreset = lwcs.build(X, 100, passes=passes, random_state=0)
    at = np.flatnonzero(coreset.indices == 77_777)
    assert coreset.counts[at].sum() > 25
    assert coreset.weights[at].sum() == pytest.approx(coreset.counts[at].sum() / 50, rel=1e-3)
    assert identity(coreset) == pytest.approx(2.0)


def test_a_far_pivot_is_only_slow_never_wrong(monkeypatch):
    """With a pivot of a single row, acceptance is low and the draws are still exactly q."""
    monkeypatch.setattr("lwcs.samplers.one_read.PIVOT_ROWS", 1)
    X = np.random.default_rng(1).standard_t(2.5, size=(300, 2))
    coreset = lwcs.build(X, 20_000, passes=1, random_state=4)
    q = 0.5 / 300 + 0.5 * ((X - X.mean(0)) ** 2).sum(1) / ((X - X.mean(0)) ** 2).sum()
    expected = 20_000 * q[coreset.indices]
    z = (coreset.counts - expected) / np.sqrt(expected)
    assert np.abs(z).max() < 5.0
    assert identity(coreset) == pytest.approx(2.0)


def test_points_keep_dtype_and_sparsity():
    for dtype in ("float16", "float32", "float64", "int8", "int64", "uint16"):
        X = (np.random.default_rng(0).normal(size=(100, 3)) * 10).clip(0).astype(dtype)
        for passes in (1, 2):
            coreset = lwcs.build(X, 30, passes=passes, random_state=0)
            assert coreset.points.dtype == dtype
            np.testing.assert_array_equal(coreset.points, X[coreset.indices])
    for make in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_array):
        coreset = lwcs.build(make(X), 30, random_state=0)
        assert sp.issparse(coreset.points)
        np.testing.assert_array_equal(coreset.points.toarray(), X[coreset.indices])


def test_duplicate_entries_of_a_sparse_matrix_add_up():
    X = sp.csr_array(([1.0, 2.0, 4.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    coreset = lwcs.build(X, 50, random_state=0)
    np.testing.assert_array_equal(coreset.points.toarray(), [[3.0, 0.0], [0.0, 4.0]])
    assert X.nnz == 3, "the caller's matrix is left as it was"


def test_uniform_does_not_know_the_mean():
    coreset = lwcs.build(np.eye(5), 3, method="uniform", random_state=0)
    assert coreset.mean is None
    assert coreset.total_cost is None
    np.testing.assert_allclose(coreset.weights, coreset.counts * 5 / 3)


def test_standard_scale_is_the_build_of_scaled_data():
    X = np.random.default_rng(0).normal(size=(3000, 4)) * [1, 10, 1000, 1e-3]
    X[:, 3] = 5.0
    std = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    scaled = lwcs.build(lwcs.scan(X, scale="standard"), 200, random_state=0)
    before = lwcs.build(X / std, 200, random_state=0, passes=2)
    np.testing.assert_array_equal(scaled.indices, before.indices)
    np.testing.assert_allclose(scaled.weights, before.weights, rtol=1e-9)
    np.testing.assert_array_equal(scaled.points, X[scaled.indices])
    np.testing.assert_allclose(scaled.scale, std)
    assert scaled.total_cost == pytest.approx(3 * 3000)
    centers = X[:7]
    assert scaled.cost(centers) == pytest.approx(before.cost(centers / std))
    assert identity(scaled) == pytest.approx(2.0)


@PASSES
@MAKE
def test_a_row_without_weight_leaves_no_trace_in_a_constant_column(make, passes, kernel):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, w = np.full((500, 2), 0.1), rng.random(500)
        X[0], w[0] = 1e6, 0.0
        coreset = lwcs.build(make(X), 100, passes=passes, sample_weight=w, random_state=seed)
        assert coreset.total_cost == 0.0
        assert coreset.size == 100
        X[:, 1] = rng.normal(size=500)
        source = lwcs.scan(make(X), scale="standard", weight=w)
        assert lwcs.build(source, 100, random_state=seed).scale[0] == 1.0


def test_targets_beyond_the_running_sum_go_to_the_last_row_with_mass():
    X = np.array([[0.0], [2.0], [0.0]])
    task = MeanDrawTask(0, Stage.CORESET, Geometry(mean=np.zeros(1)))
    # Targets a little above what the rows add up to, as rounding leaves them.
    beyond = (np.zeros(0), np.full(50, 4.0 + 2e-9))
    picked = task(iter([Block(X, None, 0)]), Quota(0, 50, (3.0, 4.0 + 3e-9), beyond))
    assert {int(row) for part in picked for row in part.rows} == {1}
    assert sum(int(part.counts.sum()) for part in picked) == 50
    task = MeanDrawTask(0, Stage.CORESET, Geometry(mean=np.ones(1)), average=1e-40)
    flat = task(iter([Block(np.ones((3, 1)), None, 0)]), Quota(0, 50, (3.0, 1e-30)))
    assert sum(int(part.counts.sum()) for part in flat) == 50


def test_rows_that_changed_between_two_rounds_are_refused():
    task = MeanDrawTask(0, Stage.CORESET, Geometry(mean=np.zeros(1)))
    block = Block(np.array([[0.0], [2.0], [0.0]]), None, 0)
    for weight, cost in ((4.0, 4.0), (3.0, 4.1), (3.0, 4.0 - 1e-7), (3.0 + 1e-7, 4.0)):
        with pytest.raises(ValueError, match="changed between two passes"):
            task(iter([block]), Quota(0, 10, (weight, cost)))


def test_standard_scale_of_a_uniform_sample():
    X = np.random.default_rng(0).normal(size=(3000, 2)) * [1, 1000]
    coreset = lwcs.build(lwcs.scan(X, scale="standard"), 500, method="uniform", random_state=0)
    np.testing.assert_allclose(coreset.scale, X.std(axis=0))
    assert coreset.cost(X.mean(axis=0)[None]) == pytest.approx(2 * 3000, rel=0.2)


class Subclass(np.ndarray):
    """Any subclass of an array."""


def test_byte_order_and_array_subclasses_do_not_matter():
    X = np.random.default_rng(0).normal(size=(300, 3))
    for passes in (1, 2):
        plain = lwcs.build(X, 50, passes=passes, random_state=0)
        for data in (X.astype(">f8"), X.view(Subclass)):
            assert lwcs.build(data, 50, passes=passes, random_state=0) == plain
    sparse = sp.csr_array(X)
    sparse.data = sparse.data.astype(">f8")
    assert lwcs.build(sparse, 50, random_state=0) == lwcs.build(sp.csr_array(X), 50, random_state=0)


def test_standard_scale_keeps_sparse_data_sparse():
    X = sp.random_array((2000, 30), density=0.1, rng=np.random.default_rng(0), format="csr")
    sparse = lwcs.build(lwcs.scan(X, scale="standard"), 100, random_state=0)
    dense = lwcs.build(lwcs.scan(X.toarray(), scale="standard"), 100, random_state=0)
    assert sp.issparse(sparse.points)
    np.testing.assert_array_equal(sparse.indices, dense.indices)
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-12)
    centers = X[:5].toarray()
    assert sparse.cost(centers) == pytest.approx(dense.cost(centers), rel=1e-12)


@PASSES
@MAKE
def test_what_memory_held_before_does_not_matter(make, passes, monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 3))
    clean = lwcs.build(make(X), 20, passes=passes, random_state=0)
    empty = np.empty

    def dirty(shape, dtype=np.float64, **options):
        array = empty(shape, dtype, **options)
        if array.dtype == np.float64:
            array.view(np.uint64)[...] = 0x7FF0_0000_0000_0001  # warns wherever it is used
        return array

    monkeypatch.setattr(np, "empty", dirty)
    assert lwcs.build(make(X), 20, passes=passes, random_state=0) == clean
