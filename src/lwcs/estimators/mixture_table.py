"""A fitted CoresetMixture as an Arrow table and back: what its Parquet file holds.

A row a component: its weight, its mean, and what else its family has, flattened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.estimators.mixture import CoresetMixture
from lwcs.estimators.table_parts import lay_out, plain, points_of
from lwcs.foundation.storage import with_metadata
from lwcs.solvers.families import Gamma, Multinomial
from lwcs.solvers.gaussian import Gaussian
from lwcs.solvers.mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lwcs.foundation.types import FloatArray

KIND = "mixture"


def to_table(model: CoresetMixture) -> pa.Table:
    """Lay a model out."""
    found, names = model.mixture_, getattr(model, "feature_names_in_", None)
    k, d = found.family.means.shape
    own: dict[str, Any] = {"component": np.arange(k), "weight": found.weights}
    if isinstance(found.family, Gaussian):
        each = found.family.covariances
        # One that all share is there for each.
        own["covariance"] = _lists([each] * k if found.family.covariance_type == "tied" else each)
    if isinstance(found.family, Gamma):
        own["shape"] = _lists(found.family.shapes)
    columns, called = lay_out(own, found.family.means, names)
    own_kind = {"n_components": k, "family": found.family.name}
    if isinstance(found.family, Gaussian):
        own_kind["covariance_type"] = found.family.covariance_type
    metadata = {
        "parameters": plain(model.get_params(deep=False)) | own_kind,
        "lower_bound": found.lower_bound,
        "n_iter": found.n_iter,
        "converged": found.converged,
        "trials": getattr(found.family, "trials", None),
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": d,
        "columns": called,
    }
    return with_metadata(pa.table(columns), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CoresetMixture:
    """Read a model off its table."""
    try:
        return _read(table, metadata)
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged model file: {error}") from error


def _read(table: pa.Table, metadata: dict[str, Any]) -> CoresetMixture:
    names, d, called = metadata["feature_names"], metadata["n_features"], metadata["columns"]
    known = CoresetMixture().get_params()
    parameters = {key: v for key, v in metadata["parameters"].items() if key in known}
    model = CoresetMixture(**parameters)
    family: Any = model._new_family()
    family.means = points_of(table, names, d)
    if isinstance(family, Gaussian):
        each = _arrays(table[called["covariance"]])
        if model.covariance_type in ("full", "tied"):
            each = each.reshape(-1, d, d)
        if model.covariance_type == "tied":
            each = each[0]
        if model.covariance_type == "spherical":
            each = each[:, 0]
        family.covariances = each
    if isinstance(family, Gamma):
        family.shapes = _arrays(table[called["shape"]])
    if isinstance(family, Multinomial):
        family.trials = float(metadata["trials"])
    weights = np.array(table[called["weight"]].to_numpy())
    bound = float(metadata["lower_bound"])
    found = Mixture(
        family, weights, bound, (bound,), int(metadata["n_iter"]), bool(metadata["converged"])
    )
    model._keep(found)
    model.n_features_in_ = d
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _lists(values: Iterable[FloatArray]) -> list[list[float]]:
    """An array a component, flattened."""
    return [np.ravel(part).tolist() for part in values]


def _arrays(column: pa.ChunkedArray) -> FloatArray:
    return np.array(column.to_pylist(), dtype=np.float64)
