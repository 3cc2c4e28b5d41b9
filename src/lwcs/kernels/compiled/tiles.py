"""Assignment of dense rows to centers, and sums over their labels.

A tile of rows is multiplied with 128 centers at a time by BLAS, called from compiled code, into
scores with one column per row; best and second best are then found for all rows of the tile at
once, in vector registers. That takes little more time than the product itself; a direct loop for
few columns was slower everywhere. No rows × centers matrix leaves the cache, and no Python runs in
between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg  # noqa: F401  numba calls its BLAS, whose threads are limited only once loaded

from lwcs.kernels import TILE
from lwcs.kernels.compiled.jit import REASSOCIATE, jit

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask


@jit()
def _cluster_sums(points, weights, labels, wanted, around, totals, sums):  # type: ignore[no-untyped-def]
    for i in range(points.shape[0]):
        j, omega = labels[i], weights[i]
        if not wanted[j]:
            continue
        totals[j] += omega
        for column in range(points.shape[1]):
            sums[j, column] += omega * (np.float64(points[i, column]) - around[j, column])


def cluster_sums(
    points: DenseRows, weights: FloatArray, labels: Labels, wanted: Mask, around: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·(x − around) of the clusters that are wanted, zeros for the others."""
    totals, sums = np.zeros(len(wanted)), np.zeros((len(wanted), points.shape[1]))
    _cluster_sums(points, weights, labels, wanted, around, totals, sums)
    return totals, sums


@jit(fastmath=REASSOCIATE)
def _own_distances(points, centers, labels, precision, out):  # type: ignore[no-untyped-def]
    for i in range(points.shape[0]):
        own = labels[i]
        distance = 0.0
        for j in range(points.shape[1]):
            offset = np.float64(points[i, j]) - centers[own, j]
            if precision is None:
                distance += offset * offset
            else:
                distance += precision[j] * (offset * offset)
        out[i] = distance


def own_distances(
    points: DenseRows, centers: FloatArray, labels: Labels, precision: FloatArray | None
) -> FloatArray:
    """d of every row to the center that its label names."""
    out = np.empty(len(points))
    _own_distances(points, centers, labels, precision, out)
    return out


@jit(fastmath={"reassoc", "nnan", "nsz"})
def _second_best(scores, best, at, out):  # type: ignore[no-untyped-def]
    # Callers check the best score, which is NaN if any score is.
    for row in range(len(at)):
        i = at[row]
        label, most = best[i], -np.inf
        for j in range(label):
            most = max(most, scores[i, j])
        for j in range(label + 1, scores.shape[1]):
            most = max(most, scores[i, j])
        out[row] = most


def second_best(scores: DenseRows, best: IntArray, at: IntArray | None) -> DenseRows:
    """The second largest score of some rows, or of all."""
    at = np.arange(len(scores)) if at is None else at
    out = np.empty(len(at), dtype=scores.dtype)
    _second_best(scores, best, at, out)
    return out


# Centers of one product: its scores are 128 KB in float32.
_CENTERS = 128


# Best and second best are arrays of their own: of parts of one array, LLVM cannot tell that they do
# not overlap, and the comparisons would go one by one.
#
# A score that is NaN is never the best; the row is unclear, as its second best equals its best.


@jit()
def _compare(scores, first, best, second, labels):  # type: ignore[no-untyped-def]
    for j in range(scores.shape[0]):
        label = np.int32(first + j)
        for i in range(scores.shape[1]):
            score, top = scores[j, i], best[i]
            lower = score if score < top else top
            second[i] = lower if lower > second[i] else second[i]
            labels[i] = label if score > top else labels[i]
            best[i] = score if score > top else top


@jit()
def _compare_tile(tile, matrix, memory, best, second, labels):  # type: ignore[no-untyped-def]
    best[:] = -np.inf
    second[:] = -np.inf
    labels[:] = 0
    for first in range(0, matrix.shape[0], _CENTERS):
        some = matrix[first : first + _CENTERS]
        scores = memory[: some.shape[0] * tile.shape[0]].reshape(some.shape[0], tile.shape[0])
        np.dot(some, tile.T, scores)
        _compare(scores, first, best, second, labels)


@jit(fastmath=REASSOCIATE)
def _own_distance(points, i, center, precision):  # type: ignore[no-untyped-def]
    distance = 0.0
    for j in range(points.shape[1]):
        offset = np.float64(points[i, j]) - center[j]
        distance += precision[j] * (offset * offset)
    return distance


@jit(fastmath=REASSOCIATE)
def _shifted(points, start, origin, factor, tile, norms):  # type: ignore[no-untyped-def]
    for i in range(min(TILE, points.shape[0] - start)):
        norm = norms.dtype.type(0.0)
        for j in range(points.shape[1]):
            value = norms.dtype.type(points[start + i, j] - origin[j]) * factor[j]
            tile[i, j] = value
            norm += value * value
        norms[i] = norm


@jit()
def _nearest(  # type: ignore[no-untyped-def]
    points, origin, factor, matrix, sizes, limits, centers, precision, labels, unclear, distances
):
    clear, tiny, large, rounding = limits
    n_rows, width = points.shape[0], matrix.shape[1]
    tile = np.zeros((TILE, width), dtype=matrix.dtype)
    tile[:, width - 1] = 1.0
    memory = np.empty(_CENTERS * TILE, dtype=matrix.dtype)
    best, second = np.empty(TILE, dtype=matrix.dtype), np.empty(TILE, dtype=matrix.dtype)
    norms = np.empty(TILE, dtype=matrix.dtype)
    own = np.empty(TILE, dtype=np.int32)
    n_unclear = 0
    for start in range(0, n_rows, TILE):
        _shifted(points, start, origin, factor, tile, norms)
        _compare_tile(tile, matrix, memory, best, second, own)
        for i in range(min(TILE, n_rows - start)):
            norm, label = np.float64(norms[i]), own[i]
            apart = norm - best[i]
            certain = apart > clear * norm + tiny and norm < large and best[i] > -np.inf
            if not certain:
                bound = norm + abs(apart) + 2.0 * sizes[label]
                gap = np.float64(best[i]) - second[i]
                certain = gap > rounding * bound + tiny and bound < large
            labels[start + i] = label
            unclear[start + i] = not certain
            n_unclear += not certain
            if len(distances):
                distances[start + i] = _own_distance(points, start + i, centers[label], precision)
    return n_unclear


def nearest(
    points: DenseRows,
    origin: DenseRows,
    factor: DenseRows | None,
    matrix: DenseRows,
    sizes: FloatArray,
    limits: tuple[float, float, float, float],
    centers: FloatArray,
    precision: FloatArray | None,
    labels: npt.NDArray[np.int32],
    distances: FloatArray | None,
) -> IntArray:
    """Label rows by squared distances, and measure them if wanted; return rows not certain.

    `limits` are those of `Products`: clear, tiny, large and rounding.
    """
    unclear = np.empty(len(points), dtype=np.bool_)
    # One version for each pair of dtypes: ones and an empty array where there is nothing.
    factors = np.ones(len(origin), origin.dtype) if factor is None else factor
    scale = np.ones(len(origin)) if precision is None else precision
    wanted = np.empty(0) if distances is None else distances
    found = _nearest(
        points, origin, factors, matrix, sizes, limits, centers, scale, labels, unclear, wanted
    )
    return np.flatnonzero(unclear) if found else np.empty(0, dtype=np.int64)


@jit()
def _best(rows, matrix, found):  # type: ignore[no-untyped-def]
    memory = np.empty(_CENTERS * TILE, dtype=matrix.dtype)
    best, second = np.empty(TILE, dtype=matrix.dtype), np.empty(TILE, dtype=matrix.dtype)
    own = np.empty(TILE, dtype=np.int32)
    for start in range(0, rows.shape[0], TILE):
        tile = rows[start : start + TILE]
        m = tile.shape[0]
        _compare_tile(tile, matrix, memory, best[:m], second[:m], own[:m])
        found.labels[start : start + m] = own[:m]
        found.scores[start : start + m] = best[:m]
        found.others[start : start + m] = second[:m]


@jit()
def _best_of_moved(rows, matrix, moved, place, some, found):  # type: ignore[no-untyped-def]
    labels, scores, others = found.labels, found.scores, found.others
    n_rows, width = rows.shape
    memory = np.empty(_CENTERS * TILE, dtype=matrix.dtype)
    best, second = np.empty(TILE, dtype=matrix.dtype), np.empty(TILE, dtype=matrix.dtype)
    present = np.empty(TILE, dtype=matrix.dtype)
    own = np.empty(TILE, dtype=np.int32)
    unsure, n_unsure = np.empty(n_rows, dtype=np.int32), 0
    for start in range(0, n_rows, TILE):
        tile = rows[start : start + TILE]
        m = tile.shape[0]
        best[:m] = -np.inf
        second[:m] = -np.inf
        own[:m] = 0
        present[:m] = scores[start : start + m]
        for first in range(0, some.shape[0], _CENTERS):
            part = some[first : first + _CENTERS]
            products = memory[: part.shape[0] * m].reshape(part.shape[0], m)
            np.dot(part, tile.T, products)
            _compare(products, first, best[:m], second[:m], own[:m])
            for i in range(m):
                at = place[labels[start + i]] - first
                if 0 <= at < part.shape[0]:
                    present[i] = products[at, i]
        for i in range(m):
            row, winner = start + i, moved[own[i]]
            bound = others[row]
            if not max(best[i], present[i]) >= bound:
                unsure[n_unsure] = row
                n_unsure += 1
            if winner == labels[row]:
                others[row] = max(bound, second[i])
                scores[row] = best[i]
            elif best[i] > present[i]:
                others[row] = max(bound, max(present[i], second[i]))
                labels[row], scores[row] = winner, best[i]
            else:
                others[row] = max(bound, best[i])
                scores[row] = present[i]
    # A center that has not moved may be nearest to these rows.
    gathered = np.empty((TILE, width), dtype=rows.dtype)
    for start in range(0, n_unsure, TILE):
        m = min(TILE, n_unsure - start)
        for i in range(m):
            gathered[i] = rows[unsure[start + i]]
        _compare_tile(gathered[:m], matrix, memory, best[:m], second[:m], own[:m])
        for i in range(m):
            row = unsure[start + i]
            labels[row], scores[row], others[row] = own[i], best[i], second[i]


@jit()
def _news(found, watch):  # type: ignore[no-untyped-def]
    labels, old, n_unknown = found.labels, watch.old, 0
    for i in range(len(labels)):
        if labels[i] != old[i]:
            watch.changed[labels[i]] = True
            if old[i] >= 0:
                watch.changed[old[i]] = True
        if not watch.heights[i] - found.scores[i] > watch.least[i]:
            watch.unknown[n_unknown] = i
            n_unknown += 1
    return n_unknown


@jit()
def assign(rows, matrix, moved, place, some, found, watch):  # type: ignore[no-untyped-def]
    """One iteration's assignment of some rows (`products.Products.assign`).

    `some` are the centers that moved, `place` has the position of each center among them. It is one
    call, since between two a thread may have to wait for the GIL.
    """
    watch.old[:] = found.labels
    watch.changed[:] = False
    if 2 * len(moved) > matrix.shape[0]:
        _best(rows, matrix, found)
    else:
        _best_of_moved(rows, matrix, moved, place, some, found)
    return _news(found, watch)
