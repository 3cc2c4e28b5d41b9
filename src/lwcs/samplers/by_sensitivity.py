"""Drawing rows by their sensitivities around an initial solution B (Lucic, Bachem, Krause 2016).

With the clusters of B (weight Ω_i, cost S_i), c = Σω·d(x, B)/Ω, α = 16(ln k + 2):

    s(x) = α·d(x, B)/c + 2α·S_i/(Ω_i·c) + 4Ω/Ω_i,   p ∝ ω·s,

m i.i.d. draws from p, weight ω/(m·p) each. Σω·s/Ω = 3α + 4·(clusters that are not empty).
"""

from __future__ import annotations

from functools import reduce
from math import log
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.checks import check_count
from lwcs.samplers.around_centers import Scores, draw_around_centers, weigh
from lwcs.samplers.base import Draws, Run, Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.samplers.around_centers import Assignment, Clusters
    from lwcs.sources import Source


def check_n_clusters(n_clusters: int | None) -> None:
    """Check the number of clusters; None is filled in by `build`."""
    if n_clusters is not None:
        check_count(n_clusters, "n_clusters")


def require_n_clusters(n_clusters: int | None, name: str) -> int:
    """The number of clusters, without which there is no initial solution."""
    if n_clusters is None:
        raise ValueError(
            f"method={name!r} starts from an initial solution with k clusters; pass n_clusters=k"
        )
    return n_clusters


def approximation_factor(k: int) -> float:
    """α = 16(ln k + 2): how far D² sampling is from the optimum, in expectation, times 2."""
    return 16.0 * (log(k) + 2.0)


def sensitivities(clusters: Clusters, k: int, noise: float = 0.0) -> Scores:
    """The module's formula; if nothing costs more than `noise`, its third term alone."""
    weight, cost = float(clusters.weights.sum()), float(clusters.costs.sum())
    there = clusters.weights > 0.0
    floors = np.zeros(len(there))
    floors[there] = 4.0 * weight / clusters.weights[there]
    if cost <= noise:
        return Scores(0.0, floors)
    alpha = approximation_factor(k)
    average = cost / weight
    shares = clusters.costs[there] / clusters.weights[there]
    floors[there] += 2.0 * alpha * shares / average
    return Scores(alpha / average, floors)


def draw_by_sensitivity(
    source: Source,
    assignment: Assignment,
    k: int,
    size: int,
    known: Summary | None,
    run: Run,
    noise: float = 0.0,
    weighed: Sequence[Clusters] | None = None,
) -> Draws:
    """Draw m rows by their sensitivities around an initial solution with k clusters.

    A cost of no more than `noise` is what rounding leaves of zero. `weighed` are the clusters by
    partition, where a pass has weighed them already.
    """
    weighed = weigh(source, assignment, run) if weighed is None else weighed
    total = reduce(add, weighed)
    if known is None:
        known = Summary(total.rows, float(total.weights.sum()))
    scores = sensitivities(total, k, noise)
    return draw_around_centers(source, assignment, weighed, scores, size, known, run)
