"""The hot loops over a block of rows: distances, moments, cluster sums, scores.

`protocol` says what they do. `native` is a shared library in C++, which is loaded in a millisecond;
`numpy` uses NumPy and BLAS, is written against the array API standard, is the reference for the
tests, and serves where no library was built, several times slower; `torch` is for rows on a device.
`choose` names one of the first two, so that every block and every retry of a build goes through the
same arithmetic. A `Geometry` holds the name, which can be sent to other processes.
"""

from __future__ import annotations

import os
from functools import cache

from lwcs.arrays.checks import check_choice
from lwcs.kernels import numpy as portable
from lwcs.kernels.numpy.scans import (
    cell_sums,
    cross,
    keep_closer,
    second_best,
    unit_weights,
    weighted_sum,
)
from lwcs.kernels.protocol import (
    BlockMoments,
    BlockScans,
    Hits,
    HostKernels,
    KernelName,
    Kernels,
    Pivot,
    Scan,
    TiledKernels,
)


def choose() -> KernelName:
    """Name the kernels of this process; ``LWCS_KERNEL`` overrides the choice."""
    setting = os.environ.get("LWCS_KERNEL", "auto")
    check_choice(setting, "LWCS_KERNEL", ("auto", "numpy", "native", "device"))
    return named("numpy" if setting == "numpy" else "native").name


@cache
def named(name: KernelName) -> HostKernels:
    """The kernels with a name; those of NumPy if there are no native ones."""
    if name == "native":
        try:
            from lwcs.kernels import native
        except ImportError:
            return portable
        return native
    return portable


__all__ = [
    "BlockMoments", "BlockScans", "Hits", "HostKernels", "KernelName", "Kernels", "Pivot",
    "Scan", "TiledKernels", "cell_sums", "choose", "cross", "keep_closer", "named",
    "second_best", "unit_weights", "weighted_sum",
]  # fmt: skip
