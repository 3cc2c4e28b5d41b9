"""Text of the report: how good the clusters are, how the coreset was drawn, times of stages."""

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
    """A question about the clusters, answered in sentences."""

    question: str
    sentences: list[str]


def distances(measured: Geometry | Coreset) -> str:
    """The name of the distances that a geometry measures, or that rows were drawn by."""
    name = measured.divergence.name
    text = _DISTANCES.get(name, f"{name} divergences")
    return text if measured.scale is None else f"{text} in standard deviations"


def quality_sections(
    description: Description, certificate: Certificate | None, *, typed: bool = False
) -> list[Section]:
    """Sections on how good the clusters are; with `typed`, they advise commands, not Python."""
    known = [
        Section(
            "Log-likelihood" if description.is_mixture else "What they cost", _fit(description)
        ),
        Section("Sampling error", _sampling(description, typed)),
        Section("Certificate", _certified(description, certificate, typed)),
        Section("Separation", _separation(description)),
        Section("Stability", _stability(description, typed)),
        Section("Method", _diagnosis(description)),
    ]
    return [each for each in known if each.sentences]


def _fit(description: Description) -> list[str]:
    model = description.model
    if description.is_mixture:
        value = getattr(model, "lower_bound_", None)
        where = "on the coreset that was fitted, where it is biased high"
        if description.coreset.exact:
            where = "on all rows"
        sentences = (
            [] if value is None else [f"The mean log-likelihood is {number(value)} {where}."]
        )
        family = getattr(model, "family", None)
        if family is not None:
            sentences.append(f"The components are {family} distributions.")
        if getattr(model, "converged_", True) is False:
            sentences.append("EM did not converge; pass a larger max_iter.")
        return sentences
    cost = getattr(model, "inertia_", None)
    cost = float(description.cost.sum()) if cost is None else float(cost)
    known = getattr(model, "diagnosis_", None)
    where = "as the model was fitted"
    if known is not None:
        where = "on all rows" if known.on_all_rows else "on the coreset, which is an estimate"
    per = "unit of weight" if description.has_weights else "row"
    measured, each = distances(description.geometry), cost / description.coreset.total_weight
    sentences = [
        f"The cost is {number(cost)} {where}: the sum of {measured} from the nearest center, "
        f"{number(each)} per {per}."
    ]
    empty = int((description.share == 0.0).sum())
    if empty:
        sentences.append(
            f"{empty:,} of the {description.k:,} clusters have no rows here; fewer clusters would "
            "do."
        )
    return sentences


def _sampling(description: Description, typed: bool) -> list[str]:
    error = float(getattr(description.model, "sampling_error_", float("nan")))
    bound = float(getattr(description.model, "sampling_error_bound_", float("nan")))
    if not hasattr(description.model, "sampling_error_"):
        return []
    if error == 0.0 and bound == 0.0:
        return ["All rows were fitted, so that there is no sampling error."]
    if not isfinite(error) or not 0.0 < bound < inf:
        how = "with coreset_size='auto', or with holdout=0.1"
        if typed:
            how = "without --size, or with --holdout 0.1"
        return [f"How far this is from a fit to all rows is not known; fit {how}, to know it."]
    if description.is_mixture:
        return [
            f"The log-likelihood is about {number(error, 2)} nats per row below that of a fit to "
            f"all rows, and most likely at most {number(bound, 2)} below."
        ]
    return [
        f"On all rows, the cost is about {percent(error)} above what clustering all rows would "
        f"give, and most likely at most {percent(bound)} above."
    ]


def _certified(description: Description, certificate: Certificate | None, typed: bool) -> list[str]:
    if certificate is not None:
        return [typeset(str(certificate))]
    known = getattr(description.model, "diagnosis_", None)
    if known is not None and known.on_all_rows:
        return ["Not needed: the cost above is that of all rows."]
    how = "`lwcs report DATA MODEL`" if typed else "certificate=lwcs.certify(data, model)"
    what = "log-likelihood" if description.is_mixture else "cost"
    return [
        f"None was made. A report by {how} has one: an interval for the {what} on all rows, by "
        "draws that know nothing of the fit."
    ]


def _separation(description: Description) -> list[str]:
    if description.is_mixture or description.k == 1:
        return []
    weights = description.coreset.host_weights
    mean = float(weights @ description.silhouette / weights.sum())
    return [
        f"The mean silhouette is {mean:.2f}: 1 if clusters are far apart, near 0 if rows are as "
        "close to another center as to their own."
    ]


def _stability(description: Description, typed: bool) -> list[str]:
    known: Any = getattr(description.model, "stability_", None)
    if known is not None:
        return [f"{known.words()}.", pair_words(known.pairs)]
    if description.is_mixture or not hasattr(description.model, "stability"):
        return []
    how = "`lwcs fit --stability`" if typed else "model.stability()"
    return [f"Not measured. {how} says which clusters are found again in bootstrap coresets."]


def _diagnosis(description: Description) -> list[str]:
    known = getattr(description.model, "diagnosis_", None)
    return [] if known is None else [typeset(str(known))]


_LISTED = 12


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a model, as far as it is known."""

    title: str | None = None
    command: str | None = None
    """The command line that fitted it."""
    rewriting: str | None = None
    """The command line that wrote the report of a saved model."""
    left_out: tuple[str, ...] = ()
    """Columns of the data that are not features."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A name with its value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class StageTime:
    """The time, rows and passes of a stage of the fit, as text."""

    name: str
    seconds: str
    rows: str
    passes: str


_NOT_FITTED = Fact("Used for", "this report; the model was fitted on other draws, or on all rows")


def title_of(description: Description, origin: Origin) -> str:
    """The title of the report."""
    if origin.title:
        return origin.title
    k, n = description.k, description.n_rows
    return f"{k:,} {description.called}{'s' * (k != 1)} in {n:,} row{'s' * (n != 1)}"


def headline(description: Description) -> list[Fact]:
    """The numbers at the top of the page."""
    coreset = description.coreset
    numbers = [
        Fact("Rows", f"{description.n_rows:,}"),
        Fact("Columns", f"{len(description.names):,}"),
        Fact(f"{description.called}s".capitalize(), f"{description.k:,}"),
        Fact("Rows used" if coreset.exact else "Draws", f"{coreset.size:,}"),
    ]
    whole = timings_of(description).get(TOTAL)
    timed = "Time to fit" if has_timings(description) else "Time to draw"
    return numbers if whole is None else [*numbers, Fact(timed, seconds(whole["seconds"]))]


def size_words(size: float, description: Description) -> str:
    """A number of rows as text; it is an estimate, and weights need not be integers."""
    if description.has_weights:
        return number(size)
    return "about 1" if 0.0 < size < 1.0 else f"{size:,.0f}"


def has_timings(description: Description) -> bool:
    """Whether the model has the times of its fit."""
    return bool(getattr(description.model, "timings_", None))


def timings_of(description: Description) -> Timings:
    """The times of the fit or, if they are not known, of drawing the coreset."""
    known: Timings | None = getattr(description.model, "timings_", None)
    return known or description.coreset.details.get(TIMINGS, {})


def stages(description: Description) -> list[StageTime]:
    """The stages in the order in which they began, and their total."""
    return [
        StageTime(
            stage,
            seconds(each["seconds"]),
            f"{each['rows']:,}" if each["rows"] else "",
            f"{each['passes']:,}" if each["passes"] else "",
        )
        for stage, each in timings_of(description).items()
    ]


def drawn(description: Description, origin: Origin) -> list[Fact]:
    """Facts about how the coreset was drawn."""
    coreset = description.coreset
    weights = coreset.host_weights
    facts = [] if coreset is getattr(description.model, "coreset_", None) else [_NOT_FITTED]
    facts += [
        Fact("Method", coreset.method),
        Fact("Draws", f"{coreset.size:,}"),
        Fact("Distinct rows", f"{len(coreset):,} of {description.n_rows:,}"),
        Fact(
            "Weights",
            f"{number(float(weights.min()), 3)} to {number(float(weights.max()), 3)}; their sum is "
            f"{number(float(weights.sum()))}, that of all rows {number(coreset.total_weight)}",
        ),
        Fact("Distances", distances(coreset)),
    ]
    if not coreset.exact:
        facts.append(Fact("Seed", "not known" if coreset.seed is None else str(coreset.seed)))
    if coreset.depth:
        facts.append(Fact("Depth", f"{coreset.depth}: a union of coresets, or a reduction of one"))
    dropped = coreset._n_dropped
    if dropped:
        facts.append(Fact("Rows dropped", f"{dropped:,}, for missing values"))
    facts.append(Fact("Columns used", listed(description.names)))
    if origin.left_out:
        facts.append(Fact("Columns left out", listed(origin.left_out)))
    return facts


def listed(names: tuple[str, ...]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(shortened(name, 40) for name in names[:_LISTED])
    more = len(names) - _LISTED
    return f"{shown}, and {more:,} more" if more > 0 else shown


def versions() -> list[Fact]:
    """Versions of Python and of the libraries that computed the report."""
    names = {"numpy": "NumPy", "scikit-learn": "scikit-learn", "bokeh": "Bokeh"}
    return [
        Fact("lwcs", lwcs.__version__),
        Fact("Python", platform.python_version()),
        *(Fact(shown, version(name)) for name, shown in names.items()),
    ]
