"""One read: the sums of cells and blocks, and rows that are drawn through them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.divergences import Mahalanobis
from lwcs.geometry import Geometry
from lwcs.kernels import choose, protocol
from lwcs.samplers import one_read
from lwcs.samplers.one_read import Proposals, RunningWeights, _scan, running_weights
from lwcs.samplers.sampler import Run
from lwcs.sources.memory.local import ArraySource
from lwcs.sources.memory.sparse import SparseSource

MAKE = pytest.mark.parametrize(
    "make", [np.asarray, np.asfortranarray, sp.csr_array], ids=["dense", "Fortran", "sparse"]
)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])
LONG = 650_000  # ten blocks of three columns, so that a stretch has several


def skewed(n_rows):
    w = np.random.default_rng(1).standard_exponential(n_rows) ** 4
    w[::7] = 0.0
    return w


@pytest.mark.parametrize("cell_rows", [1, 8, 32])
@pytest.mark.parametrize("n_rows", [1, 40, 1003])
def test_draws_by_weight_invert_the_running_sum(n_rows, cell_rows):
    w, fractions = skewed(n_rows) + (n_rows == 1), np.random.default_rng(2).random(5000)
    drawn = RunningWeights(n_rows, w, cell_rows).draw(fractions)
    sums = np.cumsum(w)
    expected = np.searchsorted(sums, fractions * sums[-1], side="right")
    np.testing.assert_array_equal(drawn, expected)


def test_a_draw_past_the_end_is_the_last_row_with_weight():
    w = np.array([1.0, 2.0, 3.0, 0.0, 0.0])
    for cell_rows in (1, 2, 8):
        assert RunningWeights(5, w, cell_rows).draw(np.array([1.0])).tolist() == [2]


@MAKE
@WEIGHTED
@pytest.mark.parametrize("columns", [3, 300])
def test_proposals_invert_the_running_sum_of_their_bounds(columns, make, weighted, kernel):
    n_rows = 2003  # the last cell is short
    X = np.random.default_rng(0).normal(size=(n_rows, columns)) * np.arange(1, columns + 1)
    source = lwcs.scan(make(X), weight=skewed(n_rows) if weighted else None)
    run = Run(0, Geometry(kernel=choose()), 1)
    pivot, weights = X[:20].mean(axis=0), running_weights(source)
    make_pivot = run.geometry.measured(make(X)).pivot
    around = _scan(source, pivot, make_pivot, weights.total, run)
    proposals = Proposals.around(around, source, weights, run.geometry)
    fractions = np.random.default_rng(3).random(3000)
    hits = proposals.draw(fractions, 2)
    h = proposals.rejection.scale * ((X - pivot) ** 2).sum(axis=1) + proposals.rejection.floor
    sums = np.cumsum(h if source.weights is None else h * source.weights)
    expected = np.searchsorted(sums, fractions * sums[-1], side="right")
    np.testing.assert_array_equal(hits.rows, expected)
    np.testing.assert_allclose(hits.bounds, h[expected], rtol=1e-12)
    distances = ((X[expected] - proposals.mean.point) ** 2).sum(axis=1)
    np.testing.assert_allclose(hits.distances, distances, rtol=1e-9)


@WEIGHTED
def test_stretches_change_no_bit(weighted, kernel, monkeypatch):
    X = np.random.default_rng(0).standard_t(3, size=(LONG, 3)).astype(np.float32)
    options = {"sample_weight": skewed(LONG) if weighted else None, "random_state": 0}
    assert ArraySource(X).stretch_rows(1) > ArraySource(X).block_rows
    made = [lwcs.build(X, 2000, n_jobs=jobs, **options) for jobs in (1, 2, 5)]
    monkeypatch.setattr(ArraySource, "stretch_rows", lambda self, *_: self.block_rows)
    blocks = lwcs.build(X, 2000, n_jobs=1, **options)
    assert made == [blocks] * 3


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("row", [70_000, 140_000, LONG - 1])
def test_a_bad_value_in_a_stretch_is_named(row, bad, kernel):
    X = np.zeros((LONG, 3), dtype=np.float32)
    X[row, 1] = bad
    with pytest.raises(ValueError, match=f"row {row}, column 1 is {bad}"):
        lwcs.build(X, 100, random_state=0, n_jobs=1)


def test_the_first_of_several_bad_values_is_named(kernel):
    X = np.zeros((LONG, 3), dtype=np.float32)
    X[[140_000, 70_003, 70_001]] = np.nan
    with pytest.raises(ValueError, match="row 70001, column 0 is nan"):
        lwcs.build(X, 100, random_state=0, n_jobs=1)


@pytest.mark.parametrize("columns", [1, 8, 74, 128, 1000, 5000])
def test_an_interrupt_waits_for_few_values(columns):
    X = np.empty((2**28 // columns, columns), dtype=np.float32)  # never touched, so not in memory
    source = ArraySource(X)
    for threads in (1, 16):
        rows = source.stretch_rows(threads)
        assert rows % source.block_rows == 0
        assert rows * columns <= 2**25


def test_only_rows_that_kernels_read_as_they_are_come_in_stretches():
    X = np.zeros((LONG, 3), dtype=np.float32)
    for copied in (X.astype(np.int32), np.asfortranarray(X), X.astype(">f4"), X[::2], X[:, :2]):
        source = lwcs.scan(copied)
        assert source.stretch_rows(1) == source.block_rows
    assert lwcs.scan(X.astype(np.float64)).stretch_rows(1) > source.block_rows


def test_rows_that_are_transformed_are_transformed_block_by_block(monkeypatch):
    given = []
    plain = Mahalanobis.transform

    def counted(self, rows):
        given.append(rows.shape[0])
        return plain(self, rows)

    monkeypatch.setattr(Mahalanobis, "transform", counted)
    X = np.random.default_rng(0).normal(size=(LONG, 3))
    lwcs.build(X, 100, divergence=Mahalanobis(np.eye(3)), random_state=0, n_jobs=1)
    assert max(given) <= lwcs.scan(X).block_rows


def test_cells_take_at_most_a_byte_per_row_up_to_128_columns():
    for columns in (1, 8, 74, 128):
        assert 8 / ArraySource(np.empty((10, columns))).cell_rows <= 1
    assert ArraySource(np.empty((10, 1025))).cell_rows == 1


def test_a_build_keeps_no_number_per_row(kernel):
    X = np.random.default_rng(0).standard_normal((3_000_000, 2), dtype=np.float32)
    lwcs.build(X[:100], 10, random_state=0, n_jobs=1)
    tracemalloc.start()
    lwcs.build(X, 100, random_state=0, n_jobs=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A byte per row, and the temporaries of a block.
    assert peak <= len(X) + 2 * 65_536 * 8


def test_a_build_leaves_the_rows_of_the_caller_writeable():
    for X in (np.ones((50, 3)), sp.csr_array(np.ones((50, 3)))):
        coreset = lwcs.build(X, 200, random_state=0)
        values = X.data if sp.issparse(X) else X
        values[:] = 2.0
        assert (coreset.cost(np.ones((1, 3)))) == 0.0


def sparse_rows(n_rows, columns, per_row, dtype=np.float64):
    rng = np.random.default_rng(0)
    return sp.random_array(
        (n_rows, columns), density=per_row / columns, rng=rng, format="csr", dtype=dtype
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_proposals_of_sparse_rows_copy_nothing(dtype, monkeypatch):
    """The rows of the pivot and those of the coreset are taken, no others."""
    monkeypatch.setenv("LWCS_KERNEL", "native")
    X, taken, take = sparse_rows(20_000, 300, 5, dtype), [], SparseSource.take
    monkeypatch.setattr(
        SparseSource, "take", lambda self, rows: taken.append(len(rows)) or take(self, rows)
    )
    drawn = lwcs.build(X, 3_000, random_state=0, n_jobs=1)
    assert taken == [one_read.PIVOT_ROWS, len(drawn.indices)]


def test_proposals_of_sparse_rows_are_those_of_the_portable_kernel(monkeypatch):
    X, made = sparse_rows(20_000, 300, 5), []
    for name in ("numpy", "native"):
        monkeypatch.setenv("LWCS_KERNEL", name)
        made.append(lwcs.build(X, 3_000, random_state=0, n_jobs=2))
    np.testing.assert_array_equal(made[0].indices, made[1].indices)
    np.testing.assert_allclose(made[0].weights, made[1].weights, rtol=1e-12)


def test_what_zeros_cost_is_worked_out_a_few_times_whatever_the_number_of_blocks(
    kernel, monkeypatch
):
    calls, split = [], protocol.split_exactly
    monkeypatch.setattr(protocol, "split_exactly", lambda x: calls.append(0) or split(x))
    lwcs.build(sparse_rows(100_000, 300, 5), 3_000, random_state=0, n_jobs=1)
    assert len(calls) <= 3


@pytest.mark.parametrize(("per_row", "rows"), [(1, 8), (8, 8), (10, 4), (40, 1), (100, 1)])
def test_cells_of_sparse_rows_have_few_stored_values(per_row, rows):
    assert SparseSource(sparse_rows(1_000, 500, per_row)).cell_rows == rows


def test_rows_without_any_stored_value_have_cells(kernel):
    X = sp.csr_array((20, 3))
    assert SparseSource(X).cell_rows == 8
    assert len(lwcs.build(X, 5, random_state=0).indices) > 0
