"""A coreset as an Arrow table and back: what its Parquet file holds.

Dense rows have one column a feature; sparse rows two list columns, the column numbers
and values of their non-zeros. The metadata names the columns that are not features, so
that a feature may be called `weight`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from lwcs.coreset import Coreset
from lwcs.foundation.storage import with_metadata
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray

KIND = "coreset"
_PLAIN = ("method", "divergence", "seed", "n_samples", "total_weight", "total_cost", "depth")


def to_table(coreset: Coreset) -> pa.Table:
    """Lay a coreset out as a table."""
    d = coreset.n_features
    features = list(coreset.feature_names or (f"x{j}" for j in range(d)))
    columns: dict[str, Any] = {}
    if is_sparse(coreset.points):
        points: Any = coreset.points
        taken = {"nonzero_columns", "nonzero_values"}
        offsets = pa.array(points.indptr, type=pa.int64())
        columns["nonzero_columns"] = pa.LargeListArray.from_arrays(
            offsets, pa.array(points.indices, type=pa.int32())
        )
        columns["nonzero_values"] = pa.LargeListArray.from_arrays(offsets, pa.array(points.data))
    else:
        taken = set(features)
        columns = {
            name: pa.array(np.ascontiguousarray(coreset.points[:, j]))
            for j, name in enumerate(features)
        }
    names = {role: _free(role, taken) for role in ("index", "weight", "count")}
    own = {
        names["index"]: pa.array(coreset.indices),
        names["weight"]: pa.array(coreset.weights),
        names["count"]: pa.array(coreset.counts),
    }
    metadata = {
        **{name: getattr(coreset, name) for name in _PLAIN},
        "mean": None if coreset.mean is None else coreset.mean.tolist(),
        "scale": None if coreset.scale is None else coreset.scale.tolist(),
        "feature_names": None if coreset.feature_names is None else list(coreset.feature_names),
        "n_features": d,
        "sparse": is_sparse(coreset.points),
        "columns": names,
    }
    return with_metadata(pa.table({**own, **columns}), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> Coreset:
    """Read a coreset off its table."""
    try:
        names, d = metadata["columns"], int(metadata["n_features"])
        feature_names = metadata["feature_names"]
        indices = _column(table, names["index"], np.int64)
        if metadata["sparse"]:
            points: Any = _sparse_points(table, d)
        else:
            columns = feature_names or [f"x{j}" for j in range(d)]
            points = np.stack([_column(table, column) for column in columns], axis=1)
        return Coreset(
            points=points,
            weights=_column(table, names["weight"], np.float64),
            indices=indices,
            counts=_column(table, names["count"], np.int64),
            mean=_vector(metadata["mean"]),
            scale=_vector(metadata["scale"]),
            feature_names=None if feature_names is None else tuple(feature_names),
            **{key: metadata[key] for key in _PLAIN},
        )
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged coreset file: {error}") from error


def _free(role: str, taken: set[str]) -> str:
    while role in taken:
        role = f"_{role}"
    return role


def _column(table: pa.Table, name: str, dtype: type | None = None) -> Any:
    values = table[name].to_numpy()
    if dtype is not None and values.dtype != dtype:
        raise ValueError(f"column {name!r} holds {values.dtype} instead of {np.dtype(dtype)}")
    return np.array(values)


def _sparse_points(table: pa.Table, n_features: int) -> sp.csr_array[Any]:
    columns = table["nonzero_columns"].combine_chunks()
    values = table["nonzero_values"].combine_chunks()
    parts = (
        np.array(values.flatten()),
        np.array(columns.flatten()),
        np.concatenate([[0], np.cumsum(columns.value_lengths().to_numpy())]),
    )
    return sp.csr_array(parts, shape=(len(table), n_features))


def _vector(values: list[float] | None) -> FloatArray | None:
    return None if values is None else np.array(values, dtype=np.float64)
