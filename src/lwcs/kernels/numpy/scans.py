"""The kernels in the array API standard, for NumPy, torch and CuPy: the reference of the tests.

Rows are computed with in pieces whose float64 temporaries stay in a core's cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace

from lwcs.arrays.rows import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask

_PIECE_VALUES = 2**15


def _pieces(points: Any) -> Iterator[slice]:
    n_rows, n_features = points.shape
    return pieces(n_rows, _PIECE_VALUES // n_features)


def scan(
    points: Any, weights: Any, pivot: Any, precision: Any, out: Any
) -> tuple[FloatArray, float]:
    """Write d(x, pivot) into `out`; return Σω(x − pivot) and Σω·d."""
    xp = array_namespace(points)
    shift, cost = xp.zeros_like(pivot), 0.0
    # Products with ones: several times faster than sums over short axes.
    scale = xp.ones_like(pivot) if precision is None else precision
    omega = xp.ones_like(out) if weights is None else weights
    for piece in _pieces(points):
        offset = xp.astype(points[piece, :], xp.float64) - pivot
        distance = xp.matmul(offset * offset, scale)
        out[piece] = distance
        shift = shift + xp.matmul(omega[piece], offset)
        cost += float(xp.matmul(omega[piece], distance))
    return shift, cost


def scan_cells(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    precision: FloatArray | None,
    block_rows: int,
    cell_rows: int,
    cells: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Write Σω·d of every cell into `cells`; return the sums of every block. NumPy only."""
    shifts, costs = [], []
    for block in pieces(len(points), block_rows):
        omega, distances = None if weights is None else weights[block], np.empty(len(points[block]))
        shift, cost = scan(points[block], omega, pivot, precision, distances)
        own = cells[block.start // cell_rows : -(-block.stop // cell_rows)]
        own[:] = cell_sums(distances if omega is None else omega * distances, cell_rows)
        shifts.append(shift)
        costs.append(cost)
    return np.array(shifts), np.array(costs)


def cell_sums(masses: FloatArray, cell_rows: int) -> FloatArray:
    """Sums over cells of rows, the last one short."""
    whole = len(masses) // cell_rows * cell_rows
    # A product with ones is several times faster than a sum over so short an axis.
    sums: FloatArray = masses[:whole].reshape(-1, cell_rows) @ np.ones(cell_rows)
    if whole == len(masses):
        return sums
    return np.append(sums, masses[whole:].sum())


def cross(masses: FloatArray, starts: IntArray, stops: IntArray, targets: FloatArray) -> IntArray:
    """Where the running sum of every run of masses crosses its target, at the latest at its end.

    A mass of zero is never met, unless there is no other.
    """
    places = starts[:, None] + np.arange(int((stops - starts).max(initial=1)))
    inside = places < stops[:, None]
    sums = np.cumsum(np.where(inside, masses[np.where(inside, places, 0)], 0.0), axis=1)
    met = np.minimum((sums <= targets[:, None]).sum(axis=1), (sums < sums[:, -1:]).sum(axis=1))
    return np.asarray(starts + met)


def moments(points: Any, weights: Any) -> tuple[float, FloatArray, FloatArray]:
    """Weight, mean and scatter; each piece around its own mean, pieces merged exactly."""
    xp = array_namespace(points)
    total, mean = 0.0, xp.zeros(points.shape[1], dtype=xp.float64)
    scatter = mean
    for piece in _pieces(points):
        omega, rows = weights[piece], xp.astype(points[piece, :], xp.float64)
        weight = float(xp.sum(omega))
        # Around one of its rows, a piece of equal rows gives exactly zero, and so Φ = 0.
        first = rows[int(xp.argmax(omega)), :]
        if weight == 0.0:
            # Adds nothing, except NaN if a row is not finite.
            mean = mean + xp.matmul(omega, rows - first)
            continue
        center = first + xp.matmul(omega, rows - first) / weight
        offset = rows - center
        slip = xp.matmul(omega, offset) / weight
        spread = xp.matmul(omega, offset * offset) - weight * slip * slip
        delta = center + slip - mean
        merged = total + weight
        mean = mean + delta * (weight / merged)
        scatter = scatter + spread + delta * delta * (total * weight / merged)
        total = merged
    return total, mean, scatter


def closer(
    points: DenseRows,
    weights: FloatArray | None,
    center: FloatArray,
    precision: FloatArray | None,
    label: int,
    reach: FloatArray | None,
    closest: FloatArray,
    labels: Labels,
) -> tuple[float, int]:
    """Lower `closest` where `center` is nearer. NumPy only; it reads every row."""
    del reach
    distances = np.empty(len(points))
    scan(points, weights, center, precision, distances)
    return keep_closer(distances, weights, label, closest, labels), 0


def keep_closer(
    distances: FloatArray,
    weights: FloatArray | None,
    label: int,
    closest: FloatArray,
    labels: Labels,
) -> float:
    """Keep the smaller of two distances per row; return Σω·closest."""
    nearer = distances < closest
    closest[nearer] = distances[nearer]
    labels[nearer] = label
    return weighted_sum(weights, closest)


def weighted_sum(weights: FloatArray | None, values: FloatArray) -> float:
    """Σω·value."""
    return float(values.sum() if weights is None else weights @ values)


def cluster_sums(
    points: DenseRows, weights: FloatArray, labels: Labels, wanted: Mask, around: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·(x − around) of the clusters that are wanted. NumPy only: it sorts the rows."""
    order = np.argsort(labels, kind="stable")
    order = order[wanted[labels[order]]]
    totals = np.zeros(len(wanted))
    totals += np.bincount(labels[order], weights[order], len(wanted))
    sums = np.zeros((len(wanted), points.shape[1]))
    clusters, starts = np.unique(labels[order], return_index=True)
    if len(clusters):
        moved = points[order] - around[labels[order]]
        sums[clusters] = np.add.reduceat(weights[order, None] * moved, starts, axis=0)
    return totals, sums


def own_distances(
    points: DenseRows, centers: FloatArray, labels: Labels, precision: FloatArray | None
) -> FloatArray:
    """d of every row to the center that its label names."""
    out = np.empty(len(points))
    for piece in _pieces(points):
        offset = points[piece] - centers[labels[piece]]
        weighted = offset if precision is None else offset * precision
        np.einsum("ij,ij->i", weighted, offset, out=out[piece])
    return out


def second_best(scores: DenseRows, best: IntArray, at: IntArray | None) -> DenseRows:
    """The second largest score of some rows, or of all. NumPy only."""
    if at is not None and 2 * len(at) > len(scores):
        return np.asarray(second_best(scores, best, None)[at])
    if at is not None:
        scores, best = scores[at], best[at]
    # The best score is removed and put back: a copy of all scores costs more than the search.
    each = np.arange(len(best))
    top = scores[each, best]
    scores[each, best] = -np.inf
    second = scores.max(axis=1, initial=-np.inf)
    scores[each, best] = top
    return np.asarray(second)
