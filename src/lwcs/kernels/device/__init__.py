"""The hot loops over torch tensors: Triton on a GPU, plain torch elsewhere.

All tensors of a call are on one device, and so is what it returns. X has contiguous rows of
float32 or float64; weights, pivots, centers and precisions are float64. Nothing waits for the
device. `plain` is the oracle; Triton is imported with the first tensor that is on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lwcs.kernels.device import plain
from lwcs.kernels.device.forms import Hits, Moments, Nearest, Scan, ScanSums
from lwcs.kernels.device.plain import (
    bisect,
    closer,
    cluster_sums,
    hit_rows,
    moments,
    nearest,
    own_distances,
    scan,
    scan_cells,
)

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Tensor

__all__ = [
    "Hits",
    "Moments",
    "Nearest",
    "Scan",
    "ScanSums",
    "bisect",
    "closer",
    "cluster_sums",
    "cluster_totals",
    "hit_rows",
    "moments",
    "nearest",
    "own_distances",
    "plain",
    "scan",
    "scan_cells",
]


def cluster_totals(
    labels: Tensor, weights: Tensor | None, distances: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Σω and Σω·distance of every cluster."""
    around = distances.new_zeros((k, 1))
    totals, costs = cluster_sums(distances[:, None], weights, labels, k, around)
    return totals, costs[:, 0]
