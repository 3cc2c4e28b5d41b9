"""How good the clusters are, in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from lwcs.choosing.stability_result import pair_words
from lwcs.foundation.numerals import number, percent, typeset

if TYPE_CHECKING:
    from lwcs.coreset import Coreset
    from lwcs.describing import Description
    from lwcs.geometry import Geometry
    from lwcs.trust.certificate import Certificate

_DISTANCES = {
    "sqeuclidean": "squared Euclidean distances",
    "mahalanobis": "squared Mahalanobis distances",
    "cosine": "cosine distances",
    "kl": "Kullback–Leibler divergences (kl)",
    "kl_simplex": "Kullback–Leibler divergences of shares (kl_simplex)",
    "itakura_saito": "Itakura–Saito divergences",
    "exponential": "exponential divergences",
    "logistic": "logistic divergences",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, and its answer in sentences."""

    question: str
    sentences: list[str]


def distances(measured: Geometry | Coreset) -> str:
    """What costs are sums of, or what rows were drawn by."""
    name = measured.divergence.name
    said = _DISTANCES.get(name, f"{name} divergences")
    return said if measured.scale is None else f"{said} in standard deviations"


def answers(
    found: Description, certificate: Certificate | None, *, typed: bool = False
) -> list[Answer]:
    """What is known of how good the clusters are; advice is for those who typed a command."""
    known = [
        Answer("Log-likelihood" if found.is_mixture else "What they cost", _fit(found)),
        Answer("Sampling error", _sampling(found, typed)),
        Answer("Certificate", _certified(found, certificate, typed)),
        Answer("Separation", _separation(found)),
        Answer("Stability", _stability(found, typed)),
        Answer("Method", _diagnosis(found)),
    ]
    return [each for each in known if each.sentences]


def _fit(found: Description) -> list[str]:
    model = found.model
    if found.is_mixture:
        value = getattr(model, "lower_bound_", None)
        where = "on the coreset that was fitted, where it is biased high"
        if found.coreset.exact:
            where = "on all rows"
        said = [] if value is None else [f"The mean log-likelihood is {number(value)} {where}."]
        family = getattr(model, "family", None)
        if family is not None:
            said.append(f"The components are {family} distributions.")
        if getattr(model, "converged_", True) is False:
            said.append("EM did not converge; pass a larger max_iter.")
        return said
    cost = getattr(model, "inertia_", None)
    cost = float(found.cost.sum()) if cost is None else float(cost)
    known = getattr(model, "diagnosis_", None)
    where = "as the model was fitted"
    if known is not None:
        where = "on all rows" if known.on_all_rows else "on the coreset, which is biased low"
    per = "unit of weight" if found.has_weights else "row"
    said = [
        f"The cost is {number(cost)} {where}: the sum of {distances(found.geometry)} from the "
        f"nearest center, {number(cost / found.coreset.total_weight)} per {per}."
    ]
    empty = int((found.share == 0.0).sum())
    if empty:
        said.append(
            f"{empty:,} of the {found.k:,} clusters have no rows here; fewer clusters would do."
        )
    return said


def _sampling(found: Description, typed: bool) -> list[str]:
    error = float(getattr(found.model, "sampling_error_", float("nan")))
    bound = float(getattr(found.model, "sampling_error_bound_", float("nan")))
    if not hasattr(found.model, "sampling_error_"):
        return []
    if error == 0.0 and bound == 0.0:
        return ["All rows were fitted, so that there is no sampling error."]
    if not isfinite(error) or not 0.0 < bound < inf:
        how = (
            "without --size, or with --holdout 0.1"
            if typed
            else ("with coreset_size='auto', or with holdout=0.1")
        )
        return [f"How far this is from a fit to all rows is not known; fit {how}, to know it."]
    if found.is_mixture:
        return [
            f"The log-likelihood is about {number(error, 2)} nats per row below that of a fit to "
            f"all rows, and most likely at most {number(bound, 2)} below."
        ]
    return [
        f"On all rows, the cost is about {percent(error)} above what clustering all rows would "
        f"give, and most likely at most {percent(bound)} above."
    ]


def _certified(found: Description, certificate: Certificate | None, typed: bool) -> list[str]:
    if certificate is not None:
        return [typeset(str(certificate))]
    known = getattr(found.model, "diagnosis_", None)
    if known is not None and known.on_all_rows:
        return ["Not needed: the cost above is that of all rows."]
    how = "`lwcs report MODEL DATA`" if typed else "certificate=lwcs.certify(data, model)"
    what = "log-likelihood" if found.is_mixture else "cost"
    return [
        f"None was made. A report by {how} has one: an interval for the {what} on all rows, by "
        "draws that know nothing of the fit."
    ]


def _separation(found: Description) -> list[str]:
    if found.is_mixture or found.k == 1:
        return []
    weights = found.coreset.omega
    mean = float(weights @ found.silhouette / weights.sum())
    return [
        f"The mean silhouette is {mean:.2f}: 1 if clusters are far apart, near 0 if rows are as "
        "close to another center as to their own."
    ]


def _stability(found: Description, typed: bool) -> list[str]:
    known: Any = getattr(found.model, "stability_", None)
    if known is not None:
        return [f"{known.words()}.", pair_words(known.pairs)]
    if found.is_mixture or not hasattr(found.model, "stability"):
        return []
    how = "`lwcs fit --stability`" if typed else "model.stability()"
    return [f"Not measured. {how} says which clusters are found again in bootstrap coresets."]


def _diagnosis(found: Description) -> list[str]:
    known = getattr(found.model, "diagnosis_", None)
    return [] if known is None else [typeset(str(known))]
