"""The kernels in numba: single-threaded, without the GIL, compiled on first use.

Sums may be reassociated, which lets LLVM use vector registers, so they agree with `portable` to
rounding, and repeat bit for bit. NaN and infinity still propagate through every sum: that is how
bad values are found without a search.
"""

from __future__ import annotations

from lwcs.kernels.compiled import seeding_rounds
from lwcs.kernels.compiled.csr import (
    best_scores_sparse,
    distances_sparse,
    hit_rows_sparse,
    moments_sparse,
    scan_sparse,
)
from lwcs.kernels.compiled.scans import closer, hit_rows, moments, scan, scan_cells
from lwcs.kernels.compiled.tiles import assign, cluster_sums, nearest, own_distances, second_best

__all__ = [
    "assign",
    "best_scores_sparse",
    "closer",
    "cluster_sums",
    "distances_sparse",
    "hit_rows",
    "hit_rows_sparse",
    "moments",
    "moments_sparse",
    "nearest",
    "own_distances",
    "scan",
    "scan_cells",
    "scan_sparse",
    "second_best",
    "seeding_rounds",
]
