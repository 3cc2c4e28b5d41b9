"""Sums of clusters in Triton: rows in the order of their labels, a few programs per cluster.

The sums of the parts of a cluster are added up in their order, so that they repeat bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from lwcs.foundation.rows import pieces
from lwcs.kernels.device.launch import programs

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Tensor

# Rows that are sorted at a time; above so many, more programs share them.
_PIECE_ROWS, _MANY_ROWS = 2**23, 2**21
_FEW_PROGRAMS, _MANY_PROGRAMS = 32, 256
_TILE_VALUES = 2048


@triton.jit
def _first(ordered, n, label, STEPS: tl.constexpr):
    """The first place whose label is not below this one."""
    low, high = 0, n
    for _ in range(STEPS):
        middle = (low + high) // 2
        below = (low < high) & (tl.load(ordered + tl.minimum(middle, n - 1)) < label)
        low = tl.where(below, middle + 1, low)
        high = tl.where(below, high, tl.minimum(middle, high))
    return low


@triton.jit
def _part_sums(
    X,
    weights,
    ordered,
    order,
    around,
    totals,
    sums,
    n,
    PARTS: tl.constexpr,
    STEPS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    """Σω and Σω·(x − around) of one part of the rows of a cluster."""
    own = tl.program_id(0)
    cluster, part = own // PARTS, own % PARTS
    begin = _first(ordered, n, cluster, STEPS)
    end = _first(ordered, n, cluster + 1, STEPS)
    length = tl.cdiv(end - begin, PARTS)
    start = begin + part * length
    stop = tl.minimum(start + length, end)
    columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    here = columns < D
    center = tl.load(around + cluster.to(tl.int64) * D + columns, mask=here, other=0.0)
    moved = tl.zeros([ROWS, BLOCK_D], tl.float64)
    total = tl.zeros([ROWS], tl.float64)
    for first in range(start, stop, ROWS):
        place = first + tl.arange(0, ROWS)
        inside = place < stop
        rows = tl.load(order + place, mask=inside, other=0)
        x = tl.load(
            X + rows[:, None] * D + columns[None, :],
            mask=inside[:, None] & here[None, :],
            other=0.0,
        )
        omega = tl.where(inside, 1.0, 0.0).to(tl.float64)
        offset = tl.where(inside[:, None], x.to(tl.float64) - center[None, :], 0.0)
        if WEIGHTED:
            omega = tl.load(weights + rows, mask=inside, other=0.0)
            offset = offset * omega[:, None]
        moved += offset
        total += omega
    tl.store(sums + own.to(tl.int64) * D + columns, tl.sum(moved, axis=0), mask=here)
    if tl.program_id(1) == 0:
        tl.store(totals + own, tl.sum(total, axis=0))


def cluster_sums(
    X: Tensor, weights: Tensor | None, labels: Tensor, k: int, around: Tensor
) -> tuple[Tensor, Tensor]:
    """Σω and Σω·(x − around) of every cluster; rows with a negative label are left out."""
    totals = torch.zeros(k, dtype=torch.float64, device=X.device)
    sums = torch.zeros((k, X.shape[1]), dtype=torch.float64, device=X.device)
    for piece in pieces(len(X), _PIECE_ROWS):
        omega = None if weights is None else weights[piece]
        more = _sums_of_piece(X[piece], omega, labels[piece], k, around)
        totals += more[0]
        sums += more[1]
    return totals, sums


def _sums_of_piece(
    X: Tensor, weights: Tensor | None, labels: Tensor, k: int, around: Tensor
) -> tuple[Tensor, Tensor]:
    n, d = X.shape
    each = _MANY_PROGRAMS if n >= _MANY_ROWS else _FEW_PROGRAMS
    parts = max(1, programs(X, each) // k)
    # Radix sort takes as long as its keys are wide.
    ordered, order = torch.sort(labels.to(torch.int16) if k < 2**15 else labels, stable=True)
    totals = torch.empty((k, parts), dtype=torch.float64, device=X.device)
    sums = torch.empty((k, parts, d), dtype=torch.float64, device=X.device)
    block_d = min(256, triton.next_power_of_2(d))
    _part_sums[(k * parts, -(-d // block_d))](
        X,
        X if weights is None else weights,
        ordered,
        order,
        around,
        totals,
        sums,
        n,
        PARTS=parts,
        STEPS=n.bit_length(),
        D=d,
        BLOCK_D=block_d,
        ROWS=min(128, _TILE_VALUES // block_d),
        WEIGHTED=weights is not None,
        num_warps=4,
    )
    return totals.sum(dim=1), sums.sum(dim=1)
