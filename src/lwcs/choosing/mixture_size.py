"""How many draws a mixture needs: more are drawn until the referee finds it near enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning

from lwcs.choosing.growth import LARGEST, REDRAWS, SMALL_ROWS, another_seed, enough_draws
from lwcs.choosing.mixture_levels import (
    Fitted,
    fit_on_one_level,
    fit_on_two_levels,
    has_levels,
    least_draws,
)
from lwcs.choosing.summaries import summarize
from lwcs.foundation.logs import decided
from lwcs.foundation.notices import warn

if TYPE_CHECKING:
    from lwcs.building import Job
    from lwcs.coreset import Coreset
    from lwcs.foundation.journal import Journal
    from lwcs.samplers import Sampler
    from lwcs.solvers.mixture import Mixture
    from lwcs.solvers.mixture_runs import Runs


@dataclass(frozen=True, slots=True)
class Drawing:
    """Rows, and how they are drawn."""

    job: Job
    sampler: Sampler
    seed: int
    n_jobs: int
    journal: Journal

    def first(self, size: int, k: int, *, chosen: bool) -> Coreset:
        """The first draws, or all rows if there are few; `chosen` says that the size is ours."""
        few, known = max(SMALL_ROWS, 2 * size) if chosen else size, self.job.source.n_rows
        coreset = summarize(
            self.job,
            few if known is not None and known <= few else size,
            k,
            method=self.sampler,
            seed=self.seed,
            n_jobs=self.n_jobs,
            journal=self.journal,
            name="n_components",
        )
        if coreset.exact or coreset.n_samples > few or not self.job.source.rereadable:
            return coreset
        return self.all_rows()

    def all_rows(self) -> Coreset:
        """All rows themselves."""
        return self.job.all_rows(self.n_jobs, self.journal)

    def again(self, size: int, attempt: int) -> Coreset:
        """Draw a coreset that is independent of the others."""
        seed = another_seed(self.seed, attempt)
        return self.job.coreset(size, self.sampler, seed, n_jobs=self.n_jobs, journal=self.journal)


def fit_to_target(
    coreset: Coreset,
    runs: Runs,
    n_init: int | None,
    target: float,
    drawing: Drawing | None,
    last: Mixture | None = None,
) -> Fitted:
    """Fit a mixture, and draw more rows as long as it is further off than the target.

    `coreset` has the first draws, and without `drawing` the only ones. Each further time EM goes
    on from the last mixture, on draws that it has not seen; the number of draws is what the error
    asks for, which falls like 1/m. Without `n_init`, starts are tried where they are cheap, on the
    first level.
    """
    if coreset.exact:
        return fit_on_one_level(coreset, runs, n_init, last)
    most, found = LARGEST * coreset.size, None
    for attempt in range(REDRAWS + 1):
        if has_levels(coreset, runs):
            found = fit_on_two_levels(coreset, runs, n_init, last)
            if not found.error.known or found.error.estimate <= target:
                return found
            decided("size", "%d draws: error %.3g", coreset.size, found.error.estimate)
            last = found.mixture
            asked = enough_draws(coreset.size, found.error.estimate, target)
        else:
            asked = enough_draws(least_draws(coreset, runs), 1.0, 1.0)
        if drawing is None or attempt == REDRAWS:
            break
        if asked >= coreset.n_samples / 2 and coreset.n_samples <= 2 * most:
            return fit_on_one_level(drawing.all_rows(), runs, n_init, last)
        if min(asked, most) <= coreset.size:
            break
        coreset = drawing.again(min(asked, most), attempt + 1)
        decided("size", "%d draws instead, for target_error=%g", coreset.size, target)
    if found is None:
        return fit_on_one_level(coreset, runs, n_init, last)
    _warn(found, target, once=drawing is None)
    return found


def _warn(found: Fitted, target: float, *, once: bool) -> None:
    why = ", and the rows can be read only once" if once else ""
    warn(
        f"the log-likelihood is about {found.error.estimate:.2g} nats per row below that of a "
        f"mixture fitted to all rows, more than target_error={target:g}, with "
        f"{found.coreset.size:,} draws{why}; pass a larger coreset_size, fewer components or "
        "parameters, or another target_error",
        ConvergenceWarning,
    )
