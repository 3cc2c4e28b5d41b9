"""Rows in a NumPy array or a memory map, in either order, of any real dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.checks import refuse_masked
from lwcs.sources.base import LocalSource

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows, IntArray


class ArraySource(LocalSource):
    """A two-dimensional array; blocks are views of it."""

    feature_names = None

    def __init__(self, array: DenseRows) -> None:
        self.array = array
        self._dtype = array.dtype.newbyteorder("=")
        self.n_rows, self.n_features = array.shape

    def read(self, start: int, stop: int) -> DenseRows:
        """Give a view; a copy only of bytes in a foreign order."""
        return self.array[start:stop].astype(self._dtype, copy=False)

    def take(self, rows: IntArray) -> DenseRows:
        """Copy the rows asked for."""
        return np.ascontiguousarray(self.array[rows], dtype=self._dtype)


def as_table_of_numbers(data: object) -> DenseRows:
    """Turn array-likes into a two-dimensional real array, or say what is wrong with them."""
    refuse_masked(data, "data")
    try:
        array = np.asarray(data)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                "rows have different lengths; every row must have the same number of columns"
            ) from None
        raise
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"data of dtype {array.dtype} (type {type(data).__name__}) cannot be clustered; "
            "pass real numbers, for example X.astype(numpy.float64)"
        )
    if array.ndim != 2:
        raise ValueError(
            f"data has shape {array.shape}; pass shape (rows, columns)"
            + (", for one column X.reshape(-1, 1)" if array.ndim == 1 else "")
        )
    return array.view(np.uint8) if array.dtype.kind == "b" else array
