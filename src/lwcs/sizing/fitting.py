"""The path of a fit: draw rows, solve them, judge the answer, and decide what happens next.

`fit_rows` is this path from top to bottom; `decision.decide` says what happens after every step,
and why.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.checks import check_n_rows
from lwcs.coreset.coreset import Coreset
from lwcs.passes import AssignTask, polish
from lwcs.runtime.journal import TIMINGS
from lwcs.runtime.warnings import decided
from lwcs.samplers import Lightweight, Refined, Run
from lwcs.samplers.around_centers import Assignment, assign, draw_by_sensitivity, weigh
from lwcs.samplers.refined import STILL_ABOVE
from lwcs.samplers.sampler import Summary
from lwcs.sizing.decision import Action, Step, decide, first_sampler, first_step, takes_all_rows
from lwcs.sizing.fit_warnings import CHANCE, warn_of_columns, warn_of_result
from lwcs.sizing.solution import (
    SMALL_ROWS,
    FitRequest,
    FitResult,
    FitTrial,
    PresentCenters,
    another_seed,
    finish,
    first_size,
    solve_inner_levels,
    solve_on_one_level,
    summarize,
)
from lwcs.solvers.lloyd import cheapest
from lwcs.sources import LocalSource
from lwcs.sources.base import watched_blocks
from lwcs.statistics.diagnosis import Diagnosis, Reason
from lwcs.statistics.referee import Price, SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.coreset.building import BuildContext
    from lwcs.coreset.coreset import ComputedAs
    from lwcs.sizing.levels import SolverParams


def fit_rows(context: BuildContext, request: FitRequest) -> FitResult:
    """Cluster the rows of a source: draw, solve, judge, decide, until the answer is good enough."""
    step = first_step(context, request)
    request = replace(request, sampler=first_sampler(context, request))
    trial = solve(context, request, draw(context, request, step))
    while (step := decide(context, request, trial)).action is not Action.STOP:
        decided("step", "%s: %s", step.action.name, step.reason)
        if step.action is Action.FINISH:
            trial = solve_last_level(context, request, trial)
        elif step.action is Action.JUDGE:
            trial = judge(context, request, trial)
        else:
            trial = solve(context, request, draw(context, request, step, trial))
    result = trial.solved
    result = replace(result, diagnosis=_diagnose(result, request, step.reason))
    warn_of_result(result, request, rereadable=context.source.rereadable)
    warn_of_columns(result, context.source)
    return result


def fit_coreset(coreset: Coreset, computed_as: ComputedAs, request: FitRequest) -> FitResult:
    """Cluster a coreset that was built before; no warning is about its size, which was given."""
    params = request.params
    if request.size is not None or (request.holdout and not coreset.exact):
        result = _solve_on_one_level(coreset, computed_as, params, request.holdout)
    else:
        draws = coreset
        if coreset.exact and coreset.size > SMALL_ROWS:
            draws = coreset.reduce(
                min(first_size(params.k), coreset.size // 2), random_state=params.seed
            )
        levels = solve_inner_levels(draws, computed_as, params)
        solution = finish(levels, draws, coreset, computed_as, params, request.target)
        result = FitResult.of(solution, Reason.GIVEN)
    return replace(result, diagnosis=_diagnose(result, request, Reason.GIVEN))


def draw(
    context: BuildContext, request: FitRequest, step: Step, last: FitTrial | None = None
) -> FitTrial:
    """Draw rows as a step says, or take all of them; `last` is what was found before."""
    params, source = request.params, context.source
    if step.action is Action.TAKE_ALL:
        rows = context.all_rows(params.n_jobs, params.journal)
        check_n_rows(rows.n_samples, params.k)
        return FitTrial(step, rows, rows)
    seed = another_seed(params.seed, step.attempt) if step.attempt else params.seed
    if step.action is Action.DRAW_AROUND and last is not None:
        draws, cost = draw_around(context, last.present, step.size, seed, params)
        missed = last.result is not None and cost > STILL_ABOVE * last.result.solution.own.cost
    else:
        draws, missed = _draw_by_sampler(context, request, step, seed, last), False
    if last is not None:
        # Only the last trial is needed: memory does not grow with their number.
        last = replace(last, last=None)
    trial = FitTrial(step, draws, draws, last=last, missed=missed)
    given = request.size is not None
    if given or trial.judged_before is not None or not source.rereadable:
        return trial
    n_rows = draws.n_samples
    if not takes_all_rows(n_rows, step.size):
        return trial
    rows = context.all_rows(params.n_jobs, params.journal)
    # Half as many draws as rows are enough for the inner levels.
    small = len(rows) <= SMALL_ROWS
    draws = rows if small else draws.reduce(n_rows // 2, random_state=seed)
    return replace(trial, draws=draws, rows=rows)


def _draw_by_sampler(
    context: BuildContext, request: FitRequest, step: Step, seed: int, last: FitTrial | None
) -> Coreset:
    params = request.params
    if request.size is not None:
        return summarize(
            context, step.size, params.k, method=request.sampler, seed=seed,
            n_jobs=params.n_jobs, journal=params.journal,
        )  # fmt: skip
    # If uniform draws are not enough, the data is not as the pilot said.
    sampler = Lightweight() if request.chooses and last is not None else request.sampler
    draws = context.coreset(
        step.size, sampler, seed, n_jobs=params.n_jobs, journal=params.journal,
        check_rows=partial(check_n_rows, k=params.k),
    )  # fmt: skip
    check_n_rows(draws.n_samples, params.k)
    return draws


def draw_around(
    context: BuildContext, present: PresentCenters, size: int, seed: int, params: SolverParams
) -> tuple[Coreset, float]:
    """Draw rows by sensitivity around centers; return them, and the cost on all rows there."""
    source, before, geometry = context.source, present.coreset, present.geometry
    journal = params.journal.part()
    run, centers = Run(seed, geometry, params.n_jobs, journal), geometry.own_centers(present.points)
    if isinstance(source, LocalSource):
        assignment = assign(source, centers, run)
    else:
        assignment = Assignment(centers)
    weighed = present.weighed
    if weighed is None or len(weighed) < (source.known_partitions or 0):
        weighed = weigh(source, assignment, run)
    known = Summary(
        before._scanned_rows, before.total_weight, geometry.mean, before.total_cost, before.scale
    )
    noise = 0.0
    if geometry.mean is not None and known.cost is not None:
        noise = geometry.noise(known.weight, known.rows, known.cost, before.host_points.dtype)
    draws = draw_by_sensitivity(source, assignment, params.k, size, known, run, noise, weighed)
    drawn = Coreset.drawn(
        draws,
        source.like,
        method=Refined.name,
        divergence=before.divergence,
        seed=seed,
        feature_names=before.feature_names,
        details={**before.details, TIMINGS: journal.timings()},
    )
    return drawn, fsum(float(part.costs.sum()) for part in weighed)


def solve(context: BuildContext, request: FitRequest, trial: FitTrial) -> FitTrial:
    """Solve the inner levels of draws; those of a given size at once, as in the paper."""
    params = request.params
    if request.size is None:
        present = () if trial.last is None else (trial.last.present.points,)
        levels = solve_inner_levels(trial.draws, context.geometry, params, present)
        return replace(trial, levels=levels)
    # All rows are the better referee, and all draws the better sample.
    judged = context.source.rereadable and (request.labels or request.polish)
    if trial.step.action is Action.DRAW_AROUND and params.chooses_init:
        # Where clusters are far apart, each needs a center.
        params = replace(params, init="local-search")
    result = _solve_on_one_level(
        trial.draws, context.geometry, params, 0.0 if judged else request.holdout
    )
    return replace(trial, result=replace(result, reason=trial.step.reason))


def _solve_on_one_level(
    coreset: Coreset, computed_as: ComputedAs, params: SolverParams, holdout: float
) -> FitResult:
    holdout = 0.0 if coreset.exact else holdout
    result = FitResult.of(solve_on_one_level(coreset, computed_as, params, holdout))
    return replace(result, cost=coreset.cost(result.centers)) if holdout else result


def solve_last_level(context: BuildContext, request: FitRequest, trial: FitTrial) -> FitTrial:
    """Solve all draws, or all rows, starting from the inner levels."""
    assert trial.levels is not None
    solution = finish(
        trial.levels, trial.draws, trial.rows, context.geometry, request.params, request.target
    )
    return replace(trial, result=FitResult.of(solution, trial.step.reason))


def judge(context: BuildContext, request: FitRequest, trial: FitTrial) -> FitTrial:
    """Polish a result, and price it on all rows; keep the one before if that is no worse."""
    result, solution = trial.solved, trial.solved.solution
    params, geometry = request.params, solution.geometry
    costs = []
    for _ in range(request.polish):
        step = polish(
            context.source, geometry.own_centers(result.centers), params.n_jobs, params.journal
        )
        centers = geometry.to_data(step.centers).astype(result.centers.dtype)
        result = result.replaced(centers=centers)
        costs.append(step.cost_before)
    priced = request.labels or not request.polish
    if priced:
        result = _priced(context, result, request)
        costs.append(result.cost)
    else:
        result = result.replaced(cost=solution.coreset.cost(result.centers))
    if not solution.coreset.exact:
        result = _judged(result, costs)
    before = trial.judged_before
    if before is not None and priced and cheapest([before.cost, result.cost]) == 0:
        return replace(trial, result=before, judged=True, settled=True)
    return replace(trial, result=result, judged=True)


def _priced(context: BuildContext, result: FitResult, request: FitRequest) -> FitResult:
    """Label all rows, where they are in memory, and add up what they cost."""
    source, centers = context.source, result.solution.geometry.own_centers(result.centers)
    params = request.params
    if isinstance(source, LocalSource):
        labels = source.empty(np.int32)
        costs = source.each_block(AssignTask(centers, labels), n_jobs=params.n_jobs)
        with source.explaining():
            blocks = watched_blocks(costs, source, params.journal, "labels", source.block_rows)
            cost = fsum(blocks)
        return result.replaced(cost=cost, labels=labels)
    run = Run(params.seed, result.solution.geometry, params.n_jobs, params.journal)
    weighed = weigh(source, Assignment(centers), run, "cost", by_partition=False)
    cost = fsum(float(part.costs.sum()) for part in weighed)
    return result.replaced(cost=cost, weighed=weighed)


def _judged(result: FitResult, costs: Sequence[float]) -> FitResult:
    """Judge a result by the costs on all rows, before and after each polish step.

    All rows are the best referee of what the draws may have missed. Where their gap is no more
    than chance, the draws that were not used say with less noise how large the error is; the
    bound is that of all rows.
    """
    solution = result.solution
    drop = 1.0 - costs[-1] / costs[0] if costs[0] else 0.0
    on_all = SamplingError.of(solution.own, Price(costs[0])).unfinished(solution.found.remaining)
    error, unseen = on_all, solution.error
    if unseen.known and on_all.gap < CHANCE * on_all.noise:
        error = replace(on_all, estimate=unseen.estimate, gap=max(on_all.gap, unseen.gap))
    return result.replaced(error=error.less(drop), on_all=on_all.less(drop))


def _diagnose(result: FitResult, request: FitRequest, reason: Reason) -> Diagnosis:
    coreset, unfinished = result.solution.coreset, result.solution.found.remaining
    columns = result.dominating_columns()
    if coreset.exact:
        return Diagnosis(
            request.asked, coreset.method, Reason.FEW_ROWS.value, coreset.size, on_all_rows=True,
            unfinished=unfinished, columns=columns,
        )  # fmt: skip
    diagnosis = Diagnosis.of(
        result.statistics,
        request.asked,
        coreset.method,
        reason.value,
        coreset.size,
        result.error,
        on_all_rows=result.on_all_rows,
    )
    return replace(diagnosis, unfinished=unfinished, columns=columns)
