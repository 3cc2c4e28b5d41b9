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
from lwcs.divergences import recalled
from lwcs.foundation.storage import with_metadata
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray

KIND = "coreset"
_PLAIN = ("method", "seed", "n_samples", "total_weight", "total_cost", "depth")


def to_table(coreset: Coreset) -> pa.Table:
    """Lay a coreset out as a table."""
    features = point_columns(coreset.points, coreset.feature_names)
    names = {role: _free(role, set(features)) for role in ("index", "weight", "count")}
    own = {
        names["index"]: pa.array(coreset.indices),
        names["weight"]: pa.array(coreset.weights),
        names["count"]: pa.array(coreset.counts),
    }
    metadata = {**describe(coreset), "columns": names}
    return with_metadata(pa.table({**own, **features}), KIND, metadata)


def describe(coreset: Coreset) -> dict[str, Any]:
    """Everything of a coreset but its rows, as JSON has it."""
    return {
        **{name: getattr(coreset, name) for name in _PLAIN},
        "divergence": coreset.divergence.name,
        "divergence_parameters": coreset.divergence.remembered(),
        "mean": None if coreset.mean is None else coreset.mean.tolist(),
        "scale": None if coreset.scale is None else coreset.scale.tolist(),
        "feature_names": None if coreset.feature_names is None else list(coreset.feature_names),
        "n_features": coreset.n_features,
        "sparse": is_sparse(coreset.points),
        "details": dict(coreset.details),
    }


def point_columns(points: Any, feature_names: tuple[str, ...] | None) -> dict[str, Any]:
    """Rows as columns: one a feature, or two of lists for sparse rows."""
    if is_sparse(points):
        offsets = pa.array(points.indptr, type=pa.int64())
        numbers = pa.array(points.indices, type=pa.int32())
        return {
            "nonzero_columns": pa.LargeListArray.from_arrays(offsets, numbers),
            "nonzero_values": pa.LargeListArray.from_arrays(offsets, pa.array(points.data)),
        }
    features = feature_names or [f"x{j}" for j in range(points.shape[1])]
    return {name: pa.array(np.ascontiguousarray(points[:, j])) for j, name in enumerate(features)}


def read_points(table: pa.Table, metadata: dict[str, Any]) -> Any:
    """Rows off their columns."""
    d = int(metadata["n_features"])
    if metadata["sparse"]:
        return _sparse_points(table, d)
    columns = metadata["feature_names"] or [f"x{j}" for j in range(d)]
    return np.stack([_column(table, column) for column in columns], axis=1)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> Coreset:
    """Read a coreset off its table."""
    try:
        names = metadata["columns"]
        return assemble(
            metadata,
            read_points(table, metadata),
            weights=_column(table, names["weight"], np.float64),
            indices=_column(table, names["index"], np.int64),
            counts=_column(table, names["count"], np.int64),
        )
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged coreset file: {error}") from error


def assemble(metadata: dict[str, Any], points: Any, **columns: Any) -> Coreset:
    """Put a coreset together from its rows and what `describe` said of it."""
    feature_names = metadata["feature_names"]
    return Coreset(
        points=points,
        mean=_vector(metadata["mean"]),
        scale=_vector(metadata["scale"]),
        feature_names=None if feature_names is None else tuple(feature_names),
        details=dict(metadata.get("details", {})),
        divergence=recalled(metadata["divergence"], metadata.get("divergence_parameters", {})),
        **columns,
        **{key: metadata[key] for key in _PLAIN},
    )


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
