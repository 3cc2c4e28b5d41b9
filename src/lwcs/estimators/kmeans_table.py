"""A fitted CoresetKMeans as an Arrow table and back: what its Parquet file holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lwcs.divergences import Mahalanobis, as_divergence, from_saved
from lwcs.estimators.kmeans import CoresetKMeans
from lwcs.foundation.storage import with_metadata
from lwcs.foundation.tables import lay_out, listed, plain, points_of, vector
from lwcs.geometry import Geometry

KIND = "kmeans"


def to_table(model: CoresetKMeans) -> pa.Table:
    """Lay a model out: one row per center, in the units of the data."""
    centers, geometry = model.cluster_centers_, model.geometry_
    names = getattr(model, "feature_names_in_", None)
    columns, _ = lay_out({"cluster": np.arange(len(centers))}, centers, names)
    metadata = {
        "parameters": plain(model.get_params(deep=False)) | {"n_clusters": len(centers)},
        "inertia": float(model.inertia_),
        "n_iter": int(model.n_iter_),
        "scale": listed(geometry.scale),
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": centers.shape[1],
        "divergence": geometry.divergence.name,
        "divergence_parameters": geometry.divergence.saved_parameters(),
        "mean": listed(geometry.mean),
    }
    return with_metadata(pa.table(columns), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CoresetKMeans:
    """Read a model off its table."""
    try:
        names, d = metadata["feature_names"], int(metadata["n_features"])
        known = CoresetKMeans().get_params()
        parameters = {key: v for key, v in metadata["parameters"].items() if key in known}
        geometry = Geometry(
            from_saved(metadata["divergence"], metadata.get("divergence_parameters", {})),
            vector(metadata["scale"]),
            vector(metadata.get("mean")),
        )
        own: Any = geometry.divergence
        if not isinstance(own, Mahalanobis) and own == as_divergence(own.name):
            own = own.name
        model = CoresetKMeans(**parameters | {"divergence": own})
        fitted = {
            "cluster_centers_": points_of(table, names, d),
            "inertia_": float(metadata["inertia"]),
            "n_iter_": int(metadata["n_iter"]),
            "scale_": geometry.scale,
            "geometry_": geometry,
            "n_features_in_": d,
            "_n_features_out": len(table),
        }
        if names is not None:
            fitted["feature_names_in_"] = np.array(names, dtype=object)
        model.__dict__.update(fitted)
        return model
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged model file: {error}") from error
