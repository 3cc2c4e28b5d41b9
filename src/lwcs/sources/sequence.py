"""Rows that are read in order and never held as a whole: the base of files and streams.

Whatever batches they arrive in, rows are cut into the same partitions and blocks as rows in
memory, so that the same rows give the same coreset to the last bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import single_or_double
from lwcs.runtime.parallel import as_threads, ordered_map, prefetch
from lwcs.runtime.warnings import decided
from lwcs.sources import base
from lwcs.sources.base import (
    ALL_DROPPED,
    NO_ROWS,
    ROWS_CHANGED,
    Block,
    Source,
    Task,
    without_dropped,
)
from lwcs.sources.blocks import Budget, Flight, Pass, RowOrigins
from lwcs.sources.memory.scaled import factors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows, FloatArray
    from lwcs.sources.blocks import Batch, Pending


# Memory of threads and allocators of readers, whatever is read (measured).
_RESERVED = 48 * 2**20
# Bits of a value of a kept column whose values have no fixed length.
_TEXT_BITS = 128


class ReadOnce:
    """Batches that can be read only once; those that `peek` has read are kept for `read`."""

    def __init__(self, batches: Iterable[tuple[str, Batch]]) -> None:
        # Read by a thread: a pipe may be silent for long, and must not block an interrupt.
        self._coming = prefetch(batches, 1)
        self._seen: list[tuple[str, Batch]] = []
        self._was_read = False

    def peek(self) -> Iterator[tuple[str, Batch]]:
        """Yield the next batches, and keep them."""
        for each in self._coming:
            self._seen.append(each)
            yield each

    def read(self) -> Iterator[tuple[str, Batch]]:
        """Yield all batches, once."""
        if self._was_read:
            raise ValueError(
                "these rows can be read only once, and were read already; scan them again, or "
                "write them to a file, which can be read several times"
            )
        self._was_read = True
        seen, self._seen = self._seen, []
        yield from seen
        yield from self._coming


class SequenceSource(Source, ABC):
    """Rows in order, cut every 65,536; subclasses yield batches.

    Subclasses pass to `__init__` whether rows can be read again; if not, `batches` is called once.
    """

    _cut_evenly = True
    budget: Budget
    """Memory for rows that have been read and not been computed with."""

    dtype: np.dtype[Any]
    factors: FloatArray | None = None
    """What rows that were quantized are multiplied by, column by column."""
    kept: Any = None
    """Schema of the columns that are kept beside the rows, if there are any."""

    def __init__(self, *, rereadable: bool = True) -> None:
        self.rereadable, self.budget = rereadable, Budget.of(None)
        self._once: ReadOnce | None = None
        """The batches of rows that can be read only once, once reading has begun."""
        self._memory_limit: int | None = None
        """The limit that was asked for, if any."""
        self._is_large = False
        """Whether there are more rows than a partition has, as far as rows were read ahead."""
        self._origins = RowOrigins()
        """Where the rows of the latest pass came from."""

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of rows that were read; refuse a limit too small for a few blocks."""
        self._memory_limit, fixed = limit, _RESERVED + self._kept_bytes()
        reading, more = 0, fixed
        while more > reading:
            # What the reader holds leaves less for rows: more of them are too large to read ahead.
            reading = more
            more = fixed + self.reading_bytes(Budget(max(limit - reading, 1)))
        least = Budget.least(self._bytes_of(base.block_rows(self.n_features))) + reading
        if limit < least:
            raise ValueError(
                f"memory_limit={limit / 1e6:.3g}MB is too little to read {self.n_features} "
                f"column{'s' * (self.n_features != 1)}{self._named()}; pass memory_limit="
                f"{-(-least // 10**6)}MB or more"
            )
        self.budget = Budget(limit - reading)

    def _kept_bytes(self) -> int:
        """Memory of a partition of the kept columns, which are encoded while they are written."""
        if self.kept is None:
            return 0
        import pyarrow as pa

        primitive = pa.types.is_primitive
        widths = (each.bit_width if primitive(each) else _TEXT_BITS for each in self.kept.types)
        return base.PARTITION_ROWS * 7 * sum(widths) // 32

    def reading_bytes(self, budget: Budget) -> int:
        """Memory that a reader needs however few rows it reads at once."""
        del budget
        return 0

    def _named(self) -> str:
        """Where the rows are, for messages; for files, " in" and their names."""
        return ""

    @abstractmethod
    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Read the rows: batches, each with the name of its file, or "" if it has none."""

    def scale_by(self, scale: Any) -> None:
        """Multiply the rows by a scale, block by block."""
        if scale is not None:
            self.factors = factors_of(scale, self.n_features)
            self.dtype = np.dtype(single_or_double(self.dtype))

    def keep(self, columns: Sequence[str]) -> None:
        """Keep columns of any type beside the rows, by name or pattern, in `Block.beside`."""
        raise TypeError(f"{columns} cannot be kept: {type(self).__name__} has no named columns")

    def _columns_to_read(self) -> list[str]:
        """Columns of the features and of the weight, then those that are kept beside the rows."""
        assert self.selection is not None
        kept = [] if self.kept is None else self.kept.names
        return list(dict.fromkeys([*self.selection.columns_to_read, *kept]))

    def _beside(self, batch: Any) -> Any:
        """The kept columns of a record batch, or None."""
        return None if self.kept is None else batch.select(self.kept.names)

    def _read_once(self) -> ReadOnce:
        if self._once is None:
            self._once = ReadOnce(self.batches())
        return self._once

    @property
    def known_partitions(self) -> int | None:
        """Number of partitions, once the number of rows is known."""
        return None if self.n_rows is None else -(-self.n_rows // base.PARTITION_ROWS)

    def look_ahead(self) -> None:
        """Read until there are more rows than a partition has, or their number is known."""
        rows = 0
        if self.n_rows is not None or self._is_large:
            return
        for _, batch in self.batches() if self.rereadable else self._read_once().peek():
            rows += batch.n_rows
            if rows > base.PARTITION_ROWS:
                self._is_large = True
                return
        self.n_rows = rows

    def pending(self) -> Iterator[Pending]:
        """Read all rows, cut into blocks."""
        current = Pass(self.n_features, self.dtype, self._note_dropped, self._look_at_first)
        self._origins, current.factors = current.places, self.factors
        batches = self.batches() if self.rereadable else self._read_once().read()
        yield from current.cut(batches)
        if self.n_rows is not None and current.n_rows != self.n_rows:
            raise ValueError(
                f"{ROWS_CHANGED}{self._named()}: there were {self.n_rows} rows, now there are "
                f"{current.n_rows}; build again"
            )
        self.n_rows = current.n_rows
        if self.n_rows == 0:
            raise ValueError(NO_ROWS)

    def _look_at_first(self, block: Block) -> None:
        """Record which columns look like identifiers in the first block."""
        if self.selection is not None:
            self.identifiers = tuple(self.selection.looking_like_identifiers(block))

    def _note_dropped(self, rows: int) -> None:
        """Record how many rows a pass has dropped so far."""
        # A task need not look at all rows in every pass; the first one does.
        self.dropped = max(self.dropped, rows)
        if self.dropped == self.n_rows:
            raise ValueError(ALL_DROPPED)

    def gather(
        self, task: Task[Any], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[Any]:
        """Run a task over every partition, while the next partitions are read."""

        def run(partition: tuple[int, Iterable[Pending]]) -> Any:
            number, blocks = partition[0], (each.block() for each in partition[1])
            if items is None:
                return task(blocks, number)
            if number >= len(items):
                raise ValueError(f"{ROWS_CHANGED}: there are more rows than before; build again")
            return task(blocks, items[number])

        threads = as_threads(n_jobs)
        flight = self.budget.flight(self._bytes_of(base.PARTITION_ROWS), threads)
        if flight is None:
            # Even a few partitions are too large: their blocks are used as they are read.
            decided("read-ahead", "blocks are used one by one: partitions exceed the memory limit")
            return ordered_map(run, self._block_by_block(), 1)
        decided("read-ahead", "%d partitions are read ahead, %d are in use", *flight)
        whole = ((number, list(blocks)) for number, blocks in _by_partition(self.pending()))
        return ordered_map(run, prefetch(whole, flight.ahead), threads, flight.at_once)

    def block_flight(self, threads: int) -> Flight:
        """Number of blocks that may be in flight."""
        size = self._bytes_of(base.block_rows(self.n_features))
        return self.budget.flight(size, threads) or Flight(1, 1)

    def _bytes_of(self, rows: int) -> int:
        """Bytes of `rows` rows, or of all rows if there are fewer."""
        n_rows = rows if self.n_rows is None else min(rows, self.n_rows)
        return n_rows * self.n_features * self.dtype.itemsize

    def _block_by_block(self) -> Iterator[tuple[int, Iterable[Pending]]]:
        """Partitions, each with its blocks as they are read, to be used in order."""
        with closing(prefetch(self.pending(), self.block_flight(1).ahead)) as coming:
            yield from _by_partition(coming)

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value per row, as an array."""

        def over(blocks: Iterator[Block], partition: int) -> list[DenseRows]:
            with BadValueError.in_partition(partition):
                return [without_dropped(task(block), block) for block in blocks]

        parts = [part for some in self.gather(over, n_jobs=n_jobs) for part in some]
        return np.concatenate(parts) if parts else np.empty(0)

    def origins(self, start: int, stop: int) -> Iterator[tuple[str, int, int, int]]:
        """Yield the files that rows start … stop of the latest pass came from.

        With each comes the range of these rows in it, and the number of rows before the file.
        """
        return self._origins.cut(start, stop)

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered through all partitions; `explain` also names the file."""
        return partition * base.PARTITION_ROWS, ""

    def explain(self, bad: BadValueError) -> ValueError:
        """Name the file, and the row in it."""
        first = bad.partition * base.PARTITION_ROWS
        start, where = self._origins.find(first + bad.row)
        return bad.explained(first - start, where, self.feature_names)

    def explain_row(self, bad: BadValueError) -> ValueError:
        """Rows of a partition are numbered through all partitions, too."""
        return self.explain(bad)


def _by_partition(blocks: Iterable[Pending]) -> Iterator[tuple[int, Iterator[Pending]]]:
    return groupby(blocks, key=lambda each: each.partition)
