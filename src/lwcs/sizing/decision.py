"""Decides what a fit does next, and why; no other module does.

Lightweight draws come first: one pass, and no solution is needed for them. The draws that were not
used say whether all of them are enough; the final pass over all rows, where it is made, says it
exactly. Rows are then drawn by sensitivity around the present centers where that is clearly better
than more lightweight draws (`statistics.diagnosis`), or where these may have missed clusters. Draws
are uniform where a few rows, which cost no pass, say that all rows are about equally far from their
mean and from each other, and a final pass over all rows will judge.

Missed clusters show in the costs: a level that costs twice what the one before did has clusters
that were not seen, and swaps find them (`levels`); if all rows cost more than the target allows,
rows are drawn again. Together these bring the families of `benchmarks.families` within 1 % of the
best known, where draws alone were up to 10⁵ times as costly.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from lwcs.arrays.checks import BadValueError, check_choice, check_n_rows
from lwcs.runtime.randomness import Stage
from lwcs.runtime.warnings import decided
from lwcs.samplers import Lightweight, Uniform, as_sampler, available
from lwcs.sizing.solution import (
    LARGEST,
    REDRAWS,
    SMALL_ROWS,
    enough_draws,
    first_size,
)
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points
from lwcs.statistics.diagnosis import MAY_MISS, Reason, errors_by_method
from lwcs.statistics.draw_statistics import OWN, DrawStatistics

if TYPE_CHECKING:
    from lwcs.coreset.building import BuildContext
    from lwcs.coreset.coreset import Coreset
    from lwcs.samplers import Sampler
    from lwcs.sizing.levels import SolverParams
    from lwcs.sizing.solution import FitRequest, FitResult, FitTrial

AUTO = "auto"
FAR_OFF = 10.0
"""A gap between all rows and draws of a given size is expected; one of this size is not."""
# How often rows may be drawn around the present centers, before and after all rows have judged.
_AROUND = 3
# Draws around the centers are clearly better if they have at most this part of the error. On RNA it
# was predicted to be 0.47, and came out at 0.67.
_MUCH_BETTER = 0.7
# A pass over all rows around centers takes as long as this many iterations on as many draws.
_ITERATIONS = 10
# Bytes from which on a pass (0.1 s of 0.7 s for 200 MB) is worth a pilot that may save it.
_WORTH_BYTES = 2**27
# The uniform pilot: rows, clusters, and iterations.
_PILOT_ROWS, _PILOT_CLUSTERS, _PILOT_ITERATIONS = 1_000, 8, 3
# Rows are isotropic if a few centers leave most of the cost, uniform draws are nearly as good as
# lightweight ones, and no row costs much more than others.
_LEFT, _NEARLY, _HEAVY = 0.5, 1.1, 20.0
# For draws of a given size: the cost of what they miss over that of the rest, and the bound on
# their spread. With 10 to 50 draws per cluster, these are up to 0.3 and 2 on KDD and RNA; on the
# families that lightweight draws fail on, one of them is 4 and more.
_MISSED, _SPREAD = 1.0, 3.0


class Action(Enum):
    """The next action of a fit."""

    TAKE_ALL = auto()
    """Take all rows, and sample nothing."""
    DRAW = auto()
    """Draw rows by the sampler."""
    DRAW_AROUND = auto()
    """Draw rows by sensitivity around the present centers."""
    FINISH = auto()
    """Solve the last level: all draws, or all rows."""
    JUDGE = auto()
    """Ask all rows: polish, labels, and their cost."""
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """An action, and the reason for it."""

    action: Action
    reason: Reason = Reason.AS_REQUESTED
    size: int = 0
    """Number of rows to draw, or to take."""
    attempt: int = 0
    """Draws of every attempt have a seed of their own."""


def first_step(context: BuildContext, request: FitRequest) -> Step:
    """Take all rows if they are known to be few; otherwise draw."""
    n_rows, size = context.source.n_rows, request.size
    if n_rows is not None:
        check_n_rows(n_rows - context.source.dropped, request.params.k)
    if size is None and n_rows is not None and n_rows <= SMALL_ROWS:
        return Step(Action.TAKE_ALL, Reason.FEW_ROWS, n_rows)
    return Step(Action.DRAW, size=first_size(request.params.k) if size is None else size)


def takes_all_rows(source_rows: int, size: int) -> bool:
    """Whether the last level is all rows, since at least half of them would be drawn."""
    return size >= source_rows // 2


def decide(context: BuildContext, request: FitRequest, trial: FitTrial) -> Step:
    """Decide what happens next: draw more, draw around the centers, ask all rows, or stop."""
    if trial.result is None:
        return _after_levels(context, request, trial)
    if trial.judged:
        failed = not trial.settled and _costs_too_much(request, trial.result)
    else:
        failed = _draws_failed(context, request, trial)
    around = _around_next(request, trial)
    if failed and around is not None:
        return around
    if not trial.judged and _asks_all_rows(context, request, trial):
        return Step(Action.JUDGE, trial.step.reason)
    return Step(Action.STOP, _final_reason(context, request, trial.result))


def _after_levels(context: BuildContext, request: FitRequest, trial: FitTrial) -> Step:
    """Finish if the draws that were not used say that all draws are enough; else draw others."""
    assert trial.levels is not None
    finish = Step(Action.FINISH, trial.step.reason)
    if trial.judged_before is not None:
        # All rows will judge again.
        return finish
    draws, error = trial.draws, trial.levels.error().estimate
    size, most = trial.step.size, LARGEST * first_size(request.params.k)
    decided("size", "%d draws: sampling error %.3g, target %g", size, error, request.target)
    enough = trial.rows.exact or not error > request.target
    if enough or size == most or not context.source.rereadable or trial.step.attempt == REDRAWS:
        return finish
    action, reason = trial.step.action, trial.step.reason
    more = enough_draws(size, error, request.target)
    if request.chooses:
        better = _draws_around(trial.levels.statistics(), draws, error, request.target, most)
        if better is not None:
            action, reason, more = Action.DRAW_AROUND, Reason.CLEARLY_BETTER, better
    return Step(action, reason, min(most, more), trial.step.attempt + 1)


def _around_next(request: FitRequest, trial: FitTrial) -> Step | None:
    """The next draw around the present centers, if there may be one."""
    # Draws before and after all rows have judged have seeds of their own.
    first = REDRAWS + 1 + (_AROUND if request.size is not None and trial.judged else 0)
    attempt = max(first, trial.step.attempt + 1)
    if attempt == first + _AROUND:
        return None
    size = trial.solved.solution.coreset.size
    return Step(Action.DRAW_AROUND, Reason.MISSED_CLUSTERS, size, attempt)


def _draws_failed(context: BuildContext, request: FitRequest, trial: FitTrial) -> bool:
    """Whether draws of a given size, whose method was not given, have missed clusters.

    If they have not, they are kept as in the paper: on KDD with 1,000 draws, drawing around the
    centers gains 5 % of the cost and takes five times as long; more lightweight draws gain more in
    that time.
    """
    coreset = trial.solved.solution.coreset
    may_change = request.chooses and context.source.rereadable and not coreset.exact
    if request.size is None or not may_change or trial.judged_before is not None:
        return False
    if trial.step.action is Action.DRAW_AROUND:
        return trial.missed
    return _fails(trial.solved.statistics, coreset)


def _asks_all_rows(context: BuildContext, request: FitRequest, trial: FitTrial) -> bool:
    """Whether a pass over all rows follows, because it was asked for or because it is needed."""
    if not context.source.rereadable:
        return False
    if request.labels or request.polish or trial.judged_before is not None:
        return True
    coreset = trial.solved.solution.coreset
    if request.size is not None or not request.chooses or coreset.exact:
        return False
    # Clusters that no draw has seen are seen by nothing but a pass over all rows.
    return _may_miss(trial.solved.statistics, coreset, request.target)


def _costs_too_much(request: FitRequest, result: FitResult) -> bool:
    """Whether all rows cost more than the target allows, or far more than the draws."""
    if request.size is None:
        return result.on_all.estimate > request.target
    return request.chooses and result.on_all.gap > FAR_OFF


def _final_reason(context: BuildContext, request: FitRequest, result: FitResult) -> Reason:
    """Why the rows of a result were drawn as they were."""
    if result.solution.coreset.exact:
        return Reason.FEW_ROWS
    if not request.chooses or result.reason is not Reason.AS_REQUESTED:
        return result.reason
    if not context.source.rereadable:
        return Reason.READ_ONCE
    if result.solution.coreset.method == Uniform.name:
        return Reason.ISOTROPIC
    if request.size is not None:
        return Reason.SIZE_GIVEN
    return Reason.NO_BETTER if result.error.estimate > request.target else Reason.ENOUGH


def _draws_around(
    statistics: DrawStatistics | None, draws: Coreset, error: float, target: float, most: int
) -> int | None:
    """How many rows to draw around the present centers; None if more of the same are better.

    `error` is that of the present draws, above the target.
    """
    if statistics is None:
        return None
    errors = errors_by_method(statistics, draws.method, draws.size, error)
    if not errors or errors["refined"] > _MUCH_BETTER * error:
        return None
    more = min(most, enough_draws(draws.size, error, target))
    around = min(most, max(draws.size, enough_draws(draws.size, errors["refined"], target)))
    worth = more == most or draws.n_samples < _ITERATIONS * (more - around)
    return around if worth else None


def _may_miss(statistics: DrawStatistics, draws: Coreset, target: float) -> bool:
    """Whether draws may have missed clusters, and nothing but a pass over all rows would tell.

    Where some clusters were drawn once or twice, others were probably not drawn at all.
    """
    if draws.method not in (Lightweight.name, Uniform.name):
        return False
    formulas = statistics.formulas(draws.size)
    missed = formulas[draws.method].missed if formulas else 0.0
    return missed > target or statistics.spread(draws.size) > MAY_MISS


def _fails(statistics: DrawStatistics, draws: Coreset) -> bool:
    """Whether so few draws have probably missed clusters that cost more than all others."""
    formulas = statistics.formulas(draws.size)
    missed = formulas[OWN].missed if formulas else 0.0
    return missed > _MISSED or statistics.spread(draws.size) > _SPREAD


def sampler_of(method: str | Sampler, k: int | None = None) -> Sampler:
    """The sampler to begin with; the lightweight one for "auto"."""
    if isinstance(method, str):
        check_choice(method, "method", (AUTO, *available()))
    return Lightweight() if is_auto(method) else as_sampler(method, k)


def is_auto(method: str | Sampler) -> bool:
    """Whether the method is left to the library."""
    return isinstance(method, str) and method == AUTO


def first_sampler(context: BuildContext, request: FitRequest) -> Sampler:
    """Uniform draws where that saves a pass and a pilot says that they are as good."""
    source, judged = context.source, request.labels or request.polish
    # A given size is solved as in the paper.
    if not request.chooses or request.size is not None:
        return request.sampler
    worth = judged and source.can_take and (source.n_rows or 0) * source.row_bytes() >= _WORTH_BYTES
    if not worth or Uniform().passes(source, context.geometry) > 1:
        return request.sampler
    params = request.params
    try:
        pilot = context.coreset(
            _PILOT_ROWS, Uniform(), params.seed, n_jobs=params.n_jobs, stage=Stage.PILOT
        )
    except ValueError:
        # Rows that the pilot refuses are refused by the draws, as without a pilot.
        return request.sampler
    try:
        isotropic = _isotropic(pilot, context, params)
    except BadValueError:
        # The draws also refuse rows so far apart that their distances overflow.
        return request.sampler
    decided("method", "a pilot of %d rows is %sisotropic", pilot.size, "" if isotropic else "not ")
    return Uniform() if isotropic else request.sampler


def _isotropic(pilot: Coreset, context: BuildContext, params: SolverParams) -> bool:
    points = Points.of(pilot.host_points, pilot.host_weights, pilot.geometry(context.geometry))
    k = min(_PILOT_CLUSTERS, params.k, len(pilot))
    found = solve(
        points, k, init="plain-k-means++", max_iter=_PILOT_ITERATIONS, seed=params.seed,
        stage=Stage.PILOT_SEEDING, n_jobs=1, journal=params.journal.part(),
    )  # fmt: skip
    statistics = DrawStatistics.of(
        points.rows, pilot.host_weights, pilot.counts, found.labels, found.distances,
        found.centers, pilot.size,
    )  # fmt: skip
    errors = statistics.formulas(pilot.size)
    if not errors:
        return False
    nearly = errors["uniform"].means <= _NEARLY * errors["lightweight"].means
    from_mean = statistics.from_mean
    heavy = float(from_mean.max()) > _HEAVY * float(from_mean.mean())
    return statistics.cost_share > _LEFT and nearly and not heavy
