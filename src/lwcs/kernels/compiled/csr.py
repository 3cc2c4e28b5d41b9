"""The kernels for CSR rows, at the cost of their non-zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.kernels.compiled.jit import jit

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray
    from lwcs.kernels.portable import SparsePivot


@jit()
def _change(value, j, point, coarse, precision):  # type: ignore[no-untyped-def]
    """x − point, and d of this value less the rest of what a zero costs in its place."""
    offset = np.float64(value) - point
    # The rest is computed again: two numbers per column stay in cache where three would not.
    if precision is None:
        return offset, offset * offset - (point * point - coarse)
    scale = precision[j]
    return offset, scale * (offset * offset) - (scale * (point * point) - coarse)


@jit()
def _scan_sparse(data, indices, indptr, weights, around, table, shift, out):  # type: ignore[no-untyped-def]
    columns, precision, (rest, coarse) = around
    total, cost = 0.0, 0.0
    # All numbers of a column are adjacent: one cache line per stored value.
    for j in range(len(columns)):
        table[j, 0], table[j, 1], table[j, 2], table[j, 3] = columns[j, 0], columns[j, 1], 0.0, 0.0
    # An unsigned index cannot be negative, so numba does not check for that.
    stop = np.uint64(indptr[0])
    for i in range(len(indptr) - 1):
        omega = weights[i]
        there, away = rest, coarse
        start, stop = stop, np.uint64(indptr[i + 1])
        for at in range(start, stop):
            j = indices[at]
            offset, change = _change(data[at], j, table[j, 0], table[j, 1], precision)
            there += change
            away -= table[j, 1]
            table[j, 2] += omega * offset
            table[j, 3] += omega
        distance = there + away
        if distance < 0.0:
            distance = 0.0
        out[i] = distance
        cost += omega * distance
        total += omega
    for j in range(len(columns)):
        shift[j] = table[j, 2] - (total - table[j, 3]) * columns[j, 0]
    return cost


def scan_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray,
    around: SparsePivot,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """`scan` of CSR rows, at the cost of their non-zeros."""
    table, shift = np.empty((len(around.columns), 4)), np.empty(len(around.columns))
    cost = _scan_sparse(data, _unsigned(indices), indptr, weights, around, table, shift, out)
    return shift, cost


@jit()
def _distance(data, indices, indptr, i, around):  # type: ignore[no-untyped-def]
    columns, precision, (there, away) = around
    for at in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
        j = indices[at]
        _, change = _change(data[at], j, columns[j, 0], columns[j, 1], precision)
        there += change
        away -= columns[j, 1]
    distance = there + away
    if distance < 0.0:
        distance = 0.0
    return distance


@jit()
def _distances_sparse(data, indices, indptr, around, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = _distance(data, indices, indptr, i, around)


def distances_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, around: SparsePivot, out: FloatArray
) -> None:
    """The distances of `scan_sparse`, without its sums."""
    _distances_sparse(data, _unsigned(indices), indptr, around, out)


@jit()
def _hit_rows_sparse(  # type: ignore[no-untyped-def]
    data, indices, indptr, weights, around, mean, scale, floor, runs, rows, bounds, distances
):
    starts, stops, targets = runs
    for k in range(len(rows)):
        running = 0.0
        for i in range(starts[k], stops[k]):
            bound = scale * _distance(data, indices, indptr, i, around) + floor
            if weights is None:
                mass = bound
            else:
                mass = weights[i] * bound
            if mass > 0.0 or i == starts[k]:
                rows[k], bounds[k] = i, bound
            running += mass
            if running > targets[k]:
                break
        distances[k] = _distance(data, indices, indptr, rows[k], mean)


def hit_rows_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray | None,
    around: SparsePivot,
    mean: SparsePivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray]:
    """`hit_rows` of CSR rows."""
    count, places = len(runs[0]), _unsigned(indices)
    rows, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    _hit_rows_sparse(
        data, places, indptr, weights, around, mean, scale, floor, runs, rows, bounds, distances
    )
    return rows, bounds, distances


def _unsigned(indices: IntArray) -> IntArray:
    """Column numbers as unsigned integers, which need no check for negative indices."""
    return indices.view(f"u{indices.dtype.itemsize}")


@jit()
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
        stop = np.uint64(indptr[0])
        for i in range(n_rows):
            omega = weights[i]
            start, stop = stop, np.uint64(indptr[i + 1])
            for at in range(start, stop):
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
    weight = _moments_sparse(data, _unsigned(indices), indptr, weights, mean, scatter)
    return weight, mean, scatter


@jit()
def _best_scores_sparse(data, indices, indptr, matrix, offsets, labels, best, second):  # type: ignore[no-untyped-def]
    n_centers = len(offsets)
    scores = np.empty(n_centers)
    # Whole numbers of one type: together with signed ones, unsigned ones become floats.
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    stop = np.uint64(indptr[0])
    for i in range(len(indptr) - 1):
        start, stop = stop, np.uint64(indptr[i + 1])
        scores[:] = 0.0
        # Four at a time, in the same order: the scores are read and written a quarter as often.
        fours = start + (stop - start) // four * four
        for at in range(start, fours, four):
            a, b = np.float64(data[at]), np.float64(data[at + one])
            d, e = np.float64(data[at + two]), np.float64(data[at + three])
            of_a, of_b = matrix[indices[at]], matrix[indices[at + one]]
            of_d, of_e = matrix[indices[at + two]], matrix[indices[at + three]]
            for c in range(n_centers):
                score = scores[c] + a * of_a[c] + b * of_b[c]
                scores[c] = score + d * of_d[c] + e * of_e[c]
        for at in range(fours, stop):
            value, slopes = np.float64(data[at]), matrix[indices[at]]
            for c in range(n_centers):
                scores[c] += value * slopes[c]
        top, next_to, label = -np.inf, -np.inf, 0
        for c in range(n_centers):
            score = scores[c] + offsets[c]
            # Few get past this, NaN among them.
            if not score <= next_to:
                if score > top:
                    top, next_to, label = score, top, c
                elif score <= top:
                    next_to = score
                else:
                    top, next_to, label = np.nan, np.nan, c
                    break
        labels[i], best[i], second[i] = label, top, next_to


def best_scores_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    matrix: FloatArray,
    offsets: FloatArray,
    labels: IntArray,
    best: FloatArray,
    second: FloatArray,
) -> None:
    """Write the largest score of every CSR row, where it is, and the second largest.

    Scores are rows·matrix + offsets, with one column per center, to the last bit as scipy has
    them. With NaN among its scores, a row has the label of the first one, and NaN for both.
    """
    _best_scores_sparse(data, _unsigned(indices), indptr, matrix, offsets, labels, best, second)
