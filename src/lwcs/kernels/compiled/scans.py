"""Distances of dense rows to one point, and moments.

Where rows have no weights, a cell of rows is scanned as one line: which row a value belongs to does
not matter for the sum of a cell, so pivot and sums repeat over its length, and one vector loop
serves any number of columns. Rows with weights, and rows whose distances are all needed, go through
loops over rows, narrow ones four at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.kernels.compiled.jit import REASSOCIATE, jit

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray

# Rows of one piece of `moments`: small enough that its second sweep reads from cache.
_PIECE = 64

# Weights, precision and reach may be None: numba then compiles a version without them.


@jit(fastmath=REASSOCIATE)
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


@jit(fastmath=REASSOCIATE)
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


@jit(fastmath=REASSOCIATE)
def _scan_lines(lines, first, last, pivot, precision, sums, cells):  # type: ignore[no-untyped-def]
    cost = 0.0
    for i in range(first, last):
        mass = 0.0
        for j in range(lines.shape[1]):
            offset = np.float64(lines[i, j]) - pivot[j]
            sums[j] += offset
            if precision is None:
                mass += offset * offset
            else:
                mass += precision[j] * (offset * offset)
        cells[i] = mass
        cost += mass
    return cost


@jit(fastmath=REASSOCIATE)
def _scan_unweighted(lines, tail, pivot, precision, sums, block, shifts, costs, cells):  # type: ignore[no-untyped-def]
    for b in range(len(costs)):
        sums[:] = 0.0
        first, last = b * block, min((b + 1) * block, len(lines))
        cost = _scan_lines(lines, first, last, pivot, precision, sums, cells)
        if b == len(costs) - 1:
            rest = cells[len(lines) :]
            cost += _scan_lines(tail, 0, len(tail), pivot, precision, sums, rest)
        for j in range(len(sums)):
            shifts[b, j % shifts.shape[1]] += sums[j]
        costs[b] = cost


@jit(fastmath=REASSOCIATE)
def _scan_weighted(points, weights, pivot, precision, block, cell, shifts, costs, cells):  # type: ignore[no-untyped-def]
    n_rows, n_features = points.shape
    distances = np.empty(min(block, n_rows))
    for b in range(len(costs)):
        first, last = b * block, min((b + 1) * block, n_rows)
        rows, omega = points[first:last], weights[first:last]
        if n_features < _NARROW:
            costs[b] = _scan_by_four(rows, omega, pivot, precision, shifts[b], distances)
        else:
            costs[b] = _scan_one_by_one(rows, omega, pivot, precision, shifts[b], distances)
        for start in range(0, last - first, cell):
            mass = 0.0
            for i in range(start, min(start + cell, last - first)):
                mass += omega[i] * distances[i]
            cells[(first + start) // cell] = mass


def scan_cells(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    precision: FloatArray | None,
    block_rows: int,
    cell_rows: int,
    cells: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Write Σω·d of every cell into `cells`; return Σω(x − pivot) and Σω·d of every block."""
    n_rows, n_features = points.shape
    n_blocks = -(-n_rows // block_rows)
    shifts, costs = np.zeros((n_blocks, n_features)), np.empty(n_blocks)
    if weights is None:
        # Which row a value belongs to does not matter for the sum of a cell. So a cell is one line,
        # over which the columns repeat: a long loop, for any number of columns.
        whole = n_rows - n_rows % cell_rows
        lines = points[:whole].reshape(-1, cell_rows * n_features)
        tail = points[whole:].reshape(-1, max(1, (n_rows - whole) * n_features))
        around, scale, sums = _aligned(3, cell_rows * n_features)
        around[:] = np.tile(pivot, cell_rows)
        if precision is not None:
            scale[:] = np.tile(precision, cell_rows)
        _scan_unweighted(
            lines, tail, around, None if precision is None else scale, sums,
            block_rows // cell_rows, shifts, costs, cells,
        )  # fmt: skip
    else:
        _scan_weighted(
            points, weights, pivot, precision, block_rows, cell_rows, shifts, costs, cells
        )
    return shifts, costs


@jit(fastmath=REASSOCIATE)
def _distance(points, i, center, precision):  # type: ignore[no-untyped-def]
    distance = 0.0
    for j in range(points.shape[1]):
        offset = np.float64(points[i, j]) - center[j]
        if precision is None:
            distance += offset * offset
        else:
            distance += precision[j] * (offset * offset)
    return distance


@jit(fastmath=REASSOCIATE)
def _hit_rows(points, weights, pivot, mean, precision, scale, floor, runs, rows, bounds, distances):  # type: ignore[no-untyped-def]
    starts, stops, targets = runs
    for k in range(len(rows)):
        running = 0.0
        for i in range(starts[k], stops[k]):
            bound = scale * _distance(points, i, pivot, precision) + floor
            if weights is None:
                mass = bound
            else:
                mass = weights[i] * bound
            if mass > 0.0 or i == starts[k]:
                rows[k], bounds[k] = i, bound
            running += mass
            if running > targets[k]:
                break
        distances[k] = _distance(points, rows[k], mean, precision)


def hit_rows(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    mean: FloatArray,
    precision: FloatArray | None,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray]:
    """One row per run (`kernels.hit_rows`), the h of each, and its distance to the mean."""
    count = len(runs[0])
    rows, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    _hit_rows(points, weights, pivot, mean, precision, scale, floor, runs, rows, bounds, distances)
    return rows, bounds, distances


def _aligned(count: int, length: int) -> FloatArray:
    """Arrays aligned to cache lines; without that, the scan takes half as long again."""
    stride = -(-length // 8) * 8
    memory = np.empty(count * stride + 8)
    first = -memory.ctypes.data % 64 // 8
    return memory[first : first + count * stride].reshape(count, stride)[:, :length]


@jit(fastmath=REASSOCIATE)
def _moments(points, weights, mean, scatter):  # type: ignore[no-untyped-def]
    n_rows, n_features = points.shape
    total = 0.0
    center, slip, spread = np.empty(n_features), np.empty(n_features), np.empty(n_features)
    for start in range(0, n_rows, _PIECE):
        stop = min(start + _PIECE, n_rows)
        weight = 0.0
        slip[:] = 0.0
        # Around one of its rows, a piece of equal rows gives exactly zero, and so Φ = 0.
        first = start + np.argmax(weights[start:stop])
        for i in range(start, stop):
            omega = weights[i]
            weight += omega
            for j in range(n_features):
                slip[j] += omega * (np.float64(points[i, j]) - np.float64(points[first, j]))
        if weight == 0.0:
            # Adds nothing, except NaN if a row is not finite.
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


@jit(fastmath=REASSOCIATE)
def closer(points, weights, center, precision, label, reach, closest, labels):  # type: ignore[no-untyped-def]
    """Lower `closest` where `center` is nearer; rows within reach of their own are not read."""
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
