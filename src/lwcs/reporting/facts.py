"""How good the clusters are, in sentences."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import lwcs
from lwcs.runtime.formatting import number, percent, seconds, shortened, typeset
from lwcs.runtime.journal import TIMINGS, TOTAL
from lwcs.sizing.stability import pair_words

if TYPE_CHECKING:
    from lwcs.coreset.coreset import Coreset
    from lwcs.description import Description
    from lwcs.geometry import Geometry
    from lwcs.runtime.journal import Timings
    from lwcs.statistics.certificate import Certificate


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
class Section:
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
) -> list[Section]:
    """What is known of how good the clusters are; advice is for those who typed a command."""
    known = [
        Section("Log-likelihood" if found.is_mixture else "What they cost", _fit(found)),
        Section("Sampling error", _sampling(found, typed)),
        Section("Certificate", _certified(found, certificate, typed)),
        Section("Separation", _separation(found)),
        Section("Stability", _stability(found, typed)),
        Section("Method", _diagnosis(found)),
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
    weights = found.coreset.host_weights
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


_LISTED = 12


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from, as far as that is known."""

    title: str | None = None
    command: str | None = None
    """The command line that fitted it."""
    rewriting: str | None = None
    """The command line that wrote the report of a model that was there."""
    left_out: tuple[str, ...] = ()
    """Columns of the data that are not features."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and a value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long a stage of the fit took."""

    name: str
    seconds: str
    rows: str
    passes: str


_NOT_FITTED = Fact("Used for", "this report; the model was fitted on other draws, or on all rows")


def title_of(found: Description, origin: Origin) -> str:
    """The title of the report."""
    if origin.title:
        return origin.title
    k, n = found.k, found.n_rows
    return f"{k:,} {found.called}{'s' * (k != 1)} in {n:,} row{'s' * (n != 1)}"


def headline(found: Description) -> list[Fact]:
    """The few numbers that everybody asks for first."""
    coreset = found.coreset
    said = [
        Fact("Rows", f"{found.n_rows:,}"),
        Fact("Columns", f"{len(found.names):,}"),
        Fact(f"{found.called}s".capitalize(), f"{found.k:,}"),
        Fact("Rows used" if coreset.exact else "Draws", f"{coreset.size:,}"),
    ]
    whole = timings_of(found).get(TOTAL)
    timed = "Time to fit" if has_timings(found) else "Time to draw"
    return said if whole is None else [*said, Fact(timed, seconds(whole["seconds"]))]


def size_words(size: float, found: Description) -> str:
    """A number of rows, which is an estimate; weights may be any numbers."""
    if found.has_weights:
        return number(size)
    return "about 1" if 0.0 < size < 1.0 else f"{size:,.0f}"


def has_timings(found: Description) -> bool:
    """Whether it is known how long the fit took."""
    return bool(getattr(found.model, "timings_", None))


def timings_of(found: Description) -> Timings:
    """How long the stages of the fit took, or those of the coreset."""
    if has_timings(found):
        known: Timings = found.model.timings_
        return known
    return found.coreset.details.get(TIMINGS, {})


def stages(found: Description) -> list[StageTime]:
    """The stages in the order that they began, and in total."""
    return [
        StageTime(
            stage,
            seconds(each["seconds"]),
            f"{each['rows']:,}" if each["rows"] else "",
            f"{each['passes']:,}" if each["passes"] else "",
        )
        for stage, each in timings_of(found).items()
    ]


def drawn(found: Description, origin: Origin) -> list[Fact]:
    """How the coreset was drawn."""
    coreset = found.coreset
    weights = coreset.host_weights
    said = [] if coreset is getattr(found.model, "coreset_", None) else [_NOT_FITTED]
    said += [
        Fact("Method", coreset.method),
        Fact("Draws", f"{coreset.size:,}"),
        Fact("Distinct rows", f"{len(coreset):,} of {found.n_rows:,}"),
        Fact(
            "Weights",
            f"{number(float(weights.min()), 3)} to {number(float(weights.max()), 3)}; their sum is "
            f"{number(float(weights.sum()))}, that of all rows {number(coreset.total_weight)}",
        ),
        Fact("Distances", distances(coreset)),
    ]
    if not coreset.exact:
        said.append(Fact("Seed", "not known" if coreset.seed is None else str(coreset.seed)))
    if coreset.depth:
        said.append(Fact("Depth", f"{coreset.depth}: a union of coresets, or a reduction of one"))
    dropped = coreset.details.get("dropped", 0)
    if dropped:
        said.append(Fact("Rows dropped", f"{dropped:,}, for missing values"))
    said.append(Fact("Columns used", listed(found.names)))
    if origin.left_out:
        said.append(Fact("Columns left out", listed(origin.left_out)))
    return said


def listed(names: tuple[str, ...]) -> str:
    """Names, the first few of them."""
    shown = ", ".join(shortened(name, 40) for name in names[:_LISTED])
    more = len(names) - _LISTED
    return f"{shown}, and {more:,} more" if more > 0 else shown


def versions() -> list[Fact]:
    """What computed it."""
    names = {"numpy": "NumPy", "scikit-learn": "scikit-learn", "bokeh": "Bokeh"}
    return [
        Fact("lwcs", lwcs.__version__),
        Fact("Python", platform.python_version()),
        *(Fact(shown, version(name)) for name, shown in names.items()),
    ]
