"""A fitted CoresetMixture as an Arrow table and back: what its Parquet file contains.

One row per component: its weight, its mean, and the other arrays of its family, flattened. Plain
numbers and the shapes of the arrays are in the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.estimators.mixture import CoresetMixture
from lwcs.foundation.storage import with_metadata
from lwcs.foundation.tables import lay_out, plain, points_of
from lwcs.solvers.families import available
from lwcs.solvers.mixture import Mixture

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray
    from lwcs.solvers.families import Family

KIND = "mixture"


def to_table(model: CoresetMixture) -> pa.Table:
    """Convert a model to a table."""
    found, names = model.mixture_, getattr(model, "feature_names_in_", None)
    family, (k, d) = found.family, found.family.means.shape
    arrays, numbers = _split(family)
    flat = {name: np.reshape(values, (k, -1)).tolist() for name, values in arrays.items()}
    own = {"component": np.arange(k), "weight": found.weights, **flat}
    columns, called = lay_out(own, family.means, names)
    fitted = {"n_components": k, "family": family.name}
    fitted |= {name: getattr(family, name) for name in family.options}
    metadata = {
        "parameters": plain(model.get_params(deep=False) | fitted),
        "lower_bound": found.lower_bound,
        "lower_bounds": found.bounds,
        "n_iter": found.n_iter,
        "converged": found.converged,
        "numbers": numbers,
        "shapes": {name: values.shape[1:] for name, values in arrays.items()},
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": d,
        "columns": called,
    }
    return with_metadata(pa.table(columns), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CoresetMixture:
    """Convert a table to the model that it was made from."""
    family = (metadata.get("parameters") or {}).get("family", "gaussian")
    if family not in available():
        raise ValueError(
            f"{name!r} contains a mixture with family={family!r}, which is not defined; import "
            "the module that defines the class first"
        )
    try:
        return _read(table, metadata)
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged model file: {error}") from error


def _read(table: pa.Table, metadata: dict[str, Any]) -> CoresetMixture:
    names, d, called = metadata["feature_names"], metadata["n_features"], metadata["columns"]
    known = CoresetMixture().get_params()
    parameters = {key: v for key, v in metadata["parameters"].items() if key in known}
    model = CoresetMixture(**parameters)
    family = model._new_family()
    family.restore(points_of(table, names, d), _state(table, metadata))
    weights = np.array(table[called["weight"]].to_numpy())
    bound = float(metadata["lower_bound"])
    # Early files have the last bound only.
    bounds = tuple(map(float, metadata.get("lower_bounds", [bound])))
    n_iter, converged = int(metadata["n_iter"]), bool(metadata["converged"])
    model._keep(Mixture(family, weights, bound, bounds, n_iter, converged))
    model.n_features_in_ = d
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _split(family: Family) -> tuple[dict[str, FloatArray], dict[str, Any]]:
    """The arrays of a family's state, which have one entry per component, and its numbers."""
    state, k = family.state(), len(family.means)
    arrays = {name: np.asarray(v, dtype=np.float64) for name, v in state.items() if np.ndim(v)}
    for name, values in arrays.items():
        if len(values) != k:
            raise ValueError(
                f"{name!r} of family={family.name!r} has shape {values.shape}; state() must give "
                f"arrays with one entry per component, {k} here, or plain numbers"
            )
    return arrays, {name: np.asarray(v).item() for name, v in state.items() if name not in arrays}


def _state(table: pa.Table, metadata: dict[str, Any]) -> dict[str, Any]:
    # Early files have no shapes, and their numbers are beside the other metadata.
    shapes, numbers = metadata.get("shapes", {}), metadata.get("numbers", metadata)
    state: dict[str, Any] = dict(numbers)
    for name, column in metadata["columns"].items():
        if name not in ("component", "weight"):
            values = np.array(table[column].to_pylist(), dtype=np.float64)
            state[name] = values.reshape(len(table), *shapes.get(name, values.shape[1:]))
    return state
