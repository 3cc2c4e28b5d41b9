"""The MODEL of a command, beside its DATA: found in either order, loaded, and its rows opened.

And what it costs on all rows, for the commands that say so.
"""

from __future__ import annotations

import logging
import warnings
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import lwcs
from lwcs.cli.inputs import (
    NAME,
    access_to,
    given_flags,
    keywords,
    open_rows,
    saved_file,
    standard_input,
)
from lwcs.cli.logs import is_set, write
from lwcs.sources.scan_options import Fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.sources import Source

_KINDS = ("kmeans", "mixture")
_TABLES = (None, "parquet")
"""Formats of files that may be a model, as their names say it."""


def in_order(data: tuple[str, ...], model: str) -> tuple[tuple[str, ...], str]:
    """DATA and MODEL; a model that was given first is found, with a hint."""
    both_piped = model == "-" and "-" in data
    if not data or both_piped or not _is_model(data[0]) or _is_model(model):
        return data, model
    if not is_set("quiet"):
        ctx = click.get_current_context()
        write(
            f"Hint: MODEL comes last: lwcs {ctx.command.name} DATA {data[0]}",
            level=logging.WARNING,
            event="warning",
        )
    return (*data[1:], model), data[0]


def _is_model(path: str) -> bool:
    from lwcs.sources.remote.paths import format_of
    from lwcs.storage.persistence import kind_of

    if path == "-":
        found = standard_input(click.get_current_context().params.get("format")).path
        return found is not None and kind_of(found) in _KINDS
    # A pattern may stand for many files of a store, of which none is a model.
    if format_of(path) not in _TABLES or any(sign in path for sign in "*?["):
        return False
    with suppress(OSError, ValueError, ImportError):
        return kind_of(path, access_to(path)) in _KINDS
    return False


def load_model(model: str, data: tuple[str, ...]) -> lwcs.CoresetKMeans | lwcs.CoresetMixture:
    """Load MODEL, or say what it is instead, and what to do."""
    from lwcs.storage.persistence import NotOursError

    if model == "-" and "-" in data:
        raise click.UsageError(f"DATA and MODEL are both {NAME}; pass one of them as a file")
    try:
        found = lwcs.load(saved_file(model), **keywords(model))
    except NotOursError as error:
        seen = _looks_like(model)
        raise click.UsageError(
            f"MODEL {model!r} is not a model that lwcs saved, or is damaged{seen}; "
            f"{_instead(model, data, rows=bool(seen))}"
        ) from error
    if not isinstance(found, lwcs.CoresetKMeans | lwcs.CoresetMixture):
        rows = isinstance(found, lwcs.Coreset)
        raise click.UsageError(
            f"MODEL {model!r} is a saved {type(found).__name__}, not a model; "
            f"{_instead(model, data, rows=rows)}"
        )
    return found


def _instead(model: str, data: tuple[str, ...], *, rows: bool) -> str:
    """What to do about a MODEL that is not a model; it may have `rows` to fit one to."""
    wrote = "a file that `lwcs fit` or `lwcs mixture` wrote"
    if data:
        return f"pass DATA first, and then {wrote}"
    if rows:
        return f"fit one to it first: lwcs fit {model} -k 10 -o model.parquet"
    return f"pass {wrote}"


def _looks_like(path: str) -> str:
    """What a file that is not a model seems to be."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = lwcs.scan(saved_file(path), **keywords(path))
        names = ", ".join((rows.feature_names or ())[:5]) + ", …" * (rows.n_features > 5)
        columns = f"{rows.n_features:,} column{'s' * (rows.n_features != 1)} of numbers"
        return f"; it looks like rows, with {columns}{names and f' ({names})'}"
    return ""


def open_for(
    model: lwcs.CoresetKMeans | lwcs.CoresetMixture,
    data: tuple[str, ...],
    columns: Sequence[str] | None,
    **options: Any,
) -> Source:
    """Open DATA as the rows of a model were read, unless options say otherwise.

    The columns that it was fitted on are found by name.
    """
    given = {flag.lstrip("-") for flag in given_flags(("missing", "dates"))}
    reading = getattr(model, "reading_", {})
    known = {name: each for name, each in reading.items() if name not in given}
    options["missing"] = known.get("missing", options["missing"])
    if columns is None and hasattr(model, "feature_names_in_"):
        columns = Fitted.of(model.feature_names_in_, known)
    source = open_rows(data, columns=columns, **options)
    _check_features(model, source)
    return source


def _check_features(model: lwcs.CoresetKMeans | lwcs.CoresetMixture, source: Source) -> None:
    """Refuse columns of another number or, if both have names, of another name or order."""
    names = getattr(model, "feature_names_in_", None)
    if source.n_features != model.n_features_in_:
        raise ValueError(
            f"DATA has {source.n_features} column{'s' * (source.n_features != 1)}, but MODEL was "
            f"fitted on {model.n_features_in_}; choose the same columns with --columns"
        )
    if names is not None and source.feature_names not in (None, tuple(names)):
        own = ",".join(map(str, names))
        raise click.UsageError(
            f"--columns selects {','.join(source.feature_names or ())}, but MODEL was fitted on "
            f"{own}, in this order; leave out --columns, so that they are found by name (rename "
            "columns of DATA that have other names)"
        )


class CostOnAllRows(NamedTuple):
    """The cost of a model on all rows, and its 95 % interval where it is an estimate."""

    value: float
    low: float
    high: float

    def words(self, remark: str = "") -> str:
        """An estimate as text; `remark` is about the interval."""
        return f"about {self.value:.6g} ({self.low:.4g} to {self.high:.4g}{remark})"


def cost_on_all_rows(model: lwcs.CoresetKMeans) -> CostOnAllRows | None:
    """What a model costs on all rows, as its record has it; None beyond the range of numbers."""
    from lwcs.statistics.referee import deviations

    if model.fitted_on_ is None or model.diagnosis_ is None:
        return None
    if model.diagnosis_.on_all_rows:
        return CostOnAllRows(model.inertia_, model.inertia_, model.inertia_)
    cost, total = model.fitted_on_.cost, model.fitted_on_.total_weight
    value, reach = total * cost.value, deviations(0.05) * total * cost.variance**0.5
    if not isfinite(value + reach):
        return None
    return CostOnAllRows(value, max(value - reach, 0.0), value + reach)
