"""The hot loops over torch tensors: Triton on a GPU, plain torch elsewhere.

All tensors of a call are on one device, and so is the result. X has contiguous rows of floats, of
int8 or of uint8, which are converted as they are read; weights, pivots, centers and precisions are
float64, labels int32. No call waits for the device, except for labels of float64 rows. Sums are
float64, and repeat bit for bit.

Every operation is defined in `plain`, which is the reference for the tests, and again in `fused`,
by Triton, which is imported with the first tensor on a GPU.
"""

from __future__ import annotations

import os
from functools import cache, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import torch

from lwcs.kernels import BlockMoments
from lwcs.kernels.torch import plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lwcs.kernels.torch.common import Tensor

# The widest rows that a Triton kernel keeps in registers.
_WIDEST = 2048


@cache
def _fused() -> ModuleType:
    from lwcs.kernels.torch import fused

    return fused


def _kernels(X: Tensor) -> ModuleType:
    """Triton's kernels on a GPU, or where its interpreter was asked for."""
    if X.is_cuda or os.environ.get("TRITON_INTERPRET") == "1":
        return plain if X.ndim == 2 and X.shape[1] > _WIDEST else _fused()
    return plain


P = ParamSpec("P")
R = TypeVar("R")


def _dispatched(
    reference: Callable[Concatenate[Tensor, P], R],
) -> Callable[Concatenate[Tensor, P], R]:
    """The operation by the kernels for its first argument: `reference`, or its twin in Triton."""

    @wraps(reference)
    def operation(X: Tensor, /, *args: P.args, **options: P.kwargs) -> R:
        found: R = getattr(_kernels(X), reference.__name__)(X, *args, **options)
        return found

    return operation


scan_cells = _dispatched(plain.scan_cells)
scan = _dispatched(plain.scan)
hit_rows = _dispatched(plain.hit_rows)
closer = _dispatched(plain.closer)
nearest = _dispatched(plain.nearest)
own_distances = _dispatched(plain.own_distances)
cluster_sums = _dispatched(plain.cluster_sums)
bisect = _dispatched(plain.bisect)


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


def cluster_totals(
    labels: Tensor, weights: Tensor | None, distances: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Σω and Σω·distance of every cluster."""
    around = distances.new_zeros((k, 1))
    totals, costs = cluster_sums(distances[:, None], weights, labels, k, around)
    return totals, costs[:, 0]
