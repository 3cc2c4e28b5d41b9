"""Weighted Lloyd on points in memory: assign, average, until nothing moves.

Most centers stop moving long before the last one does. So after the first iterations, points are
compared with the moved centers alone. Every point also knows a score that no resting center
exceeds; only where its own center, and the best of those that moved, are below that, it is
compared with all. That is exact, keeps two numbers per point, and needs no triangle inequality.

With a stride above 1, centers move beyond the means of their clusters. Below 2 the cost still
never rises, and half as many iterations reach the same cost; the last one goes to the means.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
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

    from lwcs.arrays.types import FloatArray, IntArray, Mask, Rows
    from lwcs.geometry import Geometry, Measured
    from lwcs.runtime.parallel import Map
    from lwcs.solvers.device_kmeans import DeviceState
    from lwcs.solvers.points import Points
    from lwcs.solvers.seeding import Init

# Products of one iteration from which on threads share it better than they share restarts.
_LARGE = 2**30
# Costs that differ by less are equal: restarts that end in the same optimum differ by rounding,
# which depends on the processor.
_EQUAL_COSTS = 1e-6
# Products of one iteration from which on it pays to hand them out to threads.
_WORTH_THREADS = 2**24
# Values of points from which on threads add them up faster than one.
_WORTH_ADDING = 2**21
# Points whose sums are taken together, and at least so many per cluster: each lot adds up to
# clusters × columns numbers.
_LOT_ROWS, _LOT_PER_CLUSTER = 2**13, 4
# Gains are taken to fall at least at this rate, when what is left of them is estimated.
_SLOWEST = 0.9
# Distances below this part of what a point costs around the mean are rounding.
NOTHING = {4: 1e-12, 8: 1e-24}
# Below this part of its terms, rounding has left nothing of a distance that a label could trust.
_UNKNOWN = {4: 1e-5, 8: 1e-13}
# Above this many times the sum of what is unknown, scores give the cost to about three digits.
_CLEARLY = 100.0


@dataclass(frozen=True, slots=True)
class Clustering:
    """k centers, the label of every point, the cost, and how they were reached."""

    centers: Centers
    labels: IntArray
    distances: FloatArray
    """d of every point from its own center."""
    cost: float
    n_iter: int
    converged: bool
    remaining: float = 0.0
    """The part of the cost that further iterations would gain, as far as the last ones tell."""


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
    It ends where no label changes, or the centers move by no more than tol · (weighted variance),
    or an iteration lowers the cost by no more than `least_gain` of it, or after `max_iter`
    iterations (`converged` is then False).
    """
    converged, n_iter, watch = False, 0, _Gains(least_gain)
    threads = as_threads(n_jobs) if len(points) * centers.points.size >= _WORTH_THREADS else 1
    with (journal or Journal()).stage("Lloyd") as stage, workers(threads) as run:
        state = _state(points, centers, run, threads)
        stride = stride if points.rows.geometry.squared and max_iter > 1 else 1.0
        while n_iter < max_iter - (stride != 1.0) and not converged:
            n_iter += 1
            changed = state.assign(run)
            stage.step()
            if not changed.any() or watch.is_small(state, run):
                break
            converged = state.update(changed, run, stride) <= tol * points.variance
        else:
            # Labels belong to the final centers; this assignment has no update after it.
            changed = state.assign(run)
        if state.astray.any():
            n_iter += 1
            state.update(changed, run)
            changed = state.assign(run)
        distances = state.distances(run)
    cost = float(points.weights @ distances)
    resting = not changed.any()
    converged = converged or resting or watch.small
    remaining = 0.0 if resting else watch.remaining
    return Clustering(state.centers, state.labels, distances, cost, n_iter, converged, remaining)


def _state(points: Points, centers: Centers, run: Map, threads: int) -> _State | DeviceState:
    if points.device_weights is None:
        return _State(points, centers, run, threads)
    from lwcs.solvers.device_kmeans import DeviceState

    return DeviceState(points, centers)


class _Gains:
    """By how much the last iterations lowered the cost, as parts of it; where that is wanted."""

    def __init__(self, least: float) -> None:
        self._least, self._cost, self._gains = least, inf, [inf, inf]
        self.small = False

    def is_small(self, state: _State | DeviceState, run: Map) -> bool:
        """Whether the last iteration gained too little to go on."""
        if self._least > 0.0:
            cost = state.cost(run)
            gain = (self._cost - cost) / cost if cost > 0.0 else 0.0
            self._gains, self._cost = [self._gains[1], gain], cost
            self.small = gain <= self._least
        return self.small

    @property
    def remaining(self) -> float:
        """What is left if gains go on falling at their present rate, at most by a tenth each."""
        before, last = self._gains
        if not 0.0 < last < inf:
            return 0.0
        rate = min(last / before, _SLOWEST)
        return last * rate / (1.0 - rate)


class _Piece(NamedTuple):
    """Some points, with what does not change from one iteration to the next."""

    part: slice
    rows: Measured
    product: Any
    found: Best
    watch: Watch


class _State:
    """Centers, and for every point its label and score: the larger, the nearer."""

    def __init__(self, points: Points, centers: Centers, run: Map, threads: int) -> None:
        self.points, self.centers, self._threads = points, centers, threads
        own, n = points.rows.products(), len(points)
        with np.errstate(over="ignore", invalid="ignore"):
            self._rows, self._heights, sizes = own.ready(points.rows, run)
            self._least = _UNKNOWN[own.dtype.itemsize] * sizes + own.tiny
        self._product, self._best = own, Best.unknown(n, own.dtype)
        self._old, self._on_center = np.empty(n, dtype=np.int64), np.zeros(n, dtype=bool)
        self._cut: dict[int, list[_Piece]] = {}
        self.astray = np.zeros(len(centers), dtype=bool)
        """Which centers are beyond the means of their clusters."""
        self._prepare(np.arange(len(centers)))

    @property
    def labels(self) -> IntArray:
        """The present labels."""
        return self._best.labels

    def _pieces(self, n_compared: int) -> list[_Piece]:
        """The points in pieces, to be compared with so many centers; kept by their length."""
        step = self._product.step(len(self.points), len(self.centers), n_compared, self._threads)
        if step not in self._cut:
            self._cut[step] = [self._piece(part) for part in pieces(len(self.points), step)]
        return self._cut[step]

    def _piece(self, part: slice) -> _Piece:
        known = self._heights[part], self._least[part], self._old[part]
        changed = np.empty(len(self.centers), dtype=bool)
        watch = Watch(*known, changed, np.empty(part.stop - part.start, dtype=np.int64))
        return _Piece(
            part, self.points.rows[part], self._rows[part], self._best.of_rows(part), watch
        )

    def _prepare(self, moved: IntArray) -> None:
        """Bring the centers into the coordinates of products, once per iteration."""
        self._prepared = self._product.center_matrix(self.centers)
        self._moved = Moved.of(moved, self._product, self._prepared)

    def assign(self, run: Map) -> Mask:
        """Give every point its nearest center; tell which clusters gained or lost a point."""
        changed = np.zeros(len(self.centers), dtype=bool)
        if not len(self._moved.at):
            return changed
        if self.labels[0] < 0:  # the first iteration: every cluster is new
            changed[:] = True
        for clusters in run(self._assign_piece, self._pieces(len(self._moved.at))):
            changed |= clusters
        return changed

    def _assign_piece(self, piece: _Piece) -> Mask:
        """Assign some points; which clusters are concerned."""
        labels, watch, own = piece.found.labels, piece.watch, self._product
        with np.errstate(over="ignore", invalid="ignore"):
            many = own.assign(piece.product, self._prepared, self._moved, piece.found, watch)
            if many:
                unknown = watch.unknown[:many]
                self._settle(piece, unknown)
                at = unknown[labels[unknown] != watch.old[unknown]]
                watch.changed[labels[at]] = True
                watch.changed[watch.old[at[watch.old[at] >= 0]]] = True
        return watch.changed

    def _settle(self, piece: _Piece, unknown: IntArray) -> None:
        """Label points that are too close to their centers for their scores to tell.

        A point on its center, which is often the only point there, is nowhere nearer.
        """
        on_center, labels = self._on_center[piece.part], piece.found.labels
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
            # Scores do not say who is next to these.
            piece.found.others[at] = inf

    def update(self, changed: Mask, run: Map, stride: float = 1.0) -> float:
        """Move the centers of changed clusters towards their means; return how far."""
        old, changed = self.centers.points, changed | self.astray
        totals, sums = self._sums(changed, run)
        empty = np.flatnonzero(changed & (totals == 0.0))
        if len(empty) and self._relocate(empty, run):
            changed, stride = np.ones(len(old), dtype=bool), 1.0
            totals, sums = self._sums(changed, run)
        # Clusters that have not changed have no sums, and keep their centers.
        geometry = self.points.rows.geometry
        self.centers = geometry.means(self.centers, totals, sums)
        fresh = np.flatnonzero(totals)
        self.astray[:] = False
        if stride != 1.0:
            beyond = self.centers.points.copy()
            beyond[fresh] += (stride - 1.0) * (beyond[fresh] - old[fresh])
            self.centers = Centers(beyond, geometry)
            self.astray[fresh] = True
        new = self.centers.points[fresh]
        differ = np.flatnonzero((new != old[fresh]).any(axis=1))
        self._prepare(fresh[differ])
        return geometry.apart(new[differ], old[fresh[differ]])

    def _lots(self) -> Iterator[slice]:
        """Points whose sums are taken together: always the same, so that bits do not change."""
        return pieces(len(self.points), max(_LOT_ROWS, _LOT_PER_CLUSTER * len(self.centers)))

    def _sums(self, wanted: Mask, run: Map) -> tuple[FloatArray, FloatArray]:
        points = self.points

        def add_up(lot: slice) -> tuple[FloatArray, FloatArray]:
            own = points.weights[lot], self.labels[lot]
            return points.rows[lot].cluster_sums(*own, wanted, self.centers)

        worth = len(points) * points.rows.n_features * wanted.mean() >= _WORTH_ADDING
        parts = (run if worth else map)(add_up, self._lots())
        (totals, sums), *others = parts
        for more_totals, more_sums in others:
            totals += more_totals
            sums += more_sums
        return totals, sums

    def _relocate(self, empty: IntArray, run: Map) -> bool:
        """Give every empty cluster one of the costliest points; tell whether there were any."""
        distances = self.distances(run)
        costs = self.points.weights * distances
        nothing = NOTHING[self._product.dtype.itemsize] * self.points.average
        costs[distances <= nothing] = 0.0
        costliest = np.argsort(costs)[-len(empty) :]
        costliest = costliest[costs[costliest] > 0.0]
        found = self._best
        found.labels[costliest] = empty[: len(costliest)]
        found.scores[costliest], found.others[costliest] = -inf, inf
        return len(costliest) > 0

    def cost(self, run: Map) -> float:
        """The cost, from the scores where these have digits enough."""
        weights, total, least = self.points.weights, 0.0, 0.0
        for lot in self._lots():
            own = weights[lot]
            total += float(own @ (self._heights[lot] - self._best.scores[lot]))
            least += float(own @ self._least[lot])
        if _CLEARLY * least < total < inf:
            return total * self._product.cost_unit
        return float(weights @ self.distances(run))

    def distances(self, run: Map) -> FloatArray:
        """d of every point from its own center."""
        centers = self.centers
        parts = run(
            lambda piece: piece.rows.distances(centers, self.labels[piece.part]),
            self._pieces(len(centers)),
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
    """Cluster weighted points; the best of `n_init` restarts by cost.

    Small restarts run beside one another, large ones share all threads, one after the other; on a
    device, all run one after the other.
    """
    journal, threads = journal or Journal(), as_threads(n_jobs)
    small = len(points) * k * points.rows.n_features < _LARGE
    beside = n_init > 1 and small and points.device_weights is None
    share = max(1, threads // n_init) if beside else threads

    def restart(attempt: int) -> Clustering:
        centers = start(points, k, init, generator(seed, stage, attempt), share, journal)
        return lloyd(points, centers, max_iter=max_iter, tol=tol, n_jobs=share, journal=journal)

    with workers(threads if beside else 1) as run:
        found = list(run(restart, range(n_init)))
    return found[cheapest([each.cost for each in found])]


def cheapest(costs: Sequence[float]) -> int:
    """Index of the lowest cost; the first of those that differ by rounding."""
    best = 0
    for at, cost in enumerate(costs):
        if cost < costs[best] * (1.0 - _EQUAL_COSTS):
            best = at
    return best


def cluster(
    data: Rows, weights: FloatArray, geometry: Geometry, k: int, **options: Any
) -> Clustering:
    """Cluster weighted rows of data by `solve`."""
    return precisely(data, weights, geometry, lambda points: solve(points, k, **options))
