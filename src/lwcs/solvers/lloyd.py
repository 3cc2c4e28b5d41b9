"""Lloyd's algorithm for weighted points in memory, and restarts of it.

Most centers stop moving long before the last one does. So points are compared with the centers that
moved in the last iteration. Every point also keeps a bound of its scores for the centers at rest;
only if the scores of its own center and of the best moved one are below that bound, it is compared
with all centers. This is exact for any divergence and keeps two numbers per point. Hamerly's bounds
were tried as well: they need the triangle inequality, and on KDD Cup data half of the points failed
them in most iterations.

With a stride above 1, centers move beyond the means of their clusters. For fixed labels, the cost
does not rise below a stride of 2, and slow directions converge almost twice as fast: 8 iterations
with a stride of 1.8 reach the cost of 16 plain ones on KDD, covtype and GloVe. The last iteration
always goes to the means.

Scores (`lwcs.geometry.products`) are larger for nearer centers, and have few digits where a point
is close to its center; such points are labelled by differences.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry import Centers
from lwcs.geometry.nearest import settle
from lwcs.geometry.products import Best, Moved, Watch
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, workers
from lwcs.runtime.randomness import Stage, generator
from lwcs.solvers.points import precisely
from lwcs.solvers.seeding import start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, IntArray, Mask, Rows
    from lwcs.geometry import Geometry, Measured
    from lwcs.runtime.parallel import Map
    from lwcs.solvers.device_kmeans import DeviceState
    from lwcs.solvers.points import Points
    from lwcs.solvers.seeding import Init

# Products of one iteration from which on restarts run one after the other, on all threads.
_LARGE = 2**30
# Relative difference below which costs are equal: restarts that end in the same optimum differ by
# rounding, which depends on the processor.
_EQUAL_COSTS = 1e-6
# Products of one iteration from which on several threads are faster.
_WORTH_THREADS = 2**24
# Values of points from which on several threads add them up faster.
_WORTH_ADDING = 2**21
# Points per lot whose sums are taken together, and their least number per cluster, since every lot
# gives clusters × columns sums.
_LOT_ROWS, _LOT_PER_CLUSTER = 2**13, 4
# Estimates of the remaining gain assume that gains fall at least at this rate.
_SLOWEST = 0.9
# Distances below this part of the average cost around the mean are rounding errors; by itemsize.
NOTHING = {4: 1e-12, 8: 1e-24}
# Distances from products below this part of their terms are too inaccurate to label a point by.
_INACCURATE = {4: 1e-5, 8: 1e-13}
# Costs from scores have about three digits above this multiple of the inaccurate distances.
_ACCURATE_COST = 100.0


Saved = tuple[Centers, "list[npt.NDArray[Any]]"]


@dataclass(frozen=True, slots=True)
class Clustering:
    """The centers of k clusters, the labels and distances of all points, and the cost."""

    centers: Centers
    labels: IntArray
    distances: FloatArray
    """The distance of every point from the center of its cluster."""
    cost: float
    n_iter: int
    converged: bool
    remaining: float = 0.0
    """Estimate of the part of the cost that further iterations would gain."""


def lloyd(
    points: Points,
    centers: Centers,
    *,
    max_iter: int,
    tol: float,
    least_gain: float = 0.0,
    stride: float = 1.0,
    n_jobs: int | None = 1,
    journal: Journal | None = None,
) -> Clustering:
    """Run Lloyd's algorithm.

    Centers move `stride` times as far as to the means of their clusters (squared distances only).
    It stops when no label changes, when the centers move by no more than tol · (weighted variance),
    when an iteration lowers the cost by no more than the part `least_gain`, and after `max_iter`
    iterations (`converged` is then False).
    """
    with iterating(points, centers, n_jobs, journal) as iterations:
        iterations.run(max_iter, tol, least_gain, stride)
        return iterations.clustering()


@contextmanager
def iterating(
    points: Points,
    centers: Centers,
    n_jobs: int | None = 1,
    journal: Journal | None = None,
    stage: str = "Lloyd",
) -> Iterator[Iterations]:
    """Threads, and the iterations that they run."""
    threads = as_threads(n_jobs) if len(points) * centers.points.size >= _WORTH_THREADS else 1
    with (
        (journal or Journal()).stage(stage) as progress,
        workers(threads) as run,
        points.rows.geometry.kernels.team(threads),
    ):
        yield Iterations(points, centers, run, progress)


class _Past(NamedTuple):
    """The last three fields of a `Clustering`."""

    n_iter: int = 0
    converged: bool = False
    remaining: float = 0.0


class Iterations:
    """Lloyd's algorithm, which can be run again after centers were moved."""

    def __init__(self, points: Points, centers: Centers, run: Map, progress: Any) -> None:
        self.points, self._run, self._progress = points, run, progress
        self._state, self._past, self._gains = _state(points, centers, run), _Past(), _Gains()
        # Which clusters have gained or lost points since their centers were updated.
        self._changed = np.zeros(len(centers), dtype=bool)

    def run(
        self,
        max_iter: int,
        tol: float = 0.0,
        least_gain: float = 0.0,
        stride: float = 1.0,
        below: float = inf,
    ) -> None:
        """Iterate as `lloyd` does; the labels are then those of the final centers.

        It also stops where the cost will not fall below a number, by its last gains.
        """
        state, gains = self._state, self._gains
        gains.end_at(least_gain, below)
        converged, n_iter = False, 0
        stride = stride if self.points.rows.geometry.squared and max_iter > 1 else 1.0
        while n_iter < max_iter - (stride != 1.0) and not converged:
            n_iter += 1
            changed = self._assign()
            self._progress.step()
            if not changed.any() or gains.is_small(state, self._run):
                break
            converged = self._update(stride) <= tol * self.points.variance
        else:
            # Assign to the final centers, without an update after it.
            changed = self._assign()
        if state.beyond_means.any():
            n_iter += 1
            self._update()
            changed = self._assign()
        resting = not changed.any()
        self._past = _Past(
            self._past.n_iter + n_iter,
            converged or resting or gains.small,
            0.0 if resting else gains.remaining,
        )

    def _assign(self) -> Mask:
        self._changed = self._changed | self._state.assign(self._run)
        return self._changed

    def _update(self, stride: float = 1.0) -> float:
        changed, self._changed = self._changed, np.zeros_like(self._changed)
        return self._state.update(changed, self._run, stride)

    @property
    def n_iter(self) -> int:
        """Iterations since centers were last moved."""
        return self._past.n_iter

    def cost(self) -> float:
        """The present cost."""
        return self._state.cost(self._run)

    def move_to(self, centers: Centers) -> None:
        """Put other centers in the place of the present ones, and iterate from there."""
        self._state.move_to(centers)
        self._past, self._gains = _Past(), _Gains()
        self._changed[:] = True

    def saved(self) -> Any:
        """What `restore` takes."""
        return self._past, copy(self._gains), self._changed.copy(), self._state.saved()

    def restore(self, saved: Any) -> None:
        """Go back to centers and labels that were saved."""
        self._past, self._gains, self._changed, own = saved
        self._state.restore(own)

    def clustering(self) -> Clustering:
        """The present centers, labels and distances."""
        state, distances = self._state, self._state.distances(self._run)
        cost = float(self.points.weights @ distances)
        return Clustering(state.centers, state.labels, distances, cost, *self._past)


def _state(points: Points, centers: Centers, run: Map) -> _State | DeviceState:
    if points.device_weights is None:
        return _State(points, centers, run)
    from lwcs.solvers.device_kmeans import DeviceState

    return DeviceState(points, centers)


class _Gains:
    """The parts of the cost that the last two iterations gained, where `least` is above 0.

    Gains are small, too, where they will not bring the cost below a number.
    """

    def __init__(self) -> None:
        self._cost, self._gains = inf, [inf, inf]
        self.end_at(0.0, inf)

    def end_at(self, least: float, below: float) -> None:
        """Say which gains are small."""
        self._least, self._below, self.small = least, below, False

    def is_small(self, state: _State | DeviceState, run: Map) -> bool:
        """Whether the last iteration gained no more than the limit."""
        if self._least > 0.0:
            cost = state.cost(run)
            gain = (self._cost - cost) / cost if cost > 0.0 else 0.0
            self._gains, self._cost = [self._gains[1], gain], cost
            self.small = gain <= self._least
            self.small |= cost * (1.0 - self.remaining) > self._below and self._gains[0] < inf
        return self.small

    @property
    def remaining(self) -> float:
        """The sum of all further gains, if they keep falling at the rate of the last two."""
        before, last = self._gains
        if not 0.0 < last < inf:
            return 0.0
        rate = min(last / before, _SLOWEST)
        return last * rate / (1.0 - rate)


class _Piece(NamedTuple):
    """Some points, with the arrays and views of them that all iterations use."""

    part: slice
    rows: Measured
    product: Any
    best: Best
    watch: Watch


class _State:
    """The centers, and the label and score of every point."""

    def __init__(self, points: Points, centers: Centers, run: Map) -> None:
        self.points, self.centers = points, centers
        product, n = points.rows.products(), len(points)
        with np.errstate(over="ignore", invalid="ignore"):
            self._rows, self._heights, sizes = product.ready(points.rows, run)
            self._least = _INACCURATE[product.dtype.itemsize] * sizes + product.tiny
        self._product, self._best = product, Best.unknown(n, product.dtype)
        self._old, self._on_center = np.empty(n, dtype=np.int64), np.zeros(n, dtype=bool)
        step = product.step(n, len(centers))
        self._pieces = [self._piece(part) for part in pieces(n, step)]
        self.beyond_means = np.zeros(len(centers), dtype=bool)
        """Which centers are beyond the means of their clusters, after a stride above 1."""
        self._prepare(np.arange(len(centers)))

    @property
    def labels(self) -> IntArray:
        """The present labels."""
        return self._best.labels

    def _piece(self, part: slice) -> _Piece:
        views = self._heights[part], self._least[part], self._old[part]
        changed = np.empty(len(self.centers), dtype=bool)
        watch = Watch(*views, changed, np.empty(part.stop - part.start, dtype=np.int64))
        return _Piece(
            part, self.points.rows[part], self._rows[part], self._best.of_rows(part), watch
        )

    def move_to(self, centers: Centers) -> None:
        """Put other centers in the place of the present ones, for the next iteration."""
        moved = np.flatnonzero((centers.points != self.centers.points).any(axis=1))
        self.centers = centers
        self._prepare(moved)

    def saved(self) -> Saved:
        """What `restore` takes."""
        return self.centers, [each.copy() for each in (*self._best, self._on_center)]

    def restore(self, saved: Saved) -> None:
        """Go back to centers and labels that were saved."""
        self.centers, arrays = saved
        for own, each in zip((*self._best, self._on_center), arrays, strict=True):
            own[:] = each
        self._prepare(np.empty(0, dtype=np.int64))

    def _prepare(self, moved: IntArray) -> None:
        """Prepare the centers for products, once per iteration."""
        self._prepared = self._product.center_matrix(self.centers)
        self._moved = Moved.of(moved, self._product, self._prepared)

    def assign(self, run: Map) -> Mask:
        """Label every point by its nearest center; return which clusters gained or lost points."""
        changed = np.zeros(len(self.centers), dtype=bool)
        if not len(self._moved.at):
            return changed
        if self.labels[0] < 0:  # the first iteration: every cluster is new
            changed[:] = True
        for clusters in run(self._assign_piece, self._pieces):
            changed |= clusters
        return changed

    def _assign_piece(self, piece: _Piece) -> Mask:
        """Label some points; return which clusters gained or lost any of them."""
        labels, watch = piece.best.labels, piece.watch
        with np.errstate(over="ignore", invalid="ignore"):
            n_unknown = self._product.assign(
                piece.product, self._prepared, self._moved, piece.best, watch
            )
            if n_unknown:
                unknown = watch.unknown[:n_unknown]
                self._settle(piece, unknown)
                at = unknown[labels[unknown] != watch.old[unknown]]
                watch.changed[labels[at]] = True
                watch.changed[watch.old[at[watch.old[at] >= 0]]] = True
        return watch.changed

    def _settle(self, piece: _Piece, unknown: IntArray) -> None:
        """Label points that are too close to their centers for the digits of their scores.

        A point on its center, which is often the only point there, has no nearer one.
        """
        on_center, labels = self._on_center[piece.part], piece.best.labels
        rests = on_center[unknown] & (labels[unknown] == piece.watch.old[unknown])
        rests &= self._moved.place[labels[unknown]] < 0
        unknown = unknown[~rests]
        if not len(unknown):
            return
        rows = piece.rows[unknown]
        on_center[unknown] = rows.distances(self.centers, labels[unknown]) == 0.0
        apart = np.flatnonzero(~on_center[unknown])
        if len(apart):
            at = unknown[apart]
            labels[at] = settle(
                self._product, rows[apart], piece.product[at], self.centers, self._prepared
            )
            # The second best score of these points is unknown.
            piece.best.others[at] = inf

    def update(self, changed: Mask, run: Map, stride: float = 1.0) -> float:
        """Move the centers of changed clusters towards their means; return the squared length."""
        old, changed = self.centers.points, changed | self.beyond_means
        totals, sums = self._sums(changed, run)
        empty = np.flatnonzero(changed & (totals == 0.0))
        if len(empty) and self._relocate(empty, run):
            changed, stride = np.ones(len(old), dtype=bool), 1.0
            totals, sums = self._sums(changed, run)
        # Clusters that have not changed have no sums, and keep their centers.
        geometry = self.points.rows.geometry
        self.centers = geometry.means(self.centers, totals, sums)
        fresh = np.flatnonzero(totals)
        self.beyond_means[:] = False
        if stride != 1.0:
            beyond = self.centers.points.copy()
            beyond[fresh] += (stride - 1.0) * (beyond[fresh] - old[fresh])
            self.centers = Centers(beyond, geometry)
            self.beyond_means[fresh] = True
        new = self.centers.points[fresh]
        differ = np.flatnonzero((new != old[fresh]).any(axis=1))
        self._prepare(fresh[differ])
        return geometry.apart(new[differ], old[fresh[differ]])

    def _lots(self) -> Iterator[slice]:
        """Points whose sums are taken together; independent of threads, so that bits are, too.

        Native loops add up each cluster in the order of its points, for any number of threads.
        """
        if self.points.rows.geometry.kernels.shares_calls:
            return iter([slice(0, len(self.points))])
        return pieces(len(self.points), max(_LOT_ROWS, _LOT_PER_CLUSTER * len(self.centers)))

    def _sums(self, wanted: Mask, run: Map) -> tuple[FloatArray, FloatArray]:
        points = self.points

        def add_up(lot: slice) -> tuple[FloatArray, FloatArray]:
            weights, labels = points.weights[lot], self.labels[lot]
            return points.rows[lot].cluster_sums(weights, labels, wanted, self.centers)

        worth = len(points) * points.rows.n_features * wanted.mean() >= _WORTH_ADDING
        parts = (run if worth else map)(add_up, self._lots())
        (totals, sums), *others = parts
        for more_totals, more_sums in others:
            totals += more_totals
            sums += more_sums
        return totals, sums

    def _relocate(self, empty: IntArray, run: Map) -> bool:
        """Give every empty cluster one of the costliest points; return whether there are any."""
        distances = self.distances(run)
        costs = self.points.weights * distances
        nothing = NOTHING[self._product.dtype.itemsize] * self.points.average
        costs[distances <= nothing] = 0.0
        costliest = np.argsort(costs)[-len(empty) :]
        costliest = costliest[costs[costliest] > 0.0]
        best = self._best
        best.labels[costliest] = empty[: len(costliest)]
        best.scores[costliest], best.others[costliest] = -inf, inf
        return len(costliest) > 0

    def cost(self, run: Map) -> float:
        """The cost, from the scores where these have enough digits."""
        total, least = 0.0, 0.0
        for lot in self._lots():
            weights = self.points.weights[lot]
            total += float(weights @ (self._heights[lot] - self._best.scores[lot]))
            least += float(weights @ self._least[lot])
        if _ACCURATE_COST * least < total < inf:
            return total * self._product.cost_unit
        return float(self.points.weights @ self.distances(run))

    def distances(self, run: Map) -> FloatArray:
        """The distance of every point from the center of its cluster."""
        centers = self.centers
        parts = run(
            lambda piece: piece.rows.distances(centers, self.labels[piece.part]),
            self._pieces,
        )
        return np.concatenate(list(parts))


def solve(
    points: Points,
    k: int,
    *,
    init: Init = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    seed: int = 0,
    stage: Stage = Stage.SEEDING,
    n_jobs: int | None = None,
    journal: Journal | None = None,
) -> Clustering:
    """Cluster weighted points; return the best of `n_init` restarts by cost.

    Small restarts run in parallel; large ones, and all on a device, run one after the other, so
    that they need the memory of one.
    """
    journal, threads = journal or Journal(), as_threads(n_jobs)
    small = len(points) * k * points.rows.n_features < _LARGE
    parallel = n_init > 1 and small and points.device_weights is None
    share = max(1, threads // n_init) if parallel else threads

    def restart(attempt: int) -> Clustering:
        centers = start(points, k, init, generator(seed, stage, attempt), share, journal)
        return lloyd(points, centers, max_iter=max_iter, tol=tol, n_jobs=share, journal=journal)

    with workers(threads if parallel else 1) as run:
        restarts = list(run(restart, range(n_init)))
    return restarts[cheapest([each.cost for each in restarts])]


def cheapest(costs: Sequence[float]) -> int:
    """Index of the lowest cost; of costs that differ by rounding alone, the first.

    What is to be as large as possible, such as a log-likelihood, is a cost with its sign changed.
    """
    best = 0
    for at, cost in enumerate(costs):
        rounding = _EQUAL_COSTS * abs(costs[best]) if isfinite(costs[best]) else 0.0
        if cost < costs[best] - rounding:
            best = at
    return best


def cluster(
    data: Rows, weights: FloatArray, geometry: Geometry, k: int, **options: Any
) -> Clustering:
    """Cluster weighted rows of data by `solve`."""
    return precisely(data, weights, geometry, lambda points: solve(points, k, **options))
