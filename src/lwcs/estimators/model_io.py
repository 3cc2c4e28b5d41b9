"""Common parts of the files and the notebook views of both estimators.

A file holds the parameters of the model, which are checked as `fit` checks them, its sampling error
and the record of its rows. A notebook shows scikit-learn's diagram, and the quality of the fit
below it. `kmeans_io` and `mixture_io` have the tables themselves.
"""

from __future__ import annotations

from math import isfinite, nan
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.estimators.cluster_facts import saved_row_facts
from lwcs.estimators.row_facts import ROW_FACTS, RowFacts
from lwcs.runtime import formatting as markup
from lwcs.runtime.journal import TIMINGS, read_timings
from lwcs.runtime.parallel import as_threads
from lwcs.runtime.randomness import as_seed
from lwcs.samplers import available
from lwcs.sizing.decision import AUTO
from lwcs.sources.scan_options import READING, read_reading
from lwcs.statistics.record import FITTED_ON, FittedOn
from lwcs.storage.arrow_tables import column_of, plain
from lwcs.storage.fields import NotDefinedError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from sklearn.base import BaseEstimator

    from lwcs.storage.fields import Fields

M = TypeVar("M", bound="BaseEstimator")
_ERRORS = ("sampling_error", "sampling_error_bound")
_FLAGS = ("compute_labels", "verbose", "warm_start")
# A parameter about the machine and not about the model: another machine may have no GPU.
_MACHINE = "device"


def read_parameters(
    kind: type[M], fields: Fields, check: Callable[[M], object], **others: Any
) -> M:
    """Create a model with the parameters of a file; `check` is what `fit` does to them."""
    saved, known = fields.record("parameters"), kind().get_params()
    inner = fields.inner("parameters")
    saved.pop(_MACHINE, None)
    for name, value in saved.items():
        if name not in known:
            raise fields.fail("parameters", f"parameters of {kind.__name__}, without {name!r}")
        if isinstance(value, list | dict):
            raise inner.fail(name, "a number, a text, true, false or null")
        if name in _FLAGS and not isinstance(value, int | float):
            raise inner.fail(name, "a flag")
    method = saved.get("method", "lightweight")
    if isinstance(method, str) and method not in (AUTO, *available()):
        raise NotDefinedError(
            f"was saved with method={method!r}, which is not registered here; import the module "
            "that defines this sampler first"
        )
    model = kind(**saved | others)
    check(model)
    parameters: dict[str, Any] = model.get_params(deep=False)
    as_seed(parameters["random_state"])
    as_threads(parameters["n_jobs"])
    return model


def common_metadata(model: Any, **fitted: Any) -> dict[str, Any]:
    """Metadata that both kinds of models have; `fitted` are parameters as the fit found them."""
    parameters: dict[str, Any] = plain(model.get_params(deep=False) | fitted)
    parameters.pop(_MACHINE, None)
    names, reading = getattr(model, "feature_names_in_", None), getattr(model, "reading_", {})
    return {
        "parameters": parameters,
        **saved_errors(model),
        FITTED_ON: model.fitted_on_.saved(),
        ROW_FACTS: saved_row_facts(model),
        TIMINGS: model.timings_,
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": model.n_features_in_,
        **({READING: dict(reading)} if reading else {}),
    }


def read_common(
    fields: Fields, k: int, n_features: int, names: tuple[str, ...] | None
) -> dict[str, Any]:
    """The attributes of a model with k clusters or components that `common_metadata` has saved."""
    fitted: dict[str, Any] = {
        f"{name}_": nan if fields.null(name) else float(fields.number(name, least=0.0))
        for name in _ERRORS
    }
    fitted |= {
        "fitted_on_": FittedOn.read(fields, k),
        "_row_facts": RowFacts.read(fields, k, n_features),
        "timings_": read_timings(fields),
        "n_features_in_": n_features,
        "reading_": read_reading(fields),
    }
    if names is not None:
        fitted["feature_names_in_"] = np.array(names, dtype=object)
    return fitted


def saved_errors(model: Any) -> dict[str, float | None]:
    """The sampling error of a model and its bound; None where they are not known."""
    values = ((name, float(getattr(model, f"{name}_"))) for name in _ERRORS)
    return {name: value if isfinite(value) else None for name, value in values}


def check_numbering(table: pa.Table, name: str) -> None:
    """Refuse a column that does not number the rows, of which there is at least one."""
    if not len(table):
        raise ValueError("it has no rows, must have at least one")
    if not np.array_equal(column_of(table, name), np.arange(len(table))):
        raise ValueError(f"column {name!r} does not number the rows from 0 to {len(table) - 1}")


def html_of(model: Any, diagram: str) -> str:
    """scikit-learn's diagram of a model, with the quality of the fit below it."""
    facts = quality_facts(model)
    return f"{diagram}{markup.facts(facts)}" if facts else diagram


def quality_facts(model: Any) -> list[tuple[str, str]]:
    """Size, cost and sampling error of a fitted model, and how long it took; [] if not fitted."""
    mixture = getattr(model, "mixture_", None)
    if mixture is not None:
        facts = [
            ("components", f"{len(model.weights_):,} ({mixture.family.name})"),
            *_row_facts(model),
            ("log-likelihood per row", f"{model.lower_bound_:.6g}"),
            ("sampling error", _error_words(model, 1.0, " nats per row")),
        ]
    elif hasattr(model, "cluster_centers_"):
        facts = [
            ("clusters", f"{len(model.cluster_centers_):,}"),
            *_row_facts(model),
            ("cost", f"{model.inertia_:.6g}"),
            ("sampling error", _error_words(model, 100.0, " %")),
        ]
        if model.diagnosis_ is not None:
            facts.append(("diagnosis", str(model.diagnosis_)))
    else:
        return []
    seconds = model.timings_.get("total", {}).get("seconds")
    return facts if seconds is None else [*facts, ("seconds", f"{seconds:.3g}")]


def _row_facts(model: Any) -> list[tuple[str, str]]:
    """The rows that were fitted, and how they were drawn unless the model is from a file."""
    rows = f"{model.fitted_on_.n_samples:,} × {model.n_features_in_:,} columns"
    coreset: Any = getattr(model, "coreset_", None)
    draws = [] if coreset is None else [("draws", f"{coreset.size:,}"), ("method", coreset.method)]
    return [("rows", rows), *draws]


def _error_words(model: Any, factor: float, unit: str) -> str:
    estimate, bound = model.sampling_error_, model.sampling_error_bound_
    if not isfinite(estimate):
        return "not known"
    if estimate == 0.0 and not bound > 0.0:
        return "none, all rows were used"
    words = f"about {factor * estimate:.2g}{unit}"
    return words + (f", likely below {factor * bound:.2g}{unit}" if isfinite(bound) else "")
