"""A fitted CoresetKMeans as an Arrow table and back: what its Parquet file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.divergences import Mahalanobis, Measure, as_divergence, recalled
from lwcs.estimators.kmeans import CoresetKMeans
from lwcs.foundation.storage import with_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.foundation.types import FloatArray

KIND = "kmeans"
_CLUSTER = "cluster"


def to_table(model: CoresetKMeans) -> pa.Table:
    """Lay a model out: a row a center, in the units of the data."""
    centers = model.cluster_centers_
    names = getattr(model, "feature_names_in_", None)
    features = _features(names, centers.shape[1])
    column = _CLUSTER if _CLUSTER not in features else f"_{_CLUSTER}"
    columns = {column: pa.array(np.arange(len(centers)))}
    for j, feature in enumerate(features):
        columns[feature] = pa.array(np.ascontiguousarray(centers[:, j]))
    metadata = {
        "parameters": _plain(model.get_params(deep=False)) | {"n_clusters": len(centers)},
        "inertia": float(model.inertia_),
        "n_iter": int(model.n_iter_),
        "scale": None if model.scale_ is None else model.scale_.tolist(),
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": centers.shape[1],
        "divergence": model.measure_.divergence.name,
        "divergence_parameters": model.measure_.divergence.parameters(),
        "mean": None if model.measure_.mean is None else model.measure_.mean.tolist(),
    }
    return with_metadata(pa.table(columns), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CoresetKMeans:
    """Read a model off its table."""
    try:
        names, d = metadata["feature_names"], int(metadata["n_features"])
        columns = [table[feature].to_numpy() for feature in _features(names, d)]
        known = CoresetKMeans().get_params()
        parameters = {key: v for key, v in metadata["parameters"].items() if key in known}
        measure = Measure(
            recalled(metadata["divergence"], metadata.get("divergence_parameters", {})),
            _vector(metadata["scale"]),
            _vector(metadata.get("mean")),
        )
        own: Any = measure.divergence
        if not isinstance(own, Mahalanobis) and own == as_divergence(own.name):
            own = own.name
        model = CoresetKMeans(**parameters | {"divergence": own})
        fitted = {
            "cluster_centers_": np.stack(columns, axis=1),
            "inertia_": float(metadata["inertia"]),
            "n_iter_": int(metadata["n_iter"]),
            "scale_": measure.scale,
            "measure_": measure,
            "n_features_in_": d,
            "_n_features_out": len(table),
        }
        if names is not None:
            fitted["feature_names_in_"] = np.array(names, dtype=object)
        model.__dict__.update(fitted)
        return model
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged model file: {error}") from error


def _vector(values: list[float] | None) -> FloatArray | None:
    return None if values is None else np.array(values, dtype=np.float64)


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that JSON has words for; an init array or a sampler object has none."""
    plain = {n: v.item() if isinstance(v, np.generic) else v for n, v in parameters.items()}
    return {n: v for n, v in plain.items() if isinstance(v, str | int | float | bool | None)}


def _features(names: Sequence[str] | None, n_features: int) -> list[str]:
    return [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]
