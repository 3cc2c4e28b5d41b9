"""Loops over the bits of values: rows from columns of a table, and hashes of rows.

Neither rounds, so the native loop and NumPy give the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import as_read, is_sparse
from lwcs.kernels import choose, is_native, module_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import DenseRows, FloatArray, Rows


def as_rows(columns: Sequence[DenseRows], out: DenseRows) -> None:
    """Copy columns of numbers into the rows of `out`, which are contiguous, in its dtype."""
    kernel = choose()
    if is_native(kernel) and out.dtype in (np.float32, np.float64):
        native = module_of(kernel)
        if min(out.shape) >= native.SIDE:
            native.as_rows([as_read(each, out.dtype) for each in columns], out)
            return
    np.stack(columns, axis=1, out=out, casting="unsafe")


# Rows per step; their words stay in the cache.
_ROWS = 4_096
# Position of the weight of a row, beyond all columns.
_WEIGHT = 2**40


def hash_sums(points: Rows, weights: FloatArray | None, first: int) -> tuple[int, int]:
    """Two sums over rows that are numbered from `first`: without and with regard to their order."""
    more = None if weights is None else _weight_hashes(weights)
    if is_sparse(points):
        return _sums(_hash_sparse(points), more, first)
    words = _words(as_read(points))
    factors = _factors(np.arange(words.shape[1]))
    if is_native(kernel := choose()):
        sums: tuple[int, int] = module_of(kernel).hash_sums(words, factors, more, first)
        return sums
    return _sums(_hash_dense(words, factors), more, first)


def mix(numbers: DenseRows) -> DenseRows:
    """Scatter the bits of uint64 numbers (the finalizer of splitmix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _sums(hashes: DenseRows, more: DenseRows | None, first: int) -> tuple[int, int]:
    mixed = mix(hashes if more is None else hashes + more)
    places = np.arange(first, first + len(mixed), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return int(mixed.sum(dtype=np.uint64)), int((mixed * places).sum(dtype=np.uint64))


def _factors(places: Any) -> DenseRows:
    """An odd factor for every position in a row."""
    return mix(np.asarray(places).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def _words(values: Any) -> DenseRows:
    """The bits of contiguous numbers, 32 at a time: the low ones alone are often all zero."""
    words: DenseRows = values.view(f"u{min(values.dtype.itemsize, 4)}")
    return words


def _weight_hashes(weights: Any) -> DenseRows:
    words = _words(as_read(weights).reshape(-1, 1))
    return _hash_dense(words, _factors(_WEIGHT + np.arange(words.shape[1])))


def _hash_dense(words: DenseRows, factors: DenseRows) -> DenseRows:
    found = np.empty(len(words), dtype=np.uint64)
    for start in range(0, len(words), _ROWS):
        part = words[start : start + _ROWS].astype(np.uint64)
        found[start : start + _ROWS] = np.einsum("ij,j->i", part, factors)
    return found


def _hash_sparse(rows: Any) -> DenseRows:
    """Hash of every sparse row; zeros add nothing, so only stored values are read."""
    words = _words(np.ascontiguousarray(rows.data).reshape(-1, 1)).astype(np.uint64)
    each = words.shape[1]
    places = rows.indices.astype(np.int64)[:, None] * each + np.arange(each)
    running = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum((words * _factors(places)).sum(axis=1, dtype=np.uint64), out=running[1:])
    return running[rows.indptr[1:]] - running[rows.indptr[:-1]]
