"""A fitted model in a notebook: scikit-learn's diagram, and the figures of quality below it."""

from __future__ import annotations

from math import isfinite
from typing import Any

from lwcs.runtime import formatting as markup


class QualityHTML:
    """Adds figures of quality to the HTML of scikit-learn, once a model is fitted."""

    def _html_repr(self) -> str:
        # Of BaseEstimator, which comes later in the order of classes.
        diagram: str = super()._html_repr()  # type: ignore[misc]
        found = figures_of(self)
        return f"{diagram}{markup.facts(found)}" if found else diagram


def figures_of(model: Any) -> list[tuple[str, str]]:
    """What a fitted model found, how good it is and how long it took; nothing if not fitted."""
    mixture = getattr(model, "mixture_", None)
    if mixture is not None:
        found = [
            ("components", f"{len(model.weights_):,} ({mixture.family.name})"),
            *_rows(model),
            ("log-likelihood per row", f"{model.lower_bound_:.6g}"),
            ("sampling error", _error(model, lambda value: f"{value:.2g} nats per row")),
        ]
    elif hasattr(model, "cluster_centers_"):
        found = [
            ("clusters", f"{len(model.cluster_centers_):,}"),
            *_rows(model),
            ("cost", f"{model.inertia_:.6g}"),
            ("sampling error", _error(model, lambda value: f"{100.0 * value:.2g} %")),
        ]
    else:
        return []
    diagnosis = getattr(model, "diagnosis_", None)
    if diagnosis is not None:
        found.append(("diagnosis", str(diagnosis)))
    seconds = getattr(model, "timings_", {}).get("total", {}).get("seconds")
    if seconds is not None:
        found.append(("seconds", f"{seconds:.3g}"))
    return found


def _rows(model: Any) -> list[tuple[str, str]]:
    """The rows that were fitted, and how they were drawn, as far as that is known."""
    coreset: Any = getattr(model, "coreset_", None)
    # A loaded model has no coreset, but remembers its rows.
    known: Any = coreset or getattr(model, "fitted_on_", None)
    found = []
    if known is not None:
        found.append(("rows", f"{known.n_samples:,} × {model.n_features_in_:,} columns"))
    if coreset is not None:
        found += [("draws", f"{coreset.size:,}"), ("method", coreset.method)]
    return found


def _error(model: Any, text: Any) -> str:
    estimate = getattr(model, "sampling_error_", float("nan"))
    bound = getattr(model, "sampling_error_bound_", float("nan"))
    if not isfinite(estimate):
        return "not known"
    if estimate == 0.0 and not bound > 0.0:
        return "none, all rows were used"
    return f"about {text(estimate)}" + (f", likely below {text(bound)}" if isfinite(bound) else "")
