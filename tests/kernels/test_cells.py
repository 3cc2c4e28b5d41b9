"""Scans that keep the sums of cells alone, and rows that are drawn from the cells that are hit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lwcs.kernels import Pivot, named

KERNELS = pytest.mark.parametrize("name", ["numpy", "native"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])
COLUMNS = pytest.mark.parametrize("columns", [1, 3, 17, 74, 784])
BLOCK, CELL = 64, 8


def rows_and_weights(n_rows, columns, weighted, dtype="float32"):
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, (n_rows, columns)).astype(dtype)
    return X, rng.random(n_rows) if weighted else None, rng.normal(size=columns)


def scan_cells(X, w, pivot, name):
    cells = np.empty(-(-X.shape[0] // CELL))
    return (*named(name).scan_cells(X, w, pivot, BLOCK, cells, CELL), cells)


@KERNELS
@WEIGHTED
@COLUMNS
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n_rows", [1, 8, 64, 203])
def test_blocks_and_cells_have_the_sums_of_their_rows(n_rows, columns, weighted, scaled, name):
    X, w, point = rows_and_weights(n_rows, columns, weighted)
    precision = np.random.default_rng(1).random(columns) + 0.5 if scaled else None
    omega = np.ones(n_rows) if w is None else w
    offset = X - point
    masses = omega * (offset**2 @ (np.ones(columns) if precision is None else precision))
    shifts, costs, cells = scan_cells(X, w, Pivot(point, precision), name)
    blocks, each = np.arange(0, n_rows, BLOCK), np.arange(0, n_rows, CELL)
    np.testing.assert_allclose(costs, np.add.reduceat(masses, blocks), rtol=1e-12)
    np.testing.assert_allclose(cells, np.add.reduceat(masses, each), rtol=1e-12)
    expected = np.add.reduceat(omega[:, None] * offset, blocks, axis=0)
    np.testing.assert_allclose(shifts, expected, rtol=1e-9, atol=1e-9)


@KERNELS
@WEIGHTED
@COLUMNS
def test_a_block_has_the_same_bits_whatever_is_scanned_with_it(columns, weighted, name):
    X, w, point = rows_and_weights(203, columns, weighted)
    together = scan_cells(X, w, Pivot(point), name)
    alone = [
        scan_cells(X[a : a + BLOCK], None if w is None else w[a : a + BLOCK], Pivot(point), name)
        for a in range(0, 203, BLOCK)
    ]
    for whole, parts in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts))


@KERNELS
@WEIGHTED
def test_sparse_rows_have_the_cells_of_dense_rows(weighted, name):
    X, w, point = rows_and_weights(BLOCK - 3, 17, weighted)
    X[np.random.default_rng(2).random(X.shape) < 0.7] = 0.0
    for dense, sparse in zip(
        scan_cells(X, w, Pivot(point), name),
        scan_cells(sp.csr_array(X), w, Pivot(point), name),
        strict=True,
    ):
        np.testing.assert_allclose(sparse, dense, rtol=1e-10, atol=1e-10)


@KERNELS
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 64, 202])
def test_only_the_block_of_a_bad_value_has_sums_that_are_not_finite(row, bad, name):
    X, _, point = rows_and_weights(203, 17, weighted=False)
    X[row, 5] = bad
    sums = named(name).scan_cells(X, None, Pivot(point), BLOCK, np.empty(26), CELL)
    assert np.flatnonzero(~sums.finite).tolist() == [row // BLOCK]


RUNS = np.array([0, 8, 8, 16, 200]), np.array([8, 16, 16, 24, 203])


def hits_of(X, w, targets, name, scale=1.1, floor=0.2):
    """Of the runs alone, as the portable kernel is given them."""
    starts, stops = RUNS
    at = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    first = np.cumsum(stops - starts) - (stops - starts)
    pivot, mean = Pivot(np.full(X.shape[1], 2.5)), Pivot(np.full(X.shape[1], 3.0))
    runs = first, first + (stops - starts), targets
    own = None if w is None else w[at]
    hits = named(name).hit_rows(X[at], own, pivot, mean, scale, floor, runs)
    return hits._replace(rows=at[hits.rows])


@KERNELS
@WEIGHTED
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.999, 2.0])
def test_a_run_is_hit_where_its_running_sum_crosses_the_target(share, make, weighted, name):
    X, w, _ = rows_and_weights(203, 17, weighted)
    h = 1.1 * ((X - 2.5) ** 2).sum(axis=1, dtype=np.float64) + 0.2
    masses = h if w is None else w * h
    expected, targets = [], []
    for start, stop in zip(*RUNS, strict=True):
        sums = np.cumsum(masses[start:stop])
        targets.append(share * sums[-1])
        expected.append(start + min(int((sums <= targets[-1]).sum()), stop - start - 1))
    hits = hits_of(make(X), w, np.array(targets), name)
    assert hits.rows.tolist() == expected
    np.testing.assert_allclose(hits.bounds, h[expected], rtol=1e-6)
    distances = ((X[expected] - 3.0) ** 2).sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(hits.distances, distances, rtol=1e-6)


@KERNELS
def test_a_row_without_mass_is_never_hit(name):
    X, w, _ = rows_and_weights(203, 17, weighted=True)
    w[:3] = w[6:8] = w[8:10] = w[202] = 0.0
    for targets in (np.zeros(5), np.full(5, np.inf)):
        assert (w[hits_of(X, w, targets, name).rows] > 0.0).all()
