"""Arrow record batches as rows of numbers: columns of numbers and of vectors, and missing values.

Files and engines have vectors in several forms: lists, tensors (Ray), and the vectors of Spark ML,
which are structs of a type, a size, indices and values. They become Arrow lists of a fixed size, or
a sparse array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwcs.arrays.rows import row_numbers
from lwcs.kernels import choose, named
from lwcs.sources.column_types import (
    SPARSE,
    content_of,
    days_of,
    is_list,
    is_spark_vector,
    numbers_of,
    numpy_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import scipy.sparse as sp

    from lwcs.arrays.types import DenseRows, FloatArray, Mask
    from lwcs.sources.columns import Selection


def first_values(batches: Iterable[pa.RecordBatch], name: str) -> list[Any]:
    """Values of a column, from the first batch where any is not missing."""
    for batch in batches:
        present = batch.column(name).drop_null()
        if len(present):
            return present.slice(0, _LOOK).to_pylist()
    return []


_LOOK = 1000
"""Number of values that are enough to see whether lists have one length."""


@dataclass(slots=True)
class ArrowBatch:
    """A record batch whose columns are copied into rows; columns that do not fit are refused."""

    batch: pa.RecordBatch
    selection: Selection
    drop: bool
    place: str
    first_row: int
    """Row number of the first row in the file or partition that `place` names."""
    beside: pa.RecordBatch | None = None
    sparse: bool = False
    """Whether vectors of Spark ML stay as they are, for `as_csr`."""

    def __post_init__(self) -> None:
        if not self.sparse:
            self.batch = in_form(self.batch, self.selection, self.place, self.first_row)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    @property
    def _where(self) -> str:
        return f" of {self.place}" if self.place else ""

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy columns into rows."""
        selection = self.selection
        if not any(selection.widths):
            named(choose()).as_rows(
                [self._values(name, start, stop) for name in selection.columns], out
            )
            return
        for name, width, part in selection.places():
            out[:, part.start if width is None else part] = self._values(name, start, stop)

    def _values(self, name: str, start: int, stop: int) -> DenseRows:
        """Some values of a column; an error, or zeros, for missing ones."""
        column = self.batch.column(name).slice(start, stop - start)
        if has_nulls(column):
            self._refuse(missing_in(column), name, start)
        values = values_in(column)
        self.selection.note(name, values)
        return values

    def _refuse(self, gaps: Mask, name: str, start: int) -> None:
        """Name the first row that has a missing value, unless such rows are dropped."""
        if self.drop:
            return
        row = int(np.flatnonzero(gaps)[0])
        for other in self.selection.columns_to_read:
            # The first row of all, not that of the first column.
            before = missing_in(self.batch.column(other).slice(start, row))
            if before.any():
                name, row = other, int(np.flatnonzero(before)[0])
        raise ValueError(
            f"column {name!r} has a missing value in row {self.first_row + start + row}"
            f"{self._where}; "
            "values must be present and finite: fill the missing values, or drop such rows with "
            "lwcs.scan(…, missing='drop')"
        )

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """The column of weights, checked."""
        name = self.selection.weight
        if name is None:
            return None
        values = self._values(name, start, stop).astype(np.float64)
        if self.drop:
            values = np.where(np.isnan(values), 0.0, values)
        bad = np.flatnonzero(~((values >= 0.0) & (values < np.inf)))
        if len(bad):
            raise ValueError(
                f"the weight in row {self.first_row + start + int(bad[0])}, column {name!r}"
                f"{self._where} is {values[bad[0]]}; every weight must be finite and >= 0"
            )
        return values

    def missing_sparse(self, vectors: sp.csr_array[Any]) -> Mask:
        """Rows with a null or NaN among the features or the weight, for vectors in CSR format."""
        name, weight = self.selection.columns[0], self.selection.weight
        gaps = missing_in(self.batch.column(name))
        if gaps.any():
            self._refuse(gaps, name, 0)
        if not self.drop:
            return gaps
        gaps |= np.bincount(row_numbers(vectors), np.isnan(vectors.data), self.n_rows) > 0
        return gaps if weight is None else gaps | missing_in(self.batch.column(weight), nan=True)

    def missing(self, start: int, stop: int) -> Mask | None:
        """Rows with a null or NaN among the features or the weight, if they are dropped."""
        if not self.drop:
            return None
        gaps = np.zeros(stop - start, dtype=bool)
        for name in self.selection.columns_to_read:
            gaps |= missing_in(self.batch.column(name).slice(start, stop - start), nan=True)
        return gaps if gaps.any() else None


def elements_of(vectors: pa.FixedSizeListArray) -> pa.Array:
    """The numbers of all vectors, also of missing ones, which `flatten` leaves out."""
    width = vectors.type.list_size
    return vectors.values.slice(vectors.offset * width, len(vectors) * width)


def values_in(column: pa.Array) -> DenseRows:
    """The numbers of a column, one row per vector where it has vectors; 0 for nulls."""
    if pa.types.is_fixed_size_list(column.type):
        return numbers_of(elements_of(column)).reshape(-1, column.type.list_size)
    return numbers_of(column)


def has_nulls(column: pa.Array) -> bool:
    """Whether there is a null in a column, or in one of its vectors."""
    inside = pa.types.is_fixed_size_list(column.type) and elements_of(column).null_count
    return bool(column.null_count or inside)


def missing_in(column: pa.Array, *, nan: bool = False) -> Mask:
    """Rows with a null in a column or in one of its vectors; with `nan`, also with a NaN."""
    if pa.types.is_fixed_size_list(column.type):
        inside = missing_in(elements_of(column), nan=nan).reshape(-1, column.type.list_size)
        return inside.any(axis=1) | column.is_null().to_numpy(zero_copy_only=False)
    if not (column.null_count or (nan and pa.types.is_floating(column.type))):
        return np.zeros(len(column), dtype=bool)
    return np.array(pc.is_null(column, nan_is_null=nan).to_numpy(zero_copy_only=False))


def in_form(
    batch: pa.RecordBatch, selection: Selection, place: str = "", first_row: int = 0
) -> pa.RecordBatch:
    """Select columns of a batch, with vectors as lists; refuse columns that do not fit.

    Messages number rows from `first_row` on, in `place`.
    """
    there = set(batch.schema.names)
    for name in selection.columns_to_read:
        if name not in there:
            raise ValueError(f"column {name!r} is missing, but other partitions have it")
    columns = []
    widths = dict(zip(selection.columns, selection.widths, strict=True))
    for name in selection.columns_to_read:
        column, width = batch.column(name), widths.get(name)
        if width is not None:
            column = as_lists(column, width, name, place, first_row)
        elif pa.types.is_null(column.type):
            # A partition whose values are all missing does not know their type.
            column = column.cast(pa.float64())
        elif name in selection.dates:
            column = days_of(column)
        elif name != selection.weight:
            found = numpy_type(column.type, name)
            if not np.can_cast(found, selection.dtype, "safe"):
                raise TypeError(
                    f"column {name!r} holds {column.type} here, which does not fit into "
                    f"{selection.dtype}; cast it to the same type in all partitions"
                )
        else:
            numpy_type(column.type, name)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=selection.columns_to_read)


def as_lists(
    column: Any, width: int, name: str, place: str = "", first_row: int = 0
) -> pa.FixedSizeListArray:
    """Convert a column of vectors to lists of a fixed size; missing vectors stay null."""
    where = _VectorLength(width, name, place, first_row)
    if pa.types.is_fixed_size_list(column.type):
        where.check(np.array([column.type.list_size]))
        return column
    if isinstance(column.type, pa.FixedShapeTensorType):
        return as_lists(column.storage, width, name, place, first_row)
    if isinstance(column.type, pa.BaseExtensionType):
        rows = np.asarray(column.to_numpy(zero_copy_only=False))
        if rows.dtype == object or rows.ndim != 2:
            raise ValueError(
                f"column {name!r} holds arrays of different shapes; pass vectors of length {width}"
            )
        where.check(np.array([rows.shape[1]]))
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), width)
    if is_spark_vector(column.type):
        # Sparse vectors among dense ones are made dense.
        if not (column.field("type").to_numpy(zero_copy_only=False) == SPARSE).any():
            return as_lists(_field(column, "values"), width, name, place, first_row)
        rows = as_csr(column, width, name, place, first_row).toarray()
        lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), width)
        return _with_nulls(lists, column)
    if not is_list(column.type):
        raise TypeError(f"column {name!r} holds {content_of(column.type)}, not vectors of numbers")
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        column = _in_order(column)
    numpy_type(column.type.value_type, name)
    where.check(column.value_lengths())
    if not column.null_count:
        return pa.FixedSizeListArray.from_arrays(column.flatten(), width)
    # A missing vector has no values: it gets those of its neighbor, and stays null.
    present = column.drop_null()
    at = np.cumsum(column.is_valid().to_numpy(zero_copy_only=False)) - 1
    taken = present.take(pa.array(np.maximum(at, 0))) if len(present) else None
    values = (
        pa.nulls(len(column) * width, column.type.value_type) if taken is None else taken.flatten()
    )
    return _with_nulls(pa.FixedSizeListArray.from_arrays(values, width), column)


def _in_order(views: Any) -> pa.LargeListArray:
    """Convert list views to lists; pyarrow's own cast reads past the end of their offsets."""
    gaps = views.is_null()
    sizes = np.where(gaps.to_numpy(zero_copy_only=False), 0, views.sizes.to_numpy())
    ends = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
    return pa.LargeListArray.from_arrays(ends, views.flatten(), mask=gaps)


def _field(column: pa.StructArray, name: str) -> pa.Array:
    """A field of structs, null where the struct is null."""
    values = column.field(name)
    if not column.null_count:
        return values
    import pyarrow.compute as pc

    return pc.if_else(column.is_valid(), values, pa.nulls(len(column), values.type))


def _with_nulls(lists: pa.FixedSizeListArray, column: pa.Array) -> pa.Array:
    if not column.null_count:
        return lists
    gaps = column.is_null()
    return pa.FixedSizeListArray.from_arrays(lists.values, lists.type.list_size, mask=gaps)


def as_csr(
    column: pa.StructArray, width: int, name: str, place: str = "", first_row: int = 0
) -> sp.csr_array[Any]:
    """Convert vectors of Spark ML, sparse and dense, to a CSR array; nulls become empty rows."""
    import scipy.sparse as sp

    if not is_spark_vector(column.type):
        raise TypeError(f"column {name!r} holds {content_of(column.type)}, not Spark ML vectors")
    there = column.is_valid().to_numpy(zero_copy_only=False)
    sparse = there & (column.field("type").to_numpy(zero_copy_only=False) == SPARSE)
    values, indices = _field(column, "values"), _field(column, "indices")
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    sizes = column.field("size").fill_null(0).to_numpy(zero_copy_only=False)
    found = np.where(there, np.where(sparse, sizes, lengths), width)
    _VectorLength(width, name, place, first_row).check(found.astype(np.int64))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    places = np.empty(indptr[-1], dtype=np.int32)
    of_sparse = np.repeat(sparse, lengths)
    of_indices = indices.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if (of_indices != lengths)[sparse].any() or indices.flatten().null_count:
        raise ValueError(f"column {name!r} holds a sparse vector with more values than indices")
    places[of_sparse] = indices.filter(pa.array(sparse)).flatten().to_numpy(zero_copy_only=False)
    dense = int((there & ~sparse).sum())
    places[~of_sparse] = np.tile(np.arange(width, dtype=np.int32), dense)
    # As unsigned numbers, negative indices are the largest.
    if len(places) and places.view(np.uint32).max() >= width:
        raise ValueError(
            f"column {name!r} holds a sparse vector with indices from {places.min()} to "
            f"{places.max()}, but of length {width}"
        )
    data = values.flatten().to_numpy(zero_copy_only=False, writable=True)
    return sp.csr_array((data, places, indptr), shape=(len(column), width))


@dataclass(frozen=True, slots=True)
class _VectorLength:
    """The length that vectors of a column must have, and how to name rows that differ."""

    width: int
    name: str
    place: str
    first_row: int

    def check(self, lengths: Any) -> None:
        """Refuse vectors of other lengths; a missing length is that of a missing vector."""
        if not isinstance(lengths, np.ndarray):
            lengths = lengths.fill_null(self.width).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != self.width)
        if len(wrong):
            where = f" of {self.place}" if self.place else ""
            raise ValueError(
                f"column {self.name!r} holds a vector of length {lengths[wrong[0]]} in row "
                f"{self.first_row + int(wrong[0])}{where}, where {self.width} is expected; all "
                "vectors must have the same length"
            )
