"""What the tables of coresets, streams and models share: feature columns, own columns, JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.foundation.types import DenseRows, FloatArray, Rows


def feature_columns(names: Sequence[str] | None, n_features: int) -> list[str]:
    """The names of the features, or x0, x1, …."""
    return [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]


def point_columns(points: Rows, names: Sequence[str] | None) -> dict[str, Any]:
    """Rows as columns: one per feature, or for sparse rows two columns of lists."""
    if is_sparse(points):
        offsets = pa.array(points.indptr, type=pa.int64())
        numbers = pa.array(points.indices, type=pa.int32())
        return {
            "nonzero_columns": pa.LargeListArray.from_arrays(offsets, numbers),
            "nonzero_values": pa.LargeListArray.from_arrays(offsets, pa.array(points.data)),
        }
    features = feature_columns(names, points.shape[1])
    return {name: pa.array(np.ascontiguousarray(points[:, j])) for j, name in enumerate(features)}


def lay_out(
    own: Mapping[str, Any], points: Rows, names: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Columns of a table, and the names of those that are not features; features keep theirs."""
    features, called = point_columns(points, names), {}
    for name in own:
        called[name] = name
        while called[name] in features:
            called[name] = f"_{called[name]}"
    return {called[name]: pa.array(values) for name, values in own.items()} | features, called


def points_of(table: pa.Table, names: Sequence[str] | None, n_features: int) -> DenseRows:
    """The features of a table of dense rows."""
    columns = [column_of(table, feature) for feature in feature_columns(names, n_features)]
    return np.stack(columns, axis=1)


def sparse_points_of(table: pa.Table, n_features: int) -> Any:
    """The features of a table of sparse rows."""
    import scipy.sparse as sp

    columns = table["nonzero_columns"].combine_chunks()
    values = table["nonzero_values"].combine_chunks()
    parts = (
        np.array(values.flatten()),
        np.array(columns.flatten()),
        np.concatenate([[0], np.cumsum(columns.value_lengths().to_numpy())]),
    )
    return sp.csr_array(parts, shape=(len(table), n_features))


def column_of(table: pa.Table, name: str, dtype: type | None = None) -> DenseRows:
    """A column as an array, which must have a dtype if one is given."""
    values = table[name].to_numpy()
    if dtype is not None and values.dtype != dtype:
        raise ValueError(f"column {name!r} holds {values.dtype} instead of {np.dtype(dtype)}")
    return np.array(values)


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that JSON can hold; an init array or a sampler object are left out."""
    found = {n: v.item() if isinstance(v, np.generic) else v for n, v in parameters.items()}
    return {n: v for n, v in found.items() if isinstance(v, str | int | float | bool | None)}


def listed(values: FloatArray | None) -> list[float] | None:
    """An array for JSON."""
    return None if values is None else list(values.tolist())


def vector(values: list[float] | None) -> FloatArray | None:
    """An array from JSON."""
    return None if values is None else np.array(values, dtype=np.float64)
