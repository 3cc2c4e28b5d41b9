"""How many draws a mixture needs: more are drawn until the referee finds it near enough."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning

from lwcs.choosing.mixture_levels import (
    Fitted,
    fit_on_one_level,
    fit_on_two_levels,
    has_levels,
    least_draws,
)
from lwcs.foundation.notices import warn
from lwcs.foundation.randomness import Stage, generator

if TYPE_CHECKING:
    from lwcs.building import Job
    from lwcs.coreset import Coreset
    from lwcs.samplers import Sampler
    from lwcs.solvers.mixture import Mixture
    from lwcs.solvers.mixture_runs import Runs

SMALL = 10_000
"""Data of no more rows than this is fitted itself."""
# How often is drawn again, and how many times the first draws at most: EM takes time in proportion.
_ATTEMPTS, _LARGEST = 2, 16
# The error of the next draws is not known exactly.
_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class Redraw:
    """Rows that can be read again, and how they are drawn."""

    job: Job
    sampler: Sampler
    seed: int
    n_jobs: int
    progress: bool

    def draw(self, size: int, attempt: int) -> Coreset:
        """Draw a coreset that is independent of the others."""
        seed = int(generator(self.seed, Stage.AGAIN, attempt).integers(2**63))
        return self.job.coreset(
            size, self.sampler, seed, n_jobs=self.n_jobs, progress=self.progress
        )


def largest_fitted_whole(size: int) -> int:
    """Number of rows up to which data is fitted itself instead of `size` draws of it."""
    return max(SMALL, 2 * size)


def fit_to_target(
    coreset: Coreset,
    runs: Runs,
    n_init: int | None,
    target: float,
    redraw: Redraw | None,
    last: Mixture | None = None,
) -> Fitted:
    """Fit a mixture, and draw more rows as long as it is further off than the target.

    `coreset` has the first draws. Each further time EM goes on from the last mixture, on draws that
    it has not seen; the number of draws is what the error asks for, which falls like 1/m.
    Without `n_init`, starts are tried where they are cheap, on the first level.
    """
    if coreset.exact:
        return fit_on_one_level(coreset, runs, n_init, last)
    most, found = _LARGEST * coreset.size, None
    for attempt in range(_ATTEMPTS + 1):
        if has_levels(coreset, runs):
            found = fit_on_two_levels(coreset, runs, n_init, last)
            if not found.error.known or found.error.estimate <= target:
                return found
            last = found.mixture
            asked = _MARGIN * coreset.size * found.error.estimate / target
        else:
            asked = _MARGIN * least_draws(coreset, runs)
        if redraw is None or attempt == _ATTEMPTS:
            break
        if asked > coreset.n_samples / 2 and coreset.n_samples <= 2 * most:
            return fit_on_one_level(redraw.job.all_rows(redraw.n_jobs), runs, n_init, last)
        if min(ceil(asked), most) <= coreset.size:
            break
        coreset = redraw.draw(min(ceil(asked), most), attempt + 1)
    if found is None:
        return fit_on_one_level(coreset, runs, n_init, last)
    _warn(found, target, redraw)
    return found


def _warn(found: Fitted, target: float, redraw: Redraw | None) -> None:
    once = "" if redraw is not None else ", and the rows can be read only once"
    warn(
        f"the log-likelihood is about {found.error.estimate:.2g} nats per row below that of a "
        f"mixture fitted to all rows, more than target_error={target:g}, with "
        f"{found.coreset.size:,} draws{once}; pass a larger coreset_size, fewer components or "
        "parameters, or another target_error",
        ConvergenceWarning,
    )
