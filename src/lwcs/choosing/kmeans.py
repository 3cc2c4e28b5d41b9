"""k-means of all rows through a coreset that is as large as it takes.

Draws are made and solved on their inner levels; the draws that were not used say whether all of
them will be enough, and if not, how many would be. Where a pass over all rows is made anyway, it
knows the exact cost of the answer. If that is further above what the coreset promised than the
target allows, the draws have missed something, and rows are drawn again around the present centers,
by sensitivity, as those of a refined coreset are. Where the method is ours to choose, that is also
done without such a pass if it is clearly better than more draws (`method`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import fsum
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.choosing.around import Around, draw_around
from lwcs.choosing.complaints import CHANCE, FAR_OFF, warn_of_answer
from lwcs.choosing.growth import LARGEST, REDRAWS, SMALL_ROWS, another_seed, enough_draws
from lwcs.choosing.method import (
    CLEARLY,
    MISSED,
    diagnose,
    draws_around,
    fails,
    first_sampler,
    may_miss,
    seen_on_draws,
    seen_on_level,
    warn_of_method,
    why_first,
)
from lwcs.choosing.solution import Solution, climb_coreset, finish, solve_on_one_level
from lwcs.choosing.summaries import check_n_rows, summarize
from lwcs.foundation.logs import decided
from lwcs.passes import AssignTask, cluster_weights, polish
from lwcs.samplers import Lightweight, Run
from lwcs.samplers.around_centers import Assignment, weigh
from lwcs.samplers.refined import STILL_ABOVE
from lwcs.sources import LocalSource
from lwcs.sources.watching import watched_blocks
from lwcs.trust.diagnosis import ASKED, GIVEN
from lwcs.trust.referee import UNKNOWN, Price, SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lwcs.building import Job
    from lwcs.choosing.levels import How
    from lwcs.coreset import ComputedAs, Coreset
    from lwcs.foundation.types import DenseRows, FloatArray
    from lwcs.samplers import Sampler
    from lwcs.samplers.around_centers import Clusters
    from lwcs.trust.diagnosis import Diagnosis, Seen

# Draws to begin with; the last inner level has a quarter of them.
DRAWS_PER_CLUSTER, FEWEST_DRAWS = 400, 20_000
# How often rows may be drawn around the present centers.
_AROUND = 3


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
    asked: str = ""
    """The method that was asked for, by its name."""
    chooses: bool = False
    """Whether the method is ours to choose; `sampler` is the one to begin with."""


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
    why: str = ASKED
    """Why its rows were drawn as they were."""
    seen: Seen | None = None
    """Its draws beside its centers, where they were looked at already."""
    diagnosis: Diagnosis | None = None

    @property
    def on_all_rows(self) -> bool:
        """Whether the cost is that on all rows."""
        passed = self.labels is not None or self.weighed is not None
        return passed or self.solution.coreset.exact

    def counted(self, weights: FloatArray | None) -> tuple[FloatArray, FloatArray | None] | None:
        """Weight of every cluster, and its cost if known, where a pass has looked at all rows.

        `weights` are those of the rows.
        """
        if self.weighed is not None:
            total = reduce(add, self.weighed)
            return total.weights, total.costs
        if not isinstance(self.labels, np.ndarray):  # none, or on a device
            return None
        return cluster_weights(self.labels, weights, len(self.centers)), None

    def on_draws(self) -> tuple[Any, FloatArray]:
        """Label of every row of the coreset, and its distance from the nearest center."""
        solution = self.solution
        coreset, found = solution.coreset, solution.found
        whole = len(found.labels) == len(coreset)
        # Centers may have been polished, or fitted on some of the draws.
        if whole and np.array_equal(self.centers, solution.centers):
            return found.labels, found.distances
        rows = solution.geometry.measured(coreset.rows)
        return rows.nearest(solution.geometry.own_centers(self.centers))


def fit_coreset(coreset: Coreset, computed_as: ComputedAs, wish: Wish) -> Answer:
    """Cluster a coreset."""
    answer = _solved(coreset, computed_as, wish)
    return replace(answer, diagnosis=diagnose(answer, wish, GIVEN))


def _solved(coreset: Coreset, computed_as: ComputedAs, wish: Wish) -> Answer:
    how, holdout = wish.how, 0.0 if coreset.exact else wish.holdout
    if wish.size is None and not holdout:
        draws = coreset
        if coreset.exact and coreset.size > SMALL_ROWS:
            draws = coreset.reduce(min(first_size(how.k), coreset.size // 2), random_state=how.seed)
        climbed = climb_coreset(draws, computed_as, how)
        solution = finish(climbed, draws, coreset, computed_as, how, wish.target)
    else:
        solution = solve_on_one_level(coreset, computed_as, how, holdout)
    centers, cost = solution.centers, solution.found.cost
    return Answer(solution, centers, coreset.cost(centers) if holdout else cost, solution.error)


def fit_rows(job: Job, wish: Wish) -> Answer:
    """Cluster the rows of a job."""
    if wish.chooses:
        wish = replace(wish, sampler=first_sampler(job, wish))
    answer = _to_target(job, wish) if wish.size is None else _of_size(job, wish, wish.size)
    told = warn_of_answer(answer, wish)
    found = diagnose(answer, wish, why_first(answer, wish, job))
    if not told:
        warn_of_method(found, wish, rereadable=job.source.rereadable)
    return replace(answer, diagnosis=found)


def _of_size(job: Job, wish: Wish, size: int) -> Answer:
    """Solve draws of a given size; where they have failed, others around the centers."""
    how, computed_as = wish.how, job.geometry
    coreset = summarize(
        job,
        size,
        how.k,
        method=wish.sampler,
        seed=how.seed,
        n_jobs=how.n_jobs,
        journal=how.journal,
    )
    judged = job.source.rereadable and (wish.labels or wish.polish)
    # All rows are the better referee, and all draws the better sample.
    own = replace(wish, holdout=0.0) if judged else wish
    answer = _solved(coreset, computed_as, own)
    ours = wish.chooses and job.source.rereadable and not coreset.exact
    if ours:
        answer = _around_if_failed(job, answer, own)
    answer = _on_all_rows(job, answer, wish)
    for attempt in range(_AROUND if ours else 0):
        if not answer.on_all.gap > FAR_OFF:
            break
        drawn, _ = _drawn_around(job, answer, wish, _AROUND + attempt)
        again = _on_all_rows(job, _solved_again(job, drawn, own, MISSED), wish)
        if wish.labels and again.cost >= answer.cost:
            break
        answer = again
    return answer


def _around_if_failed(job: Job, answer: Answer, wish: Wish) -> Answer:
    """Draw as many rows around the centers of an answer, if its draws have failed."""
    seen = seen_on_draws(answer)
    if not fails(seen, answer.solution.coreset):
        return replace(answer, seen=seen)
    for attempt in range(_AROUND):
        drawn, cost = _drawn_around(job, answer, wish, attempt)
        missed = cost > STILL_ABOVE * answer.solution.own.cost
        answer = _solved_again(job, drawn, wish, MISSED)
        if not missed:
            break
    return answer


def _solved_again(job: Job, drawn: Coreset, wish: Wish, why: str) -> Answer:
    """Solve draws around centers, with care: where clusters are far apart, each needs a center."""
    how = replace(wish.how, init="local-search") if wish.how.chooses_init else wish.how
    return replace(_solved(drawn, job.geometry, replace(wish, how=how)), why=why)


def _to_target(job: Job, wish: Wish) -> Answer:
    """Solve as many draws as it takes, and others around the answer if all rows ask for it."""
    answer = _as_large_as_it_takes(job, wish)
    coreset, silent = answer.solution.coreset, not (wish.labels or wish.polish)
    if wish.chooses and silent and job.source.rereadable and not coreset.exact:
        # Clusters that no draw has seen are seen by nothing but a pass over all rows.
        seen = seen_on_draws(answer)
        answer = replace(answer, seen=seen)
        wish = replace(wish, labels=may_miss(seen, coreset, wish.target))
    answer = _on_all_rows(job, answer, wish)
    for attempt in range(_AROUND):
        if not answer.on_all.estimate > wish.target:
            break
        again = _on_all_rows(job, _around(job, answer, wish, attempt), wish)
        if wish.labels and again.cost >= answer.cost:
            break
        answer = again
    return answer


def _as_large_as_it_takes(job: Job, wish: Wish) -> Answer:
    """Draw until the draws that are not used say that all of them are enough."""
    how, computed_as, source = wish.how, job.geometry, job.source
    size, most = first_size(how.k), LARGEST * first_size(how.k)
    n_rows = source.n_rows
    present: list[DenseRows] = []
    sampler, around, why = wish.sampler, None, ASKED
    for attempt in range(REDRAWS + 1):
        if n_rows is not None and n_rows <= SMALL_ROWS:
            check_n_rows(n_rows, how.k)
            draws = top = job.all_rows(how.n_jobs, how.journal)
        else:
            seed = how.seed if not attempt else another_seed(how.seed, attempt)
            if around is not None:
                draws, _ = draw_around(job, around, size, seed, how)
            else:
                draws = job.coreset(size, sampler, seed, n_jobs=how.n_jobs, journal=how.journal)
            top = draws
            n_rows = draws.n_samples
            check_n_rows(n_rows, how.k)
            if source.rereadable and size >= n_rows // 2:
                top = job.all_rows(how.n_jobs, how.journal)
                # Half as many draws as rows are enough for the inner levels.
                small = len(top) <= SMALL_ROWS
                draws = top if small else draws.reduce(n_rows // 2, random_state=seed)
        climbed = climb_coreset(draws, computed_as, how, present)
        error = climbed.error().estimate
        decided("size", "%d draws: sampling error %.3g, target %g", size, error, wish.target)
        if top.exact or not error > wish.target or size == most or not source.rereadable:
            break
        found = climbed.found.centers
        present = [found.geometry.to_data(found)]
        asked = enough_draws(size, error, wish.target)
        if wish.chooses:
            sampler = Lightweight()
            better = draws_around(seen_on_level(climbed), draws, error, wish.target, most)
            if better is not None or around is not None:
                around, why = Around(draws, found.geometry, present[0]), CLEARLY
            asked = asked if better is None else better
        size = min(most, asked)
        decided("size", "%d rows are drawn instead, attempt %d", size, attempt + 2)
    solution = finish(climbed, draws, top, computed_as, how, wish.target)
    return Answer(solution, solution.centers, solution.found.cost, solution.error, why=why)


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
    if wish.polish:
        answer = replace(answer, centers=centers, seen=None)
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
    if told.known and seen.gap < CHANCE * seen.noise:
        error = replace(seen, estimate=told.estimate, gap=max(seen.gap, told.gap))
    return replace(answer, error=error.less(drop), on_all=seen.less(drop))


def _priced(job: Job, answer: Answer, wish: Wish) -> Answer:
    """Label all rows, where they are in memory, and add up what they cost."""
    source, own = job.source, answer.solution.geometry.own_centers(answer.centers)
    if isinstance(source, LocalSource):
        labels = source.empty(np.int32)
        costs = source.each_block(AssignTask(own, labels), n_jobs=wish.how.n_jobs)
        journal = wish.how.journal
        with source.explaining():
            cost = fsum(watched_blocks(costs, source, journal, "labels", source.block_rows))
        return replace(answer, cost=cost, labels=labels)
    run = Run(wish.how.seed, answer.solution.geometry, wish.how.n_jobs, wish.how.journal)
    weighed = weigh(source, Assignment(own), run, "cost")
    return replace(answer, cost=fsum(float(part.costs.sum()) for part in weighed), weighed=weighed)


def _drawn_around(job: Job, answer: Answer, wish: Wish, attempt: int) -> tuple[Coreset, float]:
    """Draw as many rows again, by sensitivity around the present centers."""
    before, seed = answer.solution, another_seed(wish.how.seed, REDRAWS + 1 + attempt)
    around = Around(before.coreset, before.geometry, answer.centers, answer.weighed)
    return draw_around(job, around, before.coreset.size, seed, wish.how)


def _around(job: Job, answer: Answer, wish: Wish, attempt: int) -> Answer:
    """Draw again around the present centers, and solve from there."""
    how, computed_as = wish.how, job.geometry
    decided(
        "missed clusters", "the cost on all rows is %.3g times as high as the draws promised; %d "
        "rows are drawn around the centers", 1.0 + answer.on_all.gap, answer.solution.coreset.size,
    )  # fmt: skip
    again, _ = _drawn_around(job, answer, wish, attempt)
    climbed = climb_coreset(again, computed_as, how, [answer.centers])
    solution = finish(climbed, again, again, computed_as, how, wish.target)
    return Answer(solution, solution.centers, solution.found.cost, solution.error, why=MISSED)
