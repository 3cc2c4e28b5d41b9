"""How kernels are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

REASSOCIATE = {"reassoc", "contract"}
"""Sums may be taken in another order, which is what lets LLVM use vector registers."""


def jit(*, fastmath: Any = False) -> Callable[[Any], Any]:
    """`numba.njit` with an on-disk cache where there is a place to write one."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, fastmath=fastmath)(function)
        except RuntimeError:  # no writable cache folder
            return numba.njit(nogil=True, fastmath=fastmath)(function)

    return decorate
