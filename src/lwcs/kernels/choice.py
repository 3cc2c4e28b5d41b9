"""Which kernels are used."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Literal

from lwcs.foundation.checks import check_choice
from lwcs.kernels import portable

if TYPE_CHECKING:
    from types import ModuleType

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
