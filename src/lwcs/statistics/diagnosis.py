"""The right method: the error that every way of drawing would have, from one set of draws.

The formulas of `draw_statistics` are of second order. Where clusters touch, the cost is flatter
than that, and the error is larger by a factor that is the same for all methods: so a measured error
of the method in use gives the factor. `Diagnosis` is what a model says about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

from lwcs.runtime.formatting import plain_percent
from lwcs.statistics.column_shares import domination_words
from lwcs.statistics.draw_statistics import HEAVIEST, OWN
from lwcs.storage.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.statistics.draw_statistics import DrawStatistics
    from lwcs.statistics.referee import SamplingError

DIAGNOSIS = "diagnosis"
METHODS = ("uniform", "lightweight", "refined")
"""In the order of how much they look at the rows before they draw."""


class Reason(StrEnum):
    """Why the rows of a fit were drawn as they were, as users read it."""

    AS_REQUESTED = "as requested"
    GIVEN = "made before they were clustered"
    FEW_ROWS = "there are few of them, or most of them would have been drawn"
    READ_ONCE = "the rows can be read only once, and other methods read them again"
    SIZE_GIVEN = "the size is given, and these draws are not known to have failed"
    ISOTROPIC = "all rows are about equally far from their mean, so that a pass would tell little"
    ENOUGH = "that is enough to reach the target"
    NO_BETTER = "no other method is predicted to be clearly better"
    CLEARLY_BETTER = "draws around the first centers have a much smaller error"
    MISSED_CLUSTERS = "the first draws had missed clusters, or may have"


# Measured error over the formula: 1.5–3.5 on KDD, RNA, covtype and GloVe with 20 to 200 clusters,
# 1 for clusters far apart. Where draws had missed rows that matter, 5 and more.
_TOUCHING, _MOST = 2.0, 4.0
# A method is clearly better if the error of the one in use, less two standard errors of it, is more
# than twice as large, and larger by 3 points. The first with at most 1.5 times the least error is
# named.
_TIMES, _POINTS, _CHANCE, _ABOUT = 2.0, 0.03, 2.0, 1.5
# Above this, the bound on the spread says that lightweight draws may miss clusters. With 400 draws
# per cluster it was 0.01–0.3 on KDD, RNA, covtype and GloVe, 0.13 where single rows are far away,
# which lightweight draws find, and 0.85–90 on the families that they fail on.
MAY_MISS = 0.5
_NUMBERS = ("measured", "noise", "cost_share", "smallest", "heaviest", "spread", "unfinished")
# An estimate of less is not worth a sentence.
_WORTH_SAYING = 1e-4


def family_of(method: str) -> str:
    """The method of `METHODS` whose draws those of another one are like; else the same name."""
    name = method.split(",")[0]
    return "refined" if name == "sensitivity" else name


def draws_by(method: str) -> str:
    """Draws of a method, in words; its label may end with how they are made."""
    name, _, how = method.partition(", ")
    return f"{how} {name} draws".lstrip()


def errors_by_method(
    statistics: DrawStatistics,
    used: str,
    draws: int,
    measured: float = nan,
    *,
    on_all_rows: bool = False,
) -> dict[str, float]:
    """Predict the error of every method with this many draws; empty if nothing is known.

    `measured` is that of the method in use. Where it is far above the formula, the draws have
    missed what matters, and a method that looks at the rows more closely would have seen it. It
    includes the cost of clusters without draws only if it was measured on all rows.
    """
    found, name = statistics.formulas(draws), family_of(used)
    if not found:
        return {}
    drawn = found.pop(OWN)
    own = found.setdefault(name, drawn)
    if not 0.0 < own.means < inf:
        return {}
    rest = measured - own.missed if on_all_rows else measured
    # Where missed clusters explain all of it, nothing is known of the factor.
    times = max(rest / own.means, 1.0) if rest > 0.0 else _TOUCHING
    closely = METHODS.index(name) if name in METHODS else 0

    def error(other: str) -> float:
        closer = other != name and METHODS.index(other) > closely
        factor = min(times, _MOST) if closer else times
        return factor * found[other].means + found[other].missed

    errors = {other: error(other) for other in found}
    return errors | {name: max(measured, own.means)} if on_all_rows else errors


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Statistics of the data, which method was used, and why.

    ``str(diagnosis)`` says it in words.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs import CoresetKMeans
    >>> X = np.random.default_rng(0).normal(size=(50_000, 2))
    >>> model = CoresetKMeans(n_clusters=3, coreset_size=1_000, method="uniform", random_state=0)
    >>> model.fit(X).diagnosis_.choice
    '1,000 uniform draws, as requested'
    """

    asked: str
    """The method that was asked for."""
    used: str
    """The method of the draws that were clustered; "all rows" if nothing was sampled."""
    why: str
    size: int
    """Number of draws, or of rows."""
    on_all_rows: bool = False
    """Whether the cost of the centers on all rows is known."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Predicted sampling error by method, with as many draws; empty if it is not known."""
    measured: float = nan
    """Sampling error of the method in use as it was measured; nan if it was not."""
    noise: float = nan
    """Standard error of that."""
    cost_share: float = nan
    """φ(Q)/Φ: cost of the centers over that of the mean as the only center."""
    smallest: float = nan
    """Share of the smallest cluster in the weight."""
    heaviest: float = nan
    """Share of the ten draws that have most of the cost, each with its weight."""
    spread: float = nan
    """Bound on the relative standard deviation of the cost of the centers on as many lightweight
    draws; large where they may miss clusters."""
    unfinished: float = 0.0
    """Estimate of the part of the cost that further iterations on the same rows would gain. They
    end early where they gain little against the sampling error that is aimed at; a smaller `tol`
    goes on. It is a part of the sampling error, except where all rows were clustered."""
    columns: Mapping[str, float] = field(default_factory=dict)
    """The one or two columns with more than 90 % of all squared distances, and their shares, if the
    clusters are slices of them; by number where columns have no names."""

    @classmethod
    def of(
        cls, seen: DrawStatistics, asked: str, used: str, why: str, size: int,
        error: SamplingError, *,
        on_all_rows: bool,
    ) -> Diagnosis:  # fmt: skip
        """Diagnose draws that were clustered."""
        measured = error.estimate
        return cls(
            asked,
            used,
            why,
            size,
            on_all_rows,
            errors_by_method(seen, used, size, measured, on_all_rows=on_all_rows),
            measured,
            0.5 * error.noise,
            seen.cost_share,
            float(seen.shares.min()),
            seen.heaviest,
            seen.spread(size),
        )

    def better(self, allowed: tuple[str, ...] = METHODS) -> str | None:
        """The method that would have been clearly better with as many draws, if there is one."""
        own = self.errors.get(family_of(self.used))
        others = [name for name in allowed if name in self.errors]
        if own is None or not others:
            return None
        least = min(self.errors[name] for name in others)
        certain = own - _CHANCE * self.noise if isfinite(self.noise) else own
        if certain <= max(_TIMES * least, least + _POINTS):
            return None
        return next(name for name in others if self.errors[name] <= _ABOUT * least)

    @property
    def choice(self) -> str:
        """The draws that were clustered, and the reason, in a few words."""
        if self.used == "all rows":
            return f"all {self.size:,} rows were clustered, and nothing was sampled: {self.why}"
        draws = f"{self.size:,} {draws_by(self.used)}"
        if self.why in (Reason.AS_REQUESTED, Reason.GIVEN):
            return f"{draws}, {self.why}"
        if self.asked == "auto":
            return f"method='auto' chose {draws}: {self.why}"
        instead = "" if self.used == self.asked else f" instead of {draws_by(self.asked)}"
        return f"{draws}{instead}: {self.why}"

    def __str__(self) -> str:
        first = self.choice
        if self.used == "all rows":
            first = first[0].upper() + first[1:]
        said = [f"{first}."]
        if self.errors:
            listed = (f"{name} {plain_percent(error, 2)}" for name, error in self.errors.items())
            measured = plain_percent(self.measured, 2)
            known = f"; measured: {measured}" if isfinite(self.measured) else ""
            said.append(f"Predicted sampling error by method: {', '.join(listed)}{known}.")
        if isfinite(self.cost_share):
            said.append(
                f"The cost is {plain_percent(self.cost_share, 2)} of what one cluster would cost; "
                f"the smallest cluster has {plain_percent(self.smallest, 2)} of the weight, and "
                f"the {HEAVIEST} heaviest draws have {plain_percent(self.heaviest, 2)} of the cost."
            )
        if self.unfinished >= _WORTH_SAYING:
            said.append(
                "Iterations ended early: going on would lower the cost by about "
                f"{plain_percent(self.unfinished, 2)} (a smaller tol does)."
            )
        if self.columns:
            words = domination_words(self.columns)
            said.append(
                f"{words[0].upper()}{words[1:]}, so that the clusters are slices of "
                f"{'it' if len(self.columns) == 1 else 'them'}; with scale='standard' "
                "(--standardize), all columns count the same."
            )
        if self.spread > MAY_MISS and self.used in ("lightweight", "uniform"):
            said.append(
                "Clusters of few rows may have been missed: a pass over all rows would tell."
            )
        return " ".join(said)

    def saved(self) -> dict[str, Any]:
        """The diagnosis as metadata of a file."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {
            "asked": self.asked,
            "used": self.used,
            "why": self.why,
            "size": self.size,
            "on_all_rows": self.on_all_rows,
            "errors": {name: error for name, error in self.errors.items() if isfinite(error)},
            **({"columns": dict(self.columns)} if self.columns else {}),
            **{name: value if isfinite(value) else None for name, value in numbers.items()},
        }

    @classmethod
    def read(cls, fields: Fields) -> Diagnosis | None:
        """Read a diagnosis off the metadata of a model."""
        if fields.null(DIAGNOSIS, missing=True):
            return None
        own = fields.inner(DIAGNOSIS)
        errors = own.inner("errors")
        columns = Fields(own.record("columns", missing=True), own.full_name("columns"))
        return cls(
            own.text("asked"),
            own.text("used"),
            own.text("why"),
            own.integer("size", least=1),
            own.boolean("on_all_rows"),
            {name: float(errors.number(name, least=0.0)) for name in errors},
            **{
                name: nan if own.null(name, missing=True) else float(own.number(name, least=0.0))
                for name in _NUMBERS
            },
            columns={name: float(columns.number(name, least=0.0)) for name in columns},
        )
