"""The hot loops over torch tensors: Triton on a GPU, plain torch elsewhere.

All tensors of a call are on one device, and so is what it returns. X has contiguous rows of
float32 or float64; weights, pivots, centers and precisions are float64, labels int32. Nothing
waits for the device, but for labels of float64 rows. Sums are float64, and repeat bit for bit.
`plain` is the oracle; `fused` is imported with the first tensor on a GPU.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import torch

from lwcs.kernels import BlockMoments, Hits
from lwcs.kernels.device import plain
from lwcs.kernels.device.common import Mode, Nearest, RowScan, ScanSums

if TYPE_CHECKING:
    from types import ModuleType

    from lwcs.kernels.device.common import Tensor

__all__ = [
    "Hits",
    "Mode",
    "Nearest",
    "RowScan",
    "ScanSums",
    "bisect",
    "closer",
    "cluster_sums",
    "cluster_totals",
    "hit_rows",
    "moments",
    "nearest",
    "own_distances",
    "scan",
    "scan_cells",
]

# The widest rows that a Triton kernel keeps in registers.
_WIDEST = 2048


@cache
def _fused() -> ModuleType:
    from lwcs.kernels.device import fused

    return fused


def _kernels(X: Tensor) -> ModuleType:
    """Triton's kernels on a GPU, or where its interpreter was asked for."""
    if X.is_cuda or os.environ.get("TRITON_INTERPRET") == "1":
        return plain if X.ndim == 2 and X.shape[1] > _WIDEST else _fused()
    return plain


def scan_cells(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    precision: Tensor | None,
    cell_rows: int,
) -> ScanSums:
    """Sums over all rows and over cells of `cell_rows` of them, the last one short; one read.

    All of it is in float64, which takes no longer than the read; `wide` changes nothing.
    """
    return _kernels(X).scan_cells(X, weights, pivot, precision, cell_rows)


def scan(X: Tensor, weights: Tensor | None, pivot: Tensor, precision: Tensor | None) -> RowScan:
    """The distance of every row to a pivot, and the sums of a scan around it."""
    return _kernels(X).scan(X, weights, pivot, precision)


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
    """One row of every cell that is hit: where the running sum of ω·h crosses a target.

    h = scale·d(x, pivot) + floor. A row without mass is never hit, unless there is no other.
    """
    around = pivot, mean, precision
    return _kernels(X).hit_rows(X, weights, *around, scale, floor, cell_rows, cells, targets)


def moments(X: Tensor, weights: Tensor | None) -> BlockMoments:
    """Weight, mean and scatter, in two reads: the second is around the mean of the first."""
    column_sums = _kernels(X).column_sums
    if weights is None:
        weight, first = X.new_tensor(len(X), dtype=torch.float64), X[0]
    else:
        weight, first = weights.sum(), X[weights.argmax().reshape(1)][0]
    some = weight > 0.0
    divisor = torch.where(some, weight, 1.0)
    # Around a row of theirs, equal rows give exactly zero.
    center = first.to(torch.float64)
    center = center + column_sums(X, weights, center)[0] / divisor
    shift, squares = column_sums(X, weights, center)
    slip = shift / divisor
    # Without weight nothing is left but the NaN of a row that is not finite.
    mean = torch.where(some, center + slip, shift)
    return BlockMoments(weight, mean, (squares - weight * slip * slip).clamp_min(0.0))


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
    return _kernels(X).closer(X, weights, center, precision, label, closest, labels)


def nearest(
    X: Tensor,
    centers: Tensor,
    precision: Tensor | None,
    distances: bool = False,
    mode: Mode = "tf32x3",
) -> Nearest:
    """The nearest center of every row, and its distance to it if wanted.

    "tf32x3" gives the labels that float32 gives, and decides by differences what that cannot
    tell apart; "tf32" gives the labels of one product of 11 bits, some of which are wrong.
    """
    return _kernels(X).nearest(X, centers, precision, distances, mode)


def own_distances(X: Tensor, centers: Tensor, labels: Tensor, precision: Tensor | None) -> Tensor:
    """d of every row to the center that its label names, from differences."""
    return _kernels(X).own_distances(X, centers, labels, precision)


def cluster_sums(
    X: Tensor, weights: Tensor | None, labels: Tensor, k: int, around: Tensor
) -> tuple[Tensor, Tensor]:
    """Σω and Σω·(x − around) of every cluster; rows with a negative label are left out."""
    return _kernels(X).cluster_sums(X, weights, labels, k, around)


def cluster_totals(
    labels: Tensor, weights: Tensor | None, distances: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Σω and Σω·distance of every cluster."""
    around = distances.new_zeros((k, 1))
    totals, costs = cluster_sums(distances[:, None], weights, labels, k, around)
    return totals, costs[:, 0]


def bisect(sums: Tensor, starts: Tensor, stops: Tensor, targets: Tensor) -> Tensor:
    """For every target the first place in [start, stop) whose sum is above it.

    Sums rise within every range; stop − 1 where none is above.
    """
    return _kernels(sums).bisect(sums, starts, stops, targets)
