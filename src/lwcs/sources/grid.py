"""One pass over rows in order: batches of any size are cut on the fixed grid of blocks."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lwcs.foundation.logs import decided
from lwcs.sources import base
from lwcs.sources.batches import Filling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

    from lwcs.sources.base import Block
    from lwcs.sources.batches import Batch


@dataclass(slots=True)
class Places:
    """Where rows came from: the first row number of each file, and its name."""

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
        """First row number of the file that a row is in, and its name for a message."""
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
        self.places = Places()
        self.n_rows = 0
        """Number of rows that were read so far."""
        self._dropped, self._on_drop, self._lock = 0, on_drop, threading.Lock()
        self.on_first = on_first
        """Called with the first block of all, once that is put together."""

    def cut(self, batches: Iterable[tuple[str, Batch]]) -> Iterator[Pending]:
        """Cut batches, each with the name of its file, into the blocks of the grid."""
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
            # Blocks are put together on several threads.
            with self._lock:
                self._dropped += rows
                self._on_drop(self._dropped)


@dataclass(slots=True)
class Pending:
    """A block of the grid before it is put together: which rows of which batches.

    The thread that computes with it puts it together, so that the reading thread need not.
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
        """Copy the rows together."""
        filling = Filling(self.n_rows, self.within.n_features, self.within.dtype)
        self.within.count_dropped(sum(filling.take(*part) for part in self.parts))
        block = replace(filling.block(self.first_row), beside=self._beside())
        if self.within.on_first is not None and not self.first_of_all:
            self.within.on_first(block)
        return block

    def _beside(self) -> Any:
        """The kept columns of these rows, or None if none are kept."""
        kept = [b.beside.slice(i, j - i) for b, i, j in self.parts if b.beside is not None]
        if not kept:
            return None
        import pyarrow as pa

        return pa.Table.from_batches(kept)
