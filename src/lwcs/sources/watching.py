"""Passes over the rows of a source, as the journal of a job follows them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from lwcs.runtime.journal import Journal
from lwcs.sources import base
from lwcs.sources.memory.in_process import LocalSource
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lwcs.sources.base import Source, Task


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
