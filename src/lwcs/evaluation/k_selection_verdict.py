"""Which k is recommended: the one that most resamples choose, with why, and why not the others.

A resample draws again from the draws that there are, and chooses anew. So one seed says how often
other draws would have led to another answer.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from lwcs.evaluation.k_selection_result import KRow, Outcome, RunnerUp, Verdict
from lwcs.runtime.formatting import plain_percent
from lwcs.sizing.stability import STABLE
from lwcs.statistics.separation import FEWEST_DRAWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import IntArray

RESAMPLES = 25
_RUNNERS_UP = 3
# A silhouette below this shows no substantial structure (Kaufman and Rousseeuw 1990).
_SUBSTANTIAL = 0.25
# In noise, clusters are told apart in a smaller part of the resamples.
_SOMETHING = 0.1


def redrawn(size: int, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """How often each distinct draw is drawn again, in every resample."""
    again: IntArray = rng.multinomial(size, counts / size, RESAMPLES)
    return again


def shares_of(chosen: IntArray) -> dict[int | None, float]:
    """The part of the resamples that chose each k (0 for none), the largest first."""
    ks, counts = np.unique(chosen, return_counts=True)
    # Of equal parts, that of the larger k is first.
    order = np.lexsort((-ks, -counts))
    return {int(ks[at]) or None: float(counts[at] / len(chosen)) for at in order}


def with_shares(
    rows: Sequence[KRow], shares: dict[int | None, float], whys: Sequence[str | None]
) -> tuple[KRow, ...]:
    """The rows with how often they were chosen, and why they were not."""
    pairs = zip(rows, whys, strict=True)
    return tuple(replace(row, chosen=shares.get(row.k, 0.0), why=why) for row, why in pairs)


def judge_clusters(rows: Sequence[KRow], chosen: IntArray) -> Verdict:
    """Recommend the number of clusters that most resamples choose, by the k that each chose."""
    shares = shares_of(chosen)
    best = next(iter(shares))
    k_row = {row.k: row for row in rows}.get(best or 0)
    if k_row is None:
        outcome, reason = _none(rows, shares)
    else:
        outcome, reason = "structure", _chosen(rows, k_row)
    complete = with_shares(rows, shares, [_why_not(row, k_row) for row in rows])
    return Verdict(best, reason, _others(complete, k_row), outcome, shares, complete)


def _chosen(rows: Sequence[KRow], row: KRow) -> str:
    reason = (
        f"k = {row.k}: the largest number of clusters that the data tells apart, with a valley at "
        "every border"
    )
    if row.stability is not None:
        reason += f", and that recur in bootstrap coresets (stability {row.stability:.2f})"
    reason += _tiny_cluster_words(row)
    if len(rows) > 1 and row is rows[-1]:
        reason += "; it is the largest k that was tried, so there may be more"
    return reason


def passes(row: KRow) -> bool:
    """Whether all clusters are told apart, and stable as far as that is known."""
    return bool(row.separated) and (row.stability is None or row.stability > STABLE)


def _tiny_cluster_words(row: KRow) -> str:
    """A remark on a cluster of very few rows, which may be errors in the data."""
    if row.smallest is None or row.smallest >= FEWEST_DRAWS:
        return ""
    if row.smallest == 1:
        return "; one of them is a single row (an outlier?)"
    return f"; one of them has {row.smallest} rows alone (outliers?)"


def _none(rows: Sequence[KRow], shares: dict[int | None, float]) -> tuple[Outcome, str]:
    """The outcome if no k is recommended, and the reason."""
    tried = [row for row in rows if row.k > 1]
    if not tried:
        return "no structure", (
            "no structure was looked for: a single cluster is always there; pass k >= 2"
        )
    span = f"{tried[0].k} to {tried[-1].k}" if len(tried) > 1 else str(tried[0].k)
    if shares.get(None, 0.0) <= 1.0 - _SOMETHING:
        return "none stands out", (
            f"none of these k stands out: of k = {span}, some have clusters that the data tells "
            "apart in a part of the resamples, but none in more of them than not"
        )
    if apart := [row for row in tried if row.separated]:
        return "none stands out", (
            f"none of these k stands out: of k = {span}, the clusters of k = "
            f"{', '.join(str(row.k) for row in apart)} are told apart by the data, but do not "
            "recur in bootstrap coresets"
        )
    if all(row.unclear for row in tried):
        return "too few rows", (
            f"too few rows to tell: for every k = {span}, there are clusters with so few rows that "
            "they show no valley even where there is one"
        )
    return "no structure", (
        f"no structure: for no k = {span} does the data tell all clusters apart; some borders "
        "have no valley, as where a single group is cut"
    )


def _why_not(row: KRow, chosen: KRow | None) -> str | None:
    """Why a k is not recommended, in words that are the same for the same reason."""
    if row is chosen:
        return None
    if row.k == 1:
        return "a single cluster is always there"
    if not row.separated:
        if row.unclear:
            return "there are too few rows between some of its clusters to show a valley"
        return "some borders have no valley, as where a single group is cut"
    if row.stability is not None and row.stability <= STABLE:
        return (
            "its clusters are told apart, but one of them does not recur in bootstrap coresets "
            f"(stability {row.stability:.2f})"
        )
    if chosen is not None and row.k < chosen.k:
        return f"its clusters are told apart, too, but those of k = {chosen.k} are more"
    return "its clusters are told apart, but in too few of the resamples"


def _others(rows: Sequence[KRow], chosen: KRow | None) -> tuple[RunnerUp, ...]:
    """The next choices: of other resamples, one cluster less, and the best by other criteria."""
    reasons: dict[int, list[str]] = {}
    shares = {row.k: row.chosen or 0.0 for row in rows}
    for k in sorted(shares, key=shares.__getitem__, reverse=True):
        if shares[k] > _SOMETHING:
            reasons.setdefault(k, []).append(
                f"chosen in {plain_percent(shares[k], 2)} of resamples"
            )
    own = None if chosen is None else chosen.k
    below = [row for row in rows if passes(row) and (own is None or row.k < own)]
    if below:
        reasons.setdefault(below[-1].k, []).append("its clusters are told apart, too")
    silhouettes = {row.k: row.silhouette for row in rows if row.silhouette is not None}
    best = max(silhouettes, key=silhouettes.__getitem__, default=None)
    if best is not None and silhouettes[best] >= _SUBSTANTIAL:
        reasons.setdefault(best, []).append(f"the largest silhouette ({silhouettes[best]:.2f})")
    # Every curve has an elbow somewhere, even that of a single group.
    bend = None if chosen is None else elbow(rows)
    if bend is not None:
        reasons.setdefault(bend, []).append("the elbow of the cost")
    others = {k: why for k, why in reasons.items() if k != own}
    return tuple(RunnerUp(k, ", ".join(why)) for k, why in others.items())[:_RUNNERS_UP]


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
