"""How many programs a kernel is launched with."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Tensor


@cache
def _multiprocessors(index: int) -> int:
    return int(torch.cuda.get_device_properties(index).multi_processor_count)


def programs(X: Tensor, each: int) -> int:
    """`each` for every multiprocessor; a few in the interpreter, which runs on the CPU."""
    return each * _multiprocessors(X.device.index) if X.is_cuda else 3


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
    """d(x, its own center) of one tile of rows, NaN without a label."""
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
    """Lower the distances of the tiles of a program; their Σω·closest."""
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
