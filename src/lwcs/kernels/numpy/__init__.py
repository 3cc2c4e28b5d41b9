"""The kernels in NumPy and BLAS: the reference of the tests, and the fallback without a library."""

from __future__ import annotations

from lwcs.kernels.numpy.csr import SparsePivot, distances_sparse, moments_sparse, scan_sparse
from lwcs.kernels.numpy.scans import (
    cell_sums,
    closer,
    cluster_sums,
    cross,
    keep_closer,
    moments,
    own_distances,
    scan,
    scan_cells,
    second_best,
    weighted_sum,
)

__all__ = [
    "SparsePivot",
    "cell_sums",
    "closer",
    "cluster_sums",
    "cross",
    "distances_sparse",
    "keep_closer",
    "moments",
    "moments_sparse",
    "own_distances",
    "scan",
    "scan_cells",
    "scan_sparse",
    "second_best",
    "weighted_sum",
]
