"""The kernels in numba: single-threaded, without the GIL, compiled on first use.

Sums may be reassociated (that is what lets LLVM use vector registers), so they agree
with `portable` to rounding, and with themselves bit for bit. NaN and infinity still
go through every sum: that is how bad data is found without looking for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Labels, Mask

_REASSOCIATE = {"reassoc", "contract"}
# Rows of one piece of `moments`: small enough that its second sweep reads from cache.
_PIECE = 64


def _jit(*, fastmath: Any = False) -> Callable[[Any], Any]:
    """`numba.njit` with an on-disk cache where there is a place to write one."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, fastmath=fastmath)(function)
        except RuntimeError:  # no writable cache folder
            return numba.njit(nogil=True, fastmath=fastmath)(function)

    return decorate


# Weights, precision and reach may be None: numba then compiles a version without them.


@_jit(fastmath=_REASSOCIATE)
def _scan_one_by_one(points, weights, pivot, precision, shift, out):  # type: ignore[no-untyped-def]
    cost = 0.0
    for i in range(points.shape[0]):
        distance = 0.0
        if weights is None:
            omega = 1.0
        else:
            omega = weights[i]
        for j in range(points.shape[1]):
            offset = np.float64(points[i, j]) - pivot[j]
            shift[j] += omega * offset
            if precision is None:
                distance += offset * offset
            else:
                distance += precision[j] * (offset * offset)
        out[i] = distance
        cost += omega * distance
    return cost


@_jit(fastmath=_REASSOCIATE)
def _scan_by_four(points, weights, pivot, precision, shift, out):  # type: ignore[no-untyped-def]
    # Four rows share the loads of pivot and shift.
    cost = 0.0
    n_rows, n_features = points.shape
    for i in range(0, n_rows - 3, 4):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        if weights is None:
            u, v, w, x = 1.0, 1.0, 1.0, 1.0
        else:
            u, v, w, x = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(n_features):
            at = pivot[j]
            q = np.float64(points[i, j]) - at
            r = np.float64(points[i + 1, j]) - at
            s = np.float64(points[i + 2, j]) - at
            t = np.float64(points[i + 3, j]) - at
            shift[j] += (u * q + v * r) + (w * s + x * t)
            if precision is None:
                scale = 1.0
            else:
                scale = precision[j]
            a += scale * (q * q)
            b += scale * (r * r)
            c += scale * (s * s)
            d += scale * (t * t)
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
        cost += (u * a + v * b) + (w * c + x * d)
    rest = n_rows - n_rows % 4
    tail = None if weights is None else weights[rest:]
    return cost + _scan_one_by_one(points[rest:], tail, pivot, precision, shift, out[rest:])


# Below this many columns, rows are scanned four at a time (measured).
_NARROW = 48


def scan(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    precision: FloatArray | None,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """Write d(x, pivot) into `out`; return Σω(x − pivot) and Σω·d."""
    shift = np.zeros(points.shape[1])
    loop = _scan_by_four if points.shape[1] < _NARROW else _scan_one_by_one
    return shift, loop(points, weights, pivot, precision, shift, out)


@_jit(fastmath=_REASSOCIATE)
def _moments(points, weights, mean, scatter):  # type: ignore[no-untyped-def]
    n_rows, n_features = points.shape
    total = 0.0
    center, slip, spread = np.empty(n_features), np.empty(n_features), np.empty(n_features)
    for start in range(0, n_rows, _PIECE):
        stop = min(start + _PIECE, n_rows)
        weight = 0.0
        slip[:] = 0.0
        # Around a row of theirs equal rows give exactly zero, and so an exact Φ = 0.
        first = start + np.argmax(weights[start:stop])
        for i in range(start, stop):
            omega = weights[i]
            weight += omega
            for j in range(n_features):
                slip[j] += omega * (np.float64(points[i, j]) - np.float64(points[first, j]))
        if weight == 0.0:
            # Leaves nothing behind but the NaN of a row that is not finite.
            for j in range(n_features):
                mean[j] += slip[j]
            continue
        for j in range(n_features):
            center[j] = np.float64(points[first, j]) + slip[j] / weight
            slip[j] = 0.0
            spread[j] = 0.0
        for i in range(start, stop):
            omega = weights[i]
            for j in range(n_features):
                offset = np.float64(points[i, j]) - center[j]
                slip[j] += omega * offset
                spread[j] += omega * (offset * offset)
        merged = total + weight
        share, leverage = weight / merged, total * (weight / merged)
        for j in range(n_features):
            move = slip[j] / weight
            delta = center[j] + move - mean[j]
            mean[j] += delta * share
            scatter[j] += spread[j] - weight * (move * move) + leverage * (delta * delta)
        total = merged
    return total


def moments(points: DenseRows, weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Weight, mean and scatter; each piece around its own mean, pieces merged exactly."""
    mean, scatter = np.zeros(points.shape[1]), np.zeros(points.shape[1])
    return _moments(points, weights, mean, scatter), mean, scatter


@_jit(fastmath=_REASSOCIATE)
def _closer(points, weights, center, precision, label, reach, closest, labels):  # type: ignore[no-untyped-def]
    cost, spared = 0.0, 0
    for i in range(points.shape[0]):
        if reach is not None:  # noqa: SIM102  numba prunes this test alone
            if closest[i] <= reach[labels[i]]:
                spared += 1
                if weights is None:
                    cost += closest[i]
                else:
                    cost += weights[i] * closest[i]
                continue
        distance = 0.0
        for j in range(points.shape[1]):
            offset = np.float64(points[i, j]) - center[j]
            if precision is None:
                distance += offset * offset
            else:
                distance += precision[j] * (offset * offset)
        if distance < closest[i]:
            closest[i] = distance
            labels[i] = label
        if weights is None:
            cost += closest[i]
        else:
            cost += weights[i] * closest[i]
    return cost, spared


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
    """Lower `closest` where `center` is nearer; rows within reach of their own are not read."""
    return _closer(points, weights, center, precision, label, reach, closest, labels)


@_jit()
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


@_jit(fastmath=_REASSOCIATE)
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


@_jit(fastmath={"reassoc", "nnan", "nsz"})
def _second_best(scores, best, at, out):  # type: ignore[no-untyped-def]
    # Whoever called looks at the best score, which is NaN where any is.
    for row in range(len(at)):
        i = at[row]
        label, most = best[i], -np.inf
        for j in range(label):
            most = max(most, scores[i, j])
        for j in range(label + 1, scores.shape[1]):
            most = max(most, scores[i, j])
        out[row] = most


def second_best(scores: DenseRows, best: IntArray, at: IntArray | None) -> DenseRows:
    """The largest score of some rows, or all, but for their best one."""
    at = np.arange(len(scores)) if at is None else at
    out = np.empty(len(at), dtype=scores.dtype)
    _second_best(scores, best, at, out)
    return out


@_jit()
def _scan_sparse(data, indices, indptr, weights, columns, sums, out):  # type: ignore[no-untyped-def]
    # What belongs to a column lies together: one non-zero, one cache line each.
    n_features = len(columns)
    coarse_sum, rest_sum, total, cost = 0.0, 0.0, 0.0, 0.0
    for j in range(n_features):
        coarse_sum += columns[j, 2]
        rest_sum += columns[j, 3]
    for i in range(len(indptr) - 1):
        omega = weights[i]
        there, away = rest_sum, coarse_sum
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            offset = np.float64(data[at]) - columns[j, 0]
            there += columns[j, 1] * (offset * offset) - columns[j, 3]
            away -= columns[j, 2]
            sums[j, 0] += omega * offset
            sums[j, 1] += omega
        distance = there + away
        if distance < 0.0:
            distance = 0.0
        out[i] = distance
        cost += omega * distance
        total += omega
    for j in range(n_features):
        sums[j, 0] -= (total - sums[j, 1]) * columns[j, 0]
    return cost


def scan_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray,
    columns: FloatArray,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """`scan` of CSR rows, at the cost of their non-zeros."""
    sums = np.zeros((len(columns), 2))
    # Unsigned, a column number cannot be negative, and numba need not look whether it is.
    unsigned = indices.view(f"u{indices.dtype.itemsize}")
    cost = _scan_sparse(data, unsigned, indptr, weights, columns, sums, out)
    return sums[:, 0], cost


@_jit()
def _moments_sparse(data, indices, indptr, weights, mean, scatter):  # type: ignore[no-untyped-def]
    n_rows, n_features = len(indptr) - 1, len(mean)
    weight, spoiled = 0.0, 0.0
    for i in range(n_rows):
        weight += weights[i]
    if weight == 0.0:
        for at in range(indptr[0], indptr[n_rows]):
            spoiled += 0.0 * data[at]
        mean[:] = spoiled
        return weight
    first = np.argmax(weights)
    for at in range(indptr[first], indptr[first + 1]):
        mean[indices[at]] = data[at]
    slip = np.zeros(n_features)
    for sweep in range(2):
        present = np.zeros(n_features)
        slip[:] = 0.0
        for i in range(n_rows):
            omega = weights[i]
            for at in range(indptr[i], indptr[i + 1]):
                j = indices[at]
                offset = np.float64(data[at]) - mean[j]
                slip[j] += omega * offset
                present[j] += omega
                if sweep == 1:
                    scatter[j] += omega * (offset * offset)
        for j in range(n_features):
            at_zero = weight - present[j]
            slip[j] = (slip[j] - at_zero * mean[j]) / weight
            if sweep == 1:
                scatter[j] += at_zero * (mean[j] * mean[j]) - weight * (slip[j] * slip[j])
                scatter[j] = max(scatter[j], 0.0)
            mean[j] += slip[j]
    return weight


def moments_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, weights: FloatArray, n_features: int
) -> tuple[float, FloatArray, FloatArray]:
    """`moments` of CSR rows, at the cost of their non-zeros."""
    mean, scatter = np.zeros(n_features), np.zeros(n_features)
    if len(indptr) == 1:
        return 0.0, mean, scatter
    return _moments_sparse(data, indices, indptr, weights, mean, scatter), mean, scatter
