"""Files in parts, which are read side by side and come in order."""

from __future__ import annotations

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
