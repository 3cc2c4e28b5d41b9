"""Files in parts, which are read side by side and come in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lwcs.foundation.cores import usable_cores
from lwcs.sources.ahead import WaitingThreads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

    import pyarrow as pa

    from lwcs.sources.ahead import Ahead
    from lwcs.sources.budget import Budget


class Files(ABC):
    """Files of one format, with the columns of all of them."""

    schema: pa.Schema
    keys: list[str]
    """Columns that only the names of folders provide."""
    n_rows: int | None
    """Number of rows, where that is known without reading them."""

    @abstractmethod
    def open(
        self, columns: list[str], budget: Budget, batch_rows: int | None = None
    ) -> Iterator[Part]:
        """Read every file, in one or more parts."""

    def numbers_beyond(self, path: str, names: list[str]) -> list[str]:
        """Columns of numbers of a file that the schema does not have; it may have all."""
        del path, names
        return []

    def reading_bytes(self, columns: list[str], budget: Budget) -> int:
        """Memory that reading takes however little is read at once."""
        del columns, budget
        return 0


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a file, in order."""

    path: str
    names: list[str]
    """Columns of the file."""
    first_row: int
    """Row number of the first of them in the file."""
    rows: Iterable[pa.RecordBatch]
    size: float | None = None
    """Bytes that it takes, if it is small enough to be read before its turn."""
    ahead: Ahead | None = None
    """Its bytes on a store."""
    last: bool = True
    """Whether its file ends with it."""

    def started(self, pool: ThreadPoolExecutor) -> Part:
        """The same part, which is read by the pool if it is small; an error waits for its turn."""
        if self.size is None:
            return self
        if self.ahead is not None:
            # More are fetched at a time than are decoded.
            self.ahead.begin()
        return replace(self, rows=_of(pool.submit(list, self.rows)))


def _of(rows: Future[list[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    yield from rows.result()


def side_by_side(parts: Iterable[Part], most: float) -> Iterator[Part]:
    """Yield parts in order, while the small ones among the next are read, up to `most` bytes."""
    ahead: deque[Part] = deque()
    with WaitingThreads(usable_cores()) as pool:
        for part in parts:
            ahead.append(part.started(pool))
            while sum(each.size or 0.0 for each in ahead) > most or len(ahead) > _MOST_AHEAD:
                yield ahead.popleft()
        while ahead:
            yield ahead.popleft()


# Tiny files have more to them than the bytes of their rows.
_MOST_AHEAD = 32
