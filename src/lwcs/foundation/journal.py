"""The journal of a job: the one place that knows its stages, and tells of them.

Every pass over rows and every solver is a stage: `Journal.stage`, or `Journal.watch` for results
that come one after the other. Of a stage, the display is shown how far it is, the log is told its
end, and the timings keep what it came to. A journal is passed along explicitly, so that jobs side
by side do not mix: threads of the pool belong to nobody. Stages on such threads are timed, but only
the thread that started the job shows anything.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lwcs.foundation.logs import LOG
from lwcs.foundation.parallel import closing_items
from lwcs.foundation.progress import Progress, display_of
from lwcs.foundation.timings import Tallies, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lwcs.foundation.progress import Display, Kind
    from lwcs.foundation.timings import Timings

R = TypeVar("R")


class CountsRows(Protocol):
    """How many rows the results of a pass stand for."""

    def after(self, done: int, result: Any, /) -> int:
        """After the first `done` results, of which `result` is the last."""

    def at_end(self, done: int, /) -> int:
        """After all results, as exactly as it is known."""


class Stage:
    """A stage of a job while it runs."""

    __slots__ = ("_display", "_start", "done", "kind", "name", "note", "passes", "rows", "total")

    def __init__(
        self, name: str, total: int | None, kind: Kind, note: str, display: Display | None
    ) -> None:
        self.name, self.total, self.kind, self.note = name, total, kind, note
        self.passes = int(kind == "pass")
        """Number of passes over the rows."""
        self.done = self.rows = 0
        self._display, self._start = display, perf_counter()
        self._show()

    @property
    def seconds(self) -> float:
        """Time since it began."""
        return perf_counter() - self._start

    def step(self, rows: int = 0) -> None:
        """One more step is done, and so many rows in all."""
        self.done, self.rows = self.done + 1, rows
        self._show()

    def _show(self, *, finished: bool = False) -> None:
        if self._display is not None:
            now = Progress(
                self.name, self.done, self.total, self.rows, self.seconds, self.note, finished
            )
            self._display.show(now, self.kind)

    def finish(self) -> None:
        """Tell that it has come to its end."""
        self._show(finished=True)

    def end(self) -> None:
        """Take the display away, however it ended."""
        if self._display is not None:
            self._display.end()


class Journal:
    """What a job tells of its stages, and what these came to.

    `progress` is True for a bar or lines on standard error, or a function that is called with a
    `Progress`; an exception that it raises stops the job.
    """

    def __init__(self, progress: Any = False, *, within: Journal | None = None) -> None:
        self._display: Display | None = display_of(progress) if within is None else within._display
        self._thread: int = get_ident() if within is None else within._thread
        self._within, self._tallies, self._start = within, Tallies(), perf_counter()
        self._counted: int | None = None

    @property
    def n_rows(self) -> int | None:
        """Number of rows of the data, once a pass has counted them."""
        return self._counted if self._within is None else self._within.n_rows

    @n_rows.setter
    def n_rows(self, rows: int) -> None:
        if self._within is None:
            self._counted = rows
        else:
            self._within.n_rows = rows

    def part(self) -> Journal:
        """The journal of a part of this job, with timings of its own; they count here too."""
        return Journal(within=self)

    @contextmanager
    def stage(
        self,
        name: str,
        total: int | None = None,
        *,
        kind: Kind = "solver",
        row_bytes: float = 0.0,
        note: str = "",
    ) -> Iterator[Stage]:
        """A stage of `total` steps; a pass is over rows of `row_bytes` each."""
        display = self._display if get_ident() == self._thread else None
        stage = Stage(name, total, kind, note, display)
        try:
            yield stage
            stage.finish()
        finally:
            stage.end()
            tally = Tally(stage.seconds, stage.rows, stage.passes, round(stage.rows * row_bytes))
            self._add(name, tally)
        _log(stage, tally)

    def watch(
        self,
        results: Iterable[R],
        name: str,
        total: int | None,
        *,
        rows: CountsRows,
        row_bytes: float = 0.0,
        note: str = "",
    ) -> Iterator[R]:
        """Yield the results of one pass over rows."""
        with (
            self.stage(name, total, kind="pass", row_bytes=row_bytes, note=note) as stage,
            closing_items(results),
        ):
            for result in results:
                yield result
                stage.step(rows.after(stage.done + 1, result))
            stage.rows = rows.at_end(stage.done)

    def timings(self) -> Timings:
        """What the stages so far came to."""
        return self._tallies.timings(perf_counter() - self._start)

    def _add(self, name: str, tally: Tally) -> None:
        self._tallies.add(name, tally)
        if self._within is not None:
            self._within._add(name, tally)


def _log(stage: Stage, tally: Tally) -> None:
    """Solvers, of which a fit may have many, at DEBUG; the rest at INFO."""
    level = logging.DEBUG if stage.kind == "solver" else logging.INFO
    if not LOG.isEnabledFor(level):
        return
    name = f"{stage.name}, {stage.note}" if stage.note else stage.name
    if stage.kind == "pass":
        size = f", {tally.bytes / 1e6:.3g} MB" if tally.bytes else ""
        what = f"{tally.rows:,} rows{size}"
    else:
        what = f"{stage.done:,} step{'s' * (stage.done != 1)}" if stage.done else "done"
    extra = {
        "event": stage.kind,
        "stage": stage.name,
        "rows": tally.rows,
        "bytes": tally.bytes,
        "seconds": tally.seconds,
    }
    LOG.log(level, "%s: %s in %.3f s", name, what, tally.seconds, extra=extra)
