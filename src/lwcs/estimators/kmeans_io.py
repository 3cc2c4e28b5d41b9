"""A fitted CoresetKMeans as an Arrow table and back: what its Parquet file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.coreset.io import read_divergence
from lwcs.divergences import Mahalanobis, as_divergence
from lwcs.estimators.coreset_kmeans import CoresetKMeans
from lwcs.estimators.saved import (
    check_numbering,
    read_errors,
    saved_diagnosis,
    saved_errors,
    saved_parameters,
    saved_record,
    with_parameters,
)
from lwcs.estimators.validation import check_parameters
from lwcs.geometry import Geometry
from lwcs.runtime.journal import TIMINGS, read_timings
from lwcs.sizing.stability_result import STABILITY, Stability
from lwcs.statistics.diagnosis import Diagnosis
from lwcs.statistics.record import FittedOn
from lwcs.storage.arrow_tables import (
    apart_from,
    check_columns,
    check_dense_columns,
    feature_columns,
    lay_out,
    listed,
    plain,
    points_of,
)
from lwcs.storage.fields import MOST_FEATURES, SMALLEST_SCALE, Fields, reading
from lwcs.storage.persistence import with_metadata

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows
    from lwcs.divergences import Divergence

KIND = "kmeans"


def to_table(model: CoresetKMeans) -> pa.Table:
    """Lay a model out: one row per center, in the units of the data."""
    centers, geometry = model.host_centers(), model.geometry_
    names = getattr(model, "feature_names_in_", None)
    columns, _ = lay_out({"cluster": np.arange(len(centers))}, centers, names)
    metadata = {
        "parameters": plain(saved_parameters(model)) | {"n_clusters": len(centers)},
        "inertia": float(model.inertia_),
        "n_iter": int(model.n_iter_),
        **saved_errors(model),
        **saved_record(model),
        **_saved_stability(model),
        **saved_diagnosis(model),
        # A model that an earlier version pickled has none.
        TIMINGS: getattr(model, "timings_", {}),
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
    with reading(name):
        return _read(table, Fields(metadata))


def _read(table: pa.Table, fields: Fields) -> CoresetKMeans:
    d = fields.integer("n_features", least=1, most=MOST_FEATURES)
    check_dense_columns(table, 1, d)
    names = fields.names("feature_names", d)
    own = apart_from(feature_columns(names, d), "cluster")
    check_columns(table, [own, *feature_columns(names, d)])
    check_numbering(table, own)
    geometry = Geometry(
        read_divergence(fields, d),
        fields.vector("scale", d, above=SMALLEST_SCALE),
        fields.vector("mean", d, missing=True),
    )
    divergence: Any = geometry.divergence
    if not isinstance(divergence, Mahalanobis) and divergence == as_divergence(divergence.name):
        divergence = divergence.name
    model = with_parameters(CoresetKMeans, fields, check_parameters, divergence=divergence)
    if model.n_clusters != len(table):
        raise fields.inner("parameters").fail("n_clusters", f"{len(table)}, the number of rows")
    fitted = {
        "cluster_centers_": _centers(table, names, d, geometry.divergence),
        "inertia_": float(fields.number("inertia", least=0.0)),
        "n_iter_": fields.integer("n_iter"),
        **read_errors(fields),
        "fitted_on_": FittedOn.read(fields, len(table)),
        **_read_stability(fields, len(table)),
        "diagnosis_": Diagnosis.read(fields),
        "timings_": read_timings(fields),
        "scale_": geometry.scale,
        "geometry_": geometry,
        "n_features_in_": d,
        "_n_features_out": len(table),
    }
    if names is not None:
        fitted["feature_names_in_"] = np.array(names, dtype=object)
    model.__dict__.update(fitted)
    return model


def _saved_stability(model: CoresetKMeans) -> dict[str, Any]:
    known: Stability | None = getattr(model, "stability_", None)
    return {} if known is None else {STABILITY: known.saved()}


def _read_stability(fields: Fields, k: int) -> dict[str, Any]:
    found = Stability.read(fields, k)
    return {} if found is None else {"stability_": found}


def _centers(
    table: pa.Table, names: tuple[str, ...] | None, d: int, divergence: Divergence
) -> DenseRows:
    """The centers, which must be in the domain of the divergence."""
    centers = points_of(table, names, d)
    if centers.dtype not in (np.float32, np.float64):
        raise ValueError(f"its centers hold {centers.dtype}, must be float32 or float64")
    outside = divergence.domain.outside(divergence.round_to_domain(centers))
    if outside.any():
        row, column = map(int, np.argwhere(outside)[0])
        raise ValueError(
            f"column {feature_columns(names, d)[column]!r} has {centers[row, column]} in row "
            f"{row}, must be {divergence.domain} for divergence={divergence.name!r}"
        )
    return centers
