"""Facts in short lines: how much data, how long it took, how rows were drawn, and versions."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import lwcs
from lwcs.foundation.numerals import number, seconds, shortened
from lwcs.foundation.timings import TIMINGS, TOTAL
from lwcs.reporting.words import distances

if TYPE_CHECKING:
    from lwcs.describing import Description
    from lwcs.foundation.timings import Timings

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
    weights = coreset.omega
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
