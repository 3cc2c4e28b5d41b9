"""Columns as rows: every value arrives in its place, and nothing is written beside them."""

from __future__ import annotations

import numpy as np
import pytest

from lwcs.kernels import choose, named
from lwcs.kernels.native import bits


def as_rows(columns, out):
    named(choose()).as_rows(columns, out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [3, 8, 9, 1_024, 1_030])
@pytest.mark.parametrize("n_columns", [1, 8, 13, 32])
def test_columns_become_rows_and_nothing_else_is_touched(dtype, n_rows, n_columns):
    values = np.arange(n_rows * n_columns, dtype=dtype).reshape(n_columns, n_rows)
    around = np.full((n_rows + 2, n_columns), -1.0, dtype=dtype)
    as_rows(list(values), around[1:-1])
    np.testing.assert_array_equal(around[1:-1], values.T)
    assert (around[[0, -1]] == -1.0).all()


def test_columns_of_other_types_strided_or_unaligned_are_converted():
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 255, size=101 * 8 + 1, dtype=np.uint8)
    columns = [
        rng.integers(-(2**40), 2**40, size=101),
        rng.random(101, dtype=np.float32),
        rng.random(202)[::2],
        rng.random(101) < 0.5,
        np.frombuffer(raw[1:].tobytes(), dtype=np.int16)[:101],
        *rng.random((6, 101)),
    ]
    unaligned = np.empty(101 * 8 + 1, dtype=np.uint8)[1:].view(np.float64)
    unaligned[...] = columns[-1]
    out = np.empty((101, 12))
    as_rows([*columns, unaligned], out)
    np.testing.assert_array_equal(out, np.stack([*columns, unaligned], axis=1))


def test_the_native_loop_is_used_for_floating_point_numbers(monkeypatch):
    shapes = []
    monkeypatch.setattr(bits.CORE, "as_rows", lambda *given: shapes.append(given[-1].shape))
    bits.as_rows([np.ones(20)] * 10, np.empty((20, 10)))
    bits.as_rows([np.ones(20)] * 10, np.empty((20, 10), dtype=np.int64))
    assert shapes == [(20, 10)]
