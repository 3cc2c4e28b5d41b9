"""A fitted CoresetKMeans as an Arrow table and back, which is what its Parquet file contains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.coreset.io import read_divergence
from lwcs.divergences import Mahalanobis, as_divergence
from lwcs.estimators.coreset_kmeans import CoresetKMeans
from lwcs.estimators.model_io import check_numbering, common_metadata, read_common, read_parameters
from lwcs.estimators.validation import check_parameters
from lwcs.geometry import Geometry
from lwcs.sizing.stability import STABILITY, Stability
from lwcs.statistics.diagnosis import DIAGNOSIS, Diagnosis
from lwcs.storage import arrow_tables
from lwcs.storage.fields import MOST_FEATURES, SMALLEST_SCALE, Fields, reading
from lwcs.storage.persistence import with_metadata

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows
    from lwcs.divergences import Divergence

KIND = "kmeans"


def to_table(model: CoresetKMeans) -> pa.Table:
    """Convert a model to a table: one row per center, in the units of the data."""
    centers, geometry = model.host_centers(), model.geometry_
    names = getattr(model, "feature_names_in_", None)
    columns, _ = arrow_tables.lay_out({"cluster": np.arange(len(centers))}, centers, names)
    stability, diagnosis = getattr(model, "stability_", None), model.diagnosis_
    metadata = {
        **common_metadata(model, n_clusters=len(centers)),
        "inertia": float(model.inertia_),
        "n_iter": int(model.n_iter_),
        **({} if stability is None else {STABILITY: stability.saved()}),
        DIAGNOSIS: None if diagnosis is None else diagnosis.saved(),
        "scale": arrow_tables.listed(geometry.scale),
        "divergence": geometry.divergence.name,
        "divergence_parameters": geometry.divergence.saved_parameters(),
        "mean": arrow_tables.listed(geometry.mean),
    }
    return with_metadata(pa.table(columns), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CoresetKMeans:
    """Convert a table back to its model."""
    with reading(name):
        return _read(table, Fields(metadata))


def _read(table: pa.Table, fields: Fields) -> CoresetKMeans:
    d, k = fields.integer("n_features", least=1, most=MOST_FEATURES), len(table)
    arrow_tables.check_dense_columns(table, 1, d)
    names = fields.names("feature_names", d)
    number = arrow_tables.apart_from(arrow_tables.feature_columns(names, d), "cluster")
    arrow_tables.check_columns(table, [number, *arrow_tables.feature_columns(names, d)])
    check_numbering(table, number)
    geometry = Geometry(
        read_divergence(fields, d),
        fields.vector("scale", d, above=SMALLEST_SCALE),
        fields.vector("mean", d),
    )
    divergence: Any = geometry.divergence
    if not isinstance(divergence, Mahalanobis) and divergence == as_divergence(divergence.name):
        divergence = divergence.name
    model = read_parameters(CoresetKMeans, fields, check_parameters, divergence=divergence)
    if model.n_clusters != k:
        raise fields.inner("parameters").fail("n_clusters", f"{k}, the number of rows")
    fitted = {
        **read_common(fields, k, d, names),
        "cluster_centers_": _centers(table, names, d, geometry.divergence),
        "inertia_": float(fields.number("inertia", least=0.0)),
        "n_iter_": fields.integer("n_iter"),
        "diagnosis_": Diagnosis.read(fields),
        "scale_": geometry.scale,
        "geometry_": geometry,
        "_n_features_out": k,
    }
    stability = Stability.read(fields, k)
    model.__dict__.update(fitted if stability is None else fitted | {"stability_": stability})
    return model


def _centers(
    table: pa.Table, names: tuple[str, ...] | None, d: int, divergence: Divergence
) -> DenseRows:
    """The centers, which must be in the domain of the divergence."""
    centers = arrow_tables.points_of(table, names, d)
    if centers.dtype not in (np.float32, np.float64):
        raise ValueError(f"its centers hold {centers.dtype}, must be float32 or float64")
    outside = divergence.domain.outside(divergence.round_to_domain(centers))
    if outside.any():
        row, column = map(int, np.argwhere(outside)[0])
        name = arrow_tables.feature_columns(names, d)[column]
        raise ValueError(
            f"column {name!r} has {centers[row, column]} in row {row}, "
            f"must be {divergence.domain} for divergence={divergence.name!r}"
        )
    return centers
