"""Nearest centers in Triton: a blocked product that keeps the best and the second best score.

Scores x·slope + offset are taken in half precision, in units in which they cannot overflow: a row
is scaled by a power of two of its own, centers by one for all. Half precision has the 11 bits of
TF32 at twice its rate; numbers in two halves have 22, almost those of float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

# The largest number of a row, and of all centers, is scaled to just below 2¹⁵.
TOP = tl.constexpr(2.0**14)
LEAST = tl.constexpr(2.0**-100)


@triton.jit
def _scaled(X, rows, inside, columns, origin, unit, D: tl.constexpr):
    """(x − origin)·unit, zero beyond the last column."""
    here = columns < D
    x = tl.load(
        X + rows[:, None] * D + columns[None, :], mask=inside[:, None] & here[None, :], other=0.0
    )
    o = tl.load(origin + columns, mask=here, other=0.0)
    return tl.where(here[None, :], (x.to(tl.float32) - o[None, :]) * unit, 0.0)


@triton.jit
def assign(
    X,
    at,
    count,
    n,
    origin,
    precision,
    high,
    low,
    offsets,
    constants,
    labels,
    listed,
    n_listed,
    n_tiles,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CHUNKS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRODUCTS: tl.constexpr,
    SECOND: tl.constexpr,
    INDEXED: tl.constexpr,
    PRECISION: tl.constexpr,
    GROUP: tl.constexpr,
    PRODUCT_ERROR: tl.constexpr,
    SCORE_ERROR: tl.constexpr,
):
    """Label rows, all or those that a list names, and list those whose label is not certain."""
    total = tl.load(count) if INDEXED else n
    unit, farthest = tl.load(constants), tl.load(constants + 1)
    k_columns = tl.arange(0, BLOCK_K)
    d_columns = tl.arange(0, BLOCK_D)
    at_center = k_columns[:, None] * (BLOCK_D * CHUNKS) + d_columns[None, :]
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK_N), tl.num_programs(0)):
        place = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = place < total
        rows = tl.load(at + place, mask=inside, other=0) if INDEXED else place
        rows = rows.to(tl.int64)

        # Size of the row and of what half precision leaves of it, for the bound on its rounding.
        largest = tl.zeros([BLOCK_N], tl.float32)
        norm = tl.zeros([BLOCK_N], tl.float32)
        rest = tl.zeros([BLOCK_N], tl.float32)
        x = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
        for start in range(0, D, BLOCK_D):
            x = _scaled(X, rows, inside, start + d_columns, origin, unit, D)
            largest = tl.maximum(largest, tl.max(tl.abs(x), axis=1))
        power = (largest.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        power = tl.maximum(power, LEAST)
        scale = TOP / power
        inverse = power * (1.0 / (TOP * TOP))
        x_high = x.to(tl.float16)
        x_low = x_high
        for start in range(0, D, BLOCK_D):
            columns = start + d_columns
            if CHUNKS > 1:
                x = _scaled(X, rows, inside, columns, origin, unit, D)
            z = x * scale[:, None]
            x_high = z.to(tl.float16)
            left = z - x_high.to(tl.float32)
            x_low = left.to(tl.float16)
            if PRECISION:
                p = tl.load(precision + columns, mask=columns < D, other=0.0)
                norm += tl.sum(x * x * p[None, :], axis=1)
                rest += tl.sum(left * left * p[None, :], axis=1)
            else:
                norm += tl.sum(x * x, axis=1)
                rest += tl.sum(left * left, axis=1)

        row_best = tl.full([BLOCK_N], float("-inf"), tl.float32)
        row_second = tl.full([BLOCK_N], float("-inf"), tl.float32)
        row_label = tl.zeros([BLOCK_N], tl.int32)
        for group in range(0, n_tiles, GROUP):
            best = tl.full([BLOCK_N, BLOCK_K], -3.2e38, tl.float32)
            second = tl.full([BLOCK_N, BLOCK_K], float("-inf"), tl.float32)
            for t in range(group, tl.minimum(group + GROUP, n_tiles)):
                if CHUNKS == 1:
                    where = t * (BLOCK_K * BLOCK_D)
                    c_high = tl.trans(tl.load(high + where + at_center))
                    if PRODUCTS == 3:
                        c_low = tl.trans(tl.load(low + where + at_center))
                        product = tl.dot(x_low, c_high)
                        product = tl.dot(x_high, c_low, product)
                        product = tl.dot(x_high, c_high, product)
                    else:
                        product = tl.dot(x_high, c_high)
                else:
                    product = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
                    for start in range(0, D, BLOCK_D):
                        columns = start + d_columns
                        where = t * (BLOCK_K * BLOCK_D * CHUNKS) + start
                        y = _scaled(X, rows, inside, columns, origin, unit, D) * scale[:, None]
                        y_high = y.to(tl.float16)
                        c_high = tl.trans(tl.load(high + where + at_center))
                        if PRODUCTS == 3:
                            y_low = (y - y_high.to(tl.float32)).to(tl.float16)
                            c_low = tl.trans(tl.load(low + where + at_center))
                            product = tl.dot(y_low, c_high, product)
                            product = tl.dot(y_high, c_low, product)
                        product = tl.dot(y_high, c_high, product)
                offset = tl.load(offsets + t * BLOCK_K + k_columns)
                score = product * inverse[:, None] + offset[None, :]
                bits = (score.to(tl.int32, bitcast=True) & -GROUP) | (t - group)
                score = bits.to(tl.float32, bitcast=True)
                if SECOND:
                    second = tl.maximum(second, tl.minimum(best, score))
                best = tl.maximum(best, score)

            top = tl.max(best, axis=1)
            numbers = group + (best.to(tl.int32, bitcast=True) & (GROUP - 1))
            numbers = tl.where(best == top[:, None], numbers * BLOCK_K + k_columns[None, :], 2**30)
            number = tl.min(numbers, axis=1)
            if SECOND:
                others = tl.where(numbers == number[:, None], second, best)
                row_second = tl.maximum(row_second, tl.max(others, axis=1))
                row_second = tl.maximum(row_second, tl.minimum(row_best, top))
            row_label = tl.where(top > row_best, number, row_label)
            row_best = tl.maximum(row_best, top)

        if SECOND:
            # A center that is nearer than the best one is no farther from the origin than this; by
            # Cauchy–Schwarz that bounds the terms of its score, and so their rounding.
            length = tl.sqrt(norm)
            reach = 1.1 * (length + tl.sqrt(tl.maximum(norm - row_best, 0.0)))
            reach = tl.minimum(reach, farthest)
            terms = 2.0 * length * reach
            error = SCORE_ERROR * (terms + reach * reach) + largest * tl.load(constants + 3)
            if PRODUCTS == 3:
                error += PRODUCT_ERROR * terms
            else:
                # Terms that the product omits: x_low·slope and x_high·slope_low.
                left_out = tl.minimum(tl.load(constants + 2), reach * 2.0**-10)
                x_left = tl.sqrt(rest) * (power / TOP)
                error += 1.01 * (2.0 * x_left * reach + length * left_out)
            margin = 2.0 * error
            certain = (row_best - row_second > margin) & (norm < 1e30)
        else:
            certain = (row_best > float("-inf")) & (norm < 1e30)
        tl.store(labels + rows, row_label, mask=inside)
        again = (inside & (certain == 0)).to(tl.int32)
        n_again = tl.sum(again)
        if n_again > 0:
            first = tl.atomic_add(n_listed, n_again)
            spot = first + tl.cumsum(again, 0) - 1
            tl.store(listed + spot, rows.to(tl.int32), mask=again > 0)


@triton.jit
def prepare(
    moved,
    precision,
    largest,
    high,
    low,
    offsets,
    constants,
    k,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Slopes and offsets of some centers, in the units of the product; `constants` of all.

    The unit is a power of two, so that it rounds nothing, whatever the range of the numbers is.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK_D)
    there = (rows < k)[:, None] & (columns < D)[None, :]
    bits = tl.load(largest).to(tl.float32).to(tl.int32, bitcast=True) & 0x7F800000
    power = bits.to(tl.float32, bitcast=True)
    unit = 0.5 / tl.minimum(tl.maximum(power, 2.0**-120), 2.0**120)
    c = tl.load(moved + rows[:, None] * D + columns[None, :], mask=there, other=0.0)
    c = c * unit.to(tl.float64)
    p = tl.full([BLOCK_D], 1.0, tl.float64)
    if PRECISION:
        p = tl.load(precision + columns, mask=columns < D, other=1.0)
    slopes = (2.0 * TOP) * c * p[None, :]
    high_half = slopes.to(tl.float32).to(tl.float16)
    left = slopes - high_half.to(tl.float64)
    where = rows[:, None] * WIDTH + columns[None, :]
    tl.store(high + where, high_half, mask=(columns < WIDTH)[None, :])
    tl.store(low + where, left.to(tl.float32).to(tl.float16), mask=(columns < WIDTH)[None, :])
    heights = tl.sum(c * c * p[None, :], axis=1)
    tl.store(offsets + rows, tl.where(rows < k, -heights, -3e38).to(tl.float32))
    left = left / TOP
    rest = tl.sum(tl.where(p[None, :] > 0.0, left * left / p[None, :], 0.0), axis=1)
    # A maximum does not depend on the order; positive float32 numbers are ordered as int32.
    farthest = (tl.sqrt(tl.max(heights, axis=0)) * 1.001).to(tl.float32)
    tl.atomic_max(constants + 1, farthest.to(tl.int32, bitcast=True))
    widest = (tl.sqrt(tl.max(rest, axis=0)) * 1.001).to(tl.float32)
    tl.atomic_max(constants + 2, widest.to(tl.int32, bitcast=True))
    if tl.program_id(0) == 0:
        tl.store(constants, unit.to(tl.int32, bitcast=True))
        # Numbers far below the largest of their row, or of all centers, keep fewer bits.
        lost = tl.full([1], 2.0**-37 * D, tl.float32)
        tl.store(constants + 3 + tl.arange(0, 1), lost.to(tl.int32, bitcast=True))


@triton.jit
def differences(
    X,
    at,
    count,
    columns,
    precision,
    labels,
    k,
    D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Label the rows of a list by the distances themselves, in float64.

    `columns` are the centers, one column after the other.
    """
    total = tl.load(count)
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK_N), tl.num_programs(0)):
        place = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = place < total
        rows = tl.load(at + place, mask=inside, other=0).to(tl.int64)
        closest = tl.full([BLOCK_N], float("inf"), tl.float64)
        label = tl.full([BLOCK_N], -1, tl.int32)
        for start in range(0, k, BLOCK_K):
            own = start + tl.arange(0, BLOCK_K)
            found = tl.zeros([BLOCK_N, BLOCK_K], tl.float64)
            for j in range(D):
                x = tl.load(X + rows * D + j).to(tl.float64)
                c = tl.load(columns + j * k + own, mask=own < k, other=0.0)
                offset = x[:, None] - c[None, :]
                if PRECISION:
                    found += offset * offset * tl.load(precision + j)
                else:
                    found += offset * offset
            found = tl.where((own < k)[None, :] & (found == found), found, float("inf"))
            least = tl.min(found, axis=1)
            number = tl.min(tl.where(found == least[:, None], own[None, :], 2**30), axis=1)
            nearer = least < closest
            label = tl.where(nearer, number, label)
            closest = tl.where(nearer, least, closest)
        tl.store(labels + rows, label, mask=inside)
