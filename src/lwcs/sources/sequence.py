"""Rows that come one after the other: files and streams, read in order, never held as a whole.

Whatever batches they come in, rows are cut into the same partitions and blocks as rows in
memory, so that the same rows give the same coreset to the last bit.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.parallel import ordered_map, prefetch
from lwcs.foundation.types import is_sparse
from lwcs.kernels import COMPILED_FROM
from lwcs.sources import base
from lwcs.sources.base import Block, Source, Task, block_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.foundation.types import DenseRows, FloatArray, Mask, Rows


class Batch(Protocol):
    """Some rows, as they come."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy rows start … stop into an array."""

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """Their weights, if there are any."""

    def missing(self, start: int, stop: int) -> Mask | None:
        """Which of them are to be left out, if any."""


@dataclass(frozen=True, slots=True)
class ArrayBatch:
    """Rows of an array, dense or CSR."""

    points: Rows
    n_rows: int
    given: FloatArray | None = None
    """Their weights."""

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy some rows."""
        out[...] = self.points[start:stop]

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """Those that were given."""
        return None if self.given is None else self.given[start:stop]

    def missing(self, start: int, stop: int) -> Mask | None:
        """None is left out."""
        del start, stop
        return None


@dataclass(slots=True)
class Places:
    """Where rows came from: the first row number of each file, and its name."""

    starts: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def enter(self, name: str, first_row: int) -> None:
        """Note that rows from `first_row` on are from here."""
        if not self.names or self.names[-1] != name:
            self.starts.append(first_row)
            self.names.append(name)

    def find(self, row: int) -> tuple[int, str]:
        """First row number of the place that a row is in, and its name."""
        at = bisect_right(self.starts, row) - 1
        if at < 0 or not self.names[at]:
            return 0, ""
        return self.starts[at], f" of {self.names[at]}"


@dataclass(slots=True)
class Pending:
    """A block of the grid before it is put together: which rows of which batches.

    Whoever computes with it puts it together, so that the thread that reads need not.
    """

    source: SequenceSource
    partition: int
    first_row: int
    """In its partition."""
    n_rows: int = 0
    parts: list[tuple[Batch, int, int]] = field(default_factory=list)

    @property
    def first_of_all(self) -> int:
        """Row number of its first row, counted through all partitions."""
        return self.partition * base.PARTITION_ROWS + self.first_row

    def add(self, batch: Batch, start: int, stop: int) -> None:
        """Append rows of a batch."""
        self.parts.append((batch, start, stop))
        self.n_rows += stop - start

    def block(self) -> Block:
        """Copy the rows together."""
        filling = Filling(self.n_rows, self.source.n_features, self.source.dtype)
        self.source.count_dropped(sum(filling.take(*part) for part in self.parts))
        return filling.block(self.first_row)


_CHANGED = "the rows changed between two passes over them"


def without_dropped(values: DenseRows, block: Block) -> DenseRows:
    """A row that was left out has no label: −1."""
    if block.dropped is not None:
        values[block.dropped] = -1
    return values


class SequenceSource(Source, ABC):
    """Rows in an order, cut every 65,536; subclasses give batches, and say if they do so again."""

    rereadable = True
    dtype: np.dtype[Any]
    skipped: tuple[str, ...] = ()
    """Columns that are no numbers, and were left out."""
    in_flight = 2
    """Partitions that are read ahead."""

    def __init__(self) -> None:
        self.places = Places()
        self._held: list[tuple[str, Batch]] = []
        self._reading: Iterator[tuple[str, Batch]] | None = None
        self._is_much = self._is_read = False
        self._lock, self._dropped_now = threading.Lock(), 0

    @abstractmethod
    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Read the rows once: batches, each with the name of its file, if it has one."""

    @property
    def n_values(self) -> int:
        """Rows times columns; where that is unknown, enough to tell which kernel pays."""
        if self.n_rows is None and not self._is_much:
            self._peek()
        return COMPILED_FROM if self.n_rows is None else self.n_rows * self.n_features

    def _peek(self) -> None:
        """Read until it is clear whether this is much data; what cannot be reread is held."""
        rows, reading = 0, self.batches() if self.rereadable else self._once()
        for each in reading:
            if not self.rereadable:
                self._held.append(each)
            rows += each[1].n_rows
            if rows * self.n_features >= COMPILED_FROM:
                self._is_much = True
                return
        self.n_rows = rows

    def _once(self) -> Iterator[tuple[str, Batch]]:
        if self._reading is None:
            # By a thread of its own: a pipe may say nothing, and an interrupt must get through.
            self._reading = prefetch(self.batches(), 1)
        return self._reading

    def _read(self) -> Iterator[tuple[str, Batch]]:
        if self.rereadable:
            yield from self.batches()
            return
        if self._is_read:
            raise ValueError(
                "these rows came once, and were read already; scan them anew, or keep them in a "
                "file that can be read again"
            )
        self._is_read = True
        held, self._held = self._held, []
        yield from held
        yield from self._once()

    @property
    def n_partitions(self) -> int:
        """How many partitions there are; rows are counted if nobody has read them yet."""
        if self.n_rows is None:
            if not self.rereadable:
                raise ValueError("how many rows there are is not known before they are read")
            self.n_rows = sum(batch.n_rows for _, batch in self.batches())
        return -(-self.n_rows // base.PARTITION_ROWS)

    @property
    def known_partitions(self) -> int | None:
        """The same, where it is known without reading."""
        return None if self.n_rows is None else self.n_partitions

    def pending(self) -> Iterator[Pending]:
        """Read all rows, cut on the fixed grid."""
        step, done = block_rows(self.n_features), 0
        self.places, self._dropped_now = Places(), 0
        filling: Pending | None = None
        for name, batch in self._read():
            self.places.enter(name, done)
            start = 0
            while start < batch.n_rows:
                if filling is None:
                    filling = Pending(self, *divmod(done, base.PARTITION_ROWS))
                taken = min(step - filling.n_rows, batch.n_rows - start)
                filling.add(batch, start, start + taken)
                start, done = start + taken, done + taken
                if filling.n_rows == step:
                    yield filling
                    filling = None
        if filling is not None:
            yield filling
        if self.n_rows is not None and done != self.n_rows:
            raise ValueError(
                f"{_CHANGED}: there were {self.n_rows}, and now there are {done}; build again"
            )
        self.n_rows = done
        if done == 0:
            raise ValueError("there are no rows; at least one is needed")

    def count_dropped(self, rows: int) -> None:
        """Note that so many rows of this pass were left out."""
        if rows:
            with self._lock:
                self._dropped_now += rows
                # A task need not look at all rows in every pass; the first one does.
                self.dropped = max(self.dropped, self._dropped_now)
                if self.dropped == self.n_rows:
                    raise ValueError(
                        "every row has a missing value; choose other columns, or fill them"
                    )

    def _chunks(self) -> Iterator[list[Pending]]:
        """The same, partition by partition."""
        return (list(chunk) for _, chunk in groupby(self.pending(), key=lambda p: p.partition))

    def gather(
        self, task: Task[Any], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[Any]:
        """Run a task over every partition, while the next ones are read."""

        def run(chunk: list[Pending]) -> Any:
            partition, blocks = chunk[0].partition, (each.block() for each in chunk)
            if items is None:
                return task(blocks, partition)
            if partition >= len(items):
                raise ValueError(f"{_CHANGED}: there are more of them; build again")
            return task(blocks, items[partition])

        return ordered_map(run, prefetch(self._chunks(), self.in_flight), n_jobs)

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value a row, as an array."""

        def over(blocks: Iterator[Block], partition: int) -> list[DenseRows]:
            with BadValueError.in_partition(partition):
                return [without_dropped(task(block), block) for block in blocks]

        parts = [part for some in self.gather(over, n_jobs=n_jobs) for part in some]
        return np.concatenate(parts) if parts else np.empty(0)

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered through; see also `explaining`."""
        return partition * base.PARTITION_ROWS, ""

    def explain(self, bad: BadValueError) -> ValueError:
        """Name the file, and the row in it."""
        first = bad.partition * base.PARTITION_ROWS
        start, where = self.places.find(first + bad.row)
        return bad.explained(first - start, where, self.feature_names)

    def explain_row(self, bad: BadValueError) -> ValueError:
        """Rows are counted through anyway."""
        return self.explain(bad)


class Filling:
    """A block while it is filled from batches."""

    def __init__(self, n_rows: int, n_features: int, dtype: np.dtype[Any]) -> None:
        self._room, self._shape, self.n_rows = n_rows, (n_rows, n_features), 0
        self._dtype = dtype
        self._dense: DenseRows | None = None
        self._sparse: list[Rows] = []
        self._weights: FloatArray | None = None
        self._dropped: Mask | None = None

    def take(self, batch: Batch, start: int, stop: int) -> int:
        """Append rows of a batch; return how many of them were left out."""
        part = slice(self.n_rows, self.n_rows + stop - start)
        if isinstance(batch, ArrayBatch) and is_sparse(batch.points):
            self._sparse.append(batch.points[start:stop])
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
                # Without weight it is never drawn and counts for nothing; its number stays. It is
                # ones, which every divergence takes, and every direction.
                if self._dropped is None:
                    self._dropped = np.zeros(self._room, dtype=bool)
                self._dropped[part] = missing
                self._weights[part][missing] = 0.0
                assert self._dense is not None
                self._dense[part][missing] = 1.0
        self.n_rows = part.stop
        return 0 if missing is None else int(missing.sum())

    @property
    def weighted(self) -> bool:
        """Whether any of its rows came with a weight."""
        return self._weights is not None

    def block(self, first_row: int) -> Block:
        """What was filled."""
        weights = None if self._weights is None else self._weights[: self.n_rows]
        if self._sparse:
            import scipy.sparse as sp

            return Block(sp.vstack(self._sparse, format="csr"), weights, first_row)
        assert self._dense is not None
        dropped = None if self._dropped is None else self._dropped[: self.n_rows]
        return Block(self._dense[: self.n_rows], weights, first_row, dropped)
