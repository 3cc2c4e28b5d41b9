"""Columns of a table as rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.foundation.types import DenseRows


def as_rows(columns: Sequence[DenseRows], out: DenseRows) -> None:
    """Copy columns of numbers into the rows of `out`, which are contiguous, in its dtype.

    A copy does not round, so the faster loop is used: the compiled one if it is loaded already.
    """
    if sys.modules.get("lwcs.kernels.compiled") is not None:
        from lwcs.kernels.compiled import columns as compiled

        floating = out.dtype in (np.float32, np.float64)
        if floating and min(out.shape) >= compiled.SIDE:
            alike = [np.ascontiguousarray(column, dtype=out.dtype) for column in columns]
            compiled.as_rows(alike, out)
            return
    np.stack(columns, axis=1, out=out, casting="unsafe")
