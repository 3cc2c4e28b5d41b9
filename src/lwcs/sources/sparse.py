"""Rows in scipy's CSR, never made dense; other sparse formats are converted first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from lwcs.sources.base import PARTITION_ROWS, LocalSource

if TYPE_CHECKING:
    from lwcs.foundation.types import IntArray


class SparseSource(LocalSource):
    """A CSR matrix or array; blocks share its memory."""

    feature_names = None

    def __init__(self, matrix: Any) -> None:
        if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
            raise TypeError(
                f"sparse data of dtype {matrix.dtype} cannot be clustered; pass real numbers"
            )
        if matrix.ndim != 2:
            raise ValueError(f"sparse data has shape {matrix.shape}; pass shape (rows, columns)")
        rows = sp.csr_array(matrix)
        # Asked of the caller's CSR, which remembers the answer.
        canonical = (matrix if matrix.format == "csr" else rows).has_canonical_format
        if not canonical:
            # Two entries for one place count as their sum; the caller's matrix stays as it is.
            rows = rows.copy()
            rows.sum_duplicates()
        if rows.nnz and not 0 <= rows.indices.min() <= rows.indices.max() < rows.shape[1]:
            # scipy does not look; a kernel would write outside of its arrays.
            raise ValueError(
                f"the sparse data names columns {rows.indices.min()} … {rows.indices.max()} but "
                f"has {rows.shape[1]}; its indices are damaged"
            )
        if (dtype := _computable(rows.dtype)) != rows.dtype:
            rows = rows.astype(dtype)
        self.rows = rows
        self.n_rows, self.n_features = rows.shape

    @property
    def block_rows(self) -> int:
        """A quarter of a partition: its memory is there already, and nothing is made dense."""
        return PARTITION_ROWS // 4

    @property
    def n_values(self) -> int:
        """The non-zeros; one that is scattered costs the portable kernel about 32 dense values."""
        return 32 * int(self.rows.nnz)

    def read(self, start: int, stop: int) -> sp.csr_array[Any]:
        """Share the memory of some rows."""
        rows = self.rows
        first, last = rows.indptr[start], rows.indptr[stop]
        # Set one by one: the constructor copies what is a small part of a larger array.
        part = sp.csr_array((stop - start, self.n_features), dtype=rows.dtype)
        part.data, part.indices = rows.data[first:last], rows.indices[first:last]
        part.indptr = rows.indptr[start : stop + 1] - first
        return part

    def take(self, rows: IntArray) -> sp.csr_array[Any]:
        """Copy the rows asked for."""
        return self.rows[rows]


def _computable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The nearest dtype that scipy computes with."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")
