"""Assembly of blocks from batches of rows, within one budget of memory.

Rows that arrive in batches of any size are cut into the same blocks as rows in memory (`Pass`,
`Pending`, `Filling`). Meanwhile they are held in several places: parts of files are decoded before
their turn, batches are cut into partitions, and partitions wait for a thread. Each of these has a
share of one limit (`Budget`), so that memory does not grow with the number of threads or the size
of row groups; a dataset of pyarrow would hold several whole row groups.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from lwcs.arrays.rows import is_sparse, scaled_by, stack, with_ones
from lwcs.runtime.parallel import usable_cores
from lwcs.runtime.warnings import decided
from lwcs.sources import base
from lwcs.sources.base import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

    from lwcs.arrays.types import DenseRows, FloatArray, Mask, Rows
    from lwcs.sources.base import Block


_LEAST, _PER_CORE = 2**30, 256 * 2**20
_LARGEST_BATCH = 32 * 2**20
_SHARE = 4
"""Blocks or partitions in flight get this part of the limit: allocators take as much again."""
_PIECES = 3
"""Minimum number of pieces in flight: one is being cut, one waits, one is computed with."""


class Flight(NamedTuple):
    """Maximum number of pieces of the rows, blocks or partitions, that are in memory at once."""

    ahead: int
    """Pieces that wait for a thread."""
    at_once: int
    """Pieces that threads compute with, or have finished before their turn."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of memory in bytes, and the shares of it."""

    limit: int

    @classmethod
    def of(cls, memory_limit: int | None) -> Budget:
        """The budget for a limit; by default, one gigabyte, or more on machines with many cores."""
        if memory_limit is not None:
            return cls(memory_limit)
        return cls(max(_LEAST, _PER_CORE * usable_cores()))

    @property
    def ahead(self) -> int:
        """Bytes of small parts of files that are decoded before their turn."""
        return self.limit // 16

    @property
    def fetched(self) -> int:
        """Bytes of large row groups that are fetched ahead from a store.

        One that is larger takes many times the requests: windows of all columns, in turns.
        """
        return self.limit // 4

    @property
    def small(self) -> int:
        """Bytes of a part that is read as a whole."""
        return min(_LARGEST_BATCH, self.ahead // 2)

    @property
    def batch(self) -> int:
        """Bytes of a batch."""
        return min(_LARGEST_BATCH, self.limit // 32)

    def flight(self, size: int, threads: int) -> Flight | None:
        """Number of pieces of `size` bytes that may be in flight; None if they are too large."""
        fitting = self.limit // _SHARE // max(1, size)
        if fitting < _PIECES:
            return None
        # One is being cut; the others wait for a thread or are computed with.
        ahead = 2 if fitting >= 2 * _PIECES else 1
        return Flight(ahead, min(2 * threads, fitting - 1 - ahead))

    @staticmethod
    def least(block: int) -> int:
        """The smallest limit for blocks of `block` bytes."""
        return _SHARE * _PIECES * block


class Batch(Protocol):
    """Consecutive rows, in the form in which they arrive."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def beside(self) -> Any:
        """The record batch of columns that are kept beside the rows, or None."""

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy rows start … stop into an array."""

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """Weights of these rows, or None if they have none."""

    def missing(self, start: int, stop: int) -> Mask | None:
        """Which of these rows are to be dropped, or None if no row is."""


@dataclass(frozen=True, slots=True)
class ArrayBatch:
    """Rows of an array, dense or CSR."""

    points: Rows
    n_rows: int
    given: FloatArray | None = None
    """Weights of the rows."""
    gone: Mask | None = None
    """Rows that are dropped; their values have been replaced."""
    beside: None = None

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy some rows."""
        out[...] = self.points[start:stop]

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """The weights that were given."""
        return None if self.given is None else self.given[start:stop]

    def missing(self, start: int, stop: int) -> Mask | None:
        """The rows that are dropped, if there are any."""
        if self.gone is None or not self.gone[start:stop].any():
            return None
        return self.gone[start:stop]


class Filling:
    """A block that is being filled from batches."""

    def __init__(self, n_rows: int, n_features: int, dtype: np.dtype[Any]) -> None:
        self._room, self._shape, self.n_rows = n_rows, (n_rows, n_features), 0
        self._dtype = dtype
        self._dense: DenseRows | None = None
        self._sparse: list[Rows] = []
        self._n_sparse = 0
        self._weights: FloatArray | None = None
        self._dropped: Mask | None = None
        self._written = [0]
        """Number of rows in the arrays, written by this block or a fork of it."""

    def fork(self, dtype: np.dtype[Any] | None = None) -> Filling:
        """A second block with the rows so far, in another dtype if one is given.

        The rows are shared, and copied only if both blocks are filled further. So a batch can be
        tried out without copying all rows that wait, and leaves no trace if it is refused.
        """
        other = object.__new__(Filling)
        vars(other).update(vars(self))
        if dtype is not None and dtype != self._dtype:
            other._dtype = dtype
            other._own()
        return other

    def __getstate__(self) -> dict[str, Any]:
        # Only the rows so far, without the memory for further ones.
        state, n = vars(self).copy(), self.n_rows
        del state["_written"]
        for name in ("_dense", "_weights", "_dropped"):
            state[name] = None if state[name] is None else state[name][:n]
        return state | {"_sparse": self._sparse[: self._n_sparse]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._own()

    def _own(self) -> None:
        """Copy the rows so far into arrays that are not shared with another block."""
        n, self._written = self.n_rows, [self.n_rows]
        self._sparse = self._sparse[: self._n_sparse]
        if self._dense is not None:
            own = np.empty(self._shape, dtype=self._dtype)
            own[:n] = self._dense[:n]
            self._dense = own
        if self._weights is not None:
            self._weights = np.concatenate([self._weights[:n], np.ones(self._room - n)])
        if self._dropped is not None:
            rest = np.zeros(self._room - n, dtype=bool)
            self._dropped = np.concatenate([self._dropped[:n], rest])

    def take(self, batch: Batch, start: int, stop: int) -> int:
        """Append rows of a batch; return how many of them were dropped."""
        if self._written[0] != self.n_rows:
            self._own()
        part = slice(self.n_rows, self.n_rows + stop - start)
        self._written[0] = part.stop
        if isinstance(batch, ArrayBatch) and is_sparse(batch.points):
            self._sparse.append(batch.points[start:stop])
            self._n_sparse += 1
        else:
            if self._dense is None:
                self._dense = np.empty(self._shape, dtype=self._dtype)
            batch.write(start, stop, self._dense[part])
        weights, missing = batch.weights(start, stop), batch.missing(start, stop)
        if weights is not None or missing is not None:
            if self._weights is None:
                self._weights = np.ones(self._room)
            if weights is not None:
                self._weights[part] = weights
            if missing is not None:
                # A dropped row keeps its number, but with weight 0 it is never drawn. Its values
                # become ones, which every divergence is defined for.
                if self._dropped is None:
                    self._dropped = np.zeros(self._room, dtype=bool)
                self._dropped[part] = missing
                self._weights[part][missing] = 0.0
                if self._dense is not None:
                    self._dense[part][missing] = 1.0
        self.n_rows = part.stop
        return 0 if missing is None else int(missing.sum())

    @property
    def weighted(self) -> bool:
        """Whether any of the rows has a weight."""
        return self._weights is not None

    def block(self, first_row: int) -> Block:
        """A block of the rows so far."""
        weights = None if self._weights is None else self._weights[: self.n_rows]
        dropped = None if self._dropped is None else self._dropped[: self.n_rows]
        if self._n_sparse:
            return Block(stack(self._sparse[: self._n_sparse]), weights, first_row, dropped)
        assert self._dense is not None
        return Block(self._dense[: self.n_rows], weights, first_row, dropped)


@dataclass(slots=True)
class RowOrigins:
    """The files that rows came from: their names and first row numbers."""

    starts: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def enter(self, name: str, first_row: int) -> None:
        """Note that the rows from `first_row` on come from the file `name`."""
        if not self.names or self.names[-1] != name:
            if name:
                decided("file", "%s, from row %d on", name, first_row)
            self.starts.append(first_row)
            self.names.append(name)

    def find(self, row: int) -> tuple[int, str]:
        """First row number of the file that a row is in, and the file's name for a message."""
        at = bisect_right(self.starts, row) - 1
        if at < 0 or not self.names[at]:
            return 0, ""
        return self.starts[at], f" of {self.names[at]}"

    def cut(self, start: int, stop: int) -> Iterator[tuple[str, int, int, int]]:
        """Yield the files of rows start … stop: name, first and last row, rows before the file."""
        while start < stop:
            at = bisect_right(self.starts, start) - 1
            end = self.starts[at + 1] if at + 1 < len(self.starts) else stop
            yield self.names[at], start, min(stop, end), self.starts[at]
            start = end


class Pass:
    """One pass over rows: cuts them, remembers where they came from, counts dropped rows."""

    def __init__(
        self,
        n_features: int,
        dtype: np.dtype[Any],
        on_drop: Callable[[int], None] | None = None,
        on_first: Callable[[Block], None] | None = None,
    ) -> None:
        self.n_features, self.dtype = n_features, dtype
        self.places = RowOrigins()
        self.n_rows = 0
        """Number of rows that were read so far."""
        self._dropped, self._on_drop, self._lock = 0, on_drop, threading.Lock()
        self.factors: FloatArray | None = None
        """What rows are multiplied by, column by column."""
        self.on_first = on_first
        """Called with the very first block, once it is assembled."""

    def cut(self, batches: Iterable[tuple[str, Batch]]) -> Iterator[Pending]:
        """Cut batches, each with the name of its file, into blocks."""
        step = base.block_rows(self.n_features)
        filling: Pending | None = None
        for name, batch in batches:
            self.places.enter(name, self.n_rows)
            start = 0
            while start < batch.n_rows:
                if filling is None:
                    filling = Pending(self, *divmod(self.n_rows, base.PARTITION_ROWS))
                taken = min(step - filling.n_rows, batch.n_rows - start)
                filling.add(batch, start, start + taken)
                start, self.n_rows = start + taken, self.n_rows + taken
                if filling.n_rows == step:
                    yield filling
                    filling = None
        if filling is not None:
            yield filling

    def count_dropped(self, rows: int) -> None:
        """Add to the number of dropped rows, and call `on_drop` with it."""
        if rows and self._on_drop is not None:
            # Blocks are assembled on several threads.
            with self._lock:
                self._dropped += rows
                self._on_drop(self._dropped)


@dataclass(slots=True)
class Pending:
    """A block before it is assembled: which rows of which batches it consists of.

    The thread that computes with it assembles it, so that the reading thread need not.
    """

    within: Pass
    partition: int
    first_row: int
    """Row number of the first row in its partition."""
    n_rows: int = 0
    parts: list[tuple[Batch, int, int]] = field(default_factory=list)

    @property
    def first_of_all(self) -> int:
        """Row number of the first row, counted through all partitions."""
        return self.partition * base.PARTITION_ROWS + self.first_row

    def add(self, batch: Batch, start: int, stop: int) -> None:
        """Append rows start … stop of a batch."""
        self.parts.append((batch, start, stop))
        self.n_rows += stop - start

    def block(self) -> Block:
        """Assemble the block by copying the rows."""
        filling = Filling(self.n_rows, self.within.n_features, self.within.dtype)
        self.within.count_dropped(sum(filling.take(*part) for part in self.parts))
        block = replace(filling.block(self.first_row), beside=self._beside())
        if self.within.on_first is not None and not self.first_of_all:
            self.within.on_first(block)
        if (factors := self.within.factors) is None:
            return block
        points = scaled_by(block.points, factors)
        if block.dropped is not None:
            points = with_ones(points, block.dropped)
        return replace(block, points=points)

    def _beside(self) -> Any:
        """The kept columns of these rows, or None if none are kept."""
        kept = [b.beside.slice(i, j - i) for b, i, j in self.parts if b.beside is not None]
        if not kept:
            return None
        import pyarrow as pa

        return pa.Table.from_batches(kept)
