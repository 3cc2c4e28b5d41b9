"""Operations on rows that are the same for dense and sparse containers, each written once.

Rows are NumPy arrays or scipy CSR arrays; `stack` takes rows on a device as well.
"""

from __future__ import annotations

from copy import copy
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.device import DeviceArray, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Mask, Rows


# Below this, the grid of `split_exactly` would underflow.
_TINY = 1e-280


def split_exactly(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split non-negative terms into a part whose sums are exact and a tiny rest.

    A sparse distance needs Σ terms over a row's zeros, computed as the sum over all columns
    less the sum over the row's non-zeros, which cancels where one column is large. The
    first part lies on a grid so coarse that no sum of it rounds, so it cancels exactly.
    """
    total = float(terms.sum())
    if not np.isfinite(total) or total < _TINY:
        return terms, np.zeros_like(terms)
    grid = 2.0 ** (np.ceil(np.log2(total)) - 51)
    coarse = np.rint(terms / grid) * grid
    return coarse, terms - coarse


def is_sparse(rows: object) -> bool:
    """Whether `rows` is a scipy sparse container; scipy is not imported to find out."""
    return any(base.__module__.startswith("scipy.sparse") for base in type(rows).__mro__)


def container(rows: Rows) -> str:
    """Return "sparse" or "dense", for messages and comparisons."""
    return "sparse" if is_sparse(rows) else "dense"


def stored_values(rows: Rows) -> DenseRows:
    """All stored values, without a copy where memory allows."""
    return np.asarray(rows.data if is_sparse(rows) else rows).reshape(-1)


def in_float64(rows: Rows) -> Rows:
    """Rows in float64; sparse rows share their indices with the given ones."""
    if is_sparse(rows):
        return with_values(rows, rows.data.astype(np.float64, copy=False))
    return rows.astype(np.float64, copy=False)


def with_values(rows: Rows, values: DenseRows) -> Rows:
    """Rows of the same shape and sparsity with other values."""
    if not is_sparse(rows):
        return values.reshape(rows.shape)
    other = type(rows)(rows.shape, dtype=values.dtype)
    # Attribute by attribute, since the constructor validates, and may copy, all of them.
    other.data, other.indices, other.indptr = values, rows.indices, rows.indptr
    return other


def row_numbers(rows: Any) -> IntArray:
    """The row of every stored value of sparse rows."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def place_of(rows: Rows, at: int) -> tuple[int, int]:
    """Row and column of the stored value number `at`."""
    if is_sparse(rows):
        row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
        return row, int(rows.indices[at])
    row, column = divmod(at, rows.shape[1])
    return int(row), int(column)


def row_sums(rows: Rows) -> FloatArray:
    """The sum of every row, in float64."""
    return np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()


def row_lengths(rows: Rows) -> FloatArray:
    """The Euclidean length of every row, in float64."""
    if is_sparse(rows):
        return np.sqrt(row_sums(rows.multiply(rows)))
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def largest_of(rows: Rows) -> float:
    """The largest absolute value, NaN if there is any, without a copy; −128 has none in int8."""
    values = stored_values(rows)
    with np.errstate(invalid="ignore"):
        low, high = float(values.min(initial=0)), float(values.max(initial=0))
    return float(np.maximum(-low, high))


def largest_of_rows(rows: Rows) -> FloatArray:
    """The largest absolute value of every row."""
    sizes = abs(rows).max(axis=1)
    return np.ravel(sizes.toarray() if is_sparse(sizes) else sizes).astype(np.float64)


def empty_rows(rows: Rows) -> IntArray:
    """Numbers of the rows that have no value other than zero."""
    if is_sparse(rows):
        there = np.bincount(row_numbers(rows)[rows.data != 0], minlength=rows.shape[0])
        return np.flatnonzero(there == 0)
    return np.flatnonzero(~(rows != 0).any(axis=1))


def first_implicit_zero(rows: Rows) -> tuple[int, int] | None:
    """Row and column of the first zero that sparse rows do not store, if there is one."""
    if not is_sparse(rows):
        return None
    short = np.flatnonzero(np.diff(rows.indptr) < rows.shape[1])
    if not len(short):
        return None
    row = int(short[0])
    there = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
    return row, int(np.setdiff1d(np.arange(rows.shape[1]), there)[0])


def divide_rows(rows: Rows, by: FloatArray) -> Rows:
    """Every row divided by its own number, in float64; rows with the number 0 are not changed."""
    each = np.where(by == 0.0, 1.0, by)
    # Values that are not finite are found later, by the sums of the result.
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(rows):
            return with_values(rows, rows.data / np.repeat(each, np.diff(rows.indptr)))
        return rows / each[:, None]


def as_dense(rows: Rows) -> FloatArray:
    """Rows as a dense float64 array."""
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


def some_columns(rows: Rows, columns: IntArray) -> DenseRows:
    """The values of a few columns."""
    return np.asarray(rows[:, columns].toarray() if is_sparse(rows) else rows[:, columns])


def scaled_by(rows: Rows, factors: FloatArray) -> Rows:
    """Rows times one factor per column, in float32 where that holds the rows."""
    kind = single_or_double(rows.dtype)
    by = factors.astype(kind)
    # Values that are not finite are found later.
    with np.errstate(invalid="ignore", over="ignore"):
        if is_sparse(rows):
            return with_values(rows, np.multiply(rows.data, by[rows.indices], dtype=kind))
        return np.multiply(rows, by, dtype=kind)


def scaled_around(rows: Rows, center: FloatArray, by: FloatArray) -> Rows:
    """(x − center)/by of dense rows, in float64; x/by of sparse ones, which stay sparse."""
    if is_sparse(rows):
        return with_values(rows, rows.data / by[rows.indices])
    return (np.asarray(rows, dtype=np.float64) - center) / by


def product_around(rows: Rows, center: FloatArray, matrix: FloatArray) -> FloatArray:
    """(x − center)·matrix of every row; sparse rows stay sparse."""
    if is_sparse(rows):
        return np.asarray(rows @ matrix) - center @ matrix
    return np.asarray(rows - center, dtype=np.float64) @ matrix


def weighted_moments(rows: Rows, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every column; infinite beyond the range of numbers."""
    parts = weights / weights.sum()
    if is_sparse(rows):
        return _sparse_moments(rows, parts)
    wide = np.asarray(rows, dtype=np.float64)
    # Around a row that counts: weighted means of equal values are then exact.
    first = wide[np.argmax(parts > 0.0)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = first + parts @ (wide - first)
        deviation = np.sqrt(parts @ (wide - mean) ** 2)
    return mean, np.nan_to_num(deviation, nan=0.0, posinf=np.inf)


def _sparse_moments(rows: Any, parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """As `weighted_moments`, with the parts of the rows in all weight."""
    columns, d = rows.indices, rows.shape[1]
    own, values = parts[row_numbers(rows)], rows.data.astype(np.float64)
    counts = own > 0.0
    # Columns without zeros around one of their values, as dense rows; others are around zero.
    full = np.bincount(columns[counts], minlength=d) == np.count_nonzero(parts)
    first = np.zeros(d)
    first[columns[counts]] = values[counts]
    first[~full] = 0.0
    zeros = np.maximum(1.0 - np.bincount(columns, own, d), 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean: FloatArray = first + np.bincount(columns, own * (values - first[columns]), d)
        squares = np.bincount(columns, own * np.square(values - mean[columns]), d)
        deviation = np.sqrt(squares + np.where(full, 0.0, zeros * np.square(mean)))
    return mean, np.nan_to_num(deviation, nan=0.0, posinf=np.inf)


def weighted_quantiles(values: FloatArray, weights: FloatArray, at: Sequence[float]) -> FloatArray:
    """Quantiles, also of every column: the smallest values with at least these parts of the weight.

    There is one row of the result per quantile.
    """
    order = np.argsort(values, axis=0, kind="stable")
    cumulative = np.cumsum(weights[order], axis=0)
    places = np.stack([(cumulative < part * cumulative[-1]).sum(axis=0) for part in at])
    chosen = np.take_along_axis(order, np.minimum(places, len(values) - 1), axis=0)
    return np.take_along_axis(values, chosen, axis=0)


def stack(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows, all dense or all sparse."""
    if len({is_sparse(part) for part in parts}) > 1:
        raise ValueError("some partitions are sparse and others are dense; make them all alike")
    if is_sparse(parts[0]):
        import scipy.sparse as sp

        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], DeviceArray):
        return joined(parts)
    return np.concatenate(parts)


def replace_rows(rows: Rows, at: IntArray, by: Rows) -> Rows:
    """Replace some of the rows; dense rows are changed in place."""
    if not is_sparse(rows):
        rows[at] = by
        return rows
    order = np.arange(rows.shape[0])
    order[at] = rows.shape[0] + np.arange(len(at))
    return stack([rows, by])[order]


def is_missing(rows: Rows) -> Mask:
    """The rows that have a NaN."""
    if rows.dtype.kind in "biu":
        return np.zeros(rows.shape[0], dtype=bool)
    if is_sparse(rows):
        return np.asarray(np.bincount(row_numbers(rows), np.isnan(rows.data), rows.shape[0]) > 0)
    return np.asarray(np.isnan(rows).any(axis=1))


def with_ones(rows: Rows, at: Mask) -> Rows:
    """Set all values of some rows to one, which is in the domain of every divergence."""
    if not at.any():
        return rows
    if is_sparse(rows):
        return with_values(rows, np.where(at[row_numbers(rows)], 1, rows.data).astype(rows.dtype))
    return np.where(at[:, None], np.ones((), dtype=rows.dtype), rows)


def component_arrays(rows: Rows) -> tuple[DenseRows, ...]:
    """The NumPy arrays that rows are made of."""
    return (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)


def frozen(rows: Rows) -> Rows:
    """Read-only rows: the given ones if their memory is read-only throughout, else a copy."""
    if all(map(_is_frozen, component_arrays(rows))):
        return rows
    own = rows.copy() if is_sparse(rows) else np.array(rows)
    for part in component_arrays(own):
        part.flags.writeable = False
    return own


def _is_frozen(array: Any) -> bool:
    """Whether an array is read-only, and so is every array that it is a view of."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        if array.base is None:
            return True
        array = array.base
    return False


def pieces(n_rows: int, step: int) -> Iterator[slice]:
    """Cut rows into slices of `step` rows, the last one shorter."""
    for start in range(0, n_rows, max(1, step)):
        yield slice(start, min(start + max(1, step), n_rows))


def sparse_pieces(indptr: IntArray, values: int) -> Iterator[slice]:
    """Cut sparse rows into slices of about `values` stored values, at least one row each."""
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + values, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield slice(start, stop)
        start = stop


def sparse_part(rows: Any, at: slice) -> Any:
    """A slice of sparse rows that shares their memory."""
    first, last = rows.indptr[at.start], rows.indptr[at.stop]
    part = copy(_no_rows(at.stop - at.start, rows.shape[1], rows.dtype))
    # Attribute by attribute, since the constructor copies small parts of larger arrays.
    part.data, part.indices = rows.data[first:last], rows.indices[first:last]
    part.indptr = rows.indptr[at.start : at.stop + 1] - first
    return part


@lru_cache(maxsize=8)
def _no_rows(n_rows: int, n_features: int, dtype: np.dtype[Any]) -> Any:
    """Rows of zeros to copy from: the constructor takes longer than a scan of some hundred rows."""
    import scipy.sparse as sp

    return sp.csr_array((n_rows, n_features), dtype=dtype)


def same_rows(one: Rows, other: Rows) -> bool:
    """Whether rows are equal to the last bit, in the same container and dtype."""
    if container(one) != container(other) or one.dtype != other.dtype or one.shape != other.shape:
        return False
    # Whether column numbers are int32 or int64 is not content.
    return all(map(np.array_equal, component_arrays(one), component_arrays(other)))


def count_distinct(rows: Rows) -> int:
    """Number of distinct rows."""
    if not is_sparse(rows):
        return len(np.unique(rows, axis=0))
    own = rows.copy()
    own.sum_duplicates()
    own.eliminate_zeros()
    cuts = zip(own.indptr, own.indptr[1:], strict=False)
    return len({(own.indices[i:j].tobytes(), own.data[i:j].tobytes()) for i, j in cuts})


NARROW = ("float16", "bfloat16", "int8", "uint8")
"""Types whose numbers float32 holds without rounding: their rows are computed with as float32."""


@cache
def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether float32 holds all numbers of a type that is no larger."""
    return dtype.name in NARROW


def is_real(dtype: np.dtype[Any]) -> bool:
    """Whether values are real numbers of at most 64 bits; NumPy does not know bfloat16 as such."""
    return is_narrow(dtype) or (dtype.kind in "biuf" and dtype.itemsize <= 8)


def single_or_double(dtype: npt.DTypeLike) -> type[np.float32] | type[np.float64]:
    """float32 for rows that it holds without rounding, else float64."""
    dtype = np.dtype(dtype)
    return np.float32 if dtype == np.float32 or is_narrow(dtype) else np.float64


def as_read(values: Any, dtype: npt.DTypeLike | None = None) -> DenseRows:
    """Values one after the other in memory, each at a multiple of its size."""
    found = np.ascontiguousarray(values, dtype=dtype)
    return found if found.flags.aligned else found.copy()


def as_floats(points: Rows) -> DenseRows:
    """A block in float32 or float64, row after row in memory."""
    return as_read(points, single_or_double(points.dtype))


def csr(points: Any) -> tuple[DenseRows, IntArray, IntArray]:
    """The three arrays of CSR rows."""
    return as_floats(points.data), _as_integers(points.indices), _as_integers(points.indptr)


def _as_integers(values: IntArray) -> IntArray:
    return as_read(values, values.dtype if values.dtype in (np.int32, np.int64) else np.int64)
