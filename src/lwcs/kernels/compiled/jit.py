"""How kernels are compiled, and kept on disk.

The first use in an environment compiles for about 20 seconds, which is said once per process;
`lwcs warmup` does it ahead. A cache that cannot be read or written, on a full disk for example,
costs that time again in every process, and never fails a job.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numba
from numba.core import caching

from lwcs.runtime.warnings import COMPILING, LOG, decided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REASSOCIATE = {"reassoc", "contract"}
"""Sums may be taken in another order, which is what lets LLVM use vector registers."""
_FunctionCache: Any = caching.FunctionCache  # numba has no types


class _Cache(_FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, which does without the disk where that fails."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load what was compiled for a signature; say so where that is still to be done."""
        found = super().load_overload(sig, target_context)
        if found is None:
            say_once()
        return found

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            decided("cache", "compiled kernels are not kept in %s: %s", self.cache_path, error)


@cache
def say_once() -> None:
    """Log that kernels are compiled, the first time in a process."""
    LOG.info(
        "compiling kernels, once per environment: about 20 seconds (`lwcs warmup` does it ahead)",
        extra={"event": COMPILING},
    )


def jit(*, fastmath: Any = False) -> Callable[[Any], Any]:
    """`numba.njit` with an on-disk cache where there is a place to write one."""

    def decorate(function: Any) -> Any:
        compiled: Any = numba.njit(nogil=True, fastmath=fastmath)(function)
        try:
            compiled._cache = _Cache(function)
        except RuntimeError as error:  # no folder that can be written
            decided("cache", "compiled kernels are not kept: %s", error)
        return compiled

    return decorate
