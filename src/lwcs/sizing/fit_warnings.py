"""What is said of an answer that is further off than it should be."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lwcs.arrays.rows import count_distinct
from lwcs.runtime.warnings import warn
from lwcs.sizing.solution import enough_draws

if TYPE_CHECKING:
    from lwcs.coreset.coreset import Coreset
    from lwcs.sizing.fitting import FitRequest, FitResult
    from lwcs.solvers.lloyd import Clustering


CHANCE = 4.0
"""A gap of more standard errors is no chance: they are estimates, and too small for heavy tails."""
FAR_OFF = 10.0
"""With a size that the user chose, a gap is expected; not this one."""


def warn_of_answer(answer: FitResult, request: FitRequest) -> bool:
    """Warn of what the draws have missed, or of a target that was not reached; say if so."""
    seen, remedy = answer.on_all, "pass a larger n_clusters"
    missed = seen.gap - CHANCE * seen.noise > 2.0 * request.target
    if request.size is not None:
        # If there are fewer draws than clusters, that is said already.
        enough = np.count_nonzero(np.bincount(answer.solution.found.labels)) == request.params.k
        missed = enough and seen.gap > FAR_OFF
        remedy = "leave out coreset_size, so that it is chosen"
    if missed:
        _warn_of_missed(answer, request, remedy)
    elif request.size is None:
        _warn_of_target(answer, request)
    return missed


def _warn_of_target(answer: FitResult, request: FitRequest) -> None:
    """Warn if neither the draws that were not used nor all rows say that the target is reached."""
    before, coreset = answer.solution.error, answer.solution.coreset
    reached = min(before.estimate, answer.error.estimate)
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


def _warn_of_missed(answer: FitResult, request: FitRequest, remedy: str) -> None:
    draws = f"the {answer.solution.coreset.size:,} draws that they were fitted on"
    times = 1.0 + answer.on_all.gap
    seen = f"{times:.3g} times as much on all rows as on {draws}"
    if not isfinite(times):
        seen = f"{answer.cost:.3g} on all rows, but nothing on {draws}"
    other = "refined" if request.sampler.name == "sensitivity" else "sensitivity"
    warn(
        f"the centers cost {seen}: the draws have missed clusters; {remedy}, or method={other!r}",
        ConvergenceWarning,
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
