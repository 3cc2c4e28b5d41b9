"""How to repeat a fit: the command or the Python code, and whether it gives the same result."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from math import isclose, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.divergences import Divergence, available
from lwcs.estimators.coreset_kmeans import CoresetKMeans
from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.runtime.journal import TOTAL

if TYPE_CHECKING:
    from lwcs.description import Description
    from lwcs.reporting.facts import Origin

_COLUMNS = 12
# Neither changes the result, and the seed has a line of its own.
_APART = ("verbose", "n_jobs", "random_state")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The code to run, and a sentence on its result."""

    code: str
    words: str


def recipe_of(description: Description, origin: Origin) -> Recipe:
    """Return the command or the code that gives the same result."""
    what = "components" if description.is_mixture else "clusters"
    if origin.command is not None:
        secret = ", with what it hides by … filled in," if "…" in origin.command else ""
        return Recipe(
            origin.command,
            f"This command{secret} gives the same {what} for the same rows, with the same "
            "versions.",
        )
    if origin.rewriting is not None:
        return Recipe(
            origin.rewriting,
            "This command writes the report again. A saved model does not tell which rows it was "
            "fitted on.",
        )
    model = description.model
    if not isinstance(model, CoresetKMeans | CoresetMixture):
        library = type(model).__module__.partition(".")[0]
        return Recipe(
            f"import lwcs\n\n# model: {type(model).__name__} of {library}, which does not tell how "
            "it was fitted\nlwcs.report(model, 'report.html', coreset)",
            "This code writes the report again, from the model and the coreset.",
        )
    return _python(model, what)


def _python(model: Any, what: str) -> Recipe:
    """Code that repeats the fit of a model of this library, as far as the model has a record."""
    shown, hidden = _parameters(model)
    seed = _seed(model)
    if seed is not None:
        shown["random_state"] = repr(seed)
    start, name = _import(model)
    call = f"{name}({', '.join(f'{key}={text}' for key, text in shown.items())})"
    if hidden:
        start.append(f"# {' and '.join(hidden)}: add {_them(hidden)}, as you gave {_them(hidden)}")
    comments, fit = _fit(model)
    code = "\n".join([*start, *comments, *(line.format(call) for line in fit)])
    code += "\nlwcs.report(model, 'report.html')"
    if seed is None:
        return Recipe(
            code,
            f"The seed of the fit is not known, so that this code may give other {what}; with "
            "random_state=0, or any other integer, a fit can be repeated.",
        )
    sure = not hidden and _remembers(model) and not getattr(model, "warm_start", False)
    if sure:
        return Recipe(
            code,
            f"This code gives the same {what} for the same rows, with the same weights if they "
            "have any, and with the same versions.",
        )
    return Recipe(
        code,
        f"The model does not remember all of its fit, so that this code may give other {what}; use "
        "the same rows, weights, parameters and versions.",
    )


def _them(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _import(model: Any) -> tuple[list[str], str]:
    """Lines that import the class of a model, and the name of the class."""
    kind = type(model)
    if kind in (CoresetKMeans, CoresetMixture):
        return ["import lwcs", ""], f"lwcs.{kind.__name__}"
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        return ["import lwcs", "", f"# {kind.__name__}: a class of your own"], kind.__name__
    return ["import lwcs", f"from {kind.__module__} import {kind.__name__}", ""], kind.__name__


def _fit(model: Any) -> tuple[list[str], list[str]]:
    """Comments on the data, and the lines that fit the model, which is {} in them."""
    if _in_batches(model):
        comment = "# batches: the rows, in the order in which they were given"
        return [comment], ["model = {}", "for X in batches:", "    model.partial_fit(X)"]
    if not _from_rows(model):
        what = "the coreset that was fitted"
        if not _remembers(model):
            what = "the rows, or the coreset, that were fitted"
        return [f"# X: {what}"], ["model = {}.fit(X)"]
    comments = [f"# X: the rows{_columns(model)}"]
    weighted = _has_weights(model)
    if weighted:
        comments.append("# w: their weights")
    options = ["missing='drop'"] * (model.coreset_._n_dropped > 0)
    options += ["scale='standard'"] * (model.coreset_.scale is not None)
    if options:
        arguments = ", ".join(["weight=w"] * weighted + options)
        return [*comments, f"X = lwcs.scan(X, {arguments})"], ["model = {}.fit(X)"]
    weight = ", sample_weight=w" * weighted
    return comments, [f"model = {{}}.fit(X{weight})"]


def _has_weights(model: Any) -> bool:
    """Whether the rows that were fitted had weights, or it is not known that they had none."""
    coreset, rows = model.coreset_, model.fitted_on_.rows
    n = coreset.n_samples
    ones = isclose(coreset.total_weight, n, rel_tol=1e-9) and isclose(rows.n, n, rel_tol=1e-9)
    return not (ones and rows.known)


def _columns(model: Any) -> str:
    """The names of the columns as Python literals, since names may have line breaks."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return ""
    shown = ", ".join(ascii(str(name)) for name in names[:_COLUMNS])
    more = len(names) - _COLUMNS
    return f", with the columns {shown}" + (f" and {more:,} more" if more > 0 else "")


def _remembers(model: Any) -> bool:
    """Whether a model has its coreset and the stages of its fit.

    A model that was loaded has no coreset, and one of `choose_k` no stages of its own.
    """
    stages = getattr(model, "timings_", {}).keys() - {TOTAL}
    has_coreset = getattr(model, "coreset_", None) is not None
    return has_coreset and bool(stages) and not _in_batches(model)


def _in_batches(model: Any) -> bool:
    return "_stream" in vars(model)


def _from_rows(model: Any) -> bool:
    """Whether rows were fitted, which takes passes, and not a given coreset."""
    total = getattr(model, "timings_", {}).get(TOTAL)
    return _remembers(model) and total is not None and total["passes"] > 0


def _seed(model: Any) -> int | None:
    """The seed of the fit, which is not that of a given coreset."""
    given = model.random_state
    if isinstance(given, int | np.integer):
        return int(given)
    return model.coreset_.seed if _from_rows(model) else None


def _parameters(model: Any) -> tuple[dict[str, str], list[str]]:
    """Literals of the parameters that are not defaults, and names of those without a literal."""
    given = model.get_params(deep=False)
    shown, hidden = {}, []
    for key, parameter in signature(type(model)).parameters.items():
        if key in _APART:
            continue
        value = _plain(given[key])
        if type(value) in (str, int, float, bool, type(None)) and _has_literal(value):
            if value != parameter.default:
                shown[key] = repr(value)
        elif value is not parameter.default:
            hidden.append(key)
    return shown, hidden


def _has_literal(value: Any) -> bool:
    """Whether the representation of a value is a literal, which that of infinity is not."""
    return not isinstance(value, float) or isfinite(value)


def _plain(value: Any) -> Any:
    """NumPy numbers as Python numbers, and divergences without options as their names."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Divergence):
        kind = available().get(value.name)
        if kind is type(value) and not value.parameters():
            return value.name
    return value
