"""The nearest center of every float32 row on a GPU, in up to three steps.

One product in half precision finds the best and the second best center of every row. Rows whose
two scores are closer than its rounding (by a bound that holds for any data) are listed, and go
through a product of 22 bits; those that this cannot tell apart either are decided by differences
in float64. The lists stay on the device, and nothing waits for their lengths. The labels are exact,
and take less time than the three TF32 products that float32 accuracy takes otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton

from lwcs.arrays.rows import pieces
from lwcs.kernels.torch import assignment_kernels as kernels
from lwcs.kernels.torch.common import programs

if TYPE_CHECKING:
    from lwcs.kernels.torch.common import Mode, Tensor

# Rows whose numbers are listed at a time, in 4 bytes each and twice.
_PIECE_ROWS = 2**24
# Centers are padded to whole blocks of any shape.
_MOST_CENTERS = 64
# The widest rows that stay in registers.
_RESIDENT = 128
# Scores carry the number of their tile, below this, in their last bits.
_GROUP = {1: 32, 3: 8}
# The relative error of a product of two numbers of 22 bits.
_PRODUCT_ERROR = 0.8 * 2.0**-20
_EPS = 2.0**-23


class Shape(NamedTuple):
    """Rows and centers of a block, warps that share it, and how far it reads ahead."""

    rows: int
    centers: int
    warps: int
    stages: int
    registers: int | None = None


# Fastest on an H200 (measured), by the number of products, and for the best score alone.
_SHAPES = {1: Shape(64, 64, 4, 2, 168), 3: Shape(64, 64, 4, 2, 168)}
_BEST_ALONE = Shape(128, 64, 4, 4)
_WIDE = {1: Shape(128, 64, 8, 3), 3: Shape(128, 64, 8, 2)}


class Prepared(NamedTuple):
    """Centers in the units of the product, in two halves, padded to whole tiles."""

    high: Tensor
    low: Tensor
    offsets: Tensor
    origin: Tensor
    precision: Tensor | None
    constants: Tensor
    """Four numbers: the unit; the largest norm of a center; that of the error of a slope in half
    precision; the error of a score per unit of the largest value of its row."""


def prepare(centers: Tensor, precision: Tensor | None, chunk: int) -> Prepared:
    """Slopes 2·precision·(c − origin) and offsets −d(c, origin) of all centers."""
    (k, d), device = centers.shape, centers.device
    origin = centers.mean(dim=0).to(torch.float32)
    moved = centers - origin
    largest = 2.0 * moved.abs().amax()
    if precision is not None:
        largest = torch.maximum(largest, 2.0 * (moved * precision).abs().amax())
    n_rows, width = -(-k // _MOST_CENTERS) * _MOST_CENTERS, -(-d // chunk) * chunk
    high, low = torch.empty((2, n_rows, width), dtype=torch.float16, device=device)
    offsets = torch.empty(n_rows, dtype=torch.float32, device=device)
    constants = torch.zeros(4, dtype=torch.int32, device=device)
    block_d = triton.next_power_of_2(width)
    rows = max(1, min(_MOST_CENTERS, 1024 // block_d))
    kernels.prepare[(n_rows // rows,)](
        moved,
        moved if precision is None else precision,
        largest,
        high,
        low,
        offsets,
        constants,
        k,
        D=d,
        WIDTH=width,
        BLOCK_D=block_d,
        ROWS=rows,
        PRECISION=precision is not None,
    )
    rounded = None if precision is None else precision.to(torch.float32)
    return Prepared(high, low, offsets, origin, rounded, constants.view(torch.float32))


def nearest_labels(
    X: Tensor, centers: Tensor, precision: Tensor | None, mode: Mode
) -> tuple[Tensor, Tensor]:
    """The nearest center of every row, −1 for a row that is not finite.

    Also the number of rows that were decided by differences, without dimensions.
    """
    d = X.shape[1]
    chunk = max(16, triton.next_power_of_2(d)) if d <= _RESIDENT else 64
    prepared = prepare(centers, precision, chunk)
    labels = torch.empty(len(X), dtype=torch.int32, device=X.device)
    n_unclear = torch.zeros((), dtype=torch.int64, device=X.device)
    columns = centers.T.contiguous()
    size = min(len(X), _PIECE_ROWS)
    lists = torch.empty((2, size), dtype=torch.int32, device=X.device)
    for piece in pieces(len(X), _PIECE_ROWS):
        counts = torch.zeros(2, dtype=torch.int32, device=X.device)
        some, own = X[piece], labels[piece]
        first, second = (lists[0], counts[:1]), (lists[1], counts[1:])
        _assign(some, None, prepared, own, first, 1, chunk, second_best=mode == "tf32x3")
        if mode == "tf32x3":
            _assign(some, first, prepared, own, second, 3, chunk, second_best=True)
        else:
            second = first
        _differences(some, second, columns, precision, own)
        n_unclear += second[1][0]
    return labels, n_unclear


def _assign(
    X: Tensor,
    at: tuple[Tensor, Tensor] | None,
    prepared: Prepared,
    labels: Tensor,
    unclear: tuple[Tensor, Tensor],
    products: int,
    chunk: int,
    *,
    second_best: bool,
) -> None:
    """Label all rows, or those that a list names, and list the unclear ones."""
    (n, d) = X.shape
    shape = _SHAPES[products] if second_best else _BEST_ALONE
    if d > _RESIDENT:
        shape = _WIDE[products]
    tiles = -(-n // shape.rows)
    grid = tiles if at is None else min(tiles, programs(X, 2))
    listed, count = unclear if at is None else at
    # Every sum of 16 products is rounded; in long sums the errors mostly cancel.
    rounding = _EPS * min(4.0 + products * -(-d // 16), 4.0 * (4.0 + d**0.5))
    kernels.assign[(grid,)](
        X,
        listed,
        count,
        n,
        prepared.origin,
        X if prepared.precision is None else prepared.precision,
        prepared.high,
        prepared.low,
        prepared.offsets,
        prepared.constants,
        labels,
        *unclear,
        len(prepared.offsets) // shape.centers,
        D=d,
        BLOCK_D=chunk,
        CHUNKS=-(-d // chunk),
        BLOCK_N=shape.rows,
        BLOCK_K=shape.centers,
        PRODUCTS=products,
        SECOND=second_best,
        INDEXED=at is not None,
        PRECISION=prepared.precision is not None,
        GROUP=_GROUP[products],
        PRODUCT_ERROR=_PRODUCT_ERROR,
        SCORE_ERROR=_GROUP[products] * _EPS + rounding,
        num_warps=shape.warps,
        num_stages=shape.stages,
        **({} if shape.registers is None else {"maxnreg": shape.registers}),
    )


def _differences(
    X: Tensor,
    at: tuple[Tensor, Tensor],
    columns: Tensor,
    precision: Tensor | None,
    labels: Tensor,
) -> None:
    """Label the rows of a list by the distances themselves; centers are in columns."""
    n, d = X.shape
    rows = 16
    kernels.differences[(min(-(-n // rows), programs(X, 8)),)](
        X,
        *at,
        columns,
        columns if precision is None else precision,
        labels,
        columns.shape[1],
        D=d,
        BLOCK_N=rows,
        BLOCK_K=64,
        PRECISION=precision is not None,
        num_warps=4,
    )
