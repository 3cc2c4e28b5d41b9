"""Errors while rows are read, in words that name the file, or the table that has the file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lwcs.runtime.journal import Journal
from lwcs.sources import base
from lwcs.sources.memory.in_process import LocalSource
from lwcs.sources.sequence import SequenceSource
from lwcs.storage.failures import first_line, of_the_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lwcs.sources.base import Source, Task


_VANISHED = "vanished before all rows were read"


@contextmanager
def explaining(read: list[str] | str) -> Iterator[None]:
    """Name what is read in errors: the paths of files, or what a table or a dataset is called.

    A failure of the place is an OSError, after which one can try again. Bad contents are a
    ValueError.
    """
    try:
        yield
    except Exception as error:
        explained = _explained(error, read)
        if explained is error:
            raise
        raise explained from error


def _explained(error: Exception, read: list[str] | str) -> Exception:
    failed = of_the_place(read if isinstance(read, str) else read[0], error)
    if isinstance(failed, FileNotFoundError):
        if isinstance(read, list) and _VANISHED in str(error):
            # Explained already, for one of the files.
            return error
        what = f"a file of {read}" if isinstance(read, str) else some(read)
        return FileNotFoundError(f"{what} {_VANISHED} ({first_line(error)}); open it again")
    if failed is not None:
        return failed
    if isinstance(error, (pa.ArrowException, OSError, UnicodeDecodeError)):
        what = read if isinstance(read, str) else some(read)
        return ValueError(
            f"{what} cannot be read (it may be truncated, corrupted, or have rows that differ in "
            f"their columns): {first_line(error)}"
        )
    return error


def some(paths: list[str]) -> str:
    """The name of the first file, and how many others there are."""
    others = len(paths) - 1
    more = f" and {others} more file{'s' * (others > 1)}" if others else ""
    return f"{paths[0]!r}{more}"


R = TypeVar("R")


def watched(
    results: Iterable[R],
    source: Source,
    journal: Journal,
    stage: str,
    *,
    together: int = 1,
    note: str = "",
) -> Iterator[R]:
    """Yield the results of a pass over partitions, or over so many of them `together`."""
    parts = source.known_partitions
    total = None if parts is None else -(-parts // together)
    rows = _Rows(source, journal, total, together * base.PARTITION_ROWS)
    bytes_ = source.row_bytes()
    yield from journal.watch(results, stage, total, rows=rows, row_bytes=bytes_, note=note)


def gathered(
    source: Source,
    task: Task[R],
    stage: str,
    *,
    journal: Journal | None = None,
    n_jobs: int | None = None,
) -> Iterator[R]:
    """Run a task over all partitions, as a stage of a journal, or of one that is not kept."""
    own = Journal() if journal is None else journal
    return watched(source.gather(task, n_jobs=n_jobs), source, own, stage)


def watched_blocks(
    results: Iterable[R], source: Source, journal: Journal, stage: str, rows: int
) -> Iterator[R]:
    """Yield the results of a pass over blocks of `rows` rows each."""
    total = None if source.n_rows is None else -(-source.n_rows // rows)
    counted = _Rows(source, journal, total, rows)
    bytes_ = source.row_bytes()
    yield from journal.watch(results, stage, total, rows=counted, row_bytes=bytes_)


@contextmanager
def whole_pass(source: Source, journal: Journal, stage: str) -> Iterator[None]:
    """A pass that is made in one go, such as `map_rows`."""
    if source.on_cluster:
        # Nothing is read before somebody asks for the result.
        yield
        return
    with journal.stage(stage, 1, kind="pass", row_bytes=source.row_bytes()) as running:
        yield
        running.step(source.n_rows or 0)


class _Rows:
    """How many rows the first results of a pass stand for.

    Results that count their rows say so (`rows`). Of the others, all stand for equally many as long
    as the pass goes on; a source that knows its number of rows in the end gives the exact one.
    """

    def __init__(self, source: Source, journal: Journal, total: int | None, each: int) -> None:
        self._source, self._journal = source, journal
        # Partitions of other sources have any number of rows.
        self._each = each if isinstance(source, LocalSource | SequenceSource) else 0
        self._total, self._counted = total, 0

    def after(self, done: int, result: Any) -> int:
        """After the first `done` results, of which this is the last."""
        own = getattr(result, "rows", None)
        self._counted += own if isinstance(own, int) else 0
        known = self._known()
        if known is None:
            return self._counted or done * self._each
        return known * done // self._total if self._total else min(done * self._each, known)

    def at_end(self, done: int) -> int:
        """After all results."""
        if self._source.n_rows is None and self._counted:
            # Later passes over the same rows need not count them.
            self._journal.n_rows = self._counted
        known = self._known()
        return done * self._each if known is None else known

    def _known(self) -> int | None:
        return self._journal.n_rows if self._source.n_rows is None else self._source.n_rows
