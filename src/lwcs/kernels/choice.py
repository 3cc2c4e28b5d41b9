"""Which kernels are used."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs.arrays.checks import check_choice
from lwcs.kernels import portable

if TYPE_CHECKING:
    from types import ModuleType

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Rows


KernelName = Literal["portable", "compiled"]

# Loading numba and the cached kernels takes about half a second per process; the compiled
# kernels are then about ten times faster. Below this many values there is too little to gain.
COMPILED_FROM = 2**23


def choose(n_values: int) -> KernelName:
    """Name the kernel for data of `n_values` numbers; ``LWCS_KERNEL`` overrules."""
    wish = os.environ.get("LWCS_KERNEL", "auto")
    check_choice(wish, "LWCS_KERNEL", ("auto", "portable", "compiled", "device"))
    if wish == "portable" or (wish != "compiled" and n_values < COMPILED_FROM):
        return "portable"
    return "compiled" if module_of("compiled") is not portable else "portable"


@cache
def module_of(name: KernelName) -> ModuleType:
    """The kernels of a name; the portable ones where there is no numba."""
    if name == "compiled":
        try:
            from lwcs.kernels import compiled
        except ImportError:
            return portable
        return compiled
    return portable


def is_compiled(kernel: KernelName) -> bool:
    """Whether a kernel has compiled loops; without numba, none has."""
    return module_of(kernel) is not portable


_ONES = np.ones(65_536)
_ONES.flags.writeable = False


def unit_weights(weights: FloatArray | None, n_rows: int) -> FloatArray:
    """Give the weights themselves, or ones where there are none."""
    if weights is not None:
        return weights
    return _ONES[:n_rows] if n_rows <= len(_ONES) else np.ones(n_rows)


def csr(points: Any) -> tuple[DenseRows, IntArray, IntArray]:
    """The three arrays of CSR rows."""
    return as_floats(points.data), points.indices, points.indptr


def as_floats(points: Rows) -> DenseRows:
    """Make a block what the kernels read: float32 or float64, row after row in memory."""
    dtype = points.dtype if points.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(points, dtype=dtype)
