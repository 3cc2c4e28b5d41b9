"""Coarse to fine: a sample is solved on a few of its draws first, then on all of them.

The draws are dealt into nested levels, each four times the one before. Starts are tried on the
first level alone, where they are cheap, and compared on draws that they have not seen. Every
further level starts from the centers of the last one and needs few iterations. The draws outside
the last inner level are an independent sample: they say how far the answer is off (`referee`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import is_sparse, pieces
from lwcs.geometry import Centers
from lwcs.geometry.products import PIECE_VALUES
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, workers
from lwcs.runtime.randomness import Stage, deal, generator, part_of
from lwcs.runtime.warnings import decided
from lwcs.solvers.lloyd import Clustering, cheapest, lloyd
from lwcs.solvers.local_search import local_search
from lwcs.solvers.seeding import start
from lwcs.solvers.split_merge import split_merge
from lwcs.statistics.draw_statistics import DrawStatistics
from lwcs.statistics.referee import UNKNOWN, Mean, Price, SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.runtime.parallel import Map
    from lwcs.solvers.points import Points

GROWTH = 4
INNER_LEVELS = 2
# A level with fewer draws says little about where the clusters are.
_LEAST_DRAWS, _LEAST_PER_CLUSTER = 1_000, 10
# Iterations of a start, and of a level that is not the last; and the gain at which they end.
_START_ITERATIONS, _LEVEL_ITERATIONS, _LEVEL_GAIN = 3, 8, 1e-3
# Starts that run at a time, and products of one of their iterations from which on several do.
_AT_A_TIME, _WORTH_THREADS = 8, 2**22
# A level costs up to 1.7 times as much as the one before on regular data; where it costs more,
# moves of centers are tried, and again as long as it lowers the cost by a tenth.
_FAR_ABOVE, _SEARCHES, _WORTH_ANOTHER = 2.0, 10, 0.9
STRIDE = 1.8
"""How far levels move centers, as a multiple of the way to their means. For fixed labels the cost
does not rise below 2, and slow directions converge almost twice as fast: on KDD, covtype and GloVe,
8 such iterations reach the cost of 16 plain ones."""


@dataclass(frozen=True, slots=True)
class SolverParams:
    """The parameters of an estimator that say how weighted points are clustered."""

    k: int
    init: Any
    n_init: int | None
    """None: as many starts as are cheap."""
    max_iter: int
    tol: float | None
    """None: as accurate as the sample is."""
    seed: int
    n_jobs: int | None
    journal: Journal = field(default_factory=Journal, compare=False)

    @property
    def chooses_init(self) -> bool:
        """Whether the initialization is left to the library."""
        return isinstance(self.init, str) and self.init == "auto"

    @property
    def searches(self) -> bool:
        """Whether centers are moved elsewhere as a rule, not only where clusters were missed."""
        return isinstance(self.init, str) and self.init in ("auto", "local-search")

    def splits(self, points: Points) -> bool:
        """Whether clusters are split and merged, rather than centers swapped for points.

        On a device that has not been measured. Of sparse rows, distances to halves take so long
        that fits of word counts took two to four times as long, for costs 1 to 3 % lower.
        """
        host = points.device_weights is None and not is_sparse(points.rows.values)
        return self.chooses_init and host

    @property
    def starts(self) -> int:
        """Starts on the first level: eight for up to 10 clusters, one for more than 40.

        The best of them is improved by splits and merges on the last inner level, after which more
        starts have no smaller error.
        """
        return self.n_init or min(max(80 // self.k, 1), 8)


@dataclass(frozen=True, slots=True)
class LevelSample:
    """Weighted points that stand for draws, `counts` of them each."""

    points: Points
    counts: IntArray
    at: IntArray | None = None
    """Their row numbers in the sample that they are a part of, if any."""

    def __len__(self) -> int:
        return int(self.counts.sum())

    def part(self, kept: IntArray) -> LevelSample:
        """Some of the draws, as a sample by itself."""
        part = part_of(self.points.weights, self.counts, kept)
        points = self.points.part(part.at, part.weights)
        return LevelSample(points, part.counts, part.at)

    def distances(self, centers: Centers, run: Map) -> FloatArray:
        """d of every point from the nearest of some centers."""
        rows = self.points.rows
        if self.points.device_weights is not None:
            return rows.nearest(centers)[1]
        step = max(64, PIECE_VALUES // len(centers))
        found = run(lambda part: rows[part].nearest(centers)[1], pieces(len(rows), step))
        return np.concatenate(list(found))

    def price(self, distances: FloatArray) -> Price:
        """Estimate the cost on all rows of centers at these distances."""
        return Price.on_draws(self.points.weights, self.counts, distances)

    def mean(self, values: FloatArray) -> Mean:
        """The mean of a value of every point, as an estimate for all rows."""
        return Mean.on_draws(self.points.weights, self.counts, values)


def level_sizes(draws: int, k: int) -> list[int]:
    """The numbers of draws of the inner levels, smallest first; none if there are too few draws."""
    least = max(_LEAST_DRAWS, _LEAST_PER_CLUSTER * k)
    sizes = [draws // GROWTH**level for level in range(INNER_LEVELS, 0, -1)]
    return [size for size in sizes if size >= least]


@dataclass(frozen=True, slots=True)
class Judged:
    """Centers that were fitted on some of the draws, beside draws that they have not seen."""

    draws: int
    """The size of the sample that both are parts of."""
    own: LevelSample
    other: LevelSample
    distances: tuple[FloatArray, FloatArray]
    """Distances of the draws of both parts from these centers."""

    def error(self) -> SamplingError:
        """The error that centers will have once they are fitted on all draws."""
        own, other = self.own.price(self.distances[0]), self.other.price(self.distances[1])
        return self._on_all_draws(SamplingError.of(own, other))

    def error_beside(self, final: FloatArray, average: float) -> SamplingError:
        """Estimate the error with less noise, once distances from the final centers are known.

        The final centers do not know which draws are in which part, so their own gap is nothing
        but noise, and mostly the noise of the gap of the centers here: it is subtracted. With k = 5
        on RNA, the estimates of five seeds fell from 0–0.7 % to 0–0.07 % (truth: 0.02–0.11 %).
        """
        values = [
            (final[part.at] - distances) / average
            for part, distances in zip((self.own, self.other), self.distances, strict=True)
        ]
        means = self.own.mean(values[0]), self.other.mean(values[1])
        return self._on_all_draws(SamplingError.of_means(*means))

    def _on_all_draws(self, error: SamplingError) -> SamplingError:
        return error.scaled(len(self.own) / self.draws)


@dataclass(frozen=True, slots=True)
class InnerSolution:
    """The solution of the inner levels."""

    found: Clustering
    """The solution of the last inner level, or without inner levels the best start."""
    judged: Judged | None = None

    @property
    def cost(self) -> float:
        """The cost there, which estimates that on all rows."""
        return self.found.cost

    def error(self) -> SamplingError:
        """The error to expect on all draws, as far as it is known."""
        return UNKNOWN if self.judged is None else self.judged.error()

    def statistics(self) -> DrawStatistics | None:
        """Statistics of the draws of the last inner level, if there was any."""
        if self.judged is None:
            return None
        found, level = self.found, self.judged.own
        points = level.points
        return DrawStatistics.of(
            points.rows, points.weights, level.counts, found.labels, found.distances,
            found.centers, self.judged.draws,
        )  # fmt: skip


def solve_inner(
    sample: LevelSample, sizes: Sequence[int], params: SolverParams, present: Sequence[Centers] = ()
) -> InnerSolution:
    """Solve the inner levels of a sample, which have these sizes.

    `present` are further centers to start from. Without inner levels, starts are compared on the
    draws that they were made on, and the error is not known.
    """
    # As many unseen draws as the last inner level has are enough to judge it.
    ends = [0, *sizes, 2 * sizes[-1]] if sizes else [0, len(sample)]
    dealt = deal(sample.counts, np.diff(ends).tolist(), generator(params.seed, Stage.LEVELS))
    levels = [sample.part(kept) for kept in np.cumsum(dealt, axis=0)[: max(len(sizes), 1)]]
    unseen = [sample.part(kept) for kept in dealt[1:]]
    decided(
        "starts", "%d starts on %d draws; inner levels: %s", params.starts, len(levels[0]), sizes
    )
    with workers(sample.points.rows.threads(params.n_jobs)) as run:
        found = _best_start(levels[0], unseen[0] if unseen else None, params, run, present)
    if not unseen:
        if params.searches:
            found = search_level(levels[0].points, found, params, SHORT)
        return InnerSolution(found)

    for level in levels:
        found = solve_level(level.points, found.centers, found.cost, params, SHORT)
    if params.searches:
        found = search_level(level.points, found, params, SHORT)
    with workers(sample.points.rows.threads(params.n_jobs)) as run:
        others = unseen[-1].distances(found.centers, run)
    return InnerSolution(found, Judged(len(sample), level, unseen[-1], (found.distances, others)))


@dataclass(frozen=True, slots=True)
class Limits:
    """Where Lloyd's algorithm ends on a level."""

    max_iter: int
    least_gain: float
    tol: float = 0.0


SHORT = Limits(_LEVEL_ITERATIONS, _LEVEL_GAIN)
"""Where it ends on a level that is not the last."""


def solve_level(
    points: Points, start: Centers, cost: float, params: SolverParams, limits: Limits
) -> Clustering:
    """Solve a level, starting from centers that had a cost on the level before.

    If they cost far more here, there are clusters that the level before has not seen. Lloyd's
    algorithm would never get there: splits and swaps do.
    """
    found = _iterated(points, start, params, limits)
    for _ in range(_SEARCHES):
        if found.cost <= _FAR_ABOVE * cost:
            break
        decided(
            "missed clusters",
            "centers cost %.3g on a level of %d points and %.3g on the one before; moves are tried",
            found.cost, len(points), cost,
        )  # fmt: skip
        before, found = found.cost, search_level(points, found, params, limits)
        if found.cost > _WORTH_ANOTHER * before:
            break
    return found


def search_level(
    points: Points,
    found: Clustering,
    params: SolverParams,
    limits: Limits,
    at_most: int | None = None,
) -> Clustering:
    """Move centers to where they gain more, and go on from there; keep what is better.

    Centers are swapped for points where clusters are not split (`SolverParams.splits`).
    """
    # Other numbers on every level.
    rng = generator(params.seed, Stage.LEVELS, len(points), found.n_iter)
    if params.splits(points):
        return split_merge(
            points, found.centers, rng, max_iter=min(limits.max_iter, params.max_iter),
            tol=limits.tol, least_gain=limits.least_gain, stride=STRIDE, at_most=at_most,
            n_jobs=params.n_jobs, journal=params.journal,
        )  # fmt: skip
    swapped = local_search(points, found.centers, rng, n_jobs=params.n_jobs, journal=params.journal)
    both = found, _iterated(points, swapped, params, limits)
    return both[cheapest([each.cost for each in both])]


def _iterated(points: Points, start: Centers, params: SolverParams, limits: Limits) -> Clustering:
    return lloyd(
        points,
        Centers(start.points, points.rows.geometry),
        max_iter=min(limits.max_iter, params.max_iter),
        tol=limits.tol,
        least_gain=limits.least_gain,
        stride=STRIDE,
        n_jobs=params.n_jobs,
        journal=params.journal,
    )


def _best_start(
    level: LevelSample,
    others: LevelSample | None,
    params: SolverParams,
    run: Map,
    present: Sequence[Centers],
) -> Clustering:
    """The best of some starts, by the cost on other draws if there are any."""
    init = params.init
    if params.chooses_init:
        # The best start is improved later.
        init = "k-means++"
    # Starts run beside one another, and share the threads that are left. Where they are so short
    # that most of their time is Python's, threads would only wait for each other.
    if len(level.points) * params.k * level.points.rows.n_features < _WORTH_THREADS:
        run = map
    share = max(1, as_threads(params.n_jobs) // (params.starts + len(present)))
    each = replace(params, n_jobs=share)
    attempts = [
        *(partial(_start, level.points, each, init, attempt) for attempt in range(params.starts)),
        *(partial(_go_on, level.points, each, centers) for centers in present),
    ]
    tried: list[tuple[float, Clustering]] = []
    # A few at a time: an interrupt waits for those that have begun.
    for wave in pieces(len(attempts), _AT_A_TIME):
        found = list(run(lambda attempt: attempt(), attempts[wave]))
        if len(attempts) == 1:
            return found[0]
        if others is None:
            costs = [each.cost for each in found]
        else:
            costs = list(run(lambda each: _cost(others, each), found))
        tried += zip(costs, found, strict=True)
        tried = [tried[cheapest([cost for cost, _ in tried])]]
    return tried[0][1]


def _cost(others: LevelSample, found: Clustering) -> float:
    return float(others.points.weights @ others.distances(found.centers, map))


def _start(points: Points, params: SolverParams, init: Any, attempt: int) -> Clustering:
    """One start, and a few iterations."""
    rng = generator(params.seed, Stage.SEEDING, attempt)
    return _briefly(
        points, start(points, params.k, init, rng, params.n_jobs, params.journal), params
    )


def _go_on(points: Points, params: SolverParams, centers: Centers) -> Clustering:
    """Swap what pays of present centers, and a few iterations."""
    rng = generator(params.seed, Stage.SEEDING, params.starts)
    swapped = local_search(points, centers, rng, n_jobs=params.n_jobs, journal=params.journal)
    return _briefly(points, swapped, params)


def _briefly(points: Points, centers: Centers, params: SolverParams) -> Clustering:
    return _iterated(points, centers, params, Limits(_START_ITERATIONS, _LEVEL_GAIN))
