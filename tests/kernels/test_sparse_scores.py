"""The best and second best scores of CSR rows are those of scipy's product, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lwcs.kernels import second_best
from lwcs.kernels.native.tiles import best_scores


def found(rows, matrix, offsets):
    n = rows.shape[0]
    labels, best, second = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    best_scores(rows, matrix, offsets, labels, best, second)
    return labels, best, second


@pytest.mark.parametrize("k", [1, 2, 7, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("places", [np.int32, np.int64])
def test_scores_are_those_of_a_product(k, dtype, places):
    rng = np.random.default_rng(k)
    # From no stored value to thirty of them.
    dense = rng.integers(1, 9, (300, 30)) * (rng.random((300, 30)) < rng.random((300, 1)))
    dense[:3] = 0
    rows = sp.csr_array(dense.astype(dtype))
    rows.indices, rows.indptr = rows.indices.astype(places), rows.indptr.astype(places)
    matrix, offsets = rng.standard_normal((30, k)), rng.standard_normal(k)
    # Equal centers: the first one is the label.
    matrix[:, k // 2], offsets[k // 2] = matrix[:, 0], offsets[0]
    scores = rows @ matrix
    scores += offsets
    labels, best, second = found(rows, matrix, offsets)
    np.testing.assert_array_equal(labels, scores.argmax(axis=1))
    np.testing.assert_array_equal(best, scores.max(axis=1))
    np.testing.assert_array_equal(second, second_best(scores, labels, None))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_values_are_found(value):
    rows = sp.csr_array(np.array([[1.0, 0.0], [value, 1.0], [0.0, 2.0]]))
    # ∞ − ∞ is NaN for the center in the midst.
    matrix, offsets = np.array([[0.5, np.inf, 1.0], [1.0, -np.inf, 3.0]]), np.zeros(3)
    labels, best, second = found(rows, matrix, offsets)
    with np.errstate(invalid="ignore"):
        scores = rows @ matrix
    np.testing.assert_array_equal(labels, scores.argmax(axis=1))
    assert not np.isfinite(best[1])
    assert (best[0], best[2], second[2]) == (np.inf, 6.0, 2.0)


def test_rows_that_are_part_of_others_are_read_where_they_are():
    rng = np.random.default_rng(0)
    rows = sp.random_array((50, 20), density=0.3, rng=rng, format="csr")
    matrix, offsets = rng.standard_normal((20, 5)), rng.standard_normal(5)
    whole = found(rows, matrix, offsets)
    part = sp.csr_array(rows)
    part.indptr = rows.indptr[10:31]
    part._shape = (20, 20)
    for a, b in zip(whole, found(part, matrix, offsets), strict=True):
        np.testing.assert_array_equal(a[10:30], b)
