"""The kernels of a device in Triton, with the signatures of `plain`; scans are in `fused_scans`.

Cluster sums take rows in the order of their labels, one run of rows with one label per program.
Runs have at most some hundred rows, so that one large cluster keeps no program busy for long. The
sums of the runs of a cluster are added up in their order, so that they repeat bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from lwcs.arrays.rows import pieces
from lwcs.kernels.torch import assignment, plain
from lwcs.kernels.torch.common import Nearest, programs
from lwcs.kernels.torch.fused_scans import column_sums, hit_rows, scan, scan_cells

if TYPE_CHECKING:
    from lwcs.kernels.torch.common import Mode, Tensor

__all__ = [
    "bisect",
    "closer",
    "cluster_sums",
    "column_sums",
    "hit_rows",
    "nearest",
    "own_distances",
    "scan",
    "scan_cells",
]

_TILE_VALUES = 2048
# The widest tile: wider rows are read a chunk of columns at a time.
_CHUNK = 256


@triton.jit
def _own(
    X,
    centers,
    labels,
    precision,
    out,
    n,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """d of every row of a tile to its own center, NaN without a label."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    label = tl.load(labels + rows, mask=rows < n, other=-1).to(tl.int64)
    inside = label >= 0
    found = tl.zeros([ROWS], tl.float64)
    for first in range(0, D, BLOCK_D):
        columns = first + tl.arange(0, BLOCK_D)
        there = inside[:, None] & (columns < D)[None, :]
        x = tl.load(X + rows[:, None] * D + columns[None, :], mask=there, other=0.0)
        c = tl.load(centers + label[:, None] * D + columns[None, :], mask=there, other=0.0)
        offset = x.to(tl.float64) - c
        squares = offset * offset
        if PRECISION:
            squares = squares * tl.load(precision + columns, mask=columns < D, other=0.0)[None, :]
        found += tl.sum(squares, axis=1)
    tl.store(out + rows, tl.where(inside, found, float("nan")), mask=rows < n)


def own_distances(X: Tensor, centers: Tensor, labels: Tensor, precision: Tensor | None) -> Tensor:
    """d of every row to the center that its label names; NaN where it names none."""
    n, d = X.shape
    out = torch.empty(n, dtype=torch.float64, device=X.device)
    block_d, rows = _tile(d)
    _own[(-(-n // rows),)](
        X,
        centers,
        labels,
        centers if precision is None else precision,
        out,
        n,
        D=d,
        BLOCK_D=block_d,
        ROWS=rows,
        PRECISION=precision is not None,
        num_warps=4,
    )
    return out


@triton.jit
def _closer(
    X,
    weights,
    center,
    precision,
    label,
    closest,
    labels,
    costs,
    n,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Lower the distances in the tiles of a program, and write their Σω·closest."""
    cost = tl.zeros([ROWS], tl.float64)
    for tile in tl.range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        rows = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        inside = rows < n
        found = tl.zeros([ROWS], tl.float64)
        for first in range(0, D, BLOCK_D):
            columns = first + tl.arange(0, BLOCK_D)
            here = columns < D
            x = tl.load(
                X + rows[:, None] * D + columns[None, :],
                mask=inside[:, None] & here[None, :],
                other=0.0,
            )
            c = tl.load(center + columns, mask=here, other=0.0)
            offset = x.to(tl.float64) - c[None, :]
            squares = offset * offset
            if PRECISION:
                squares = squares * tl.load(precision + columns, mask=here, other=0.0)[None, :]
            found += tl.sum(squares, axis=1)
        known = tl.load(closest + rows, mask=inside, other=0.0)
        nearer = found < known
        least = tl.where(nearer, found, known)
        tl.store(closest + rows, least, mask=inside & nearer)
        tl.store(labels + rows, label + tl.zeros([ROWS], tl.int32), mask=inside & nearer)
        if WEIGHTED:
            least = least * tl.load(weights + rows, mask=inside, other=0.0)
        cost += least
    tl.store(costs + tl.program_id(0), tl.sum(cost, axis=0))


def closer(
    X: Tensor,
    weights: Tensor | None,
    center: Tensor,
    precision: Tensor | None,
    label: int,
    closest: Tensor,
    labels: Tensor,
) -> Tensor:
    """Lower `closest` where `center` is nearer, and set the label there; return Σω·closest."""
    n, d = X.shape
    block_d, rows = _tile(d)
    grid = max(1, min(-(-n // rows), programs(X, 8)))
    costs = torch.empty(grid, dtype=torch.float64, device=X.device)
    _closer[(grid,)](
        X,
        X if weights is None else weights,
        center,
        center if precision is None else precision,
        label,
        closest,
        labels,
        costs,
        n,
        D=d,
        BLOCK_D=block_d,
        ROWS=rows,
        WEIGHTED=weights is not None,
        PRECISION=precision is not None,
        num_warps=4,
    )
    return costs.sum()


def _tile(d: int) -> tuple[int, int]:
    """Columns and rows of a tile."""
    block_d = min(_CHUNK, triton.next_power_of_2(d))
    return block_d, _TILE_VALUES // block_d


@triton.jit
def _bisect(sums, starts, stops, targets, out, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Binary search of one block of targets."""
    each = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = each < n
    low = tl.load(starts + each, mask=inside, other=0)
    high = tl.load(stops + each, mask=inside, other=1) - 1
    target = tl.load(targets + each, mask=inside, other=0.0)
    for _ in range(STEPS):
        middle = (low + high) // 2
        above = tl.load(sums + middle, mask=inside, other=0.0) > target
        high = tl.where(above, middle, high)
        low = tl.where(above, low, tl.minimum(middle + 1, high))
    tl.store(out + each, low, mask=inside)


def bisect(sums: Tensor, starts: Tensor, stops: Tensor, targets: Tensor) -> Tensor:
    """The first place in [start, stop) whose sum is above the target, stop − 1 at the latest."""
    out = torch.empty(len(targets), dtype=torch.int64, device=sums.device)
    if len(targets):
        _bisect[(-(-len(targets) // 256),)](
            sums,
            starts.to(torch.int64),
            stops.to(torch.int64),
            targets,
            out,
            len(targets),
            STEPS=len(sums).bit_length(),
            BLOCK=256,
        )
    return out


def nearest(
    X: Tensor,
    centers: Tensor,
    precision: Tensor | None,
    distances: bool = False,
    mode: Mode = "tf32x3",
) -> Nearest:
    """The nearest center of every row; for float64 rows, by torch's own products."""
    if X.dtype == torch.float64:
        return plain.nearest(X, centers, precision, distances, mode)
    labels, n_unclear = assignment.nearest_labels(X, centers, precision, mode)
    found = own_distances(X, centers, labels, precision) if distances else None
    return Nearest(labels, found, n_unclear)


# Rows that are sorted at a time.
_PIECE_ROWS = 2**23
# The longest run of rows; shorter for few rows, so that all programs have some.
_LONG_RUN, _SHORT_RUN = 1024, 128
_MANY_ROWS = 2**21


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
    # The time of radix sort is proportional to the width of its keys.
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
