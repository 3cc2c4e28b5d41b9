"""A coreset as an Arrow table and back: what its Parquet file holds.

Dense rows have one column per feature; sparse rows two list columns, the column numbers
and values of their non-zeros. The metadata names the columns that are not features, so
that a feature may be called `weight`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lwcs.coreset import Coreset
from lwcs.divergences import from_saved
from lwcs.foundation.rows import container
from lwcs.foundation.storage import with_metadata
from lwcs.foundation.tables import (
    column_of,
    lay_out,
    listed,
    points_of,
    sparse_points_of,
    vector,
)

KIND = "coreset"
_PLAIN = ("method", "seed", "n_samples", "total_weight", "total_cost", "depth")


def to_table(coreset: Coreset) -> pa.Table:
    """Lay a coreset out as a table."""
    own = {"index": coreset.indices, "weight": coreset.weights, "count": coreset.counts}
    columns, called = lay_out(own, coreset.points, coreset.feature_names)
    metadata = {**describe(coreset), "columns": called}
    return with_metadata(pa.table(columns), KIND, metadata)


def describe(coreset: Coreset) -> dict[str, Any]:
    """Everything of a coreset but its rows, as JSON can hold it."""
    return {
        **{name: getattr(coreset, name) for name in _PLAIN},
        "divergence": coreset.divergence.name,
        "divergence_parameters": coreset.divergence.saved_parameters(),
        "mean": listed(coreset.mean),
        "scale": listed(coreset.scale),
        "feature_names": None if coreset.feature_names is None else list(coreset.feature_names),
        "n_features": coreset.n_features,
        "sparse": container(coreset.points) == "sparse",
        "details": dict(coreset.details),
    }


def read_points(table: pa.Table, metadata: dict[str, Any]) -> Any:
    """Rows off their columns."""
    d = int(metadata["n_features"])
    if metadata["sparse"]:
        return sparse_points_of(table, d)
    return points_of(table, metadata["feature_names"], d)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> Coreset:
    """Read a coreset off its table."""
    try:
        names = metadata["columns"]
        return assemble(
            metadata,
            read_points(table, metadata),
            weights=column_of(table, names["weight"], np.float64),
            indices=column_of(table, names["index"], np.int64),
            counts=column_of(table, names["count"], np.int64),
        )
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged coreset file: {error}") from error


def assemble(metadata: dict[str, Any], points: Any, **columns: Any) -> Coreset:
    """Put a coreset together from its rows and what `describe` said of it."""
    feature_names = metadata["feature_names"]
    return Coreset(
        points=points,
        mean=vector(metadata["mean"]),
        scale=vector(metadata["scale"]),
        feature_names=None if feature_names is None else tuple(feature_names),
        details=dict(metadata.get("details", {})),
        divergence=from_saved(metadata["divergence"], metadata.get("divergence_parameters", {})),
        **columns,
        **{key: metadata[key] for key in _PLAIN},
    )
