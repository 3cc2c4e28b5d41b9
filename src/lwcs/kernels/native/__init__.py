"""The kernels in C++ (`core/`), called by ctypes; float64 sums, without the GIL.

Rows are read in the type that they have: half precision and integers of eight bits are converted in
the processor's cache. Sums are taken in an order that no instruction set changes, so that the same
seed gives the same coreset on every x86-64 processor. NaN and infinity propagate through every sum:
that is how bad values are found without a search.

A call is shared by the team of threads that its Python thread has (`team`), if it has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lwcs.kernels.native import tiles
from lwcs.kernels.native.arguments import CORE
from lwcs.kernels.native.bits import as_rows, hash_sums
from lwcs.kernels.native.scans import (
    closer,
    cluster_sums,
    distances,
    hit_rows,
    moments,
    own_distances,
    scan,
    scan_cells,
)
from lwcs.kernels.native.teams import team

if TYPE_CHECKING:
    from lwcs.kernels.protocol import KernelName, TiledKernels

INSTRUCTION_SET: str = CORE.instruction_set

name: KernelName = "native"
description = f"native, {INSTRUCTION_SET}"
shares_calls = True
reads_runs = True
tiled: TiledKernels | None = tiles

__all__ = [
    "INSTRUCTION_SET", "as_rows", "closer", "cluster_sums", "description", "distances",
    "hash_sums", "hit_rows", "moments", "name", "own_distances", "reads_runs", "scan",
    "scan_cells", "shares_calls", "team", "tiled",
]  # fmt: skip
