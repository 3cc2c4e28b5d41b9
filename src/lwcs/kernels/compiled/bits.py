"""Columns as rows: the transposition of a table, in squares that fit into vector registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from lwcs.kernels.compiled.jit import jit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import DenseRows


SIDE = 8
"""Rows, and columns, of a square.

Arrow's columns often begin at multiples of 4096 bytes; more of them at once than a set of the cache
has lines would push each other out before their lines are used up.
"""

# Rows whose squares are copied one column of squares after the other: the lines that these share
# stay in the cache.
_TILE = 1_024


_HALVES = range(SIDE // 2), range(SIDE // 2, SIDE)
_INTERLEAVED = [
    ir.Constant(ir.VectorType(ir.IntType(32), SIDE), [k for i in half for k in (i, i + SIDE)])
    for half in _HALVES
]
"""Which values of two vectors, one after the other, make one of every second value of each."""


@intrinsic
def _copy_square(_: Any, columns: Any, offset: Any, target: Any, stride: Any, like: Any) -> Any:
    """Copy `SIDE` values of as many columns into rows at `target`, `stride` bytes apart.

    `columns` is the address of their addresses, and `offset` the first byte in each. Numba has no
    vectors, and LLVM finds none in loops over a transposition.
    """

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        columns, offset, target, stride, _ = arguments
        vector = ir.VectorType(context.get_data_type(like.dtype), SIDE).as_pointer()
        addresses = builder.inttoptr(columns, offset.type.as_pointer())
        rows = []
        for j in range(SIDE):
            column = builder.load(builder.gep(addresses, [offset.type(j)]))
            at = builder.inttoptr(builder.add(column, offset), vector)
            rows.append(builder.load(at, align=1))
        # Each round interleaves the first half of the vectors with the second; after log₂ of their
        # number, columns are rows.
        for _ in range(SIDE.bit_length() - 1):
            rows = [
                builder.shuffle_vector(rows[i // 2], rows[(i + SIDE) // 2], _INTERLEAVED[i % 2])
                for i in range(SIDE)
            ]
        for row in rows:
            builder.store(row, builder.inttoptr(target, vector), align=1)
            target = builder.add(target, stride)
        return context.get_dummy_value()

    return types.void(columns, offset, target, stride, like), generate


@jit()
def _as_rows(addresses, out):  # type: ignore[no-untyped-def]
    n_rows, n_columns = out.shape
    table, target = np.int64(addresses.ctypes.data), np.int64(out.ctypes.data)
    stride = out.strides[0]
    for start in range(0, n_rows, _TILE):
        stop = min(start + _TILE, n_rows)
        for each in range(0, n_columns, SIDE):
            # The last square lies over the one before it, where there is no room for another.
            j = min(each, n_columns - SIDE)
            for row in range(start, stop, SIDE):
                i = min(row, n_rows - SIDE)
                at = target + stride * i + out.itemsize * j
                _copy_square(table + 8 * j, out.itemsize * i, at, stride, out)  # type: ignore[call-arg]


def as_rows(columns: Sequence[DenseRows], out: DenseRows) -> None:
    """Copy contiguous columns of the dtype of `out` into its rows; at least `SIDE` of both."""
    addresses = [column.__array_interface__["data"][0] for column in columns]
    _as_rows(np.array(addresses, dtype=np.int64), out)


# numba would turn the sum of a uint64 and a Python integer into a float.
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@jit()
def _hash_sums(words, factors, more, place):  # type: ignore[no-untyped-def]
    content, order = np.uint64(0), np.uint64(0)
    for i in range(words.shape[0]):
        mixed = np.uint64(0)
        for j in range(words.shape[1]):
            mixed += np.uint64(words[i, j]) * factors[j]
        if more is not None:
            mixed += more[i]
        mixed = (mixed ^ (mixed >> _30)) * _FIRST
        mixed = (mixed ^ (mixed >> _27)) * _SECOND
        mixed ^= mixed >> _31
        content += mixed
        order += mixed * (place + np.uint64(2 * i))
    return content, order


def hash_sums(
    words: DenseRows, factors: DenseRows, more: DenseRows | None, first: int
) -> tuple[int, int]:
    """The sums of `lwcs.kernels.hashes`, in one pass; `more` is added to the hash of each row."""
    content, order = _hash_sums(words, factors, more, np.uint64(2 * first + 1))
    return int(content), int(order)
