"""Memory that a thread uses again for every block: fresh memory costs more than what fills it."""

from __future__ import annotations

import threading
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.types import DenseRows

# Larger arrays are not kept.
_LARGEST = 2**25


class Workspace(threading.local):
    """Two arrays per thread; taking one again overwrites what it held."""

    def rows(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DenseRows:
        """Memory for rows, with arbitrary content."""
        return self._take("_rows", shape, dtype)

    def scores(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DenseRows:
        """Memory for scores, with arbitrary content."""
        return self._take("_scores", shape, dtype)

    def _take(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DenseRows:
        size, kept = prod(shape), self.__dict__.get(name)
        if kept is None or kept.size < size or kept.dtype != dtype:
            kept = np.empty(size, dtype=dtype)
            if kept.nbytes <= _LARGEST:
                self.__dict__[name] = kept
        return kept[:size].reshape(shape)
