"""What the tables of models share: a row a cluster, columns of features, parameters as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.foundation.types import DenseRows, FloatArray


def feature_columns(names: Sequence[str] | None, n_features: int) -> list[str]:
    """The features' own names, or x0, x1, …."""
    return [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]


def lay_out(
    own: Mapping[str, Any], points: DenseRows, names: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Columns of a table, and what those that are no features are called; a feature comes first."""
    features = feature_columns(names, points.shape[1])
    called = {}
    for name in own:
        called[name] = name
        while called[name] in features:
            called[name] = f"_{called[name]}"
    columns = {called[name]: pa.array(values) for name, values in own.items()}
    for j, feature in enumerate(features):
        columns[feature] = pa.array(np.ascontiguousarray(points[:, j]))
    return columns, called


def points_of(table: pa.Table, names: Sequence[str] | None, n_features: int) -> DenseRows:
    """The features of a table, a row a cluster."""
    columns = [table[feature].to_numpy() for feature in feature_columns(names, n_features)]
    return np.stack(columns, axis=1)


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that JSON has words for; an init array or a sampler object has none."""
    found = {n: v.item() if isinstance(v, np.generic) else v for n, v in parameters.items()}
    return {n: v for n, v in found.items() if isinstance(v, str | int | float | bool | None)}


def vector(values: list[float] | None) -> FloatArray | None:
    """An array off JSON."""
    return None if values is None else np.array(values, dtype=np.float64)
