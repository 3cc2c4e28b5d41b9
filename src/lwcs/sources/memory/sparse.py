"""Rows in a scipy CSR array, never made dense; other sparse formats are converted first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from lwcs.arrays.rows import sparse_part
from lwcs.sources.base import PARTITION_ROWS, Block
from lwcs.sources.memory.local import LocalSource
from lwcs.sources.scan_options import check_dtype, check_shape

if TYPE_CHECKING:
    from lwcs.arrays.types import IntArray


# To draw a row, half of its cell is read on average; every cell takes the memory of one value.
_CELL_VALUES = 64
_MOST_CELL_ROWS = 8


class SparseSource(LocalSource):
    """A CSR matrix or array; blocks share its memory."""

    feature_names = None

    def __init__(self, matrix: Any) -> None:
        check_dtype(matrix.dtype)
        check_shape(matrix.shape)
        rows = as_csr(matrix)
        # The attribute of the caller's CSR array is read, which caches the result.
        canonical = (matrix if matrix.format == "csr" else rows).has_canonical_format
        if not canonical:
            # Duplicate entries are summed; the matrix of the caller is not changed.
            rows = rows.copy()
            rows.sum_duplicates()
        if (dtype := _computable(rows.dtype)) != rows.dtype:
            rows = rows.astype(dtype)
        self.rows = rows
        self.n_rows, self.n_features = rows.shape

    @property
    def block_rows(self) -> int:
        """A quarter of a partition, for any number of columns: nothing is copied or made dense."""
        return PARTITION_ROWS // 4

    @property
    def cell_rows(self) -> int:
        """Number of rows with about 64 stored values, at most eight."""
        fitting = _CELL_VALUES * self.n_rows // max(1, int(self.rows.nnz))
        return int(min(_MOST_CELL_ROWS, 2 ** (max(1, fitting).bit_length() - 1)))

    def row_bytes(self) -> float:
        """Average number of bytes per row of stored values and their indices."""
        stored = sum(each.nbytes for each in (self.rows.data, self.rows.indices, self.rows.indptr))
        return stored / max(1, self.n_rows)

    def read(self, start: int, stop: int) -> sp.csr_array[Any]:
        """Return rows that share the memory of the matrix."""
        return sparse_part(self.rows, slice(start, stop))

    def take_runs(
        self, starts: IntArray, stops: IntArray, *, views: bool
    ) -> tuple[Block, IntArray]:
        """All rows, where `views` are wanted and kernels read their values as they are."""
        if views and self.rows.dtype in (np.float32, np.float64):
            return Block(self.rows, self.weights, 0), starts
        return super().take_runs(starts, stops, views=False)

    def take(self, rows: IntArray) -> sp.csr_array[Any]:
        """Copy the requested rows."""
        return self.rows[rows]


def as_csr(matrix: Any) -> sp.csr_array[Any]:
    """Convert a sparse array to CSR format, without a copy if it is CSR; refuse damaged ones."""
    check_structure(matrix)
    if matrix.format == "csr":
        return sp.csr_array(matrix)
    try:
        rows = sp.csr_array(matrix)
    except Exception as error:
        # Formats of Python lists and dictionaries may hold anything.
        raise _damaged(str(error)) from error
    check_structure(rows)
    return rows


def check_structure(matrix: Any) -> None:
    """Refuse a sparse array with damaged indices: code in C would use them unchecked."""
    if len(matrix.shape) != 2:
        return
    n_rows, n_columns = matrix.shape
    if matrix.format == "coo":
        for places, size, what in zip(matrix.coords, matrix.shape, ("row", "column"), strict=True):
            _check_places(places, size, what)
        if not len(matrix.data) == len(matrix.coords[0]) == len(matrix.coords[1]):
            raise _damaged("it has more values than places, or less")
    if matrix.format not in ("csr", "csc", "bsr"):
        return
    if matrix.format == "csc":
        n_rows, n_columns = n_columns, n_rows
    if matrix.format == "bsr":
        height, width = matrix.data.shape[1:]
        n_rows, n_columns = n_rows // max(height, 1), n_columns // max(width, 1)
    ends = matrix.indptr
    if ends.dtype.kind not in "iu" or ends.shape != (n_rows + 1,):
        raise _damaged(f"indptr has shape {ends.shape} and dtype {ends.dtype}")
    if ends[0] != 0 or (ends[1:] < ends[:-1]).any():
        raise _damaged("indptr does not start at 0, or decreases")
    if ends[-1] > min(len(matrix.indices), len(matrix.data)):
        raise _damaged(
            f"indptr ends at {ends[-1]}, but there are {len(matrix.indices)} indices and "
            f"{len(matrix.data)} values"
        )
    _check_places(
        matrix.indices[: ends[-1]], n_columns, "row" if matrix.format == "csc" else "column"
    )


def _check_places(places: Any, size: int, what: str) -> None:
    if places.dtype.kind not in "iu":
        raise _damaged(f"its {what} indices have dtype {places.dtype}")
    # As unsigned numbers, negative ones are the largest: comparing the maximum is enough.
    if len(places) and places.view(f"u{places.dtype.itemsize}").max() >= size:
        raise _damaged(f"it has {what} indices {places.min()} … {places.max()}, but {size} {what}s")


def _damaged(what: str) -> ValueError:
    return ValueError(f"the structure of the sparse data is damaged: {what}")


def _computable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The nearest dtype that scipy can compute with."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")
