"""The kernels for rows on a device, in torch, and in Triton where it is faster.

Their arguments are arrays of the host or of a device. `operations` are the same over tensors alone:
they never wait for the device, so their signatures differ, and samplers and solvers call them where
a wait would cost more than the work.
"""

from __future__ import annotations

from lwcs.kernels.torch.scans import (
    closer,
    cluster_sums,
    distances,
    hit_rows,
    moments,
    own_distances,
    scan,
    scan_cells,
)

__all__ = [
    "closer", "cluster_sums", "distances", "hit_rows", "moments", "own_distances", "scan",
    "scan_cells",
]  # fmt: skip
