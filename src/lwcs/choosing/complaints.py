"""What is said of an answer that is further off than it should be."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lwcs.choosing.growth import enough_draws
from lwcs.foundation.notices import warn

if TYPE_CHECKING:
    from lwcs.choosing.kmeans import Answer, Wish

CHANCE = 4.0
"""A gap of more standard errors is no chance: they are estimates, and too small for heavy tails."""
FAR_OFF = 10.0
"""With a size that the user chose, a gap is expected; not this one."""


def warn_of_answer(answer: Answer, wish: Wish) -> bool:
    """Warn of what the draws have missed, or of a target that was not reached; say if so."""
    seen, remedy = answer.on_all, "pass a larger n_clusters"
    missed = seen.gap - CHANCE * seen.noise > 2.0 * wish.target
    if wish.size is not None:
        # If there are fewer draws than clusters, that is said already.
        enough = np.count_nonzero(np.bincount(answer.solution.found.labels)) == wish.how.k
        missed = enough and seen.gap > FAR_OFF
        remedy = "leave out coreset_size, so that it is chosen"
    if missed:
        _warn_of_missed(answer, wish, remedy)
    elif wish.size is None:
        _warn_of_target(answer, wish)
    return missed


def _warn_of_target(answer: Answer, wish: Wish) -> None:
    """Warn if neither the draws that were not used nor all rows say that the target is reached."""
    before, coreset = answer.solution.error, answer.solution.coreset
    reached = min(before.estimate, answer.error.estimate)
    if not wish.target < reached < inf:
        return
    wanted = enough_draws(coreset.size, reached, wish.target)
    more = f", or more draws, for example coreset_size={wanted}"
    warn(
        f"the sampling error is about {reached:.2g} with {coreset.size:,} draws, more than "
        f"target_error={wish.target:g}; pass a larger target_error"
        f"{more if wanted < coreset.n_samples else ''}",
        ConvergenceWarning,
    )


def _warn_of_missed(answer: Answer, wish: Wish, remedy: str) -> None:
    draws = f"the {answer.solution.coreset.size:,} draws that they were fitted on"
    times = 1.0 + answer.on_all.gap
    seen = f"{times:.3g} times as much on all rows as on {draws}"
    if not isfinite(times):
        seen = f"{answer.cost:.3g} on all rows, but nothing on {draws}"
    other = "refined" if wish.sampler.name == "sensitivity" else "sensitivity"
    warn(
        f"the centers cost {seen}: the draws have missed clusters; {remedy}, or method={other!r}",
        ConvergenceWarning,
    )
