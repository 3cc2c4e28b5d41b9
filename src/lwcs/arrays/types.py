"""Names for the arrays that travel between the layers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
Labels: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_]
DenseRows: TypeAlias = npt.NDArray[Any]
# A dense array or a scipy CSR array: what the two have in common is no type that scipy has.
Rows: TypeAlias = Any


def is_sparse(rows: object) -> bool:
    """Whether `rows` is a scipy sparse container, told without importing scipy."""
    return any(base.__module__.startswith("scipy.sparse") for base in type(rows).__mro__)
