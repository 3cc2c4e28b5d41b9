"""A fitted CoresetMixture as an Arrow table and back: what its Parquet file contains.

One row per component: its weight, its mean, and the other arrays of its family, flattened. Plain
numbers and the shapes of the arrays are in the metadata.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.estimators.saved import (
    check_numbering,
    read_errors,
    saved_errors,
    saved_parameters,
    saved_record,
    with_parameters,
)
from lwcs.runtime.journal import TIMINGS, read_timings
from lwcs.solvers.em import Mixture
from lwcs.solvers.families import available
from lwcs.statistics.record import FittedOn
from lwcs.statistics.referee import UNKNOWN
from lwcs.storage.arrow_tables import (
    check_columns,
    check_dense_columns,
    check_numbers,
    column_of,
    feature_columns,
    lay_out,
    numbers_of,
    plain,
    points_of,
)
from lwcs.storage.fields import MOST_FEATURES, Fields, NotDefinedError, checked_mapping, reading
from lwcs.storage.persistence import with_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.arrays.types import FloatArray
    from lwcs.solvers.families import Family

KIND = "mixture"
_OWN = ("component", "weight")
_ROUNDING = 1e-6


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
        "parameters": plain(saved_parameters(model) | fitted),
        "lower_bound": found.lower_bound,
        # Early files had the last bound only.
        "lower_bounds": found.bounds if len(found.bounds) == found.n_iter else None,
        "n_iter": found.n_iter,
        "converged": found.converged,
        **saved_errors(model),
        **saved_record(model),
        # A model that an earlier version pickled has none.
        TIMINGS: getattr(model, "timings_", {}),
        "numbers": numbers,
        "shapes": {name: values.shape[1:] for name, values in arrays.items()},
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": d,
        "columns": called,
    }
    return with_metadata(pa.table(columns), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CoresetMixture:
    """Convert a table to the model that it was made from."""
    with reading(name):
        return _read(table, Fields(metadata))


def _read(table: pa.Table, fields: Fields) -> CoresetMixture:
    parameters = fields.inner("parameters")
    own = parameters.text("family") if "family" in parameters else "gaussian"
    if own not in available():
        raise NotDefinedError(
            f"contains a mixture with family={own!r}, which is not defined; import the module that "
            "defines the class first"
        )
    model = with_parameters(CoresetMixture, fields, CoresetMixture._check)
    called = _called(fields, available()[own])
    d = fields.integer("n_features", least=1, most=MOST_FEATURES)
    check_dense_columns(table, len(called), d)
    names = fields.names("feature_names", d)
    check_columns(table, [*called.values(), *feature_columns(names, d)])
    check_numbering(table, called["component"])
    if model.n_components != len(table):
        raise parameters.fail("n_components", f"{len(table)}, the number of rows")
    family = model._new_family()
    family.restore(points_of(table, names, d), _state(table, fields, called))
    family.check()
    bound = float(fields.number("lower_bound"))
    n_iter, converged = fields.integer("n_iter", least=1), fields.boolean("converged")
    known = fields.vector("lower_bounds", n_iter, missing=True)
    bounds = (bound,) if known is None else tuple(known.tolist())
    weights = _weights(table, called["weight"])
    model._keep(Mixture(family, weights, bound, bounds, n_iter, converged), UNKNOWN)
    model.__dict__.update(read_errors(fields), timings_=read_timings(fields))
    model.__dict__.update(fitted_on_=FittedOn.read(fields, len(table)))
    model.n_features_in_ = d
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _called(fields: Fields, family: type[Family]) -> Mapping[str, str]:
    """The columns that are not features, by what they hold: some of the family's arrays."""
    inner = fields.inner("columns")
    for name in inner:
        if name not in (*_OWN, *family.fitted):
            raise fields.fail("columns", f"columns of family={family.name!r}, without {name!r}")
    return checked_mapping(fields, "columns", [*_OWN, *(n for n in inner if n not in _OWN)])


def _weights(table: pa.Table, name: str) -> FloatArray:
    weights: FloatArray = column_of(table, name, np.float64)
    check_numbers(weights, name, 0.0)
    if abs(float(weights.sum()) - 1.0) > _ROUNDING:
        raise ValueError(f"column {name!r} sums to {weights.sum():g}, must be 1")
    return weights


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


def _state(table: pa.Table, fields: Fields, called: Mapping[str, str]) -> dict[str, Any]:
    # Early files have no shapes, and their numbers are beside the other metadata.
    early = "shapes" not in fields
    numbers = fields if early else fields.inner("numbers")
    state: dict[str, Any] = {}
    if not early:
        state = {name: numbers.number(name) for name in numbers}
    elif not fields.null("trials", missing=True):
        state["trials"] = numbers.number("trials")
    for name, column in called.items():
        if name not in _OWN:
            state[name] = _array(table, column, None if early else fields.inner("shapes"), name)
    return state


def _array(table: pa.Table, column: str, shapes: Fields | None, name: str) -> FloatArray:
    """An array with one entry per component: lists of the same length, or numbers."""
    k, whole = len(table), table[column].combine_chunks()
    if not (pa.types.is_list(whole.type) or pa.types.is_large_list(whole.type)):
        return numbers_of(whole, column, np.float64)
    if whole.null_count:
        raise ValueError(f"column {column!r} has a null, must be a list in every row")
    lengths = whole.value_lengths().to_numpy()
    if (lengths != lengths[0]).any():
        raise ValueError(f"column {column!r} has lists of different lengths")
    values = numbers_of(whole.flatten(), column, np.float64).reshape(k, -1)
    if shapes is None:
        return values
    shape = shapes.sizes(name)
    if prod(shape) != lengths[0]:
        raise shapes.fail(name, f"the shape of lists of {lengths[0]} numbers")
    return values.reshape(k, *shape)
