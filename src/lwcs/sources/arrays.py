"""Rows in a NumPy array or a memory map, in C or Fortran order, of any real dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.checks import refuse_masked
from lwcs.sources.checks import check_dtype, check_shape
from lwcs.sources.in_process import LocalSource

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows, IntArray


class ArraySource(LocalSource):
    """A two-dimensional array; blocks are views of it."""

    feature_names = None

    def __init__(self, array: DenseRows) -> None:
        self.array = array
        self.dtype = array.dtype.newbyteorder("=")
        self.n_rows, self.n_features = array.shape
        computable = array.dtype in (np.float32, np.float64) and array.dtype.isnative
        self.gives_views = computable and array.flags.c_contiguous

    def read(self, start: int, stop: int) -> DenseRows:
        """Return a view; a copy only if the byte order is not native."""
        return self.array[start:stop].astype(self.dtype, copy=False)

    def take(self, rows: IntArray) -> DenseRows:
        """Copy the requested rows."""
        if self.gives_views:
            # Faster than an index; other arrays would be copied as a whole.
            return np.asarray(self.array).take(rows, axis=0)
        return np.ascontiguousarray(self.array[rows], dtype=self.dtype)


def as_table_of_numbers(data: object) -> DenseRows:
    """Turn an array-like into a two-dimensional array of real numbers, or refuse it."""
    refuse_masked(data, "data")
    try:
        array = np.asarray(data)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                "rows have different lengths; every row must have the same number of columns"
            ) from None
        raise
    if array.dtype == object and array.ndim == 2 and all(_is_number(value) for value in array.flat):
        # Columns of different types, as df.to_numpy() returns them; fit takes them, too.
        array = array.astype(np.float64)
    check_dtype(array.dtype, f" (type {type(data).__name__})")
    check_shape(array.shape)
    return array.view(np.uint8) if array.dtype.kind == "b" else array


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float | np.bool_ | np.integer | np.floating)
