"""Which number of clusters is recommended, and why: from the table of `choose_k` to words.

Below the number of clusters that data has, all clusters are told apart, too: each is one or several
of them. One above it, a cluster is cut where the data has no valley. So the largest number of
clusters that are all told apart, and come back in other samples, is the one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from lwcs.evaluation.k_choice import RunnerUp
from lwcs.sizing.stability_result import STABLE
from lwcs.statistics.separation import FEWEST_DRAWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.evaluation.k_rows import KRow

_RUNNERS_UP = 3
# A silhouette below is no substantial structure (Kaufman and Rousseeuw 1990).
_SUBSTANTIAL = 0.25


@dataclass(frozen=True, slots=True)
class Verdict:
    """The recommended number of clusters, or None; why, and what else is worth a look."""

    k: int | None
    reason: str
    runners_up: tuple[RunnerUp, ...]

    @property
    def parts(self) -> tuple[int | None, str, tuple[RunnerUp, ...]]:
        """All of it, in this order."""
        return self.k, self.reason, self.runners_up


def judge_clusters(rows: Sequence[KRow]) -> Verdict:
    """The largest number of clusters that are told apart and stable."""
    passed = [row for row in rows if passes(row)]
    if not passed:
        return Verdict(None, _no_structure(rows), _others(rows, None))
    chosen = passed[-1]
    reason = (
        f"k = {chosen.k}: the largest number of clusters that the data tells apart, with a valley "
        "at every border"
    )
    if chosen.stability is not None:
        reason += f", and that recur in bootstrap coresets (stability {chosen.stability:.2f})"
    reason += _small_words(chosen)
    if len(rows) > 1 and chosen is rows[-1]:
        reason += "; it is the largest k that was tried, so there may be more"
    return Verdict(chosen.k, reason, _others(rows, chosen))


def passes(row: KRow) -> bool:
    """Whether all clusters are told apart, and stable as far as that is known."""
    return bool(row.separated) and (row.stability is None or row.stability > STABLE)


def _small_words(row: KRow) -> str:
    """A word on a cluster of very few rows, which may be a mistake in the data."""
    if row.smallest is None or row.smallest >= FEWEST_DRAWS:
        return ""
    if row.smallest == 1:
        return "; one of them is a single row (an outlier?)"
    return f"; one of them has {row.smallest} rows alone (outliers?)"


def _no_structure(rows: Sequence[KRow]) -> str:
    tried = [row for row in rows if row.k > 1]
    if not tried:
        return "no structure was looked for: a single cluster is always there; pass k >= 2"
    apart = [row for row in tried if row.separated]
    span = f"{tried[0].k} to {tried[-1].k}" if len(tried) > 1 else str(tried[0].k)
    if apart:
        return (
            f"no structure: of k = {span}, the clusters of k = "
            f"{', '.join(str(row.k) for row in apart)} are told apart by the data, but do not "
            "recur in bootstrap coresets"
        )
    if all(row.smallest is not None and row.smallest < FEWEST_DRAWS for row in tried):
        return (
            f"too few rows to tell: for every k = {span}, a cluster has fewer than {FEWEST_DRAWS} "
            "rows, which show no valley even where there is one"
        )
    return (
        f"no structure: for no k = {span} does the data tell all clusters apart; some borders "
        "have no valley, as where a single group is cut"
    )


def _others(rows: Sequence[KRow], chosen: KRow | None) -> tuple[RunnerUp, ...]:
    """The best by other criteria, and the next largest that is told apart."""
    found: dict[int, list[str]] = {}
    below = [row for row in rows if passes(row) and row is not chosen]
    if below:
        found.setdefault(below[-1].k, []).append("its clusters are told apart, too")
    shown = [row for row in rows if row.silhouette is not None]
    best = max(shown, key=_silhouette, default=None)
    if best is not None and _silhouette(best) >= _SUBSTANTIAL:
        found.setdefault(best.k, []).append(f"the largest silhouette ({best.silhouette:.2f})")
    # Every curve has an elbow somewhere, also that of a single group.
    bend = None if chosen is None else elbow(rows)
    if bend is not None:
        found.setdefault(bend, []).append("the elbow of the cost")
    return tuple(
        RunnerUp(k, " and ".join(why))
        for k, why in found.items()
        if chosen is None or k != chosen.k
    )[:_RUNNERS_UP]


def _silhouette(row: KRow) -> float:
    return -inf if row.silhouette is None else row.silhouette


def elbow(rows: Sequence[KRow]) -> int | None:
    """The k at which the cost is furthest below the line from its first to its last value.

    None if there are fewer than three, or the cost never falls faster than on that line.
    """
    costs = np.array([np.nan if row.cost is None else row.cost.value for row in rows])
    ks = np.array([row.k for row in rows], dtype=np.float64)
    drop = costs[0] - costs[-1]
    if len(rows) < 3 or not 0.0 < drop < inf:
        return None
    line = (ks - ks[0]) / (ks[-1] - ks[0])
    below = (costs[0] - costs) / drop - line
    at = int(np.argmax(below))
    return rows[at].k if below[at] > 0.0 else None
