"""Weighted Lloyd on points in memory: assign, average, until nothing moves.

Most centers stop moving long before the last one does, and a point whose own center has
not receded can only be won over by a center that moved. So after the first round, points are
compared with the moved centers alone, and with all only where their own center receded
from them. That is exact, keeps one number a point, and needs no triangle inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.foundation.parallel import workers
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.parallel import Map
    from lwcs.foundation.types import FloatArray, IntArray, Mask
    from lwcs.solvers.points import Points

# Products of one round from which on it pays to hand them out to threads.
_WORTH_THREADS = 2**26
# Distances below this are rounding (in solver units, where the spread is 1).
_NOTHING = {4: 1e-12, 8: 1e-24}


@dataclass(frozen=True, slots=True)
class Clustering:
    """k centers, the label and distance of every point, and how they were reached."""

    centers: FloatArray
    labels: IntArray
    distances: FloatArray
    cost: float
    n_iter: int
    converged: bool


def lloyd(
    points: Points, centers: FloatArray, *, max_iter: int, tol: float, n_jobs: int | None = 1
) -> Clustering:
    """Run Lloyd's algorithm; centers and costs are in solver units.

    Ends where no label changes, or the centers move by no more than
    tol · (weighted variance), or after `max_iter` rounds (`converged` is then False).
    """
    state = _State(points, centers)
    converged, n_iter = False, 0
    with workers(n_jobs if state.products >= _WORTH_THREADS else 1) as run:
        while n_iter < max_iter and not converged:
            n_iter += 1
            changed = state.assign(run)
            if not changed.any():
                break
            converged = state.update(changed, run) <= tol * points.variance
        else:
            # Labels belong to the final centers; this one round has no update after it.
            changed = state.assign(run)
        distances = np.concatenate(list(run(state.own_distances, state.pieces)))
    cost = float(points.weights @ distances)
    converged = converged or not changed.any()
    return Clustering(state.centers, state.labels, distances, cost, n_iter, converged)


class _State:
    """Centers, and for every point its label and score x·c − ‖c‖²/2 (larger is nearer)."""

    def __init__(self, points: Points, centers: FloatArray) -> None:
        self.points, self.centers = points, np.array(centers, dtype=np.float64)
        self.pieces = list(points.pieces(len(centers)))
        self.products = len(points) * self.centers.size
        self.labels = np.full(len(points), -1, dtype=np.int64)
        self._rows = {piece.start: points.rows[piece] for piece in self.pieces}
        self._scores = np.full(len(points), -np.inf, dtype=points.rows.dtype)
        self._moved = np.arange(len(centers))
        self._prepare()

    def _prepare(self) -> None:
        """Bring the centers into the points' dtype, once a round."""
        self._light = self.centers.astype(self.points.rows.dtype)
        self._halves = 0.5 * np.einsum("ij,ij->i", self._light, self._light)
        self._place = np.full(len(self.centers), -1)
        self._place[self._moved] = np.arange(len(self._moved))

    def assign(self, run: Map) -> Mask:
        """Give every point its nearest center; tell which clusters gained or lost a point."""
        changed = np.zeros(len(self.centers), dtype=bool)
        if not len(self._moved):
            return changed
        if self.labels[0] < 0:  # the first round: every cluster is new
            changed[:] = True
        for clusters in run(self._assign_piece, self.pieces):
            changed[clusters] = True
        return changed

    def _assign_piece(self, piece: slice) -> IntArray:
        rows, old = self._rows[piece.start], self.labels[piece]
        if 2 * len(self._moved) > len(self.centers):
            labels, scores = self._best(rows, self._light, self._halves)
        else:
            labels, scores = self._best_of_moved(rows, old, self._scores[piece])
        differ = labels != old
        involved = np.concatenate([old[differ], labels[differ]])
        self.labels[piece], self._scores[piece] = labels, scores
        return involved[involved >= 0]

    def _best(
        self, rows: Any, centers: npt.NDArray[Any], halves: npt.NDArray[Any]
    ) -> tuple[IntArray, npt.NDArray[Any]]:
        scores = rows @ centers.T
        scores -= halves
        labels = np.argmax(scores, axis=1)
        return labels, scores[np.arange(len(labels)), labels]

    def _best_of_moved(
        self, rows: Any, old: IntArray, old_scores: npt.NDArray[Any]
    ) -> tuple[IntArray, npt.NDArray[Any]]:
        """As `_best`, where only the moved centers can have become nearer (module docstring)."""
        moved, each = self._moved, np.arange(len(old))
        scores = rows @ self._light[moved].T
        scores -= self._halves[moved]
        best = np.argmax(scores, axis=1)
        top = scores[each, best]
        own = self._place[old]
        present = np.where(own >= 0, scores[each, own], old_scores)
        labels = np.where(top > present, moved[best], old)
        present = np.maximum(top, present)
        receded = np.flatnonzero((own >= 0) & (scores[each, own] < old_scores))
        if len(receded):
            again = self._best(rows[receded], self._light, self._halves)
            labels[receded], present[receded] = again
        return labels, present

    def update(self, changed: Mask, run: Map) -> float:
        """Move the centers of changed clusters to their means; return how far, squared."""
        old = self.centers
        totals, sums = self._sums(changed, run)
        empty = np.flatnonzero(changed & (totals == 0.0))
        if len(empty) and self._relocate(empty):
            changed = np.ones(len(old), dtype=bool)
            totals, sums = self._sums(changed, run)
        fresh = np.flatnonzero(changed & (totals > 0.0))
        self.centers = old.copy()
        self.centers[fresh] = sums[fresh] / totals[fresh, None]
        self._moved = np.flatnonzero((self.centers != old).any(axis=1))
        self._prepare()
        return float(((self.centers - old) ** 2).sum())

    def _sums(self, wanted: Mask, run: Map) -> tuple[FloatArray, FloatArray]:
        totals, sums = np.zeros(len(self.centers)), np.zeros_like(self.centers)

        def add_up(piece: slice) -> tuple[FloatArray, FloatArray]:
            rows, weights = self._rows[piece.start], self.points.weights[piece]
            labels = self.labels[piece]
            return kernels.cluster_sums(rows, weights, labels, wanted, self.points.kernel)

        for part in run(add_up, self.pieces):
            totals += part[0]
            sums += part[1]
        return totals, sums

    def _relocate(self, empty: IntArray) -> bool:
        """Give every empty cluster one of the costliest points; tell whether there were any."""
        distances = np.concatenate([self.own_distances(piece) for piece in self.pieces])
        costs = self.points.weights * distances
        costs[distances <= _NOTHING[self._scores.itemsize]] = 0.0
        costliest = np.argsort(costs)[-len(empty) :]
        costliest = costliest[costs[costliest] > 0.0]
        self.labels[costliest] = empty[: len(costliest)]
        self._scores[costliest] = -np.inf
        return len(costliest) > 0

    def own_distances(self, piece: slice) -> FloatArray:
        """‖x − own center‖², from the difference, so that small ones keep their digits."""
        rows, own = self._rows[piece.start], self.centers[self.labels[piece]]
        if is_sparse(rows):
            norms = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
            products = np.asarray(rows.multiply(own).sum(axis=1)).ravel()
            return np.maximum(norms - 2.0 * products + np.einsum("ij,ij->i", own, own), 0.0)
        offset = rows - own
        distances: FloatArray = np.einsum("ij,ij->i", offset, offset)
        return distances
