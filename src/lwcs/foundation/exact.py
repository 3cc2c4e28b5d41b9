"""Sums that lose no digits where they are subtracted from one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray

# Below this, the grid of `split_exactly` would underflow.
_TINY = 1e-280


def split_exactly(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split non-negative terms into a part whose sums are exact and a tiny rest.

    The sparse distance needs Σ terms over a row's zeros, got as the sum over all columns
    less the sum over the row's non-zeros, which cancels where one column is large. The
    first part lies on a grid so coarse that no sum of it rounds, so it cancels exactly.
    """
    total = float(terms.sum())
    if not np.isfinite(total) or total < _TINY:
        return terms, np.zeros_like(terms)
    grid = 2.0 ** (np.ceil(np.log2(total)) - 51)
    coarse = np.rint(terms / grid) * grid
    return coarse, terms - coarse
