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
from lwcs.estimators.model_io import check_numbering, common_metadata, read_common, read_parameters
from lwcs.solvers.em import Mixture
from lwcs.solvers.families import available
from lwcs.statistics.referee import UNKNOWN
from lwcs.storage import arrow_tables
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
    mixture, names = model.mixture_, getattr(model, "feature_names_in_", None)
    family, k = mixture.family, len(mixture.weights)
    arrays, numbers = _split(family)
    flat = {name: np.reshape(values, (k, -1)).tolist() for name, values in arrays.items()}
    own = {"component": np.arange(k), "weight": mixture.weights, **flat}
    columns, column_names = arrow_tables.lay_out(own, family.means, names)
    fitted = {name: getattr(family, name) for name in family.options}
    metadata = {
        **common_metadata(model, **fitted, n_components=k, family=family.name),
        "lower_bound": mixture.lower_bound,
        "lower_bounds": mixture.bounds,
        "n_iter": mixture.n_iter,
        "converged": mixture.converged,
        "numbers": numbers,
        "shapes": {name: values.shape[1:] for name, values in arrays.items()},
        "columns": column_names,
    }
    return with_metadata(pa.table(columns), KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CoresetMixture:
    """Convert a table back to its model."""
    with reading(name):
        return _read(table, Fields(metadata))


def _read(table: pa.Table, fields: Fields) -> CoresetMixture:
    parameters, k = fields.inner("parameters"), len(table)
    name = parameters.text("family")
    if name not in available():
        raise NotDefinedError(
            f"contains a mixture with family={name!r}, which is not defined; import the module "
            "that defines the class first"
        )
    model = read_parameters(CoresetMixture, fields, CoresetMixture._check)
    columns = _column_names(fields, available()[name])
    d = fields.integer("n_features", least=1, most=MOST_FEATURES)
    arrow_tables.check_dense_columns(table, len(columns), d)
    names = fields.names("feature_names", d)
    arrow_tables.check_columns(table, [*columns.values(), *arrow_tables.feature_columns(names, d)])
    check_numbering(table, columns["component"])
    if model.n_components != k:
        raise parameters.fail("n_components", f"{k}, the number of rows")
    family = model._new_family()
    family.restore(arrow_tables.points_of(table, names, d), _state(table, fields, columns))
    family.check()
    n_iter, converged = fields.integer("n_iter", least=1), fields.boolean("converged")
    bounds = fields.vector("lower_bounds", n_iter)
    if bounds is None:
        raise fields.fail("lower_bounds", f"a list of {n_iter:,} finite numbers")
    bound, weights = float(fields.number("lower_bound")), _weights(table, columns["weight"])
    mixture = Mixture(family, weights, bound, tuple(bounds.tolist()), n_iter, converged)
    model._keep(mixture, UNKNOWN, None)
    model.__dict__.update(read_common(fields, k, d, names))
    return model


def _column_names(fields: Fields, family: type[Family]) -> Mapping[str, str]:
    """The columns that are not features, by what they contain: some of the family's arrays."""
    inner = fields.inner("columns")
    for name in inner:
        if name not in (*_OWN, *family.fitted):
            raise fields.fail("columns", f"columns of family={family.name!r}, without {name!r}")
    return checked_mapping(fields, "columns", [*_OWN, *(n for n in inner if n not in _OWN)])


def _weights(table: pa.Table, name: str) -> FloatArray:
    weights: FloatArray = arrow_tables.column_of(table, name, np.float64)
    arrow_tables.check_numbers(weights, name, 0.0)
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


def _state(table: pa.Table, fields: Fields, columns: Mapping[str, str]) -> dict[str, Any]:
    """The state of a family, as `Family.state` gives it."""
    numbers, shapes = fields.inner("numbers"), fields.inner("shapes")
    arrays = {
        name: _array(table, column, shapes, name)
        for name, column in columns.items()
        if name not in _OWN
    }
    return {name: numbers.number(name) for name in numbers} | arrays


def _array(table: pa.Table, column: str, shapes: Fields, name: str) -> FloatArray:
    """An array with one entry per component: lists of the same length, or numbers."""
    k, whole = len(table), table[column].combine_chunks()
    if not (pa.types.is_list(whole.type) or pa.types.is_large_list(whole.type)):
        return arrow_tables.numbers_of(whole, column, np.float64)
    if whole.null_count:
        raise ValueError(f"column {column!r} has a null, must be a list in every row")
    lengths = whole.value_lengths().to_numpy()
    if (lengths != lengths[0]).any():
        raise ValueError(f"column {column!r} has lists of different lengths")
    shape = shapes.sizes(name)
    if prod(shape) != lengths[0]:
        raise shapes.fail(name, f"the shape of lists of {lengths[0]} numbers")
    return arrow_tables.numbers_of(whole.flatten(), column, np.float64).reshape(k, *shape)
