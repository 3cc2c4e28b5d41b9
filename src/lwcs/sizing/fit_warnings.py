"""Warnings about a fit: missed clusters, a target not reached, a wrong method or wrong units."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lwcs.arrays.rows import count_distinct
from lwcs.runtime.warnings import warn
from lwcs.samplers import Lightweight
from lwcs.sizing.decision import FAR_OFF
from lwcs.sizing.solution import enough_draws
from lwcs.statistics.column_shares import alike, domination_words
from lwcs.statistics.diagnosis import METHODS, draws_by, family_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.coreset.coreset import Coreset
    from lwcs.sizing.solution import FitRequest, FitResult
    from lwcs.solvers.lloyd import Clustering
    from lwcs.sources import Source
    from lwcs.statistics.diagnosis import Diagnosis


CHANCE = 4.0
"""A gap of more standard errors is not chance; these are estimates, too small for heavy tails."""


def warn_of_result(result: FitResult, request: FitRequest, *, rereadable: bool) -> None:
    """Warn about missed clusters, else about a target not reached, and about the method."""
    on_all, remedy = result.on_all, "pass a larger n_clusters"
    missed = on_all.gap - CHANCE * on_all.noise > 2.0 * request.target
    if request.size is not None:
        # If there are fewer draws than clusters, another warning says so.
        clusters = np.count_nonzero(np.bincount(result.solution.found.labels))
        missed = clusters == request.params.k and on_all.gap > FAR_OFF
        remedy = "leave out coreset_size, so that it is chosen"
    if missed:
        _warn_of_missed(result, request, remedy)
        return
    if request.size is None:
        _warn_of_target(result, request)
    if result.diagnosis is not None:
        warn_of_method(result.diagnosis, request, rereadable=rereadable)


def _warn_of_target(result: FitResult, request: FitRequest) -> None:
    """Warn if neither the draws that were not used nor all rows say that the target is reached."""
    before, coreset = result.solution.error, result.solution.coreset
    reached = min(before.estimate, result.error.estimate)
    if not request.target < reached < inf:
        return
    wanted = enough_draws(coreset.size, reached, request.target)
    more = f", or more draws, for example coreset_size={wanted}"
    warn(
        f"the sampling error is about {reached:.2g} with {coreset.size:,} draws, more than "
        f"target_error={request.target:g}; pass a larger target_error"
        f"{more if wanted < coreset.n_samples else ''}",
        ConvergenceWarning,
    )


def _warn_of_missed(result: FitResult, request: FitRequest, remedy: str) -> None:
    draws = f"the {result.solution.coreset.size:,} draws that they were fitted on"
    times = 1.0 + result.on_all.gap
    seen = f"{times:.3g} times as much on all rows as on {draws}"
    if not isfinite(times):
        seen = f"{result.cost:.3g} on all rows, but nothing on {draws}"
    other = "refined" if request.sampler.name == "sensitivity" else "sensitivity"
    warn(
        f"the centers cost {seen}: the draws have missed clusters; {remedy}, or method={other!r}",
        ConvergenceWarning,
    )


def warn_of_method(diagnosis: Diagnosis, request: FitRequest, *, rereadable: bool) -> None:
    """Warn if the draws are wrong for the data, and say what to do instead."""
    first = diagnosis.used == Lightweight.name and request.size is not None
    if request.chooses and rereadable and not first:
        # The method was chosen for the data, unless draws of a given size were kept.
        return
    # For rows that can be read only once, a method that needs one read is the nearest remedy.
    at_once = None if rereadable else diagnosis.better(METHODS[:2])
    better = at_once or diagnosis.better()
    own = diagnosis.errors.get(family_of(diagnosis.used), 0.0)
    if better is None or own <= request.target:
        return
    if at_once is not None:
        remedy = "pass that"
    elif not rereadable:
        remedy = "write the rows to a file first, so that other methods can read them again"
    elif request.chooses:
        remedy = f"leave out coreset_size, or pass method={better!r}"
    else:
        remedy = "pass that, or method='auto'"
    warn(
        f"{draws_by(diagnosis.used)} are not right for this data: with "
        f"{diagnosis.size:,} of them, the sampling error is about {own:.2g}, and about "
        f"{diagnosis.errors[better]:.2g} with method={better!r}; {remedy}",
        UserWarning,
    )


def warn_of_columns(result: FitResult, source: Source) -> None:
    """Warn of columns that have most of all distances, and of columns that say the same."""
    warn_of_domination({} if result.diagnosis is None else result.diagnosis.columns)
    selection, coreset = source.selection, result.solution.coreset
    if selection is not None and selection.by_default and not any(selection.widths):
        selection.warn_of_alike(alike(coreset.host_points, coreset.host_weights))


def warn_of_domination(columns: Mapping[str, float]) -> None:
    """Warn of columns that have most of all distances, if there are any."""
    if columns:
        it = "it" if len(columns) == 1 else "them"
        warn(
            f"{domination_words(columns)}, so that the clusters are slices of {it}; if "
            "the other columns should count as much, measure distances in standard deviations with "
            "lwcs.scan(…, scale='standard')"
        )


def warn_of_fit(found: Clustering, coreset: Coreset, k: int, max_iter: int) -> None:
    """Warn of fewer clusters than were asked for, and of a fit that has not converged."""
    distinct = int(np.count_nonzero(np.bincount(found.labels)))
    if distinct < k:
        warn(
            f"the number of distinct clusters ({distinct}) is smaller than n_clusters "
            f"({k}): {_why_fewer(coreset, k)}",
            ConvergenceWarning,
        )
    if not found.converged:
        warn(
            f"Lloyd's algorithm did not converge in max_iter={max_iter} iterations; "
            "pass a larger max_iter or tol",
            ConvergenceWarning,
        )


def _why_fewer(coreset: Coreset, k: int) -> str:
    """Why fewer than k clusters have rows, and what to do."""
    rows = count_distinct(coreset.host_points[np.flatnonzero(coreset.host_weights)])
    whole = coreset.method == "all rows"
    has = f"{'the data' if whole else 'the coreset'} has {'only ' * (rows < k)}{rows} distinct row"
    has += "s" * (rows != 1)
    if rows >= k:
        return f"{has}, but some are equally far from several centers; pass a smaller n_clusters"
    return f"{has}; pass n_clusters <= {rows}" + ("" if whole else ", or a coreset of more draws")
