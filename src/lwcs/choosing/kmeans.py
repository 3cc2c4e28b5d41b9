"""k-means of all rows through a coreset that is as large as it takes.

Draws are made and solved on their inner levels; the draws that were not used say whether all of
them will be enough, and if not, how many would be. Where a pass over all rows is made anyway, it
knows the exact cost of the answer. If that is further above what the coreset promised than the
target allows, the draws have missed something, and rows are drawn again around the present centers,
by sensitivity, as those of a refined coreset are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum, inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lwcs.choosing.growth import LARGEST, REDRAWS, SMALL_ROWS, another_seed, enough_draws
from lwcs.choosing.solution import Solution, climb_coreset, finish, solve_on_one_level
from lwcs.choosing.summaries import check_n_rows, summarize
from lwcs.coreset import Coreset
from lwcs.foundation.logs import decided
from lwcs.foundation.notices import warn
from lwcs.foundation.timings import TIMINGS
from lwcs.passes import AssignTask, polish
from lwcs.samplers import Refined, Run
from lwcs.samplers.around_centers import Assignment, assign, weigh
from lwcs.samplers.base import Summary
from lwcs.samplers.by_sensitivity import draw_by_sensitivity
from lwcs.sources import LocalSource
from lwcs.sources.watching import watched_blocks
from lwcs.trust.referee import UNKNOWN, Price, SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lwcs.building import Job
    from lwcs.choosing.levels import How
    from lwcs.foundation.journal import Journal
    from lwcs.foundation.types import DenseRows
    from lwcs.samplers import Sampler
    from lwcs.samplers.around_centers import Clusters

# Draws to begin with; the last inner level has a quarter of them.
DRAWS_PER_CLUSTER, FEWEST_DRAWS = 400, 20_000
# How often rows may be drawn around the present centers.
_AROUND = 3
# A gap of more standard errors is no chance: these are estimates, and too small for heavy tails.
_CHANCE = 4.0
# With a size that the user chose, a gap is expected; not this one.
_FAR_OFF = 10.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What an estimator was asked for."""

    how: How
    sampler: Sampler
    size: int | None
    """None: as large as it takes."""
    target: float
    """The sampling error that is aimed at, where the size is not given."""
    polish: int
    labels: bool
    """Whether a final pass is made over all rows."""
    holdout: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A solution, with what passes over all rows have added to it."""

    solution: Solution
    centers: DenseRows
    """In the units of the data."""
    cost: float
    """On all rows after a final pass, else on the coreset."""
    error: SamplingError
    on_all: SamplingError = UNKNOWN
    """The error by the cost on all rows alone."""
    labels: npt.NDArray[np.int32] | None = None
    weighed: Sequence[Clusters] | None = None
    """The clusters of every partition, where the final pass has weighed them."""

    @property
    def on_all_rows(self) -> bool:
        """Whether the cost is that on all rows."""
        passed = self.labels is not None or self.weighed is not None
        return passed or self.solution.coreset.exact


def fit_coreset(coreset: Coreset, kernel: Any, wish: Wish) -> Answer:
    """Cluster a coreset."""
    how, holdout = wish.how, 0.0 if coreset.exact else wish.holdout
    if wish.size is None and not holdout:
        draws = coreset
        if coreset.exact and coreset.size > SMALL_ROWS:
            draws = coreset.reduce(min(first_size(how.k), coreset.size // 2), random_state=how.seed)
        climbed = climb_coreset(draws, kernel, how)
        solution = finish(climbed, draws, coreset, kernel, how, wish.target)
    else:
        solution = solve_on_one_level(coreset, kernel, how, holdout)
    centers, cost = solution.centers, solution.found.cost
    return Answer(solution, centers, coreset.cost(centers) if holdout else cost, solution.error)


def fit_rows(job: Job, wish: Wish) -> Answer:
    """Cluster the rows of a job."""
    kernel = job.geometry.kernel
    if wish.size is not None:
        coreset = summarize(
            job,
            wish.size,
            wish.how.k,
            method=wish.sampler,
            seed=wish.how.seed,
            n_jobs=wish.how.n_jobs,
            journal=wish.how.journal,
        )
        judged = job.source.rereadable and (wish.labels or wish.polish)
        # All rows are the better referee, and all draws the better sample.
        own = replace(wish, holdout=0.0) if judged else wish
        answer = _on_all_rows(job, fit_coreset(coreset, kernel, own), wish)
        # If there are fewer draws than clusters, that is said already.
        enough = len(np.unique(answer.solution.found.labels)) == wish.how.k
        if enough and answer.on_all.gap > _FAR_OFF:
            _warn_of_missed(answer, wish, "leave out coreset_size, so that it is chosen")
        return answer
    answer = _on_all_rows(job, _as_large_as_it_takes(job, wish), wish)
    for attempt in range(_AROUND):
        if not answer.on_all.estimate > wish.target:
            break
        again = _on_all_rows(job, _around(job, answer, wish, attempt), wish)
        if wish.labels and again.cost >= answer.cost:
            break
        answer = again
    seen = answer.on_all
    if seen.gap - _CHANCE * seen.noise > 2.0 * wish.target:
        _warn_of_missed(answer, wish, "pass a larger n_clusters")
    else:
        _warn_of_target(answer, wish)
    return answer


def _as_large_as_it_takes(job: Job, wish: Wish) -> Answer:
    """Draw until the draws that are not used say that all of them are enough."""
    how, kernel, source = wish.how, job.geometry.kernel, job.source
    size, most = first_size(how.k), LARGEST * first_size(how.k)
    n_rows = source.n_rows
    present: list[DenseRows] = []
    for attempt in range(REDRAWS + 1):
        if n_rows is not None and n_rows <= SMALL_ROWS:
            check_n_rows(n_rows, how.k)
            draws = top = job.all_rows(how.n_jobs, how.journal)
        else:
            seed = how.seed if not attempt else another_seed(how.seed, attempt)
            draws = top = job.coreset(
                size, wish.sampler, seed, n_jobs=how.n_jobs, journal=how.journal
            )
            n_rows = draws.n_samples
            check_n_rows(n_rows, how.k)
            if source.rereadable and size >= n_rows // 2:
                top = job.all_rows(how.n_jobs, how.journal)
                # Half as many draws as rows are enough for the inner levels.
                small = len(top) <= SMALL_ROWS
                draws = top if small else draws.reduce(n_rows // 2, random_state=seed)
        climbed = climb_coreset(draws, kernel, how, present)
        error = climbed.error().estimate
        decided("size", "%d draws: sampling error %.3g, target %g", size, error, wish.target)
        if top.exact or not error > wish.target or size == most or not source.rereadable:
            break
        size = min(most, enough_draws(size, error, wish.target))
        decided("size", "%d rows are drawn instead, attempt %d", size, attempt + 2)
        present = [climbed.found.centers.geometry.to_data(climbed.found.centers)]
    solution = finish(climbed, draws, top, kernel, how, wish.target)
    return Answer(solution, solution.centers, solution.found.cost, solution.error)


def first_size(k: int) -> int:
    """Draws to begin with."""
    return max(FEWEST_DRAWS, DRAWS_PER_CLUSTER * k)


def _on_all_rows(job: Job, answer: Answer, wish: Wish) -> Answer:
    """Polish an answer, and price it on all rows."""
    source, solution, n_jobs = job.source, answer.solution, wish.how.n_jobs
    # Rows that can be read only once are gone after the coreset.
    if not source.rereadable:
        return answer
    geometry, centers = solution.geometry, answer.centers
    costs = []
    for _ in range(wish.polish):
        step = polish(source, geometry.own_centers(centers), n_jobs, wish.how.journal)
        centers = geometry.to_data(step.centers).astype(centers.dtype)
        costs.append(step.cost_before)
    answer = replace(answer, centers=centers)
    if wish.labels:
        answer = _priced(job, answer, wish)
        costs.append(answer.cost)
    elif wish.polish:
        answer = replace(answer, cost=solution.coreset.cost(centers))
    return _judged(answer, costs) if costs and not solution.coreset.exact else answer


def _judged(answer: Answer, costs: Sequence[float]) -> Answer:
    """Judge an answer by the costs on all rows, before and after each polish step.

    All rows are the best referee of what the draws may have missed. Where their gap is no more
    than chance, the draws that were not used say with less noise how large the error is; the
    bound is that of all rows.
    """
    solution = answer.solution
    drop = 1.0 - costs[-1] / costs[0] if costs[0] else 0.0
    seen = SamplingError.of(solution.own, Price(costs[0])).unfinished(solution.found.remaining)
    error, told = seen, solution.error
    if told.known and seen.gap < _CHANCE * seen.noise:
        error = replace(seen, estimate=told.estimate, gap=max(seen.gap, told.gap))
    return replace(answer, error=error.less(drop), on_all=seen.less(drop))


def _priced(job: Job, answer: Answer, wish: Wish) -> Answer:
    """Label all rows, where they are in memory, and add up what they cost."""
    source, own = job.source, answer.solution.geometry.own_centers(answer.centers)
    if isinstance(source, LocalSource):
        labels = np.empty(source.n_rows, dtype=np.int32)
        costs = source.each_block(AssignTask(own, labels), n_jobs=wish.how.n_jobs)
        journal = wish.how.journal
        with source.explaining():
            cost = fsum(watched_blocks(costs, source, journal, "labels", source.block_rows))
        return replace(answer, cost=cost, labels=labels)
    run = _run(answer.solution, wish.how, wish.how.journal, wish.how.seed)
    weighed = weigh(source, Assignment(own), run, "cost")
    return replace(answer, cost=fsum(float(part.costs.sum()) for part in weighed), weighed=weighed)


def _run(solution: Solution, how: How, journal: Journal, seed: int) -> Run:
    return Run(seed, solution.geometry, how.n_jobs, journal)


def _around(job: Job, answer: Answer, wish: Wish, attempt: int) -> Answer:
    """Draw again, by sensitivity around the present centers, and solve from there."""
    source, before, how = job.source, answer.solution, wish.how
    coreset, geometry = before.coreset, before.geometry
    seed = another_seed(how.seed, REDRAWS + 1 + attempt)
    decided(
        "missed clusters", "the cost on all rows is %.3g times as high as the draws promised; %d "
        "rows are drawn around the centers", 1.0 + answer.on_all.gap, coreset.size,
    )  # fmt: skip
    journal = how.journal.part()
    run, centers = _run(before, how, journal, seed), geometry.own_centers(answer.centers)
    if isinstance(source, LocalSource):
        assignment = assign(source, centers, run)
    else:
        assignment = Assignment(centers)
    known = Summary(
        coreset.n_samples,
        coreset.total_weight,
        geometry.mean,
        coreset.total_cost,
        coreset.scale,
    )
    noise = 0.0
    if geometry.mean is not None and known.cost is not None:
        noise = geometry.noise(known.weight, known.rows, known.cost, coreset.points.dtype)
    draws = draw_by_sensitivity(
        source, assignment, how.k, coreset.size, known, run, noise, answer.weighed
    )
    again = Coreset.drawn(
        draws,
        method=Refined.name,
        divergence=coreset.divergence,
        seed=seed,
        feature_names=coreset.feature_names,
        details={**coreset.details, TIMINGS: journal.timings()},
    )
    kernel = geometry.kernel
    climbed = climb_coreset(again, kernel, how, [answer.centers])
    solution = finish(climbed, again, again, kernel, how, wish.target)
    return Answer(solution, solution.centers, solution.found.cost, solution.error)


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
