"""Arrow tables of coresets, streams and models: their columns, checks of them, and a checksum.

The checksum covers names, types, values and nulls. It does not depend on how Arrow lays out a
table: chunks, slices, dictionaries and the width of offsets differ between programs.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.arrays.rows import is_sparse

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Rows

    Digest = Any

SPARSE_COLUMNS = ("nonzero_columns", "nonzero_values")


def feature_columns(names: Sequence[str] | None, n_features: int) -> list[str]:
    """The names of the features, or x0, x1, …."""
    return [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]


def point_columns(points: Rows, names: Sequence[str] | None) -> dict[str, Any]:
    """Rows as columns: one per feature, or for sparse rows two columns of lists."""
    if is_sparse(points):
        offsets = pa.array(points.indptr, type=pa.int64())
        numbers = pa.array(points.indices, type=pa.int32())
        lists = (numbers, pa.array(points.data))
        return {
            name: pa.LargeListArray.from_arrays(offsets, values)
            for name, values in zip(SPARSE_COLUMNS, lists, strict=True)
        }
    features = feature_columns(names, points.shape[1])
    return {name: pa.array(np.ascontiguousarray(points[:, j])) for j, name in enumerate(features)}


def lay_out(
    own: Mapping[str, Any], points: Rows, names: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Columns of a table, and the names of its `own` ones, which differ from those of features."""
    features = point_columns(points, names)
    renamed = {name: apart_from(features, name) for name in own}
    return {renamed[name]: pa.array(values) for name, values in own.items()} | features, renamed


def apart_from(features: Collection[str], name: str) -> str:
    """The name of a column that is not a feature, with underscores if a feature has that name."""
    while name in features:
        name = f"_{name}"
    return name


def check_columns(table: pa.Table, wanted: Sequence[str]) -> None:
    """Refuse a table that does not have exactly these columns."""
    found = table.column_names
    if len(found) == len(wanted) and set(found) == set(wanted):
        return
    for name in wanted:
        if name not in found:
            raise ValueError(f"column {name!r} is missing")
    known = set(wanted)
    odd = next((name for name in found if name not in known), None)
    if odd is not None:
        raise ValueError(f"column {odd!r} does not belong there")
    raise ValueError("some columns have the same name")


def check_dense_columns(table: pa.Table, own: int, n_features: int) -> None:
    """Refuse a number of features other than that of the columns, before it is used."""
    if table.num_columns - own != n_features:
        raise ValueError(
            f"field 'n_features' is {n_features}, must be {table.num_columns - own}, the number of "
            "columns that hold features"
        )


def points_of(table: pa.Table, names: Sequence[str] | None, n_features: int) -> DenseRows:
    """The features of a table of dense rows: finite numbers, all of the same type."""
    features = feature_columns(names, n_features)
    # By number: pyarrow finds a column by its name in time proportional to their number.
    numbers = {name: j for j, name in enumerate(table.column_names)}
    for feature in features:
        if feature not in numbers:
            raise ValueError(f"column {feature!r} is missing")
    columns = [numbers_of(table.column(numbers[feature]), feature) for feature in features]
    for feature, column in zip(features, columns, strict=True):
        if column.dtype != columns[0].dtype:
            raise ValueError(
                f"column {feature!r} holds {column.dtype}, must be {columns[0].dtype} as in "
                f"column {features[0]!r}"
            )
    return np.stack(columns, axis=1)


def sparse_points_of(table: pa.Table, n_features: int) -> Any:
    """The features of a table of sparse rows; column numbers are checked, since kernels do not."""
    import scipy.sparse as sp

    lists = {}
    for name in SPARSE_COLUMNS:
        whole = table[name].combine_chunks()
        if not (pa.types.is_list(whole.type) or pa.types.is_large_list(whole.type)):
            raise ValueError(f"column {name!r} holds {whole.type}, must be lists of numbers")
        if whole.null_count:
            raise ValueError(f"column {name!r} has a null, must be a list in every row")
        lists[name] = whole
    columns, values = lists.values()
    lengths = columns.value_lengths().to_numpy()
    if not np.array_equal(lengths, values.value_lengths().to_numpy()):
        raise ValueError(
            f"columns {SPARSE_COLUMNS[0]!r} and {SPARSE_COLUMNS[1]!r} have lists of different "
            "lengths in the same row"
        )
    data = numbers_of(values.flatten(), SPARSE_COLUMNS[1])
    indices = numbers_of(columns.flatten(), SPARSE_COLUMNS[0], np.int32)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    _check_sparse_indices(indices, indptr, n_features)
    return sp.csr_array((data, indices, indptr), shape=(len(table), n_features))


def _check_sparse_indices(indices: IntArray, indptr: IntArray, n_features: int) -> None:
    """Refuse column numbers of sparse rows that are out of range, or out of order in a row."""
    name = SPARSE_COLUMNS[0]
    if len(indices) and not 0 <= indices.min() <= indices.max() < n_features:
        raise ValueError(
            f"column {name!r} holds column numbers {indices.min()} to {indices.max()}, must be "
            f"from 0 to {n_features - 1}"
        )
    is_first = np.zeros(len(indices) + 1, dtype=bool)
    is_first[indptr] = True
    if not ((np.diff(indices) > 0) | is_first[1:-1]).all():
        raise ValueError(f"column {name!r} has column numbers that are not in increasing order")


def column_of(table: pa.Table, name: str, dtype: type | None = None) -> DenseRows:
    """A column as an array of finite numbers, which must have a dtype if one is given."""
    return numbers_of(_existing(table, name), name, dtype)


def _existing(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise ValueError(f"column {name!r} is missing")
    return table[name]


def numbers_of(column: pa.Array, name: str, dtype: type | None = None) -> DenseRows:
    """The finite numbers of a column, without nulls."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"column {name!r} holds {kind}, must be numbers")
    _check_no_nulls(column, name)
    values = np.array(column.to_numpy())
    if dtype is not None and values.dtype != dtype:
        raise ValueError(f"column {name!r} holds {values.dtype}, must be {np.dtype(dtype)}")
    check_numbers(values, name)
    return values


def _check_no_nulls(column: pa.Array, name: str) -> None:
    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count:,} nulls, must have none")


def check_numbers(values: DenseRows, name: str, least: float = -np.inf) -> None:
    """Refuse values of a column that are not finite or too small."""
    bad = ~(np.isfinite(values) & (values >= least))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        bound = "finite" if least == -np.inf else f"finite and >= {least:g}"
        raise ValueError(f"column {name!r} has {values[row]} in row {row}, must be {bound}")


def check_weights_of(weights: FloatArray, name: str) -> None:
    """Refuse weights if any is negative or none is positive."""
    check_numbers(weights, name, 0.0)
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not 0.0 < total < np.inf:
        raise ValueError(f"column {name!r} sums to {total:g}, must be a finite sum > 0")


def check_indices(indices: IntArray, name: str, stop: int) -> None:
    """Refuse row numbers that are out of range, or not in increasing order."""
    if not len(indices):
        return
    if not 0 <= indices.min() <= indices.max() < stop:
        raise ValueError(
            f"column {name!r} holds {indices.min()} to {indices.max()}, must be row numbers from "
            f"0 to {stop - 1}"
        )
    if (np.diff(indices) <= 0).any():
        raise ValueError(f"column {name!r} holds row numbers that are not in increasing order")


def texts_of(table: pa.Table, name: str) -> list[str]:
    """The texts of a column, without nulls."""
    column = _existing(table, name)
    if not _is_text(column.type):
        raise ValueError(f"column {name!r} holds {column.type}, must be texts")
    _check_no_nulls(column, name)
    return list(column.to_pylist())


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that JSON can hold; an init array or a sampler object are left out."""
    found = {n: v.item() if isinstance(v, np.generic) else v for n, v in parameters.items()}
    return {n: v for n, v in found.items() if isinstance(v, str | int | float | bool | None)}


def listed(values: FloatArray | None) -> list[float] | None:
    """An array for JSON."""
    return None if values is None else list(values.tolist())


def checksum(table: pa.Table, metadata: Mapping[str, Any]) -> str:
    """SHA-256 of the metadata as canonical JSON and of every column, in hexadecimal digits."""
    digest = hashlib.sha256()
    # Sorted and without spaces, so that only the values count.
    text = json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest.update(text.encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(json.dumps(name).encode())
        whole = column.combine_chunks()
        _add(
            digest, pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        )
    return digest.hexdigest()


def _add(digest: Digest, array: pa.Array) -> None:
    """Add the type, the length, the nulls and the values of an array to a digest."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        _add(digest, array.dictionary_decode())
        return
    digest.update(f"{_label(kind)}:{len(array)}:{array.null_count}:".encode())
    if array.null_count:
        digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
        array = array.drop_null()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        digest.update(array.value_lengths().to_numpy().astype("<i8").tobytes())
        _add(digest, array.flatten())
    elif _is_text(kind):
        texts = array.cast(pa.large_binary())
        _, offsets, values = texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        digest.update((ends - ends[0]).astype("<i8").tobytes())
        if values is not None:
            digest.update(memoryview(values)[int(ends[0]) : int(ends[-1])])
    elif pa.types.is_primitive(kind):
        values = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
        digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
    else:
        # No column of lwcs has such a type, which a reader refuses later with its name.
        digest.update(repr(array.to_pylist()).encode(errors="surrogatepass"))


def _label(kind: pa.DataType) -> str:
    """The name of a type, without the width of its offsets."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_label(kind.value_type)}>"
    return "string" if _is_text(kind) else str(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
