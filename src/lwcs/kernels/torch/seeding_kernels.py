"""A round of k-means++ in Triton, in two launches: try the candidates, and choose among them.

Rows are in tiles, one program each. `try_products` and `try_differences` compute the distance of
every point to its nearest center with each of the candidates, and its sum per tile. `choose` has
one program per candidate: all of them choose from the sums of tiles, and each draws one candidate
of the next round, a tile first and then a point of it.

The number of the round is on the device, in two places, so that no program reads what another one
of the same launch writes: `try_…` reads NEXT and writes NOW, `choose` the other way round. For the
same reason the distances reached are in two halves, which the rounds use in turn.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

# Indices of `state`.
NEXT = tl.constexpr(0)
NOW = tl.constexpr(1)
ENDED = tl.constexpr(2)
BEST = tl.constexpr(3)
CHOSEN = tl.constexpr(4)
# Larger than the number of any row.
_NOWHERE = tl.constexpr(2**62)


@triton.jit
def _begin(state):
    """The number of the round."""
    now = tl.load(state + NEXT)
    if tl.program_id(0) == 0:
        tl.store(state + NOW, now)
    return now


@triton.jit
def _half(reached, now, n, C: tl.constexpr):
    """Address of the distances that are written in a round."""
    return reached + (now % 2) * n * C


@triton.jit
def _lower(found, closest):
    """The smaller of both, and no less than zero; NaN if a distance is."""
    found = tl.where(found < 0.0, 0.0, found)
    return tl.where(closest < found, closest, found)


@triton.jit
def try_products(
    rows, origin, norms, weights, candidates, reached, sums, state, n, tiles, subtiles,
    D: tl.constexpr, C: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
    BLOCK_D: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """d = ‖x‖² + ‖c‖² − 2·x·c in float32, around an origin."""
    t = tl.program_id(0).to(tl.int64)
    now = _begin(state)
    if tl.load(state + ENDED) == 0:
        c = tl.arange(0, WIDTH)
        own = tl.load(candidates + now * C + c, mask=c < C, other=0)
        heights = tl.load(norms + own)
        before = _half(reached, now + 1, n, C) + tl.load(state + BEST) * n
        after = _half(reached, now, n, C)
        total = tl.zeros((WIDTH,), tl.float64)
        for s in range(subtiles):
            i = (t * subtiles + s) * TILE + tl.arange(0, TILE)
            inside = i < n
            product = tl.zeros((TILE, WIDTH), tl.float32)
            for j in range(0, D, BLOCK_D):
                columns = j + tl.arange(0, BLOCK_D)
                here = columns < D
                o = tl.load(origin + columns, mask=here, other=0.0)
                both = inside[:, None] & here[None, :]
                x = tl.load(rows + i[:, None] * D + columns[None, :], mask=both, other=0.0)
                y = tl.load(rows + own[:, None] * D + columns[None, :], mask=here[None, :],
                            other=0.0)  # fmt: skip
                x, y = x - o[None, :], y - o[None, :]
                product = tl.dot(x, tl.trans(y), product, input_precision=MODE)
            found = tl.load(norms + i, mask=inside, other=0.0)[:, None] + heights[None, :]
            found = tl.where(i[:, None] == own[None, :], 0.0, found - 2.0 * product)
            closest = tl.load(before + i, mask=inside, other=0.0)
            found = _lower(found, closest[:, None])
            wanted = inside[:, None] & (c < C)[None, :]
            tl.store(after + c.to(tl.int64)[None, :] * n + i[:, None], found, mask=wanted)
            mass = tl.load(weights + i, mask=inside, other=0.0)
            total += tl.sum(tl.where(inside[:, None], found, 0.0) * mass[:, None], axis=0)
        tl.store(sums + c * tiles + t, total, mask=c < C)


@triton.jit
def try_differences(
    rows, precision, weights, candidates, reached, sums, state, n, tiles, subtiles,
    D: tl.constexpr, C: tl.constexpr, TILE: tl.constexpr, BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """d = Σ precision·(x − c)² in float64."""
    t = tl.program_id(0).to(tl.int64)
    now = _begin(state)
    if tl.load(state + ENDED) == 0:
        before = _half(reached, now + 1, n, C) + tl.load(state + BEST) * n
        after = _half(reached, now, n, C)
        for c in range(C):
            own = tl.load(candidates + now * C + c)
            total = tl.zeros((TILE,), tl.float64)
            for s in range(subtiles):
                i = (t * subtiles + s) * TILE + tl.arange(0, TILE)
                inside = i < n
                found = tl.zeros((TILE,), tl.float64)
                for j in range(0, D, BLOCK_D):
                    columns = j + tl.arange(0, BLOCK_D)
                    here = columns < D
                    both = inside[:, None] & here[None, :]
                    x = tl.load(rows + i[:, None] * D + columns[None, :], mask=both, other=0.0)
                    y = tl.load(rows + own * D + columns, mask=here, other=0.0)
                    apart = x.to(tl.float64) - y.to(tl.float64)[None, :]
                    squares = tl.where(both, apart * apart, 0.0)
                    if PRECISION:
                        squares *= tl.load(precision + columns, mask=here, other=0.0)[None, :]
                    found += tl.sum(squares, axis=1)
                closest = tl.load(before + i, mask=inside, other=0.0)
                found = _lower(found, closest)
                tl.store(after + i, found, mask=inside)
                total += found * tl.load(weights + i, mask=inside, other=0.0)
            tl.store(sums + c * tiles + t, tl.sum(total, axis=0))
            after += n


@triton.jit
def choose(
    weights, uniforms, candidates, reached, sums, chosen, state, stop_at, n, k, tiles, subtiles,
    C: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Choose the candidate of the least cost, and draw one of the next round."""
    me = tl.program_id(0)
    now = tl.load(state + NOW)
    if tl.load(state + ENDED) == 0:
        c = tl.arange(0, WIDTH)
        parts = tl.zeros((WIDTH, CHUNK), tl.float64)
        for first in range(0, tiles, CHUNK):
            at = first + tl.arange(0, CHUNK)
            there = (c < C)[:, None] & (at < tiles)[None, :]
            parts += tl.load(sums + c[:, None] * tiles + at[None, :], mask=there, other=0.0)
        totals = tl.sum(parts, axis=1)
        # A cost of NaN, which ends the rounds, is chosen first.
        order = tl.where(totals == totals, totals, -float("inf"))
        best = tl.argmin(tl.where(c < C, order, float("inf")), axis=0)
        total = tl.sum(tl.where(c == best, totals, 0.0), axis=0)
        goes_on = (now + 1 < k) & (total > tl.load(stop_at)) & (total < float("inf"))
        if me == 0:
            tl.store(chosen + now, tl.load(candidates + now * C + best))
            tl.store(state + CHOSEN, now + 1)
            tl.store(state + BEST, best.to(tl.int64))
            tl.store(state + NEXT, now + 1)
        if goes_on:
            place = _draw(
                weights, _half(reached, now, n, C) + best.to(tl.int64) * n, sums + best * tiles,
                tl.load(uniforms + (now + 1) * C + me), n, tiles, subtiles, TILE, TILES,
            )  # fmt: skip
            tl.store(candidates + (now + 1) * C + me, place)
        elif me == 0:
            tl.store(state + ENDED, now * 0 + 1)


@triton.jit
def _draw(
    weights, closest, sums, uniform, n, tiles, subtiles, TILE: tl.constexpr, TILES: tl.constexpr
):  # fmt: skip
    """The point at which the running sum of w·d exceeds its part; never one without mass."""
    t = tl.arange(0, TILES)
    own = tl.load(sums + t, mask=t < tiles, other=0.0)
    up_to = tl.cumsum(own, axis=0)
    below = uniform * tl.max(up_to, axis=0)
    # Rounding must not lead past the last tile with a mass.
    last = tl.max(tl.where(own > 0.0, t, 0), axis=0)
    tile = tl.minimum(tl.sum((up_to <= below).to(tl.int32), axis=0), last)
    below -= tl.sum(tl.where(t == tile - 1, up_to, 0.0), axis=0)
    running = below * 0.0
    place = tile.to(tl.int64) * 0
    done = place
    for s in range(subtiles):
        i = (tile.to(tl.int64) * subtiles + s) * TILE + tl.arange(0, TILE)
        mass = tl.load(weights + i, mask=i < n, other=0.0)
        mass *= tl.load(closest + i, mask=i < n, other=0.0)
        met = (tl.cumsum(mass, axis=0) + running > below) & (mass > 0.0)
        first = tl.min(tl.where(met, i, _NOWHERE), axis=0)
        # Until a sum exceeds it, the last point with a mass.
        latest = tl.maximum(place, tl.max(tl.where(mass > 0.0, i, 0), axis=0))
        hit = (first < _NOWHERE).to(tl.int64)
        place = tl.where(done == 1, place, tl.where(hit == 1, first, latest))
        done = tl.maximum(done, hit)
        running += tl.sum(mass, axis=0)
    return place
