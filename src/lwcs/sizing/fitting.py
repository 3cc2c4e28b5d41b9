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
from math import fsum, isfinite
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.passes import AssignTask, cluster_weights, polish
from lwcs.runtime.warnings import decided
from lwcs.samplers import Lightweight, Run
from lwcs.samplers.around_centers import Assignment, weigh
from lwcs.samplers.refined import STILL_ABOVE
from lwcs.sizing.around import Around, draw_around
from lwcs.sizing.fit_warnings import CHANCE, FAR_OFF, warn_of_answer
from lwcs.sizing.method import (
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
from lwcs.sizing.solution import (
    LARGEST,
    REDRAWS,
    SMALL_ROWS,
    Solution,
    another_seed,
    check_n_rows,
    climb_coreset,
    enough_draws,
    finish,
    solve_on_one_level,
    summarize,
)
from lwcs.sources import LocalSource
from lwcs.sources.watching import watched_blocks
from lwcs.statistics.diagnosis import ASKED, GIVEN
from lwcs.statistics.record import FittedOn
from lwcs.statistics.referee import UNKNOWN, Mean, Price, SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray
    from lwcs.coreset.building import BuildContext
    from lwcs.coreset.coreset import ComputedAs, Coreset
    from lwcs.samplers import Sampler
    from lwcs.samplers.around_centers import ClusterTotals
    from lwcs.sizing.levels import SolverParams
    from lwcs.sources import Source
    from lwcs.statistics.diagnosis import Diagnosis, DrawStatistics

# Draws to begin with; the last inner level has a quarter of them.
DRAWS_PER_CLUSTER, FEWEST_DRAWS = 400, 20_000
# How often rows may be drawn around the present centers.
_AROUND = 3


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What an estimator was asked for."""

    params: SolverParams
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
class FitResult:
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
    weighed: Sequence[ClusterTotals] | None = None
    """The clusters of every partition, where the final pass has weighed them."""
    why: str = ASKED
    """Why its rows were drawn as they were."""
    seen: DrawStatistics | None = None
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

    def record(self, source: Source | None) -> FittedOn:
        """What the model remembers of its rows; `source` is None where a coreset was given.

        The cost is that on all rows if known, else the one on the draws, corrected by the gap.
        """
        coreset, error = self.solution.coreset, self.error
        labels, distances = self.on_draws()
        if self.on_all_rows:
            cost = Mean(self.cost / coreset.total_weight)
        else:
            price = Price.on_draws(coreset.host_weights, coreset.counts, distances)
            gap, noise = (error.gap, error.noise) if isfinite(error.gap) else (0.0, 0.0)
            value = price.cost / coreset.total_weight * (1.0 + gap)
            cost = Mean(value, value**2 * (price.variance + noise**2))
        record = FittedOn.of(coreset, cost, distances, labels, len(self.centers), source)
        on_all = self.counted(source.weights if isinstance(source, LocalSource) else None)
        return record if on_all is None else record.counted(*on_all)

    def on_draws(self) -> tuple[Any, FloatArray]:
        """Label of every row of the coreset, and its distance from the nearest center."""
        solution = self.solution
        coreset, found = solution.coreset, solution.found
        whole = len(found.labels) == len(coreset)
        # Centers may have been polished, or fitted on some of the draws.
        if whole and np.array_equal(self.centers, solution.centers):
            return found.labels, found.distances
        rows = solution.geometry.measured(coreset.host_points)
        return rows.nearest(solution.geometry.own_centers(self.centers))


def fit_coreset(coreset: Coreset, computed_as: ComputedAs, request: FitRequest) -> FitResult:
    """Cluster a coreset."""
    answer = _solved(coreset, computed_as, request)
    return replace(answer, diagnosis=diagnose(answer, request, GIVEN))


def _solved(coreset: Coreset, computed_as: ComputedAs, request: FitRequest) -> FitResult:
    params, holdout = request.params, 0.0 if coreset.exact else request.holdout
    if request.size is None and not holdout:
        draws = coreset
        if coreset.exact and coreset.size > SMALL_ROWS:
            draws = coreset.reduce(
                min(first_size(params.k), coreset.size // 2), random_state=params.seed
            )
        climbed = climb_coreset(draws, computed_as, params)
        solution = finish(climbed, draws, coreset, computed_as, params, request.target)
    else:
        solution = solve_on_one_level(coreset, computed_as, params, holdout)
    centers, cost = solution.centers, solution.found.cost
    return FitResult(solution, centers, coreset.cost(centers) if holdout else cost, solution.error)


def fit_rows(context: BuildContext, request: FitRequest) -> FitResult:
    """Cluster the rows of a job."""
    if request.chooses:
        request = replace(request, sampler=first_sampler(context, request))
    answer = (
        _to_target(context, request)
        if request.size is None
        else _of_size(context, request, request.size)
    )
    told = warn_of_answer(answer, request)
    found = diagnose(answer, request, why_first(answer, request, context))
    if not told:
        warn_of_method(found, request, rereadable=context.source.rereadable)
    return replace(answer, diagnosis=found)


def _of_size(context: BuildContext, request: FitRequest, size: int) -> FitResult:
    """Solve draws of a given size; where they have failed, others around the centers."""
    params, computed_as = request.params, context.geometry
    coreset = summarize(
        context,
        size,
        params.k,
        method=request.sampler,
        seed=params.seed,
        n_jobs=params.n_jobs,
        journal=params.journal,
    )
    judged = context.source.rereadable and (request.labels or request.polish)
    # All rows are the better referee, and all draws the better sample.
    own = replace(request, holdout=0.0) if judged else request
    answer = _solved(coreset, computed_as, own)
    ours = request.chooses and context.source.rereadable and not coreset.exact
    if ours:
        answer = _around_if_failed(context, answer, own)
    answer = _on_all_rows(context, answer, request)
    for attempt in range(_AROUND if ours else 0):
        if not answer.on_all.gap > FAR_OFF:
            break
        drawn, _ = _drawn_around(context, answer, request, _AROUND + attempt)
        again = _on_all_rows(context, _solved_again(context, drawn, own, MISSED), request)
        if request.labels and again.cost >= answer.cost:
            break
        answer = again
    return answer


def _around_if_failed(context: BuildContext, answer: FitResult, request: FitRequest) -> FitResult:
    """Draw as many rows around the centers of an answer, if its draws have failed."""
    seen = seen_on_draws(answer)
    if not fails(seen, answer.solution.coreset):
        return replace(answer, seen=seen)
    for attempt in range(_AROUND):
        drawn, cost = _drawn_around(context, answer, request, attempt)
        missed = cost > STILL_ABOVE * answer.solution.own.cost
        answer = _solved_again(context, drawn, request, MISSED)
        if not missed:
            break
    return answer


def _solved_again(
    context: BuildContext, drawn: Coreset, request: FitRequest, why: str
) -> FitResult:
    """Solve draws around centers, with care: where clusters are far apart, each needs a center."""
    params = (
        replace(request.params, init="local-search")
        if request.params.chooses_init
        else request.params
    )
    return replace(_solved(drawn, context.geometry, replace(request, params=params)), why=why)


def _to_target(context: BuildContext, request: FitRequest) -> FitResult:
    """Solve as many draws as it takes, and others around the answer if all rows ask for it."""
    answer = _as_large_as_it_takes(context, request)
    coreset, silent = answer.solution.coreset, not (request.labels or request.polish)
    if request.chooses and silent and context.source.rereadable and not coreset.exact:
        # Clusters that no draw has seen are seen by nothing but a pass over all rows.
        seen = seen_on_draws(answer)
        answer = replace(answer, seen=seen)
        request = replace(request, labels=may_miss(seen, coreset, request.target))
    answer = _on_all_rows(context, answer, request)
    for attempt in range(_AROUND):
        if not answer.on_all.estimate > request.target:
            break
        again = _on_all_rows(context, _around(context, answer, request, attempt), request)
        if request.labels and again.cost >= answer.cost:
            break
        answer = again
    return answer


def _as_large_as_it_takes(context: BuildContext, request: FitRequest) -> FitResult:
    """Draw until the draws that are not used say that all of them are enough."""
    params, computed_as, source = request.params, context.geometry, context.source
    size, most = first_size(params.k), LARGEST * first_size(params.k)
    n_rows = source.n_rows
    present: list[DenseRows] = []
    sampler, around, why = request.sampler, None, ASKED
    for attempt in range(REDRAWS + 1):
        if n_rows is not None and n_rows <= SMALL_ROWS:
            check_n_rows(n_rows, params.k)
            draws = top = context.all_rows(params.n_jobs, params.journal)
        else:
            seed = params.seed if not attempt else another_seed(params.seed, attempt)
            if around is not None:
                draws, _ = draw_around(context, around, size, seed, params)
            else:
                draws = context.coreset(
                    size, sampler, seed, n_jobs=params.n_jobs, journal=params.journal
                )
            top = draws
            n_rows = draws.n_samples
            check_n_rows(n_rows, params.k)
            if source.rereadable and size >= n_rows // 2:
                top = context.all_rows(params.n_jobs, params.journal)
                # Half as many draws as rows are enough for the inner levels.
                small = len(top) <= SMALL_ROWS
                draws = top if small else draws.reduce(n_rows // 2, random_state=seed)
        climbed = climb_coreset(draws, computed_as, params, present)
        error = climbed.error().estimate
        decided("size", "%d draws: sampling error %.3g, target %g", size, error, request.target)
        if top.exact or not error > request.target or size == most or not source.rereadable:
            break
        found = climbed.found.centers
        present = [found.geometry.to_data(found)]
        asked = enough_draws(size, error, request.target)
        if request.chooses:
            sampler = Lightweight()
            better = draws_around(seen_on_level(climbed), draws, error, request.target, most)
            if better is not None or around is not None:
                around, why = Around(draws, found.geometry, present[0]), CLEARLY
            asked = asked if better is None else better
        size = min(most, asked)
        decided("size", "%d rows are drawn instead, attempt %d", size, attempt + 2)
    solution = finish(climbed, draws, top, computed_as, params, request.target)
    return FitResult(solution, solution.centers, solution.found.cost, solution.error, why=why)


def first_size(k: int) -> int:
    """Draws to begin with."""
    return max(FEWEST_DRAWS, DRAWS_PER_CLUSTER * k)


def _on_all_rows(context: BuildContext, answer: FitResult, request: FitRequest) -> FitResult:
    """Polish an answer, and price it on all rows."""
    source, solution, n_jobs = context.source, answer.solution, request.params.n_jobs
    # Rows that can be read only once are gone after the coreset.
    if not source.rereadable:
        return answer
    geometry, centers = solution.geometry, answer.centers
    costs = []
    for _ in range(request.polish):
        step = polish(source, geometry.own_centers(centers), n_jobs, request.params.journal)
        centers = geometry.to_data(step.centers).astype(centers.dtype)
        costs.append(step.cost_before)
    if request.polish:
        answer = replace(answer, centers=centers, seen=None)
    if request.labels:
        answer = _priced(context, answer, request)
        costs.append(answer.cost)
    elif request.polish:
        answer = replace(answer, cost=solution.coreset.cost(centers))
    return _judged(answer, costs) if costs and not solution.coreset.exact else answer


def _judged(answer: FitResult, costs: Sequence[float]) -> FitResult:
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


def _priced(context: BuildContext, answer: FitResult, request: FitRequest) -> FitResult:
    """Label all rows, where they are in memory, and add up what they cost."""
    source, own = context.source, answer.solution.geometry.own_centers(answer.centers)
    if isinstance(source, LocalSource):
        labels = source.empty(np.int32)
        costs = source.each_block(AssignTask(own, labels), n_jobs=request.params.n_jobs)
        journal = request.params.journal
        with source.explaining():
            cost = fsum(watched_blocks(costs, source, journal, "labels", source.block_rows))
        return replace(answer, cost=cost, labels=labels)
    run = Run(
        request.params.seed, answer.solution.geometry, request.params.n_jobs, request.params.journal
    )
    weighed = weigh(source, Assignment(own), run, "cost")
    return replace(answer, cost=fsum(float(part.costs.sum()) for part in weighed), weighed=weighed)


def _drawn_around(
    context: BuildContext, answer: FitResult, request: FitRequest, attempt: int
) -> tuple[Coreset, float]:
    """Draw as many rows again, by sensitivity around the present centers."""
    before, seed = answer.solution, another_seed(request.params.seed, REDRAWS + 1 + attempt)
    around = Around(before.coreset, before.geometry, answer.centers, answer.weighed)
    return draw_around(context, around, before.coreset.size, seed, request.params)


def _around(
    context: BuildContext, answer: FitResult, request: FitRequest, attempt: int
) -> FitResult:
    """Draw again around the present centers, and solve from there."""
    params, computed_as = request.params, context.geometry
    decided(
        "missed clusters", "the cost on all rows is %.3g times as high as the draws promised; %d "
        "rows are drawn around the centers", 1.0 + answer.on_all.gap, answer.solution.coreset.size,
    )  # fmt: skip
    again, _ = _drawn_around(context, answer, request, attempt)
    climbed = climb_coreset(again, computed_as, params, [answer.centers])
    solution = finish(climbed, again, again, computed_as, params, request.target)
    return FitResult(solution, solution.centers, solution.found.cost, solution.error, why=MISSED)
