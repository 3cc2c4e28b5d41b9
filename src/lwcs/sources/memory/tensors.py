"""Rows in a tensor on a device, and a view of them for algorithms that run on the host.

Blocks are far larger than on the host: a kernel needs no memory per row except for its results, and
launching one takes as long as reading a million values. Partitions are the same as for other rows
in memory, so that the same rows are drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.arrays.checks import check_weights
from lwcs.arrays.device import DeviceArray, on_device, rows_of
from lwcs.sources import base
from lwcs.sources.base import Block, Task
from lwcs.sources.memory.local import LocalSource
from lwcs.sources.scan_options import check_dtype, check_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows, IntArray
    from lwcs.kernels import KernelName

# A block is read in about 0.5 ms, and compared with a thousand centers in 7 ms.
_BLOCK_VALUES = 2**29

R = TypeVar("R")


class DeviceSource(LocalSource):
    """A two-dimensional tensor on a device; blocks are views of it."""

    feature_names = None
    dropping = "X[~X.isnan().any(axis=1)]"

    def __init__(self, array: DeviceArray) -> None:
        check_dtype(array.dtype)
        check_shape(array.shape)
        self.array = array
        self.dtype = array.dtype
        self.n_rows, self.n_features = array.shape

    @property
    def block_rows(self) -> int:
        """Number of rows per block: whole partitions."""
        partitions = _BLOCK_VALUES // (base.PARTITION_ROWS * max(1, self.n_features))
        return base.PARTITION_ROWS * max(1, partitions)

    @property
    def cell_rows(self) -> int:
        """Number of rows per cell, as on the host, so that the same rows are drawn."""
        return self._cell_rows(base.block_rows(self.n_features))

    def read(self, start: int, stop: int) -> Any:
        """Return a view."""
        return self.array[start:stop]

    def take(self, rows: IntArray) -> Any:
        """Copy the requested rows, on the device."""
        return self.array[rows]

    def empty(self, dtype: Any) -> Any:
        """Memory for one number per row, on the device."""
        import torch

        kind = getattr(torch, np.dtype(dtype).name)
        return DeviceArray(torch.empty(self.n_rows, dtype=kind, device=self.array.tensor.device))

    def each_block(
        self,
        task: Callable[[Block], R],
        *,
        rows: int | None = None,
        n_jobs: int | None = None,
        kernel: KernelName = "numpy",
    ) -> Iterator[R]:
        """Run a task over one block after the other, each of which fills the device."""
        del n_jobs, kernel
        return map(task, self.all_blocks(rows))

    def blocks(self, partition: int) -> Iterator[Block]:
        """Yield the rows of one partition, with weights on the host, where draws are dealt."""
        return map(_with_host_weights, super().blocks(partition))

    def blocks_of_part(self) -> Iterator[Block]:
        """All blocks, with weights on the host."""
        return map(_with_host_weights, self.all_blocks())

    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every partition, or over larger blocks if its results are only summed."""
        del n_jobs
        if items is None and getattr(task, "adds_up", False):
            return self.gather_sums(task)
        return super().gather(task, items, n_jobs=1)

    def gather_sums(self, task: Task[R], *, n_jobs: int | None = None) -> Iterator[R]:
        """Run a task over every block, which has many partitions; yield the results."""
        del n_jobs
        return (task(iter([block]), 0) for block in self.all_blocks())

    def map_rows(self, task: Callable[[Block], Any], *, n_jobs: int | None = None) -> Any:
        """Compute one value per row, as a tensor."""
        import torch

        del n_jobs
        parts = [on_device(part, self.array.tensor) for part in self.each_block(task)]
        return self.followed(DeviceArray(parts[0] if len(parts) == 1 else torch.cat(parts)))

    def on_host(self) -> LocalSource:
        """The rows, copied to the host block by block."""
        return HostView(self)

    def set_weights(self, weights: Any, name: str) -> None:
        """Check one weight per row, and copy them to the device."""
        given = rows_of(weights, name)
        if not isinstance(given, DeviceArray):
            checked = check_weights(given, self.n_rows, name)
            self.weights: Any = DeviceArray(on_device(checked, self.array.tensor))
            self.weighted = True
            return
        if given.tensor.device != self.array.tensor.device:
            raise ValueError(
                f"{name} is on the device {str(given.tensor.device)!r} but X is on "
                f"{str(self.array.tensor.device)!r}; bring both to one device, for example "
                f"{name}.to(X.device)"
            )
        import torch

        tensor = given.tensor.to(torch.float64)
        if given.shape != (self.n_rows,) or not bool((tensor >= 0).all() & tensor.sum().isfinite()):
            # The check on the host names the error.
            check_weights(np.asarray(given), self.n_rows, name)
        self.weights, self.weighted = DeviceArray(tensor), True


def _with_host_weights(block: Block) -> Block:
    return block if block.weights is None else replace(block, weights=np.asarray(block.weights))


class HostView(LocalSource):
    """Rows of a tensor on a device, read on the host."""

    feature_names = None

    def __init__(self, source: DeviceSource) -> None:
        self._source, self.like, self.scale = source, source.like, source.scale
        self.n_rows, self.n_features = source.n_rows, source.n_features
        self.dtype, self.weighted = source.dtype, source.weighted
        self.weights = None if source.weights is None else np.asarray(source.weights)

    def read(self, start: int, stop: int) -> DenseRows:
        """Copy a block from the device."""
        return np.asarray(self._source.read(start, stop))

    def take(self, rows: IntArray) -> DenseRows:
        """Copy the requested rows from the device."""
        return np.asarray(self._source.take(rows))
