"""Scans around a point in Triton: one read of all rows, with float64 sums.

A program reads tiles of whole cells, some rows of every cell at a time, and keeps its sums in
registers: a thread adds up whole cells by itself, so that few sums cross threads. The sums of
programs are added up in a fixed order, so a scan repeats bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from lwcs.kernels import Hits
from lwcs.kernels.torch.common import RowScan, ScanSums, programs

if TYPE_CHECKING:
    from lwcs.kernels.torch.common import Tensor

_WARPS = 4
# Values of one row of every cell of a tile, 32 bytes per thread; all rows are read at once.
_TILE = 1024
# Programs for every multiprocessor.
_EACH = 8


@triton.jit
def _offsets(X, rows, columns, n, p, D: tl.constexpr, WHOLE: tl.constexpr):
    """x − pivot in float64; zero beyond the last row and column."""
    here = (columns < D)[None, :]
    where = rows[:, None] * D + columns[None, :]
    if WHOLE:
        return tl.load(X + where, mask=here, other=0.0).to(tl.float64) - p
    inside = (rows < n)[:, None]
    x = tl.load(X + where, mask=inside & here, other=0.0)
    return tl.where(inside, x.to(tl.float64) - p, 0.0)


@triton.jit
def _add_tile(
    X,
    weights,
    pivot,
    precision,
    cells,
    n,
    tile,
    shift,
    cost,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CELLS: tl.constexpr,
    CELL_ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    PRECISION: tl.constexpr,
    DISTANCES: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Write the cells of a tile, and add its rows to the sums."""
    columns = tl.arange(0, BLOCK_D)
    p = tl.load(pivot + columns, mask=columns < D, other=0.0)[None, :]
    cell = (tile * CELLS + tl.arange(0, CELLS)).to(tl.int64)
    squares = tl.zeros([CELLS, BLOCK_D], tl.float64)
    for number in tl.static_range(CELL_ROWS):
        rows = cell * CELL_ROWS + number
        offset = _offsets(X, rows, columns, n, p, D, WHOLE)
        masses = offset
        if WEIGHTED:
            masses = offset * tl.load(weights + rows, mask=rows < n, other=0.0)[:, None]
        if DISTANCES:
            squares += offset * offset
        else:
            squares += masses * offset
        shift += masses
    if PRECISION:
        squares = squares * tl.load(precision + columns, mask=columns < D, other=0.0)[None, :]
    own = tl.sum(squares, axis=1)
    tl.store(cells + cell, own, mask=cell * CELL_ROWS < n)
    if DISTANCES and WEIGHTED:
        own = own * tl.load(weights + cell, mask=cell < n, other=0.0)
    return shift, cost + own


@triton.jit
def _scan(
    X,
    weights,
    pivot,
    precision,
    cells,
    shifts,
    costs,
    n,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CELLS: tl.constexpr,
    CELL_ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    PRECISION: tl.constexpr,
    DISTANCES: tl.constexpr,
):
    """Σω(x − pivot) and Σω·d of the tiles of a program; Σω·d of their cells, or every d."""
    program, step = tl.program_id(0), tl.num_programs(0)
    shift = tl.zeros([CELLS, BLOCK_D], tl.float64)
    cost = tl.zeros([CELLS], tl.float64)
    whole = n // (CELLS * CELL_ROWS)
    for tile in tl.range(program, whole, step):
        shift, cost = _add_tile(
            X, weights, pivot, precision, cells, n, tile, shift, cost,
            D, BLOCK_D, CELLS, CELL_ROWS, WEIGHTED, PRECISION, DISTANCES, True,
        )  # fmt: skip
    if program == whole % step:
        shift, cost = _add_tile(
            X, weights, pivot, precision, cells, n, whole, shift, cost,
            D, BLOCK_D, CELLS, CELL_ROWS, WEIGHTED, PRECISION, DISTANCES, False,
        )  # fmt: skip
    columns = tl.arange(0, BLOCK_D)
    tl.store(shifts + program * D + columns, tl.sum(shift, axis=0), mask=columns < D)
    tl.store(costs + program, tl.sum(cost, axis=0))


def scan_cells(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    precision: Tensor | None,
    cell_rows: int,
) -> ScanSums:
    """Σω·d(x, pivot) of every cell of rows, Σω(x − pivot) and Σω·d.

    float64 sums take no longer than the read. Differences in float32 around a point in two parts
    were no faster, and overflowed.
    """
    cells = torch.empty(-(-len(X) // cell_rows), dtype=torch.float64, device=X.device)
    shift, cost = _launch_scan(X, weights, pivot, precision, cells, cell_rows, distances=False)
    return ScanSums(shift, cost, cells)


def scan(X: Tensor, weights: Tensor | None, pivot: Tensor, precision: Tensor | None) -> RowScan:
    """d(x, pivot) of every row, Σω(x − pivot) and Σω·d."""
    distances = torch.empty(len(X), dtype=torch.float64, device=X.device)
    shift, cost = _launch_scan(X, weights, pivot, precision, distances, 1, distances=True)
    return RowScan(distances, shift, cost)


def _launch_scan(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    precision: Tensor | None,
    cells: Tensor,
    cell_rows: int,
    *,
    distances: bool,
) -> tuple[Tensor, Tensor]:
    n, d = X.shape
    block_d = triton.next_power_of_2(d)
    # All threads have a part of one row of every cell.
    n_cells = max(1, _TILE // block_d)
    grid = max(1, min(-(-n // (n_cells * cell_rows)), programs(X, _EACH)))
    shifts = torch.empty((grid, d), dtype=torch.float64, device=X.device)
    costs = torch.empty(grid, dtype=torch.float64, device=X.device)
    _scan[(grid,)](
        X,
        X if weights is None else weights,
        pivot,
        pivot if precision is None else precision,
        cells,
        shifts,
        costs,
        n,
        D=d,
        BLOCK_D=block_d,
        CELLS=n_cells,
        CELL_ROWS=cell_rows,
        WEIGHTED=weights is not None,
        PRECISION=precision is not None,
        DISTANCES=distances,
        num_warps=_WARPS,
    )
    return shifts.sum(dim=0), costs.sum()


@triton.jit
def _distance(X, rows, inside, point, precision, D: tl.constexpr, BLOCK_D: tl.constexpr,
              PRECISION: tl.constexpr):  # fmt: skip
    """d(x, point) of some rows in float64, a chunk of columns at a time."""
    found = tl.zeros(rows.shape, tl.float64)
    for first in range(0, D, BLOCK_D):
        columns = first + tl.arange(0, BLOCK_D)
        here = columns < D
        x = tl.load(
            X + rows[:, None] * D + columns[None, :],
            mask=inside[:, None] & here[None, :],
            other=0.0,
        )
        offset = x.to(tl.float64) - tl.load(point + columns, mask=here, other=0.0)[None, :]
        squares = offset * offset
        if PRECISION:
            squares = squares * tl.load(precision + columns, mask=here, other=0.0)[None, :]
        found += tl.sum(squares, axis=1)
    return found


@triton.jit
def _hit(
    X,
    weights,
    pivot,
    mean,
    precision,
    scale,
    floor,
    cells,
    targets,
    hit,
    bounds,
    distances,
    n,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CELL_ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One hit: the row of its cell where the running sum of ω·h crosses the target."""
    program = tl.program_id(0)
    number = tl.arange(0, CELL_ROWS)
    rows = tl.load(cells + program) * CELL_ROWS + number
    inside = rows < n
    found = _distance(X, rows, inside, pivot, precision, D, BLOCK_D, PRECISION)
    h = tl.load(scale) * found + tl.load(floor)
    masses = tl.where(inside, h, 0.0)
    if WEIGHTED:
        masses = masses * tl.load(weights + rows, mask=inside, other=0.0)
    # Only a row with mass can be hit, whatever the rounding of the running sums is.
    sums = tl.cumsum(masses, axis=0)
    mass = masses > 0.0
    crossed = mass & (sums > tl.load(targets + program))
    first = tl.min(tl.where(crossed, number, CELL_ROWS), axis=0)
    last = tl.max(tl.where(mass, number, 0), axis=0)
    met = tl.minimum(first, last)
    own = tl.sum(tl.where(number == met, h, 0.0), axis=0)
    row = tl.load(cells + program) * CELL_ROWS + met
    one = row + tl.zeros([1], tl.int64)
    apart = _distance(X, one, one < n, mean, precision, D, BLOCK_D, PRECISION)
    tl.store(hit + program, row)
    tl.store(bounds + program, own)
    tl.store(distances + program + tl.arange(0, 1), apart)


def hit_rows(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    mean: Tensor,
    precision: Tensor | None,
    scale: float,
    floor: float,
    cell_rows: int,
    cells: Tensor,
    targets: Tensor,
) -> Hits:
    """One row of every cell that is hit: where the running sum of ω·h crosses its target."""
    d = X.shape[1]
    rows = torch.empty(len(cells), dtype=torch.int64, device=X.device)
    bounds, distances = torch.empty((2, len(cells)), dtype=torch.float64, device=X.device)
    # As tensors, since Triton passes a Python float as a float32.
    factors = [torch.full((1,), v, dtype=torch.float64, device=X.device) for v in (scale, floor)]
    if len(cells):
        _hit[(len(cells),)](
            X,
            X if weights is None else weights,
            pivot,
            mean,
            pivot if precision is None else precision,
            *factors,
            cells.to(torch.int64),
            targets,
            rows,
            bounds,
            distances,
            len(X),
            D=d,
            BLOCK_D=min(triton.next_power_of_2(d), max(16, 1024 // cell_rows)),
            CELL_ROWS=cell_rows,
            WEIGHTED=weights is not None,
            PRECISION=precision is not None,
            num_warps=1,
        )
    return Hits(rows, bounds, distances)


@triton.jit
def _columns(
    X,
    weights,
    pivot,
    shifts,
    squares,
    n,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    """Σω(x − pivot) and Σω(x − pivot)² per column, of the tiles of a program."""
    columns = tl.arange(0, BLOCK_D)
    here = columns < D
    p = tl.load(pivot + columns, mask=here, other=0.0)[None, :]
    first = tl.zeros([ROWS, BLOCK_D], tl.float64)
    second = tl.zeros([ROWS, BLOCK_D], tl.float64)
    for tile in tl.range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        rows = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        inside = rows < n
        x = tl.load(
            X + rows[:, None] * D + columns[None, :],
            mask=inside[:, None] & here[None, :],
            other=0.0,
        )
        offset = tl.where(inside[:, None], x.to(tl.float64) - p, 0.0)
        masses = offset
        if WEIGHTED:
            masses = offset * tl.load(weights + rows, mask=inside, other=0.0)[:, None]
        first += masses
        second += masses * offset
    at = tl.program_id(0) * D + columns
    tl.store(shifts + at, tl.sum(first, axis=0), mask=here)
    tl.store(squares + at, tl.sum(second, axis=0), mask=here)


def column_sums(X: Tensor, weights: Tensor | None, pivot: Tensor) -> tuple[Tensor, Tensor]:
    """Σω(x − pivot) and Σω(x − pivot)² per column."""
    n, d = X.shape
    block_d = triton.next_power_of_2(d)
    rows = max(1, _TILE // block_d)
    grid = max(1, min(-(-n // rows), programs(X, _EACH)))
    sums = torch.empty((2, grid, d), dtype=torch.float64, device=X.device)
    _columns[(grid,)](
        X,
        X if weights is None else weights,
        pivot,
        *sums,
        n,
        D=d,
        BLOCK_D=block_d,
        ROWS=rows,
        WEIGHTED=weights is not None,
        num_warps=_WARPS,
    )
    shift, squares = sums.sum(dim=1)
    return shift, squares
