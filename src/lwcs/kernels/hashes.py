"""Hashes of rows, by the bits of their values: no kernel rounds, so all give the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import as_read, is_sparse
from lwcs.kernels import choose, named
from lwcs.kernels.numpy.bits import hashes_of, mix, sums_of

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, Rows


# Position of the weight of a row, beyond all columns.
_WEIGHT = 2**40


def hash_sums(points: Rows, weights: FloatArray | None, first: int) -> tuple[int, int]:
    """Two sums over rows that are numbered from `first`: without and with regard to their order."""
    more = None if weights is None else _weight_hashes(weights)
    if is_sparse(points):
        return sums_of(_hash_sparse(points), more, first)
    words = _words(as_read(points))
    factors = _factors(np.arange(words.shape[1]))
    return named(choose()).hash_sums(words, factors, more, first)


def _factors(places: Any) -> DenseRows:
    """An odd factor for every position in a row."""
    return mix(np.asarray(places).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def _words(values: Any) -> DenseRows:
    """The bits of contiguous numbers, 32 at a time: the low ones alone are often all zero."""
    words: DenseRows = values.view(f"u{min(values.dtype.itemsize, 4)}")
    return words


def _weight_hashes(weights: Any) -> DenseRows:
    words = _words(as_read(weights).reshape(-1, 1))
    return hashes_of(words, _factors(_WEIGHT + np.arange(words.shape[1])))


def _hash_sparse(rows: Any) -> DenseRows:
    """Hash of every sparse row; zeros add nothing, so only stored values are read."""
    words = _words(np.ascontiguousarray(rows.data).reshape(-1, 1)).astype(np.uint64)
    each = words.shape[1]
    places = rows.indices.astype(np.int64)[:, None] * each + np.arange(each)
    running = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum((words * _factors(places)).sum(axis=1, dtype=np.uint64), out=running[1:])
    return running[rows.indptr[1:]] - running[rows.indptr[:-1]]
