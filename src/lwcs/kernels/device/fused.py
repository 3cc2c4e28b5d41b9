"""The kernels of a device in Triton, with the signatures of `plain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lwcs.kernels.device import assign, plain
from lwcs.kernels.device.rows import bisect, closer, own_distances
from lwcs.kernels.device.scans import column_sums, hit_rows, scan, scan_cells
from lwcs.kernels.device.sums import cluster_sums

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Mode, Nearest, Tensor

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


def nearest(
    X: Tensor,
    centers: Tensor,
    precision: Tensor | None,
    distances: bool = False,
    mode: Mode = "tf32x3",
) -> Nearest:
    """The nearest center of every row; of float64 rows by torch's own products."""
    search = plain.nearest if X.dtype == torch.float64 else assign.nearest
    return search(X, centers, precision, distances, mode)
