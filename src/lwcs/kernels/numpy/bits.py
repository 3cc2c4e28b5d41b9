"""Rows from columns of a table, and hashes of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import DenseRows

# Rows per step; their words stay in the cache.
_ROWS = 4_096


def as_rows(columns: Sequence[DenseRows], out: DenseRows) -> None:
    """Column by column."""
    np.stack(columns, axis=1, out=out, casting="unsafe")


def hash_sums(
    words: DenseRows, factors: DenseRows, more: DenseRows | None, first: int
) -> tuple[int, int]:
    """By the hash of every row."""
    return sums_of(hashes_of(words, factors), more, first)


def mix(numbers: DenseRows) -> DenseRows:
    """Scatter the bits of uint64 numbers (the finalizer of splitmix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def sums_of(hashes: DenseRows, more: DenseRows | None, first: int) -> tuple[int, int]:
    """The sums of `lwcs.kernels.hashes` of the hashes of rows."""
    mixed = mix(hashes if more is None else hashes + more)
    places = np.arange(first, first + len(mixed), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return int(mixed.sum(dtype=np.uint64)), int((mixed * places).sum(dtype=np.uint64))


def hashes_of(words: DenseRows, factors: DenseRows) -> DenseRows:
    """The hash of every row."""
    found = np.empty(len(words), dtype=np.uint64)
    for start in range(0, len(words), _ROWS):
        part = words[start : start + _ROWS].astype(np.uint64)
        found[start : start + _ROWS] = np.einsum("ij,j->i", part, factors)
    return found
