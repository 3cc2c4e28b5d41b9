"""The kernels in NumPy and BLAS: the reference of the tests, and the fallback without a library."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from lwcs.kernels.numpy.bits import as_rows, hash_sums
from lwcs.kernels.numpy.scans import (
    closer,
    cluster_sums,
    distances,
    hit_rows,
    moments,
    own_distances,
    scan,
    scan_cells,
)

if TYPE_CHECKING:
    from lwcs.kernels.protocol import KernelName, TiledKernels

name: KernelName = "numpy"
description = "numpy"
shares_calls = False
reads_runs = False
tiled: TiledKernels | None = None


def team(threads: int) -> AbstractContextManager[None]:
    """None: BLAS has threads of its own."""
    del threads
    return nullcontext()


__all__ = [
    "as_rows", "closer", "cluster_sums", "description", "distances", "hash_sums", "hit_rows",
    "moments", "name", "own_distances", "reads_runs", "scan", "scan_cells", "shares_calls",
    "team", "tiled",
]  # fmt: skip
