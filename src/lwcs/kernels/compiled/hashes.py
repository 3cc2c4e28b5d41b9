"""Sums of hashes of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.kernels.compiled.jit import jit

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows

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
