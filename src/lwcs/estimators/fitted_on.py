"""The record of a fit: what a model remembers of its rows (`trust.record`)."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from lwcs.solvers.em import log_likelihoods, prepared, responsibilities
from lwcs.sources import LocalSource
from lwcs.statistics.record import FittedOn
from lwcs.statistics.referee import Mean, Price

if TYPE_CHECKING:
    from lwcs.sizing.kmeans import FitResult
    from lwcs.sizing.mixture import Fitted
    from lwcs.sources import Source


def kmeans_record(answer: FitResult, source: Source | None) -> FittedOn:
    """Record a clustering, by the rows of its coreset, and by the cost on all rows if known.

    `source` has the rows that were drawn from; None where a coreset was given.
    """
    solution, error = answer.solution, answer.error
    coreset = solution.coreset
    labels, distances = answer.on_draws()
    if answer.on_all_rows:
        cost = Mean(answer.cost / coreset.total_weight)
    else:
        price = Price.on_draws(coreset.host_weights, coreset.counts, distances)
        gap, noise = (error.gap, error.noise) if isfinite(error.gap) else (0.0, 0.0)
        value = price.cost / coreset.total_weight * (1.0 + gap)
        cost = Mean(value, value**2 * (price.variance + noise**2))
    record = FittedOn.of(coreset, cost, distances, labels, len(answer.centers), source)
    on_all = answer.counted(source.weights if isinstance(source, LocalSource) else None)
    return record if on_all is None else record.counted(*on_all)


def mixture_record(fitted: Fitted, source: Source | None) -> FittedOn:
    """Record a mixture, by the rows of its coreset; `source` as above."""
    coreset, mixture, error = fitted.coreset, fitted.mixture, fitted.error
    own = mixture.family, mixture.weights, prepared(coreset.host_points, mixture.family)
    costs = -log_likelihoods(*own)
    mean = Mean.on_draws(coreset.host_weights, coreset.counts, costs)
    gap, noise = (error.gap, error.noise) if error.known else (0.0, 0.0)
    variance = 0.0 if coreset.exact else mean.variance + noise**2
    cost = Mean(mean.value + gap, variance)
    return FittedOn.of(coreset, cost, costs, responsibilities(*own), len(mixture.weights), source)
