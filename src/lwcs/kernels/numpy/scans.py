"""Scans of rows, their moments, and the sums of clusters.

Loops over dense rows are in the array API standard, for NumPy, torch and CuPy. Rows are computed
with in pieces whose float64 temporaries stay in a core's cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace

from lwcs.arrays.rows import as_floats, csr, is_sparse, pieces, row_numbers, with_values
from lwcs.kernels.numpy.csr import moments_sparse, scan_sparse
from lwcs.kernels.protocol import BlockMoments, BlockScans, Hits, Pivot, Scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask, Rows

_PIECE_VALUES = 2**15
_ONES = np.ones(65_536)
_ONES.flags.writeable = False
# Callers check the sums, and name the row; a warning from here could not.
quiet = np.errstate(invalid="ignore", over="ignore")


def _pieces(points: Any) -> Iterator[slice]:
    n_rows, n_features = points.shape
    return pieces(n_rows, _PIECE_VALUES // n_features)


def unit_weights(weights: FloatArray | None, n_rows: int) -> FloatArray:
    """Give the weights themselves, or ones where there are none."""
    if weights is not None:
        return weights
    return _ONES[:n_rows] if n_rows <= len(_ONES) else np.ones(n_rows)


@quiet
def scan(points: Rows, weights: FloatArray | None, pivot: Pivot, out: FloatArray) -> Scan:
    """Sparse rows at the cost of their non-zeros."""
    if is_sparse(points):
        omega = unit_weights(weights, points.shape[0])
        return Scan(*scan_sparse(*csr(points), omega, pivot.sparse, out))
    return Scan(*scan_dense(as_floats(points), weights, pivot.point, pivot.precision, out))


def scan_dense(
    points: Any, weights: Any, pivot: Any, precision: Any, out: Any
) -> tuple[FloatArray, float]:
    """`scan` in the array API standard."""
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


def distances(points: Rows, pivot: Pivot, out: FloatArray) -> None:
    """By a scan."""
    scan(points, None, pivot, out)


@quiet
def scan_cells(
    points: Rows,
    weights: FloatArray | None,
    pivot: Pivot,
    block_rows: int,
    cells: FloatArray,
    cell_rows: int,
) -> BlockScans:
    """By a scan of every block."""
    if is_sparse(points):
        found = np.empty(points.shape[0])
        sums = scan(points, weights, pivot, found)
        cells[:] = cell_sums(found if weights is None else weights * found, cell_rows)
        return BlockScans(sums.shift[None, :], np.array([sums.cost]))
    shifts, costs, points = [], [], as_floats(points)
    for block in pieces(len(points), block_rows):
        omega, distances = None if weights is None else weights[block], np.empty(len(points[block]))
        shift, cost = scan_dense(points[block], omega, pivot.point, pivot.precision, distances)
        own = cells[block.start // cell_rows : -(-block.stop // cell_rows)]
        own[:] = cell_sums(distances if omega is None else omega * distances, cell_rows)
        shifts.append(shift)
        costs.append(cost)
    return BlockScans(np.array(shifts), np.array(costs))


def hit_rows(
    points: Rows,
    weights: FloatArray | None,
    pivot: Pivot,
    mean: Pivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> Hits:
    """All rows are measured, so pass no others than those of the runs."""
    bounds = np.empty(points.shape[0])
    distances(points, pivot, bounds)
    bounds = scale * bounds + floor
    rows = cross(bounds if weights is None else weights * bounds, *runs)
    to_mean = np.empty(len(rows))
    distances(points[rows], mean, to_mean)
    return Hits(rows, bounds[rows], to_mean)


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


@quiet
def moments(points: Rows, weights: FloatArray | None) -> BlockMoments:
    """Each piece of rows by itself, around its own mean."""
    omega = unit_weights(weights, points.shape[0])
    if is_sparse(points):
        return BlockMoments(*moments_sparse(*csr(points), omega, points.shape[1]))
    return BlockMoments(*moments_dense(as_floats(points), omega))


def moments_dense(points: Any, weights: Any) -> tuple[float, FloatArray, FloatArray]:
    """`moments` in the array API standard: pieces around their own means are merged exactly."""
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


@quiet
def closer(
    points: Rows,
    weights: FloatArray | None,
    center: Pivot,
    label: int,
    reach: FloatArray | None,
    closest: FloatArray,
    labels: Labels,
) -> tuple[float, int]:
    """By a scan, which reads every row."""
    del reach
    found = np.empty(points.shape[0])
    distances(points, center, found)
    return keep_closer(found, weights, label, closest, labels), 0


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
    points: Rows, weights: FloatArray | None, labels: Labels, wanted: Mask, around: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Dense rows in the order of their labels, sparse ones by products."""
    weights = unit_weights(weights, points.shape[0])
    if is_sparse(points):
        import scipy.sparse as sp

        at = np.flatnonzero(wanted[labels])
        members = sp.csr_array((weights[at], (labels[at], at)), shape=(len(wanted), len(labels)))
        own = around[labels[row_numbers(points)], points.indices]
        moved = (members @ with_values(points, points.data - own)).toarray()
        there = (members @ with_values(points, np.ones(points.nnz))).toarray()
        # In the same order as `there`: a column without zeros has then exactly none.
        totals = members @ np.ones(len(labels))
        return totals, moved - (totals[:, None] - there) * around
    points = as_floats(points)
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
    """In pieces."""
    points = as_floats(points)
    out = np.empty(len(points))
    for piece in _pieces(points):
        offset = points[piece] - centers[labels[piece]]
        weighted = offset if precision is None else offset * precision
        np.einsum("ij,ij->i", weighted, offset, out=out[piece])
    return out


def second_best(scores: DenseRows, best: IntArray, at: IntArray | None) -> DenseRows:
    """The second largest score of some rows, or of all."""
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
