"""Scans around a point in Triton: one read of all rows.

A program goes over tiles of whole cells and keeps its sums in registers, one for every value of
a tile; the sums of programs are added up in a fixed order, so that a scan repeats bit for bit.
Differences and squares are in the precision of the rows, unless `wide` ones are wanted, around a
point in two parts, so that an offset costs no digits. A float64 number for every value would take
longer than the read: sums are widened once for every row and cell, and for the columns after a few
tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from lwcs.kernels.device.forms import Hits, Scan, ScanSums
from lwcs.kernels.device.launch import programs

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Tensor

# Values of a tile; wider cells than this are cut, and added up afterwards.
TILE_VALUES = 4096
WARPS = 4
# Tiles whose columns are added up in the precision of the rows.
TILES = 2
# Programs for every multiprocessor.
EACH = 16
_LARGEST_TILE = 8192
# Values that are read in no time, whatever is computed.
_WIDE_UP_TO = 2**24


@triton.jit
def _add_tile(
    X, weights, high, low, precision, cells, n, tile,
    D: tl.constexpr, BLOCK_D: tl.constexpr, CELLS: tl.constexpr, CELL_ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr, PRECISION: tl.constexpr, DISTANCES: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Write the sums of a tile's cells, or all distances; give ω(x − pivot) and Σω·d of cells."""
    columns = tl.arange(0, BLOCK_D)
    here = columns < D
    cell = (tile * CELLS + tl.arange(0, CELLS)).to(tl.int64)
    rows = cell[:, None] * CELL_ROWS + tl.arange(0, CELL_ROWS)[None, :]
    where = rows[:, :, None] * D + columns[None, None, :]
    first = tl.load(high + columns, mask=here, other=0.0)[None, None, :]
    second = tl.load(low + columns, mask=here, other=0.0)[None, None, :]
    # Both parts of the point have the precision that is computed in.
    if WHOLE:
        x = tl.load(X + where, mask=here[None, None, :], other=0.0).to(first.dtype)
        offset = (x - first) - second
    else:
        inside = (rows < n)[:, :, None]
        x = tl.load(X + where, mask=inside & here[None, None, :], other=0.0).to(first.dtype)
        offset = tl.where(inside, (x - first) - second, 0.0)
    squares = offset * offset
    if PRECISION:
        p = tl.load(precision + columns, mask=here, other=0.0).to(offset.dtype)
        squares = squares * p[None, None, :]
    masses = tl.sum(squares, axis=2).to(tl.float64)
    if DISTANCES:
        tl.store(cells + rows, masses, mask=rows < n)
    if WEIGHTED:
        w = tl.load(weights + rows, mask=rows < n, other=0.0)
        masses = masses * w
        offset = offset * w.to(offset.dtype)[:, :, None]
    own = tl.sum(masses, axis=1)
    if not DISTANCES:
        tl.store(cells + cell, own, mask=cell * CELL_ROWS < n)
    return offset, own


@triton.jit
def _scan(
    X, weights, high, low, precision, cells, shifts, costs, n,
    D: tl.constexpr, BLOCK_D: tl.constexpr, CELLS: tl.constexpr, CELL_ROWS: tl.constexpr,
    TILES: tl.constexpr, WEIGHTED: tl.constexpr, PRECISION: tl.constexpr, DISTANCES: tl.constexpr,
):  # fmt: skip
    """Σω(x − pivot) and Σω·d of the tiles of a program; Σω·d of their cells, or every d."""
    program, step = tl.program_id(0), tl.num_programs(0)
    shift = tl.zeros([CELLS, CELL_ROWS, BLOCK_D], tl.float64)
    cost = tl.zeros([CELLS], tl.float64)
    groups = n // (CELLS * CELL_ROWS * TILES)
    for group in tl.range(program, groups, step):
        moved, own = _add_tile(
            X, weights, high, low, precision, cells, n, group * TILES,
            D, BLOCK_D, CELLS, CELL_ROWS, WEIGHTED, PRECISION, DISTANCES, True,
        )  # fmt: skip
        cost += own
        for i in tl.static_range(1, TILES):
            more, own = _add_tile(
                X, weights, high, low, precision, cells, n, group * TILES + i,
                D, BLOCK_D, CELLS, CELL_ROWS, WEIGHTED, PRECISION, DISTANCES, True,
            )  # fmt: skip
            moved += more
            cost += own
        shift += moved.to(tl.float64)
    for tile in range(groups * TILES + program, tl.cdiv(n, CELLS * CELL_ROWS), step):
        moved, own = _add_tile(
            X, weights, high, low, precision, cells, n, tile,
            D, BLOCK_D, CELLS, CELL_ROWS, WEIGHTED, PRECISION, DISTANCES, False,
        )  # fmt: skip
        shift += moved.to(tl.float64)
        cost += own
    columns = tl.arange(0, BLOCK_D)
    total = tl.sum(tl.sum(shift, axis=0), axis=0)
    tl.store(shifts + program * D + columns, total, mask=columns < D)
    tl.store(costs + program, tl.sum(cost, axis=0))


def scan_cells(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    precision: Tensor | None,
    cell_rows: int,
    wide: bool | None = None,
) -> ScanSums:
    """Σω·d(x, pivot) of every cell of rows, Σω(x − pivot) and Σω·d."""
    wide = X.numel() < _WIDE_UP_TO if wide is None else wide
    own = min(cell_rows, max(1, _LARGEST_TILE // triton.next_power_of_2(X.shape[1])))
    cells = torch.empty(-(-len(X) // own), dtype=torch.float64, device=X.device)
    shift, cost = _launch_scan(X, weights, pivot, precision, cells, own, distances=False, wide=wide)
    if own < cell_rows:
        ratio = cell_rows // own
        cells = torch.nn.functional.pad(cells, (0, -len(cells) % ratio)).view(-1, ratio).sum(dim=1)
    return ScanSums(shift, cost, cells)


def scan(X: Tensor, weights: Tensor | None, pivot: Tensor, precision: Tensor | None) -> Scan:
    """d(x, pivot) of every row, Σω(x − pivot) and Σω·d."""
    distances = torch.empty(len(X), dtype=torch.float64, device=X.device)
    shift, cost = _launch_scan(
        X, weights, pivot, precision, distances, 1, distances=True, wide=True
    )
    return Scan(distances, shift, cost)


def _launch_scan(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    precision: Tensor | None,
    cells: Tensor,
    cell_rows: int,
    *,
    distances: bool,
    wide: bool,
) -> tuple[Tensor, Tensor]:
    n, d = X.shape
    block_d = triton.next_power_of_2(d)
    n_cells = max(1, TILE_VALUES // (block_d * cell_rows))
    grid = max(1, min(-(-n // (n_cells * cell_rows)), programs(X, EACH)))
    shifts = torch.empty((grid, d), dtype=torch.float64, device=X.device)
    costs = torch.empty(grid, dtype=torch.float64, device=X.device)
    high = pivot if wide else pivot.to(X.dtype)
    low = (pivot - high.double()).to(high.dtype)
    _scan[(grid,)](
        X,
        X if weights is None else weights,
        high,
        low,
        pivot if precision is None else precision,
        cells,
        shifts,
        costs,
        n,
        D=d,
        BLOCK_D=block_d,
        CELLS=n_cells,
        CELL_ROWS=cell_rows,
        TILES=TILES,
        WEIGHTED=weights is not None,
        PRECISION=precision is not None,
        DISTANCES=distances,
        num_warps=WARPS,
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
    # All sums by the same tree: they rise, and a row without mass leaves them as they are.
    before = number[None, :] <= number[:, None]
    sums = tl.sum(tl.where(before, masses[None, :], 0.0), axis=1)
    below = tl.sum((sums <= tl.load(targets + program)).to(tl.int32), axis=0)
    met = tl.minimum(below, tl.sum((sums < tl.max(sums, axis=0)).to(tl.int32), axis=0))
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
    rows = max(1, TILE_VALUES // block_d)
    grid = max(1, min(-(-n // rows), programs(X, EACH)))
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
        num_warps=WARPS,
    )
    shift, squares = sums.sum(dim=1)
    return shift, squares
