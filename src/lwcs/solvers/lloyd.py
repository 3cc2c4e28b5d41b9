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
    from lwcs.foundation.types import FloatArray, IntArray, Mask, Rows
    from lwcs.solvers.points import Points

# Products of one round from which on it pays to hand them out to threads.
_WORTH_THREADS = 2**26
_LOT_ROWS = 2**15
# Distances below this part of what a point costs around the mean are rounding.
_NOTHING = {4: 1e-12, 8: 1e-24}


@dataclass(frozen=True, slots=True)
class Clustering:
    """k centers, the label of every point, the cost, and how they were reached."""

    centers: FloatArray
    labels: IntArray
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
        distances = state.distances(run)
    cost = float(points.weights @ distances)
    converged = converged or not changed.any()
    return Clustering(state.centers, state.labels, cost, n_iter, converged)


class _State:
    """Centers, and for every point its label and score, x·slope + offset of its center.

    Of squared distances that is 2x·c − ‖c‖². The larger, the nearer.
    """

    def __init__(self, points: Points, centers: FloatArray) -> None:
        self.points, self.centers = points, np.array(centers, dtype=np.float64)
        self.pieces = list(points.pieces(len(centers)))
        self.products = len(points) * self.centers.size
        self.labels = np.full(len(points), -1, dtype=np.int64)
        self._rows = {piece.start: _with_ones(points.rows[piece]) for piece in self.pieces}
        self._scores = np.full(len(points), -np.inf, dtype=points.rows.dtype)
        self._moved = np.arange(len(centers))
        self._prepare()

    def _prepare(self) -> None:
        """Bring the centers' slopes and offsets into the points' dtype, once a round."""
        tangents = np.column_stack(self.points.tangents(self.centers))
        self._light = tangents.astype(self.points.rows.dtype)
        self._light_moved = self._light[self._moved]
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
            labels, scores = _best(rows, self._light)
        else:
            labels, scores = self._best_of_moved(rows, old, self._scores[piece])
        differ = labels != old
        involved = np.concatenate([old[differ], labels[differ]])
        self.labels[piece], self._scores[piece] = labels, scores
        return involved[involved >= 0]

    def _best_of_moved(
        self, rows: Any, old: IntArray, old_scores: npt.NDArray[Any]
    ) -> tuple[IntArray, npt.NDArray[Any]]:
        """As `_best`, where only the moved centers can have become nearer (module docstring)."""
        moved, each = self._moved, np.arange(len(old))
        scores = rows @ self._light_moved.T
        best = np.argmax(scores, axis=1)
        top = scores[each, best]
        own = self._place[old]
        present = np.where(own >= 0, scores[each, own], old_scores)
        receded = np.flatnonzero(present < old_scores)
        labels = np.where(top > present, moved[best], old)
        np.maximum(top, present, out=present)
        if len(receded):
            labels[receded], present[receded] = _best(rows[receded], self._light)
        return labels, present

    def update(self, changed: Mask, run: Map) -> float:
        """Move the centers of changed clusters to their means; return how far."""
        old = self.centers
        totals, sums = self._sums(changed, run)
        empty = np.flatnonzero(changed & (totals == 0.0))
        if len(empty) and self._relocate(empty, run):
            changed = np.ones(len(old), dtype=bool)
            totals, sums = self._sums(changed, run)
        fresh = np.flatnonzero(changed & (totals > 0.0))
        self.centers = old.copy()
        self.centers[fresh] = self.points.means(sums[fresh], totals[fresh])
        self._moved = np.flatnonzero((self.centers != old).any(axis=1))
        self._prepare()
        return self.points.moved(self.centers, old)

    def _sums(self, wanted: Mask, run: Map) -> tuple[FloatArray, FloatArray]:
        points, totals, sums = self.points, np.zeros(len(wanted)), np.zeros_like(self.centers)

        def add_up(lot: slice) -> tuple[FloatArray, FloatArray]:
            return kernels.cluster_sums(
                points.rows[lot], points.weights[lot], self.labels[lot], wanted, points.kernel
            )

        # Long lots, since each adds up to clusters × columns numbers.
        lots = [slice(at, at + _LOT_ROWS) for at in range(0, len(points), _LOT_ROWS)]
        for part in run(add_up, lots):
            totals += part[0]
            sums += part[1]
        return totals, sums

    def _relocate(self, empty: IntArray, run: Map) -> bool:
        """Give every empty cluster one of the costliest points; tell whether there were any."""
        distances = self.distances(run)
        costs = self.points.weights * distances
        nothing = _NOTHING[self._scores.itemsize] * self.points.average
        costs[distances <= nothing] = 0.0
        costliest = np.argsort(costs)[-len(empty) :]
        costliest = costliest[costs[costliest] > 0.0]
        self.labels[costliest] = empty[: len(costliest)]
        self._scores[costliest] = -np.inf
        return len(costliest) > 0

    def distances(self, run: Map) -> FloatArray:
        """D of every point from its own center."""
        measure = self.points.from_own(self.centers)
        parts = run(lambda piece: measure(piece, self.labels[piece]), self.pieces)
        return np.concatenate(list(parts))


def _with_ones(rows: Rows) -> Rows:
    """One more column of ones: it meets the centers' offsets in every product."""
    if is_sparse(rows):
        import scipy.sparse as sp

        return sp.hstack([rows, np.ones((rows.shape[0], 1))], format="csr")
    return np.column_stack([rows, np.ones(len(rows), dtype=rows.dtype)])


def _best(rows: Rows, centers: npt.NDArray[Any]) -> tuple[IntArray, npt.NDArray[Any]]:
    """The nearest center of every row, and its score."""
    scores = rows @ centers.T
    labels = np.argmax(scores, axis=1)
    return labels, scores[np.arange(len(labels)), labels]
