"""Rounds of k-means++ for dense rows, in compiled code whose threads share the work.

Threads claim lots of tiles by atomic numbers, and the last one to finish a round chooses a center
and draws the candidates of the next round. numba has atomic numbers for GPUs only; LLVM has them
for every processor. A read acquires and a change releases: a thread that reads the new number also
sees everything that was written before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import extending, types
from numba.core import cgutils

from lwcs.kernels.compiled.jit import REASSOCIATE, jit

_BYTES = 8
# Untyped in numba: intrinsics have the types of the code that they generate.
_intrinsic: Any = extending.intrinsic
_item: Any = cgutils.get_item_pointer


def _address(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Where numbers[at] is."""
    array = context.make_array(signature.args[0])(context, builder, values[0])
    return _item(context, builder, signature.args[0], array, [values[1]], wraparound=False)


@_intrinsic
def read(typing, numbers, at):  # type: ignore[no-untyped-def]
    """numbers[at]."""
    del typing, at

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, values)
        return builder.load_atomic(address, "acquire", _BYTES)

    return types.int64(numbers, types.intp), generate


@_intrinsic
def add(typing, numbers, at, step):  # type: ignore[no-untyped-def]
    """numbers[at] += step; returns the number before."""
    del typing, at, step

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, values)
        return builder.atomic_rmw("add", address, values[2], "acq_rel")

    return types.int64(numbers, types.intp, types.int64), generate


@_intrinsic
def replace(typing, numbers, at, old, new):  # type: ignore[no-untyped-def]
    """If numbers[at] == old, numbers[at] = new; returns whether it was."""
    del typing, at, old, new

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, values)
        pair = builder.cmpxchg(address, values[2], values[3], "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(numbers, types.intp, types.int64, types.int64), generate


TILE = 256
COLUMNS = 4
"""Columns are a multiple of these: so many are added at a time."""
_TOGETHER = 8
# Below this part of their terms, distances from products have too few digits to draw by.
_CLEAR = 1e-11
# How often a thread checks whether the next round has begun before it returns: some 200 µs.
_PATIENCE = 2**17

# Indices of `Rounds.counts`; numbers that different threads write are on different cache lines.
ROUND, DONE, ENDED, CHOSEN, BEST, COUNTS = 0, 16, 32, 33, 34, 48


class Tiles(NamedTuple):
    """Points in the coordinates of products, in tiles."""

    columns: Any
    """Tile × column × point; the last tile is filled up with zeros."""
    heights: Any
    """Squared norms, tile × point."""
    values: Any
    """The rows themselves, to mend distances that products have lost; None in float32."""
    precision: Any


class CenterFactors(NamedTuple):
    """Some of the points as centers: d = height + offset + x·slope."""

    slopes: Any
    offsets: Any
    points: Any


class Rounds(NamedTuple):
    """Input and state of one seeding."""

    uniforms: Any
    """One row per center to choose, one column per candidate."""
    weights: Any
    stop_at: float
    candidates: CenterFactors
    closest: Any
    """The distance of every point to its nearest center."""
    reached: Any
    """Distances with each candidate, tile × candidate × point."""
    sums: Any
    """Σw·reached, tile × candidate."""
    chosen: Any
    claimed: Any
    """Number of rounds for which every lot of tiles has been claimed."""
    counts: Any


@jit()
def pack(rows, heights, first, tiles):  # type: ignore[no-untyped-def]
    """Put rows and their squared norms into tiles, from tile `first` on."""
    for begin in range(0, len(rows), TILE):
        t, many = first + begin // TILE, min(TILE, len(rows) - begin)
        tiles.heights[t, :many] = heights[begin : begin + many]
        for j in range(rows.shape[1]):
            for i in range(many):
                tiles.columns[t, j, i] = rows[begin + i, j]


@jit()
def _set_center(tiles, centers, c, point):  # type: ignore[no-untyped-def]
    """Make a point the c-th center."""
    t, place = point // TILE, point % TILE
    centers.points[c] = point
    centers.offsets[c] = tiles.heights[t, place]
    for j in range(tiles.columns.shape[1]):
        centers.slopes[c, j] = -2 * tiles.columns[t, j, place]


@jit()
def set_centers(tiles, centers, points):  # type: ignore[no-untyped-def]
    """Make some of the points the centers."""
    for c in range(len(points)):
        _set_center(tiles, centers, c, points[c])


@jit(fastmath=REASSOCIATE)
def _products(columns, heights, centers, out):  # type: ignore[no-untyped-def]
    """Height + offset + x·slope: two centers and four columns at a time.

    A value that is loaded is then used twice, and a sum is stored every four columns.
    """
    slopes, many = centers.slopes, len(centers.offsets)
    for c in range(many):
        one, offset = out[c], centers.offsets[c]
        for i in range(TILE):
            one[i] = heights[i] + offset
    for j in range(0, columns.shape[0], COLUMNS):
        x0, x1, x2, x3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        for c in range(0, many - 1, 2):
            one, two = out[c], out[c + 1]
            a0, a1, a2, a3 = slopes[c, j], slopes[c, j + 1], slopes[c, j + 2], slopes[c, j + 3]
            b0, b1 = slopes[c + 1, j], slopes[c + 1, j + 1]
            b2, b3 = slopes[c + 1, j + 2], slopes[c + 1, j + 3]
            for i in range(TILE):
                one[i] += a0 * x0[i] + a1 * x1[i] + a2 * x2[i] + a3 * x3[i]
                two[i] += b0 * x0[i] + b1 * x1[i] + b2 * x2[i] + b3 * x3[i]
        if many % 2:
            c = many - 1
            one = out[c]
            a0, a1, a2, a3 = slopes[c, j], slopes[c, j + 1], slopes[c, j + 2], slopes[c, j + 3]
            for i in range(TILE):
                one[i] += a0 * x0[i] + a1 * x1[i] + a2 * x2[i] + a3 * x3[i]


@jit()
def _distances(tiles, t, centers, out):  # type: ignore[no-untyped-def]
    """d of all points of a tile, one row per center; rounding may leave some below zero."""
    heights = tiles.heights[t]
    _products(tiles.columns[t], heights, centers, out)
    for c in range(len(centers.points)):
        _mend(tiles.values, tiles.precision, heights, t * TILE, centers.points[c], out[c])
        if centers.points[c] // TILE == t:
            out[c, centers.points[c] % TILE] = 0


@jit()
def _mend(values, precision, heights, first, point, out):  # type: ignore[no-untyped-def]
    """Take distances that products have lost from the differences; `values` is None in float32."""
    if values is not None:
        lost = 0
        for i in range(TILE):
            lost += not out[i] > _CLEAR * heights[i]
        if lost:
            for i in range(min(TILE, len(values) - first)):
                if not out[i] > _CLEAR * heights[i]:
                    exact = 0.0
                    for j in range(values.shape[1]):
                        apart = np.float64(values[first + i, j]) - np.float64(values[point, j])
                        exact += precision[j] * (apart * apart)
                    # An infinite distance would be drawn for certain.
                    if np.isfinite(exact):
                        out[i] = exact


@jit(fastmath=REASSOCIATE)
def _lower(closest, distances):  # type: ignore[no-untyped-def]
    """Keep the smaller of both, and no less than zero; NaN if a distance is."""
    zero = closest.dtype.type(0)
    for i in range(TILE):
        found = zero if zero > distances[i] else distances[i]
        closest[i] = closest[i] if closest[i] < found else found


@jit(fastmath=REASSOCIATE)
def _lower_and_weigh(distances, closest, weights):  # type: ignore[no-untyped-def]
    """Bring distances down to the closest likewise; Σw·distance."""
    zero = closest.dtype.type(0)
    total = zero
    for i in range(TILE):
        found = zero if zero > distances[i] else distances[i]
        found = closest[i] if closest[i] < found else found
        distances[i] = found
        total += weights[i] * found
    return total


@jit()
def distances(tiles, first, last, centers, out):  # type: ignore[no-untyped-def]
    """d of the points of some tiles, one row per center."""
    found = np.empty((len(centers.offsets), TILE), tiles.heights.dtype)
    for t in range(first, last):
        begin, end = t * TILE, min((t + 1) * TILE, out.shape[1])
        _distances(tiles, t, centers, found)
        out[:, begin:end] = found[:, : end - begin]


@jit()
def fold(tiles, first, last, centers, closest):  # type: ignore[no-untyped-def]
    """Bring the distances to the nearest center up to date with more centers."""
    found = np.empty((_TOGETHER, TILE), tiles.heights.dtype)
    for t in range(first, last):
        for c in range(0, len(centers.points), _TOGETHER):
            end = min(c + _TOGETHER, len(centers.points))
            some = CenterFactors(
                centers.slopes[c:end], centers.offsets[c:end], centers.points[c:end]
            )
            _distances(tiles, t, some, found)
            for each in range(end - c):
                _lower(closest[t], found[each])


@jit()
def _try_candidates(tiles, rounds, t):  # type: ignore[no-untyped-def]
    """Distances of the points of a tile to their nearest center, with each candidate."""
    reached, closest = rounds.reached[t], rounds.closest[t]
    closest[:] = reached[rounds.counts[BEST]]
    _distances(tiles, t, rounds.candidates, reached)
    for c in range(len(reached)):
        rounds.sums[t, c] = _lower_and_weigh(reached[c], closest, rounds.weights[t])


@jit()
def _best(sums):  # type: ignore[no-untyped-def]
    """The candidate of the least cost, and that cost; one of NaN, which ends the rounds, first."""
    totals = np.zeros(sums.shape[1])
    for t in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            totals[c] += sums[t, c]
    best = 0
    for c in range(1, len(totals)):
        if not totals[c] >= totals[best] and not np.isnan(totals[best]):
            best = c
    return best, totals[best]


@jit()
def _choose(tiles, rounds):  # type: ignore[no-untyped-def]
    """Choose among the candidates, and draw the next ones."""
    counts, sums = rounds.counts, rounds.sums
    best, total = _best(sums)
    rounds.chosen[counts[CHOSEN]] = rounds.candidates.points[best]
    counts[CHOSEN] += 1
    counts[BEST] = best
    if counts[CHOSEN] == len(rounds.chosen) or not rounds.stop_at < total < np.inf:
        counts[ENDED] = 1
        return
    up_to = np.cumsum(sums[:, best])
    for c in range(sums.shape[1]):
        # A uniform number times a sum that is not a normal number can be rounded up to the sum.
        below = rounds.uniforms[counts[CHOSEN], c] * up_to[-1]
        below = min(below, np.nextafter(up_to[-1], 0.0))
        t = np.searchsorted(up_to, below, side="right")
        within = below - (up_to[t - 1] if t else 0.0)
        place = _draw(rounds.weights[t], rounds.reached[t, best], within)
        _set_center(tiles, rounds.candidates, c, t * TILE + place)


@jit()
def _draw(weights, distances, below):  # type: ignore[no-untyped-def]
    """The point at which the running sum exceeds a number, or the last one with a part in it."""
    total, last = 0.0, 0
    for i in range(TILE):
        part = np.float64(weights[i]) * distances[i]
        if part > 0.0:
            total += part
            last = i
            if total > below:
                break
    return last


@jit()
def take_part(tiles, rounds, home, lot, at_most):  # type: ignore[no-untyped-def]
    """Work on lots of tiles, from number `home` on; return whether the rounds have ended.

    Returns before the end after `at_most` rounds, or if there has been nothing to do for long.
    """
    counts, claimed = rounds.counts, rounds.claimed
    for _ in range(at_most):
        now = read(counts, ROUND)
        if counts[ENDED]:
            return True
        for step in range(len(claimed)):
            at = (home + step) % len(claimed)
            # A thread that has read an older round number finds all lots of that round claimed.
            if read(claimed, at) == now and replace(claimed, at, now, now + 1):
                for t in range(at * lot, min((at + 1) * lot, len(tiles.heights))):
                    _try_candidates(tiles, rounds, t)
                if add(counts, DONE, 1) == len(claimed) - 1:
                    _choose(tiles, rounds)
                    counts[DONE] = 0
                    add(counts, ROUND, 1)
        looks = 0
        while read(counts, ROUND) == now:
            looks += 1
            if looks == _PATIENCE:
                return False
    return bool(counts[ENDED])
