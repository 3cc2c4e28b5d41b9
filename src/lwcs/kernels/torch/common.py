"""Results of the kernels of a device, and CUDA graphs of steps that are repeated.

Rounds of seeding and iterations of Lloyd run as graphs: to launch their kernels one by one takes
several times as long as to run them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


Tensor: TypeAlias = Any
"""A torch tensor; torch may not be installed where mypy runs, so its types are not used."""

Mode: TypeAlias = Literal["tf32x3", "tf32"]


class ScanSums(NamedTuple):
    """The sums of a scan around a pivot, over all rows and over cells of rows."""

    shift: Tensor
    """Σω(x − pivot) per column."""
    cost: Tensor
    """Σω·d(x, pivot), without dimensions."""
    cells: Tensor
    """Σω·d(x, pivot) of every cell."""


class RowScan(NamedTuple):
    """The distance of every row to a pivot, and the sums of a scan around it."""

    distances: Tensor
    shift: Tensor
    cost: Tensor


class Nearest(NamedTuple):
    """The nearest center of every row, −1 for a row that is not finite."""

    labels: Tensor
    distances: Tensor | None
    n_unclear: Tensor
    """How many rows were decided by differences; without dimensions."""


@cache
def _multiprocessors(index: int) -> int:
    return int(torch.cuda.get_device_properties(index).multi_processor_count)


def programs(X: Tensor, each: int) -> int:
    """`each` for every multiprocessor; a few in the interpreter, which runs on the CPU."""
    return each * _multiprocessors(X.device.index) if X.is_cuda else 3


# Calls before a capture: the first one compiles kernels, and a capture takes as long as a few more.
_PLAIN_CALLS = 3
# Fits in different threads must not capture at the same time.
_ONE_AT_A_TIME = Lock()
_FAILED: list[Any] = []


def captured(step: Callable[[], None], times: int = 1) -> Any:
    """Capture steps as a graph; `torch.cuda.graph` would also empty the cache of the allocator."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with _ONE_AT_A_TIME, torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(times):
                step()
        except BaseException:
            # The process would end if a graph whose capture has failed were destroyed.
            _FAILED.append(graph)
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


class Replayed:
    """A step that reads and writes the same tensors every time, and never waits for the device."""

    def __init__(self, step: Callable[[], None], like: Tensor, *, allowed: bool = True) -> None:
        self._step, self._like, self._calls = step, like, 0
        self._allowed = allowed and like.is_cuda
        self._graph: Any = None

    def __call__(self) -> None:
        """Run the step once."""
        self._calls += 1
        with torch.cuda.device_of(self._like):
            if self._allowed and self._graph is None and self._calls > _PLAIN_CALLS:
                try:
                    self._graph = captured(self._step)
                except torch.OutOfMemoryError:
                    # A graph has memory of its own.
                    self._allowed = False
            if self._graph is None:
                self._step()
            else:
                self._graph.replay()
