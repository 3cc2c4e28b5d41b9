"""Rows in a scipy CSR array, never made dense; other sparse formats are converted first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from lwcs.sources.base import PARTITION_ROWS, LocalSource
from lwcs.sources.checks import check_dtype, check_shape

if TYPE_CHECKING:
    from lwcs.foundation.types import IntArray


class SparseSource(LocalSource):
    """A CSR matrix or array; blocks share its memory."""

    feature_names = None

    def __init__(self, matrix: Any) -> None:
        check_dtype(matrix.dtype)
        check_shape(matrix.shape)
        rows = sp.csr_array(matrix)
        # Asked of the CSR array of the caller, which caches the answer.
        canonical = (matrix if matrix.format == "csr" else rows).has_canonical_format
        if not canonical:
            # Duplicate entries are summed; the matrix of the caller is not changed.
            rows = rows.copy()
            rows.sum_duplicates()
        if rows.nnz and not 0 <= rows.indices.min() <= rows.indices.max() < rows.shape[1]:
            # scipy does not check this; a kernel would write outside of its arrays.
            raise ValueError(
                f"the sparse data has column indices {rows.indices.min()} … {rows.indices.max()}, "
                f"but {rows.shape[1]} columns; its indices are damaged"
            )
        if (dtype := _computable(rows.dtype)) != rows.dtype:
            rows = rows.astype(dtype)
        self.rows = rows
        self.n_rows, self.n_features = rows.shape

    @property
    def block_rows(self) -> int:
        """A quarter of a partition, for any number of columns: nothing is copied or made dense."""
        return PARTITION_ROWS // 4

    def estimate_values(self) -> int:
        """32 per stored value: one costs the portable kernel as much as about 32 dense values."""
        return 32 * int(self.rows.nnz)

    def read(self, start: int, stop: int) -> sp.csr_array[Any]:
        """Return rows that share the memory of the matrix."""
        rows = self.rows
        first, last = rows.indptr[start], rows.indptr[stop]
        # Set one by one: the constructor copies what is a small part of a larger array.
        part = sp.csr_array((stop - start, self.n_features), dtype=rows.dtype)
        part.data, part.indices = rows.data[first:last], rows.indices[first:last]
        part.indptr = rows.indptr[start : stop + 1] - first
        return part

    def take(self, rows: IntArray) -> sp.csr_array[Any]:
        """Copy the requested rows."""
        return self.rows[rows]


def _computable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The nearest dtype that scipy can compute with."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")
