"""The kernels in C++ (`core/`), with the signatures of `numpy`; float64 sums, without the GIL.

Rows are read in the type that they have: half precision and integers of eight bits are converted in
the processor's cache. Sums are taken in an order that no instruction set changes, so that the same
seed gives the same coreset on every x86-64 processor. NaN and infinity propagate through every sum:
that is how bad values are found without a search.

A call is shared by the team of threads that its Python thread has (`team`), if it has one.
"""

from __future__ import annotations

from lwcs.kernels.native.arguments import CORE
from lwcs.kernels.native.bits import SIDE, as_rows, hash_sums
from lwcs.kernels.native.csr import (
    best_scores_sparse,
    distances_sparse,
    hit_rows_sparse,
    moments_sparse,
    scan_sparse,
)
from lwcs.kernels.native.labels import TILE, Tiles, nearest
from lwcs.kernels.native.scans import (
    closer,
    cluster_sums,
    hit_rows,
    moments,
    own_distances,
    scan,
    scan_cells,
)
from lwcs.kernels.native.seeding_rounds import TiledSeeding, first_swap
from lwcs.kernels.native.teams import team

INSTRUCTION_SET: str = CORE.instruction_set

__all__ = [
    "INSTRUCTION_SET",
    "SIDE",
    "TILE",
    "TiledSeeding",
    "Tiles",
    "as_rows",
    "best_scores_sparse",
    "closer",
    "cluster_sums",
    "distances_sparse",
    "first_swap",
    "hash_sums",
    "hit_rows",
    "hit_rows_sparse",
    "moments",
    "moments_sparse",
    "nearest",
    "own_distances",
    "scan",
    "scan_cells",
    "scan_sparse",
    "team",
]
