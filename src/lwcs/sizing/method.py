"""Which method draws the rows: what `method="auto"` chooses, and what others should have been.

Lightweight draws come first: one pass, and no solution is needed for them. What is fitted on them
predicts the error of every method (`trust.diagnosis`). Rows are then drawn by sensitivity around
the present centers where that is clearly better than more lightweight draws, or where these may
have missed clusters. Draws are uniform where a few rows, which cost no pass, say that all rows are
about equally far from their mean and from each other, and a final pass over all rows will judge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.checks import BadValueError, check_choice
from lwcs.geometry import Centers
from lwcs.geometry.dense_rows import DenseRows
from lwcs.runtime.randomness import Stage
from lwcs.runtime.warnings import decided, warn
from lwcs.samplers import Lightweight, Uniform, as_sampler, available
from lwcs.sizing.solution import enough_draws
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points
from lwcs.statistics.diagnosis import (
    ASKED,
    MAY_MISS,
    METHODS,
    OWN,
    SURE,
    Diagnosis,
    DrawStatistics,
    draws_by,
    errors_by_method,
    family_of,
)
from lwcs.statistics.indices import TwoNearest

if TYPE_CHECKING:
    from typing import Any

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.building import BuildContext
    from lwcs.coreset.coreset import Coreset
    from lwcs.geometry import Measured
    from lwcs.samplers import Sampler
    from lwcs.sizing.fitting import FitRequest, FitResult
    from lwcs.sizing.levels import Climbed, SolverParams

AUTO = "auto"
ENOUGH = "that is enough to reach the target"
NO_BETTER = "no other method is predicted to be clearly better"
SIZED = "the size is given, and these draws are not known to have failed"
ONCE = "the rows can be read only once, and other methods read them again"
ISOTROPIC = "all rows are about equally far from their mean, so that a pass would tell little"
CLEARLY = "draws around the first centers have a much smaller error"
MISSED = "the first draws had missed clusters, or may have"
SMALL = "there are few of them, or most of them would have been drawn"

# Draws around the centers are clearly better with this part of the error. On RNA it was predicted
# to be 0.47, and came out at 0.67.
_CLEARLY = 0.7
# A pass over all rows around centers takes as long as about so many iterations on as many draws.
_ITERATIONS = 10
# Values from which on a pass (0.1 s of 0.7 s for 50 million) is worth a pilot that may save it.
_WORTH_VALUES = 2**25
# The uniform pilot: rows, clusters, and iterations.
_PILOT_ROWS, _PILOT_CLUSTERS, _PILOT_ITERATIONS = 1_000, 8, 3
# Rows are isotropic if a few centers leave most of the cost, uniform draws are nearly as good as
# lightweight ones, and no row costs much more than others.
_LEFT, _NEARLY, _HEAVY = 0.5, 1.1, 20.0
# Of draws whose size is given: the cost of what they miss over that of the rest, and the bound on
# their spread. With 10 to 50 draws per cluster, these are up to 0.3 and 2 on KDD and RNA; on the
# families that lightweight draws fail on, one of them is 4 and more.
_MISSED, _SPREAD = 1.0, 3.0


def sampler_of(method: str | Sampler, k: int | None = None) -> Sampler:
    """The sampler to begin with; the lightweight one for "auto"."""
    if isinstance(method, str):
        check_choice(method, "method", (AUTO, *available()))
    return Lightweight() if is_auto(method) else as_sampler(method, k)


def is_auto(method: str | Sampler) -> bool:
    """Whether the choice is ours."""
    return isinstance(method, str) and method == AUTO


def why_first(answer: FitResult, request: FitRequest, context: BuildContext) -> str:
    """Why the rows of an answer were drawn as they were."""
    if not request.chooses or answer.why != ASKED:
        return answer.why
    if not context.source.rereadable:
        return ONCE
    if answer.solution.coreset.method == Uniform.name:
        return ISOTROPIC
    if request.size is not None:
        return SIZED
    return NO_BETTER if answer.error.estimate > request.target else ENOUGH


def first_sampler(context: BuildContext, request: FitRequest) -> Sampler:
    """Uniform draws where that saves a pass and a pilot says that they are as good."""
    source, judged = context.source, request.labels or request.polish
    saves = source.can_take and Uniform().passes(source, context.geometry) == 1
    # A size that is given is solved as in the paper.
    if request.size is not None:
        return request.sampler
    if not (judged and saves and source.estimate_values() >= _WORTH_VALUES):
        return request.sampler
    try:
        pilot = context.coreset(
            _PILOT_ROWS,
            Uniform(),
            request.params.seed,
            n_jobs=request.params.n_jobs,
            stage=Stage.PILOT,
        )
    except ValueError:
        # Rows that the pilot refuses are refused by the draws, as without a pilot.
        return request.sampler
    try:
        isotropic = _isotropic(pilot, context, request.params)
    except BadValueError:
        # So are rows so far apart that their distances overflow.
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
    seen = seen_by(points.rows, pilot.host_weights, pilot.counts, found.labels, found.distances,
                   found.centers, pilot.size)  # fmt: skip
    errors = seen.formulas(pilot.size)
    if not errors:
        return False
    nearly = errors["uniform"].means <= _NEARLY * errors["lightweight"].means
    heavy = float(seen.from_mean.max()) > _HEAVY * float(seen.from_mean.mean())
    return seen.cost_share > _LEFT and nearly and not heavy


def seen_by(
    rows: Measured, weights: FloatArray, counts: IntArray, labels: Any, distances: FloatArray,
    centers: Centers, draws: int,
) -> DrawStatistics:  # fmt: skip
    """Draws beside centers and beside their own mean, to predict the errors of `draws` of them."""
    mean = Centers(rows.moments(weights).mean[None, :], rows.geometry)
    with np.errstate(over="ignore", invalid="ignore"):
        from_mean = rows.distances_to(mean)
    nearest = float(_apart(mean, centers).min())
    seen = DrawStatistics(weights, counts, labels, distances, from_mean, len(centers), nearest)
    apart = np.zeros(len(centers))
    at = np.flatnonzero(seen.shares * draws < SURE)
    if len(centers) > 1 and len(at):
        apart[at] = _next(centers, at)
    return replace(seen, apart=apart)


def _next(centers: Centers, at: IntArray) -> FloatArray:
    """d of some centers from the nearest other one; each is nearest to itself."""
    points = centers.points[at]
    try:
        found = TwoNearest.of(DenseRows(centers.geometry, points, np.float64, points), centers)
    except BadValueError:
        # Some are so far apart that squares overflow.
        return np.full(len(at), np.inf)
    return found.second


def _apart(one: Centers, others: Centers) -> FloatArray:
    """d of a center from others; infinite where it is beyond the range of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = one.geometry.metric.between(one.points, others.points).sum(axis=1)
    return np.where(np.isnan(found), np.inf, found)


def seen_on_level(climbed: Climbed) -> DrawStatistics | None:
    """The last inner level of some draws, if there was any."""
    if climbed.judged is None:
        return None
    found, own = climbed.found, climbed.judged.own
    points = own.points
    return seen_by(
        points.rows, points.weights, own.counts, found.labels, found.distances, found.centers,
        climbed.judged.draws,
    )  # fmt: skip


def seen_on_draws(answer: FitResult) -> DrawStatistics:
    """All draws that were clustered, beside the centers of the answer."""
    if answer.seen is not None:
        return answer.seen
    solution = answer.solution
    coreset, geometry = solution.coreset, solution.geometry
    labels, distances = answer.on_draws()
    own = geometry.own_centers(answer.centers)
    rows = geometry.measured(coreset.host_points)
    return seen_by(rows, coreset.host_weights, coreset.counts, labels, distances, own, coreset.size)


def draws_around(
    seen: DrawStatistics | None, draws: Coreset, error: float, target: float, most: int
) -> int | None:
    """How many rows to draw around the present centers; None: more by the same method are better.

    `error` is that of the draws that are there, above the target.
    """
    if seen is None:
        return None
    errors = errors_by_method(seen, draws.method, draws.size, error)
    if not errors or errors["refined"] > _CLEARLY * error:
        return None
    more = min(most, enough_draws(draws.size, error, target))
    around = min(most, max(draws.size, enough_draws(draws.size, errors["refined"], target)))
    worth = more == most or draws.n_samples < _ITERATIONS * (more - around)
    return around if worth else None


def may_miss(seen: DrawStatistics, draws: Coreset, target: float) -> bool:
    """Whether draws may have missed clusters, and nothing but a pass over all rows would tell.

    Where some clusters were drawn once or twice, others were probably not drawn at all.
    """
    if draws.method not in (Lightweight.name, Uniform.name):
        return False
    found = seen.formulas(draws.size)
    missed = found[draws.method].missed if found else 0.0
    return missed > target or seen.spread(draws.size) > MAY_MISS


def fails(seen: DrawStatistics, draws: Coreset) -> bool:
    """Whether so few draws have probably missed clusters that cost more than all others."""
    found = seen.formulas(draws.size)
    missed = found[OWN].missed if found else 0.0
    return missed > _MISSED or seen.spread(draws.size) > _SPREAD


def diagnose(answer: FitResult, request: FitRequest, why: str) -> Diagnosis:
    """What there is to say of the method of an answer."""
    coreset = answer.solution.coreset
    if coreset.exact:
        return Diagnosis(request.asked, coreset.method, SMALL, coreset.size, on_all_rows=True)
    seen = seen_on_draws(answer)
    return Diagnosis.of(
        seen,
        request.asked,
        coreset.method,
        why,
        coreset.size,
        answer.error,
        on_all_rows=answer.on_all_rows,
    )


def warn_of_method(found: Diagnosis, request: FitRequest, *, rereadable: bool) -> None:
    """Warn if the draws are wrong for the data, and say what to do instead."""
    first = found.used == Lightweight.name and request.size is not None
    if request.chooses and rereadable and not first:
        # The choice was ours: draws of a given size that stay as they are were not chosen.
        return
    # Of rows that are gone, a method that reads them once is the nearest remedy.
    at_once = None if rereadable else found.better(METHODS[:2])
    better = at_once or found.better()
    own = found.errors.get(family_of(found.used), 0.0)
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
        f"{draws_by(found.used)} are not right for this data: with {found.size:,} of them, the "
        f"sampling error is about {own:.2g}, and about {found.errors[better]:.2g} with "
        f"method={better!r}; {remedy}",
        UserWarning,
    )
