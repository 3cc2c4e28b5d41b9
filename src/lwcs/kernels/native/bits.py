"""Rows from columns of a table, and hashes of rows (`core/bits.cpp`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.rows import as_read
from lwcs.kernels import numpy as portable
from lwcs.kernels.native.arguments import CORE, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import DenseRows

SIDE = 8
"""Rows, and columns, that `as_rows` needs at least to be faster than NumPy."""


def as_rows(columns: Sequence[DenseRows], out: DenseRows) -> None:
    """In square blocks, where there are enough rows and columns."""
    if min(out.shape) < SIDE or out.dtype not in (np.float32, np.float64):
        portable.as_rows(columns, out)
        return
    columns, (n, d) = [as_read(each, out.dtype) for each in columns], out.shape
    require(len(columns) == d, len(columns))
    require(all(len(column) == n and column.dtype == out.dtype for column in columns), out.dtype)
    addresses = [column.__array_interface__["data"][0] for column in columns]
    CORE.as_rows(out.itemsize == 8, np.array(addresses, dtype=np.int64), n, d, out)


def hash_sums(
    words: DenseRows, factors: DenseRows, more: DenseRows | None, first: int
) -> tuple[int, int]:
    """In one pass."""
    sums, place = np.zeros(2, dtype=np.uint64), (2 * first + 1) % 2**64
    CORE.hash_sums(words.itemsize, words, factors, more, place, *words.shape, sums)
    return int(sums[0]), int(sums[1])
