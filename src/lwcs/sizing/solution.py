"""Requests and results of fits, and how a coreset is solved.

A coreset of a given size is solved on one level, as in the paper; one whose size is chosen is
solved on nested levels (`levels`): first the inner ones, whose unused draws say whether all draws
are enough (`solve_inner_levels`), then the last one (`finish`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import ceil, isfinite
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_n_rows
from lwcs.coreset.coreset import explaining_points
from lwcs.passes import cluster_weights
from lwcs.runtime.parallel import workers
from lwcs.runtime.randomness import Stage, deal, generator, part_of
from lwcs.samplers import as_sampler
from lwcs.sizing.levels import (
    SHORT,
    InnerSolution,
    LevelSample,
    Limits,
    SolverParams,
    level_sizes,
    search_level,
    solve_inner,
    solve_level,
)
from lwcs.solvers.lloyd import cluster
from lwcs.solvers.points import Points, precisely
from lwcs.sources import LocalSource
from lwcs.statistics.column_shares import dominating_columns, have_what_is_left
from lwcs.statistics.diagnosis import Reason
from lwcs.statistics.draw_statistics import DrawStatistics
from lwcs.statistics.record import FittedOn
from lwcs.statistics.referee import NONE, UNKNOWN, Mean, Price, SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray
    from lwcs.coreset.building import BuildContext
    from lwcs.coreset.coreset import ComputedAs, Coreset
    from lwcs.geometry import Geometry
    from lwcs.runtime.journal import Journal
    from lwcs.samplers import Sampler
    from lwcs.samplers.around_centers import ClusterTotals
    from lwcs.sizing.decision import Step
    from lwcs.solvers.lloyd import Clustering
    from lwcs.sources import Source
    from lwcs.statistics.diagnosis import Diagnosis


SMALL_ROWS = 10_000
"""Data with no more rows is not sampled, which would save next to nothing."""
REDRAWS = 2
"""How often a larger sample may be drawn."""
LARGEST = 16
"""Maximum number of draws, as a multiple of the first ones; a solver takes time in proportion."""
# The first draws; the last inner level has a quarter of them, which is enough to know half of the
# gap to unseen draws well enough to say whether all draws reach the target: it falls like 1/m.
_DRAWS_PER_CLUSTER, _FEWEST_DRAWS = 400, 20_000
_FEWEST_ROWS = 20
# More draws than the error asks for, since it is an estimate itself.
_MARGIN = 1.25


def first_size(k: int) -> int:
    """Number of draws to begin with."""
    return max(_FEWEST_DRAWS, _DRAWS_PER_CLUSTER * k)


def enough_draws(size: int, error: float, target: float) -> int:
    """Number of draws that reach a target, if `size` of them have this error: it falls like 1/m."""
    # An error without bounds asks for no more than the largest sample.
    return ceil(size * min(_MARGIN * error / target, LARGEST))


def another_seed(seed: int, attempt: int) -> int:
    """The seed of a further draw, which is independent of the others."""
    return int(generator(seed, Stage.AGAIN, attempt).integers(2**63))


def summarize(
    context: BuildContext, size: int, k: int, *,
    method: str | Sampler, seed: int, n_jobs: int | None, journal: Journal,
    name: str = "n_clusters", stage: Stage = Stage.CORESET,
) -> Coreset:  # fmt: skip
    """A coreset of the rows; if there are no more than `size`, all of them."""
    coreset, n_rows = None, context.source.n_rows
    if n_rows is None or n_rows > size:
        sampler = as_sampler(method, k)
        coreset = context.coreset(
            size, sampler, seed, n_jobs=n_jobs, journal=journal, stage=stage,
            check_rows=partial(check_n_rows, k=k, name=name),
        )  # fmt: skip
        n_rows = coreset.n_samples
    else:
        check_n_rows(n_rows - context.source.dropped, k, name)
    if coreset is None or (n_rows <= size and context.source.rereadable):
        coreset = context.all_rows(n_jobs, journal)
    # How many rows were dropped may be known only now.
    check_n_rows(coreset.n_samples, k, name)
    return coreset


TOL = 1e-4
# The last level ends where an iteration gains less than this part of the sampling error: to solve a
# sample that is off by 2 % to the fourth digit took three times as long, for 0.3 points. To know
# the error to a quarter of the target is enough for that.
_GAIN_OF_ERROR, _PART_OF_TARGET = 0.2, 0.25
# Splits on the last level begin with one part in this many of the clusters.
_MOVED_AGAIN = 16
# Problems of fewer products per iteration than this are solved until they converge.
_CHEAP = 2**26


@dataclass(frozen=True, slots=True)
class Solution:
    """Centers found on a coreset, and their sampling error as far as the coreset can tell."""

    coreset: Coreset
    geometry: Geometry
    found: Clustering
    own: Price
    """The cost on the draws that were clustered."""
    error: SamplingError

    @property
    def centers(self) -> DenseRows:
        """In the units and the dtype of the data."""
        dtype: Any = self.geometry.center_dtype(self.coreset.host_points.dtype)
        return self.geometry.to_data(self.found.centers).astype(dtype)


@dataclass(frozen=True, slots=True)
class FitRequest:
    """The parameters of an estimator, checked."""

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
    """Whether the method is left to the library, which begins with `sampler`."""


@dataclass(frozen=True)
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
    """The clusters of every partition, where the final pass has weighed them, or their sum."""
    reason: Reason = Reason.AS_REQUESTED
    """Why its rows were drawn as they were."""
    diagnosis: Diagnosis | None = None

    @classmethod
    def of(cls, solution: Solution, reason: Reason = Reason.AS_REQUESTED) -> FitResult:
        """The result of a solution, before any pass over all rows."""
        centers, cost = solution.centers, solution.found.cost
        return cls(solution, centers, cost, solution.error, reason=reason)

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
        """Make the record of the rows that a model keeps; `source` is None for a given coreset.

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

    def dominating_columns(self) -> dict[str, float]:
        """The columns that the clusters are slices of, with their shares of squared distances."""
        coreset, geometry = self.solution.coreset, self.solution.geometry
        points, weights = coreset.host_points, coreset.host_weights
        # One cluster has no slices, and a few rows no shares.
        several = len(self.centers) > 1 and len(coreset) >= _FEWEST_ROWS
        if several and (candidates := dominating_columns(points, weights, geometry)):
            labels, distances = self.on_draws()
            own = np.asarray(self.centers)[labels]
            cost, names = float(weights @ distances), coreset.feature_names
            for found in candidates:
                if have_what_is_left(np.array(list(found)), points, weights, own, cost):
                    return {str(j if names is None else names[j]): s for j, s in found.items()}
        return {}

    @cached_property
    def statistics(self) -> DrawStatistics:
        """All draws that were clustered, beside the centers."""
        coreset, geometry = self.solution.coreset, self.solution.geometry
        labels, distances = self.on_draws()
        centers = geometry.own_centers(self.centers)
        rows = geometry.measured(coreset.host_points)
        return DrawStatistics.of(
            rows, coreset.host_weights, coreset.counts, labels, distances, centers, coreset.size
        )

    def replaced(self, **changes: Any) -> FitResult:
        """A copy with some changes, which keeps its statistics as long as it keeps its centers."""
        copy = replace(self, **changes)
        if "statistics" in vars(self) and "centers" not in changes:
            vars(copy)["statistics"] = self.statistics
        return copy


@dataclass(frozen=True, slots=True)
class PresentCenters:
    """Centers that rows can be drawn around, and the coreset whose solution they are."""

    coreset: Coreset
    geometry: Geometry
    points: DenseRows
    """The centers, in the units of the data."""
    weighed: Sequence[ClusterTotals] | None = None
    """The clusters of every partition, where a pass has weighed them, or their sum."""


@dataclass(frozen=True, slots=True)
class FitTrial:
    """Rows that were drawn, and what has been found on them so far."""

    step: Step
    """How they were drawn, and why."""
    draws: Coreset
    """The sample that the inner levels are parts of."""
    rows: Coreset
    """The rows of the last level: the draws, or all rows."""
    last: FitTrial | None = None
    """The trial before, whose centers are a start for this one."""
    missed: bool = False
    """Whether the last centers cost far more on all rows than on their own draws."""
    levels: InnerSolution | None = None
    """The inner levels, where the size is chosen."""
    result: FitResult | None = None
    judged: bool = False
    """Whether all rows have judged the result."""
    settled: bool = False
    """Whether the result is that of the last trial, since this one was no better."""

    @property
    def solved(self) -> FitResult:
        """The result, once all levels are solved."""
        assert self.result is not None
        return self.result

    @property
    def judged_before(self) -> FitResult | None:
        """The result of the last trial, if all rows have judged it."""
        return self.last.result if self.last is not None and self.last.judged else None

    @property
    def present(self) -> PresentCenters:
        """The best centers so far."""
        if self.result is not None:
            solution = self.result.solution
            return PresentCenters(
                solution.coreset, solution.geometry, self.result.centers, self.result.weighed
            )
        assert self.levels is not None
        centers = self.levels.found.centers
        return PresentCenters(self.draws, centers.geometry, centers.geometry.to_data(centers))


def solve_on_one_level(
    coreset: Coreset, computed_as: ComputedAs, params: SolverParams, holdout: float = 0.0
) -> Solution:
    """Cluster all draws, as in the paper; or all but some that are held back as a referee."""
    geometry, held = coreset.geometry(computed_as), None
    points, weights, counts = coreset.host_points, coreset.host_weights, coreset.counts
    if holdout and not coreset.exact:
        size = coreset.size - max(1, round(holdout * coreset.size))
        kept = deal(counts, [size], generator(params.seed, Stage.LEVELS))[0]
        part, held = part_of(weights, counts, kept), part_of(weights, counts, counts - kept)
        if len(part.at) < params.k:
            raise ValueError(
                f"holdout={holdout:g} leaves {len(part.at)} distinct rows of the coreset for "
                f"n_clusters={params.k}; pass a smaller holdout, or a larger coreset"
            )
        points, weights, counts = points[part.at], part.weights, part.counts
    with explaining_points(coreset):
        found = cluster(
            points,
            weights,
            geometry,
            params.k,
            init="k-means++" if params.chooses_init else params.init,
            n_init=params.n_init or 1,
            max_iter=params.max_iter,
            tol=TOL if params.tol is None else params.tol,
            seed=params.seed,
            n_jobs=params.n_jobs,
            journal=params.journal,
        )
    own = Price.on_draws(weights, counts, found.distances)
    error = NONE if coreset.exact else UNKNOWN
    if held is not None:
        others = Points.of(coreset.host_points[held.at], held.weights, geometry)
        with workers(params.n_jobs) as run:
            sample = LevelSample(others, held.counts)
            other = sample.price(sample.distances(found.centers, run))
        error = SamplingError.of(own, other)
    return Solution(coreset, geometry, found, own, error)


def solve_inner_levels(
    draws: Coreset, computed_as: ComputedAs, params: SolverParams, present: Sequence[DenseRows] = ()
) -> InnerSolution:
    """Solve the inner levels of a coreset; `present` are centers that may be good already."""
    geometry = draws.geometry(computed_as)
    # All rows are not draws: a random part of them may lack what matters.
    sizes = [] if draws.exact else level_sizes(draws.size, params.k)

    def levels(points: Points) -> InnerSolution:
        own = points.rows.geometry
        starts = [own.own_centers(centers) for centers in present]
        return solve_inner(LevelSample(points, draws.counts), sizes, params, starts)

    with explaining_points(draws):
        inner = precisely(draws.host_points, draws.host_weights, geometry, levels)
    # The parts of a union are not independent of each other.
    return replace(inner, judged=None) if draws.depth else inner


def finish(
    inner: InnerSolution,
    draws: Coreset,
    top: Coreset,
    computed_as: ComputedAs,
    params: SolverParams,
    target: float,
) -> Solution:
    """Solve the last level, starting from the centers of the inner ones of `draws`.

    `top` are the draws themselves, or all rows.
    """
    geometry, start = top.geometry(computed_as), inner.found.centers
    error = NONE if top.exact else inner.error()
    # Without levels, iterations on these rows have begun already.
    spent = inner.found.n_iter if top.exact and top is draws else 0
    with explaining_points(top):
        if top is not draws:
            start = geometry.own_centers(start.geometry.to_data(start))
        elif start.geometry.precision_of_products == "float64":
            geometry = start.geometry

        def last_level(points: Points) -> Clustering:
            cheap = len(points) * start.points.size < _CHEAP
            least = max(error.estimate if error.known else 0.0, _PART_OF_TARGET * target)
            if spent >= params.max_iter:
                return inner.found
            limits = Limits(
                params.max_iter - spent,
                0.0 if params.tol is not None or cheap else _GAIN_OF_ERROR * least,
                TOL if params.tol is None else params.tol,
            )
            # Draws may lack clusters, and nothing else would tell; few centers are left to move.
            again = params.searches and not (top.exact and top is draws)
            if again and params.splits(points):
                found = solve_level(points, start, inner.cost, params, SHORT)
                return search_level(points, found, params, limits, len(start) // _MOVED_AGAIN)
            found = solve_level(points, start, inner.cost, params, limits)
            found = replace(found, n_iter=found.n_iter + spent)
            return search_level(points, found, params, limits) if again and top.exact else found

        found = precisely(top.host_points, top.host_weights, geometry, last_level)
    own = Price.on_draws(top.host_weights, top.counts, found.distances)
    if not top.exact and inner.judged is not None:
        average, error = own.cost / float(top.host_weights.sum()), UNKNOWN
        # Draws that cost nothing say nothing of others.
        if average > 0.0:
            error = inner.judged.error_beside(found.distances, average)
    if not top.exact:
        error = error.unfinished(found.remaining)
    return Solution(top, geometry, found, own, error)
