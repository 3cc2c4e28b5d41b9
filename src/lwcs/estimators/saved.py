"""What the tables of models share: their parameters, checked as `fit` checks them."""

from __future__ import annotations

from math import isfinite, nan
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.runtime.parallel import as_threads
from lwcs.runtime.randomness import as_seed
from lwcs.samplers import available
from lwcs.sizing.decision import AUTO
from lwcs.statistics.diagnosis import DIAGNOSIS
from lwcs.statistics.record import FITTED_ON
from lwcs.storage.arrow_tables import column_of
from lwcs.storage.fields import NotDefinedError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from sklearn.base import BaseEstimator

    from lwcs.storage.fields import Fields

M = TypeVar("M", bound="BaseEstimator")
_ERRORS = ("sampling_error", "sampling_error_bound")
_FLAGS = ("compute_labels", "verbose", "warm_start")
# A parameter that is about the machine and not about the model: another one may have no GPU.
_MACHINE = "device"


def with_parameters(
    kind: type[M], fields: Fields, check: Callable[[M], object], **others: Any
) -> M:
    """Create a model with the parameters of a file; `check` is what `fit` does to them."""
    saved, known = fields.record("parameters"), kind().get_params()
    saved.pop(_MACHINE, None)
    for name in saved:
        if name not in known:
            raise fields.fail("parameters", f"parameters of {kind.__name__}, without {name!r}")
        if isinstance(saved[name], list | dict):
            raise fields.inner("parameters").fail(name, "a number, a text, true, false or null")
    method = saved.get("method", "lightweight")
    if isinstance(method, str) and method not in (AUTO, *available()):
        raise NotDefinedError(
            f"was saved with method={method!r}, which is not registered here; import the module "
            "that defines this sampler first"
        )
    model = kind(**saved | others)
    parameters: dict[str, Any] = model.get_params(deep=False)
    check(model)
    as_seed(parameters["random_state"])
    as_threads(parameters["n_jobs"])
    for name in _FLAGS:
        if not isinstance(parameters.get(name, False), int | float):
            raise fields.inner("parameters").fail(name, "a flag")
    return model


def saved_parameters(model: BaseEstimator) -> dict[str, Any]:
    """The parameters of a model, for its metadata."""
    return {name: each for name, each in model.get_params(deep=False).items() if name != _MACHINE}


def check_numbering(table: pa.Table, name: str) -> None:
    """Refuse a column that does not number the rows, of which there is at least one."""
    if not len(table):
        raise ValueError("it has no rows, must have at least one")
    if not np.array_equal(column_of(table, name), np.arange(len(table))):
        raise ValueError(f"column {name!r} does not number the rows from 0 to {len(table) - 1}")


def saved_record(model: Any) -> dict[str, Any]:
    """What a model remembers of its rows, for its metadata."""
    # A model that an earlier version pickled has none.
    known = getattr(model, f"{FITTED_ON}_", None)
    return {FITTED_ON: None if known is None else known.saved()}


def saved_diagnosis(model: Any) -> dict[str, Any]:
    """What was seen of the method of a model, for its metadata."""
    known = getattr(model, f"{DIAGNOSIS}_", None)
    return {DIAGNOSIS: None if known is None else known.saved()}


def saved_errors(model: Any) -> dict[str, float | None]:
    """How far a model is off, for its metadata; null if that is not known."""
    values = ((name, float(getattr(model, f"{name}_"))) for name in _ERRORS)
    return {name: value if isfinite(value) else None for name, value in values}


def read_errors(fields: Fields) -> dict[str, float]:
    """The same as attributes; nan if it is not known, or the file is an older one."""
    return {
        f"{name}_": nan
        if fields.null(name, missing=True)
        else float(fields.number(name, least=0.0))
        for name in _ERRORS
    }
