"""Nearest centers in Triton: a blocked product that keeps the best and the second best score.

Scores x·slope + offset are taken in half precision, in units in which they cannot overflow: a row
is scaled by a power of two of its own, centers by one for all. Half precision has the 11 bits of
TF32 at twice its rate; numbers in two halves have 22, almost those of float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Scores carry the number of their tile in as many of their last bits.
TILE_BITS = tl.constexpr(5)
GROUP = tl.constexpr(32)
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
    return tl.where(here[None, :], (x - o[None, :]) * unit, 0.0)


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
    PRODUCT_ERROR: tl.constexpr,
    SCORE_ERROR: tl.constexpr,
):
    """Label rows, all or those that a list names, and list those whose label is not certain."""
    total = tl.load(count) if INDEXED else n
    unit, farthest = tl.load(constants), tl.load(constants + 1)
    k_columns = tl.arange(0, BLOCK_K)
    d_columns = tl.arange(0, BLOCK_D)
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK_N), tl.num_programs(0)):
        place = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = place < total
        rows = tl.load(at + place, mask=inside, other=0) if INDEXED else place
        rows = rows.to(tl.int64)

        # Size of the row, for its scale and for the bound on its rounding.
        largest = tl.zeros([BLOCK_N], tl.float32)
        norm = tl.zeros([BLOCK_N], tl.float32)
        x = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
        for part in tl.static_range(CHUNKS):
            columns = part * BLOCK_D + d_columns
            x = _scaled(X, rows, inside, columns, origin, unit, D)
            largest = tl.maximum(largest, tl.max(tl.abs(x), axis=1))
            if PRECISION:
                p = tl.load(precision + columns, mask=columns < D, other=0.0)
                norm += tl.sum(x * x * p[None, :], axis=1)
            else:
                norm += tl.sum(x * x, axis=1)
        power = (largest.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        power = tl.maximum(power, LEAST)
        scale = TOP / power
        inverse = power * (1.0 / (TOP * TOP))
        z = x * scale[:, None]
        x_high = z.to(tl.float16)
        x_low = (z - x_high.to(tl.float32)).to(tl.float16)

        row_best = tl.full([BLOCK_N], float("-inf"), tl.float32)
        row_second = tl.full([BLOCK_N], float("-inf"), tl.float32)
        row_label = tl.zeros([BLOCK_N], tl.int32)
        for group in range(0, n_tiles, GROUP):
            best = tl.full([BLOCK_N, BLOCK_K], float("-inf"), tl.float32)
            second = tl.full([BLOCK_N, BLOCK_K], float("-inf"), tl.float32)
            for t in range(group, tl.minimum(group + GROUP, n_tiles)):
                centers = t * BLOCK_K + k_columns
                if CHUNKS == 1:
                    where = centers[:, None] * BLOCK_D + d_columns[None, :]
                    c_high = tl.trans(tl.load(high + where))
                    if PRODUCTS == 3:
                        c_low = tl.trans(tl.load(low + where))
                        product = tl.dot(x_low, c_high)
                        product = tl.dot(x_high, c_low, product)
                        product = tl.dot(x_high, c_high, product)
                    else:
                        product = tl.dot(x_high, c_high)
                else:
                    product = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
                    for chunk in range(CHUNKS):
                        columns = chunk * BLOCK_D + d_columns
                        where = centers[:, None] * (CHUNKS * BLOCK_D) + columns[None, :]
                        y = _scaled(X, rows, inside, columns, origin, unit, D) * scale[:, None]
                        y_high = y.to(tl.float16)
                        c_high = tl.trans(tl.load(high + where))
                        if PRODUCTS == 3:
                            y_low = (y - y_high.to(tl.float32)).to(tl.float16)
                            c_low = tl.trans(tl.load(low + where))
                            product = tl.dot(y_low, c_high, product)
                            product = tl.dot(y_high, c_low, product)
                        product = tl.dot(y_high, c_high, product)
                offset = tl.load(offsets + centers)
                score = product * inverse[:, None] + offset[None, :]
                bits = (score.to(tl.int32, bitcast=True) & -32) | (t - group)
                score = bits.to(tl.float32, bitcast=True)
                if SECOND:
                    second = tl.maximum(second, tl.minimum(best, score))
                best = tl.maximum(best, score)

            top = tl.max(best, axis=1)
            numbers = group + (best.to(tl.int32, bitcast=True) & 31)
            numbers = tl.where(best == top[:, None], numbers * BLOCK_K + k_columns[None, :], 2**30)
            number = tl.min(numbers, axis=1)
            if SECOND:
                others = tl.where(numbers == number[:, None], second, best)
                row_second = tl.maximum(row_second, tl.max(others, axis=1))
                row_second = tl.maximum(row_second, tl.minimum(row_best, top))
            row_label = tl.where(top > row_best, number, row_label)
            row_best = tl.maximum(row_best, top)

        if SECOND:
            # A center that is nearer than the best one found is no farther from the origin than
            # this; by Cauchy–Schwarz that bounds the terms of its score, and so their rounding.
            length = tl.sqrt(norm)
            reach = 1.1 * (length + tl.sqrt(tl.maximum(norm - row_best, 0.0)))
            reach = tl.minimum(reach, farthest)
            terms = 2.0 * length * reach
            margin = 2.0 * (PRODUCT_ERROR * terms + SCORE_ERROR * (terms + reach * reach))
            margin += largest * tl.load(constants + 2)
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
def differences(
    X,
    at,
    count,
    centers,
    precision,
    labels,
    k,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Label the rows of a list by the distances themselves, in float64."""
    total = tl.load(count)
    d_columns = tl.arange(0, BLOCK_D)
    for tile in tl.range(tl.program_id(0), tl.cdiv(total, BLOCK_N), tl.num_programs(0)):
        place = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = place < total
        rows = tl.load(at + place, mask=inside, other=0).to(tl.int64)
        closest = tl.full([BLOCK_N], float("inf"), tl.float64)
        label = tl.full([BLOCK_N], -1, tl.int32)
        for start in range(0, k, BLOCK_K):
            own = start + tl.arange(0, BLOCK_K)
            found = tl.zeros([BLOCK_N, BLOCK_K], tl.float64)
            for first in range(0, D, BLOCK_D):
                columns = first + d_columns
                here = columns < D
                x = tl.load(
                    X + rows[:, None] * D + columns[None, :],
                    mask=inside[:, None] & here[None, :],
                    other=0.0,
                ).to(tl.float64)
                c = tl.load(
                    centers + own[:, None].to(tl.int64) * D + columns[None, :],
                    mask=(own < k)[:, None] & here[None, :],
                    other=0.0,
                )
                offset = x[:, None, :] - c[None, :, :]
                squares = offset * offset
                if PRECISION:
                    p = tl.load(precision + columns, mask=here, other=0.0)
                    squares = squares * p[None, None, :]
                found += tl.sum(squares, axis=2)
            found = tl.where((own < k)[None, :] & (found == found), found, float("inf"))
            least = tl.min(found, axis=1)
            number = tl.min(tl.where(found == least[:, None], own[None, :], 2**30), axis=1)
            nearer = least < closest
            label = tl.where(nearer, number, label)
            closest = tl.where(nearer, least, closest)
        tl.store(labels + rows, label, mask=inside)
