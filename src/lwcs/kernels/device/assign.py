"""The nearest center of every float32 row on a GPU, in up to three steps.

One product in half precision finds the best and the second best center of every row. Rows whose
two scores are closer than its rounding (by a bound that holds for any data) are listed, and go
through a product of 22 bits; those that this cannot tell apart either are decided by differences
in float64. The lists stay on the device, and nothing waits for their lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton

from lwcs.foundation.rows import pieces
from lwcs.kernels.device import assign_kernels as kernels
from lwcs.kernels.device.forms import Nearest
from lwcs.kernels.device.launch import programs
from lwcs.kernels.device.rows import own_distances

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Mode, Tensor

# Rows whose numbers are listed at a time, in 4 bytes each and twice.
_PIECE_ROWS = 2**24
# The widest rows that stay in registers.
_RESIDENT = 128
# The relative error of a product of two numbers of 11 bits, and of two of 22.
_PRODUCT_ERROR = {1: 1.01 * 2.0**-10, 3: 2.0**-20}
# That of scores which carry the number of a tile.
_NUMBER_ERROR = 2.0**-18


class Shape(NamedTuple):
    """Rows and centers of a block, warps that share it, and how far it reads ahead."""

    rows: int
    centers: int
    warps: int
    stages: int


SHAPES = {1: Shape(128, 32, 4, 3), 3: Shape(128, 64, 8, 2)}


class Prepared(NamedTuple):
    """Centers in the units of the product, in two halves, padded to whole tiles."""

    high: Tensor
    low: Tensor
    offsets: Tensor
    origin: Tensor
    precision: Tensor | None
    constants: Tensor
    """The unit, the largest norm, and what the largest number of a row adds to its margin."""


def prepare(centers: Tensor, precision: Tensor | None, block_d: int) -> Prepared:
    """Slopes 2·precision·(c − origin) and offsets −d(c, origin) of all centers.

    The unit is a power of two, so that it rounds nothing, whatever the range of the numbers is.
    """
    k, d = centers.shape
    block_k = max(shape.centers for shape in SHAPES.values())
    origin = centers.mean(dim=0).to(torch.float32)
    moved = centers - origin.to(torch.float64)
    scaled = moved if precision is None else moved * precision
    largest = torch.maximum(moved.abs().amax(), 2.0 * scaled.abs().amax()).clamp_min(1e-300)
    unit = torch.exp2(-torch.floor(torch.log2(largest)) - 1.0).clamp(2.0**-120, 2.0**120)
    slopes = moved.new_zeros((-(-k // block_k) * block_k, -(-d // block_d) * block_d))
    slopes[:k, :d] = scaled * (2.0 * unit * kernels.TOP.value)
    high = slopes.to(torch.float16)
    low = (slopes - high).to(torch.float16)
    heights = (moved * scaled).sum(dim=1) * unit * unit
    offsets = torch.full((len(slopes),), -3e38, dtype=torch.float32, device=centers.device)
    offsets[:k] = -heights
    # Numbers far below the largest of their row, or of all centers, keep fewer bits.
    lost = torch.full_like(unit, 2.0**-36 * d)
    constants = torch.stack([unit, heights.amax().sqrt() * 1.001, lost]).to(torch.float32)
    rounded = None if precision is None else precision.to(torch.float32)
    return Prepared(high, low, offsets, origin, rounded, constants)


def nearest(
    X: Tensor,
    centers: Tensor,
    precision: Tensor | None,
    distances: bool = False,
    mode: Mode = "tf32x3",
) -> Nearest:
    """The nearest center of every row, −1 for a row that is not finite."""
    d = X.shape[1]
    chunk = max(16, triton.next_power_of_2(d)) if d <= _RESIDENT else 64
    prepared = prepare(centers, precision, chunk)
    labels = torch.empty(len(X), dtype=torch.int32, device=X.device)
    n_unclear = torch.zeros((), dtype=torch.int64, device=X.device)
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
        _differences(some, second, centers, precision, own)
        n_unclear += second[1][0]
    found = own_distances(X, centers, labels, precision) if distances else None
    return Nearest(labels, found, n_unclear)


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
    **options: Any,
) -> None:
    """Label all rows, or those that a list names, and list the unclear ones."""
    (n, d), shape = X.shape, SHAPES[products]
    tiles = -(-n // shape.rows)
    grid = tiles if at is None else min(tiles, programs(X, 2))
    listed, count = unclear if at is None else at
    rounding = 4.0 * 2.0**-23 * (4.0 + d**0.5)
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
        PRODUCT_ERROR=_PRODUCT_ERROR[products],
        SCORE_ERROR=_NUMBER_ERROR + rounding,
        num_warps=shape.warps,
        num_stages=shape.stages,
        **options,
    )


def _differences(
    X: Tensor,
    at: tuple[Tensor, Tensor],
    centers: Tensor,
    precision: Tensor | None,
    labels: Tensor,
) -> None:
    """Label the rows of a list by the distances themselves."""
    n, d = X.shape
    rows = 4
    block_d = min(64, triton.next_power_of_2(d))
    kernels.differences[(min(-(-n // rows), programs(X, 4)),)](
        X,
        *at,
        centers,
        centers if precision is None else precision,
        labels,
        len(centers),
        D=d,
        BLOCK_D=block_d,
        BLOCK_N=rows,
        BLOCK_K=1024 // block_d,
        PRECISION=precision is not None,
        num_warps=4,
    )
