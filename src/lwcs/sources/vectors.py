"""Columns that hold a vector in every row, in the forms that Spark and Ray use.

These are lists, tensors (Ray), and the vectors of Spark ML, which are structs of a type, a size,
indices and values. They become Arrow lists of a fixed size, or a sparse array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.sources.arrow import Selection, numpy_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import scipy.sparse as sp

_SPARSE = 0
"""The type of a Spark vector that is sparse."""


def select(
    schema: pa.Schema,
    columns: Sequence[str] | str | None,
    weight: str | None,
    first: Callable[[str], Any],
) -> tuple[Selection, bool]:
    """Select columns; tell whether they are one column of sparse vectors.

    `first` fetches the first value of a column, or None if it has no rows: the length of vectors
    is not part of the schema.
    """
    known = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
    selection = Selection.of(known, columns, weight)
    if not selection.vector:
        return selection, False
    name, sparse = selection.columns[0], False
    kind = known.field(name).type
    if kind.list_size == 0:
        found = first(name)
        if found is None:
            raise ValueError(f"column {name!r} has no vector in any row; at least one is required")
        width, sparse = _look(found, name)
        at = known.get_field_index(name)
        known = known.set(at, pa.field(name, pa.list_(kind.value_type, width)))
        selection = Selection.of(known, columns, weight)
    return selection, sparse


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type of vectors as a list of a fixed size, 0 where the type does not tell it."""
    if _is_spark(kind):
        return pa.list_(pa.float64(), 0)
    if isinstance(kind, pa.BaseExtensionType) and hasattr(kind, "shape"):
        values = getattr(kind.storage_type, "value_type", pa.float64())
        known = kind.shape is not None and len(kind.shape) == 1 and kind.shape[0]
        return pa.list_(values, int(kind.shape[0]) if known else 0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_type, 0)
    return kind


def _is_spark(kind: pa.DataType) -> bool:
    wanted = {"type", "size", "indices", "values"}
    return pa.types.is_struct(kind) and {field.name for field in kind} == wanted


def _look(vector: Any, name: str) -> tuple[int, bool]:
    """Length of a vector, and whether it is sparse."""
    if isinstance(vector, dict):
        sparse = vector["type"] == _SPARSE
        return (vector["size"] if sparse else len(vector["values"])), sparse
    shape = np.shape(vector)
    if len(shape) != 1 or not shape[0]:
        raise ValueError(
            f"column {name!r} holds arrays of shape {shape}; pass vectors of shape (n_features,)"
        )
    return shape[0], False


def in_form(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """The selected columns of a batch, with vectors as lists; refuse columns that do not fit."""
    for name in selection.columns_to_read:
        if name not in batch.schema.names:
            raise ValueError(f"column {name!r} is missing, but other partitions have it")
    columns = []
    for name in selection.columns_to_read:
        column = batch.column(name)
        if selection.vector and name == selection.columns[0]:
            column = as_lists(column, len(selection.feature_names), name)
        elif pa.types.is_null(column.type):
            # A partition whose values are all missing does not know their type.
            column = column.cast(pa.float64())
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


def as_lists(column: Any, width: int, name: str) -> pa.Array:
    """A column of vectors as lists of a fixed size; missing vectors stay null."""
    if pa.types.is_fixed_size_list(column.type):
        _check_width(np.array([column.type.list_size]), width, name)
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        rows = np.asarray(column.to_numpy(zero_copy_only=False))
        if rows.dtype == object or rows.ndim != 2:
            raise ValueError(
                f"column {name!r} holds arrays of different shapes; pass vectors of length {width}"
            )
        _check_width(np.array([rows.shape[1]]), width, name)
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), width)
    if _is_spark(column.type):
        # Sparse vectors among dense ones are made dense.
        if not (column.field("type").to_numpy(zero_copy_only=False) == _SPARSE).any():
            return as_lists(_field(column, "values"), width, name)
        rows = as_csr(column.drop_null(), width, name).toarray()
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        whole = np.zeros((len(column), width))
        whole[there] = rows
        lists = pa.FixedSizeListArray.from_arrays(pa.array(whole.ravel()), width)
        return _with_nulls(lists, column)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise TypeError(f"column {name!r} holds {column.type}, not vectors of numbers")
    numpy_type(column.type.value_type, name)
    present = column.drop_null()
    _check_width(present.value_lengths().to_numpy(zero_copy_only=False), width, name)
    if not column.null_count:
        return pa.FixedSizeListArray.from_arrays(column.flatten(), width)
    # A missing vector has no values: it gets those of its neighbor, and stays null.
    at = np.cumsum(column.is_valid().to_numpy(zero_copy_only=False)) - 1
    taken = present.take(pa.array(np.maximum(at, 0))) if len(present) else None
    values = pa.nulls(len(column) * width, pa.float64()) if taken is None else taken.flatten()
    return _with_nulls(pa.FixedSizeListArray.from_arrays(values, width), column)


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


def as_csr(column: pa.StructArray, width: int, name: str) -> sp.csr_array[Any]:
    """Vectors of Spark ML, sparse and dense, as a CSR array; null vectors are empty rows."""
    import scipy.sparse as sp

    if not _is_spark(column.type):
        raise TypeError(f"column {name!r} holds {column.type}, not Spark ML vectors")
    there = column.is_valid().to_numpy(zero_copy_only=False)
    sparse = there & (column.field("type").to_numpy(zero_copy_only=False) == _SPARSE)
    values, indices = _field(column, "values"), _field(column, "indices")
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    sizes = column.field("size").fill_null(0).to_numpy(zero_copy_only=False)
    _check_width(np.where(sparse, sizes, lengths)[there].astype(np.int64), width, name)
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


def _check_width(lengths: Any, width: int, name: str) -> None:
    wrong = np.flatnonzero(lengths != width)
    if len(wrong):
        raise ValueError(
            f"column {name!r} holds a vector of length {lengths[wrong[0]]} where {width} is "
            "expected; all vectors must have the same length"
        )
