"""Rows in this process: one sequence, of which any rows can be fetched by number."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.arrays.checks import check_weights
from lwcs.arrays.device import followed
from lwcs.arrays.rows import pieces
from lwcs.runtime.parallel import as_threads, ordered_map
from lwcs.sources import base
from lwcs.sources.base import Block, Source, Task, without_dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Rows

_CELLS_OF_A_BLOCK = 2048
# Stretches are long enough that Python between them does not count, and so short that an interrupt
# waits for a moment only and threads end together.
_STRETCH_VALUES = 2**24
_STRETCHES_PER_THREAD = 4

R = TypeVar("R")


class LocalSource(Source):
    """One sequence of rows in this process, cut every 65,536; subclasses read and take."""

    n_rows: int
    weights: FloatArray | None = None
    gives_views: bool = False
    """Whether `read` copies nothing, and gives what compiled kernels read as it is."""

    @property
    def can_take(self) -> bool:
        """Rows in this process can be fetched by number."""
        return True

    @abstractmethod
    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Rows:
        """Return rows start … stop, without a copy where the container allows it."""

    def set_weights(self, weights: Any, name: str) -> None:
        """Check one weight per row, and keep them."""
        self.weights = check_weights(weights, self.n_rows, name)
        self.weighted = True

    def take_runs(
        self, starts: IntArray, stops: IntArray, *, views: bool
    ) -> tuple[Block, IntArray]:
        """Runs of rows start … stop, and where each starts in the block.

        They are copied, unless `views` are wanted and possible: then all rows are in the block.
        """
        if views and self.gives_views:
            return self._block(slice(0, self.n_rows), 0), starts
        lengths = stops - starts
        first = np.cumsum(lengths) - lengths
        rows = np.arange(int(lengths.sum())) + np.repeat(starts - first, lengths)
        weights = None if self.weights is None else self.weights[rows]
        return Block(self.take(rows), weights, 0), first

    @property
    def block_rows(self) -> int:
        """Number of rows per block of this source."""
        return base.block_rows(self.n_features)

    @property
    def cell_rows(self) -> int:
        """Number of rows per cell, the least that sums are kept of: a power of two.

        At most 32, and few enough that all rows of a cell are read for the price of one.
        """
        return self._cell_rows(self.block_rows)

    @staticmethod
    def _cell_rows(block_rows: int) -> int:
        return max(1, block_rows // _CELLS_OF_A_BLOCK)

    def empty(self, dtype: Any) -> Any:
        """Memory for one number per row."""
        return np.empty(self.n_rows, dtype=dtype)

    def followed(self, values: Any) -> Any:
        """One value per row, in the library and on the device of the rows."""
        return followed(values, self.like)

    def stretch_rows(self, n_jobs: int | None) -> int:
        """Number of rows, in whole blocks, that a task may be given at once."""
        if not self.gives_views:
            return self.block_rows
        shared = self.n_rows // (_STRETCHES_PER_THREAD * as_threads(n_jobs))
        rows = min(shared, _STRETCH_VALUES // max(1, self.n_features))
        return max(1, -(-rows // self.block_rows)) * self.block_rows

    @property
    def known_partitions(self) -> int:
        """Number of partitions."""
        return -(-self.n_rows // base.PARTITION_ROWS)

    def estimate_values(self) -> int:
        """Rows times columns."""
        return self.n_rows * self.n_features

    def blocks(self, partition: int) -> Iterator[Block]:
        """Yield the blocks of one partition."""
        first = partition * base.PARTITION_ROWS
        n_rows = min(base.PARTITION_ROWS, self.n_rows - first)
        return (self._block(piece, first) for piece in pieces(n_rows, self.block_rows))

    def all_blocks(self, rows: int | None = None) -> Iterator[Block]:
        """Yield the blocks of all partitions, or `rows` at a time; rows are numbered through."""
        step = self.block_rows if rows is None else rows
        return (self._block(piece, 0) for piece in pieces(self.n_rows, step))

    def blocks_of_part(self) -> Iterator[Block]:
        """All blocks, where these rows are one partition of many."""
        return self.all_blocks()

    def _block(self, piece: slice, first: int) -> Block:
        """The rows of a piece that is counted from row `first` on."""
        start, stop = first + piece.start, first + piece.stop
        weights = None if self.weights is None else self.weights[start:stop]
        return Block(self.read(start, stop), weights, piece.start)

    def each_block(
        self, task: Callable[[Block], R], *, rows: int | None = None, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every block, numbered through, on threads; yield results in order.

        Finer than `gather`, so that few large partitions keep all threads busy. A task that keeps
        to the blocks by itself may be given more `rows` at a time (`stretch_rows`).
        """
        return ordered_map(task, self.all_blocks(rows), n_jobs)

    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every partition, on threads."""
        partitions = range(self.known_partitions)
        told = partitions if items is None else items
        return ordered_map(lambda i: task(self.blocks(i), told[i]), partitions, n_jobs)

    def map_rows(
        self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None
    ) -> DenseRows:
        """Compute one value per row, as an array."""
        values, done = np.empty(0), 0
        # Put together while further blocks are computed.
        for part in self.each_block(
            lambda block: without_dropped(task(block), block), n_jobs=n_jobs
        ):
            if not done:
                values = np.empty((self.n_rows, *part.shape[1:]), dtype=part.dtype)
            values[done : done + len(part)] = part
            done += len(part)
        return self.followed(values)

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered through all partitions."""
        return partition * base.PARTITION_ROWS, ""
