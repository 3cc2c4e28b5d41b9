"""Sums of clusters in Triton: rows in the order of their labels, a run of one label per program.

Runs are no longer than some hundred rows, so that one large cluster keeps no program busy for
long; the sums of the runs of a cluster are added up in their order. So sums repeat bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from lwcs.arrays.rows import pieces

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Tensor

# Rows that are sorted at a time.
_PIECE_ROWS = 2**23
# The longest run of rows; short where there are few rows, so that all programs have some.
_LONG_RUN, _SHORT_RUN = 1024, 128
_MANY_ROWS = 2**21
_TILE_VALUES = 2048


@triton.jit
def _run_sums(
    X,
    weights,
    order,
    around,
    begins,
    firsts,
    totals,
    sums,
    k,
    RUN: tl.constexpr,
    STEPS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    """Σω and Σω·(x − around) of one run of rows of one cluster."""
    run = tl.program_id(0)
    if run < tl.load(firsts + k):
        # The last cluster whose first run is this one or one before.
        low, high = 0, k - 1
        for _ in range(STEPS):
            middle = (low + high + 1) // 2
            after = tl.load(firsts + middle) > run
            high = tl.where(after, middle - 1, high)
            low = tl.where(after, low, middle)
        start = tl.load(begins + low) + (run - tl.load(firsts + low)) * RUN
        stop = tl.minimum(start + RUN, tl.load(begins + low + 1))
        columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
        here = columns < D
        center = tl.load(around + low * D + columns, mask=here, other=0.0)
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
            if WEIGHTED:
                omega = tl.load(weights + rows, mask=inside, other=0.0)
            offset = tl.where(inside[:, None], x.to(tl.float64) - center[None, :], 0.0)
            if WEIGHTED:
                offset = offset * omega[:, None]
            moved += offset
            total += omega
        at = sums + run.to(tl.int64) * D + columns
        tl.store(at, tl.sum(moved, axis=0), mask=here)
        if tl.program_id(1) == 0:
            tl.store(totals + run, tl.sum(total, axis=0))


@triton.jit
def _add_runs(
    run_totals,
    run_sums,
    firsts,
    totals,
    sums,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    RUNS: tl.constexpr,
):
    """Add the runs of one cluster to its sums."""
    cluster = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    here = columns < D
    moved = tl.zeros([RUNS, BLOCK_D], tl.float64)
    total = tl.zeros([RUNS], tl.float64)
    stop = tl.load(firsts + cluster + 1)
    for first in range(tl.load(firsts + cluster), stop, RUNS):
        runs = first + tl.arange(0, RUNS)
        inside = runs < stop
        moved += tl.load(
            run_sums + runs[:, None].to(tl.int64) * D + columns[None, :],
            mask=inside[:, None] & here[None, :],
            other=0.0,
        )
        total += tl.load(run_totals + runs, mask=inside, other=0.0)
    at = sums + cluster.to(tl.int64) * D + columns
    tl.store(at, tl.load(at, mask=here, other=0.0) + tl.sum(moved, axis=0), mask=here)
    if tl.program_id(1) == 0:
        tl.store(totals + cluster, tl.load(totals + cluster) + tl.sum(total, axis=0))


def cluster_sums(
    X: Tensor, weights: Tensor | None, labels: Tensor, k: int, around: Tensor
) -> tuple[Tensor, Tensor]:
    """Σω and Σω·(x − around) of every cluster; rows with a negative label are left out."""
    d = X.shape[1]
    totals = torch.zeros(k, dtype=torch.float64, device=X.device)
    sums = torch.zeros((k, d), dtype=torch.float64, device=X.device)
    for piece in pieces(len(X), _PIECE_ROWS):
        omega = None if weights is None else weights[piece]
        _add_piece(X[piece], omega, labels[piece], around, totals, sums)
    return totals, sums


def _add_piece(
    X: Tensor, weights: Tensor | None, labels: Tensor, around: Tensor, totals: Tensor, sums: Tensor
) -> None:
    (n, d), k = X.shape, len(totals)
    run = _LONG_RUN if n >= _MANY_ROWS else _SHORT_RUN
    # Radix sort takes as long as its keys are wide.
    keys = labels.to(torch.int16) if k < 2**15 else labels
    ordered, order = torch.sort(keys, stable=True)
    clusters = torch.arange(k + 1, dtype=ordered.dtype, device=X.device)
    begins = torch.searchsorted(ordered, clusters)
    firsts = torch.zeros(k + 1, dtype=torch.int64, device=X.device)
    torch.cumsum((begins.diff() + (run - 1)) // run, dim=0, out=firsts[1:])
    n_runs = n // run + min(n, k) + 1
    run_totals = torch.empty(n_runs, dtype=torch.float64, device=X.device)
    run_sums = torch.empty((n_runs, d), dtype=torch.float64, device=X.device)
    block_d = min(256, triton.next_power_of_2(d))
    blocks = -(-d // block_d)
    rows = max(1, min(run, _TILE_VALUES // block_d))
    _run_sums[(n_runs, blocks)](
        X,
        X if weights is None else weights,
        order,
        around,
        begins,
        firsts,
        run_totals,
        run_sums,
        k,
        RUN=run,
        STEPS=k.bit_length(),
        D=d,
        BLOCK_D=block_d,
        ROWS=rows,
        WEIGHTED=weights is not None,
        num_warps=4,
    )
    _add_runs[(k, blocks)](
        run_totals, run_sums, firsts, totals, sums, D=d, BLOCK_D=block_d, RUNS=8, num_warps=2
    )
