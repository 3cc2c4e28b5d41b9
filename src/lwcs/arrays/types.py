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
# A dense array or a scipy CSR array, which have no common type in scipy.
Rows: TypeAlias = Any
