"""The journal of a job: its stages as they run, shown and logged, and how long they took.

Every pass over rows and every solver is a stage. A journal is passed explicitly, since the threads
of the pool belong to no job: jobs side by side do not mix. Only the thread that started a job shows
progress.

The timings of a stage are seconds, rows, passes and bytes. `bytes` are those of the rows that were
processed, as they are measured: rows × columns × the size of a value, or for sparse rows the stored
values and their column numbers. They are 0 if a source does not know the type of its values (arrays
on a cluster, custom sources without a `dtype`).
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lwcs.runtime.parallel import closing_items
from lwcs.runtime.progress import Progress, display_of
from lwcs.runtime.warnings import LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lwcs.runtime.progress import Kind, ProgressDisplay
    from lwcs.storage.fields import Fields

    Timings = dict[str, dict[str, float | int]]

TIMINGS = "timings"
"""Name of the timings among the details of a coreset."""
TOTAL = "total"
_MOST_STAGES = 1_000
_COUNTS = ("rows", "passes", "bytes")


@dataclass(slots=True)
class Tally:
    """Time and rows of a stage; stages that are not passes over the rows have no rows."""

    seconds: float = 0.0
    rows: int = 0
    passes: int = 0
    bytes: int = 0

    def add(self, other: Tally) -> None:
        """Add another run of the same stage."""
        self.seconds += other.seconds
        self.rows += other.rows
        self.passes += other.passes
        self.bytes += other.bytes


def without_timings(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details of a coreset without its timings, which differ from run to run."""
    return {name: value for name, value in details.items() if name != TIMINGS}


def read_timings(fields: Fields) -> Timings:
    """The timings in a file, checked; a coreset that was not built here has none."""
    if TIMINGS not in fields:
        return {}
    stages = fields.inner(TIMINGS)
    if len(list(stages)) > _MOST_STAGES:
        raise fields.fail(TIMINGS, f"an object of at most {_MOST_STAGES:,} stages")
    return {stage: _read_stage(stages, stage) for stage in stages}


def _read_stage(stages: Fields, stage: str) -> dict[str, float | int]:
    tally = stages.inner(stage)
    found: dict[str, float | int] = {"seconds": tally.number("seconds", least=0.0)}
    found |= {name: tally.integer(name) for name in _COUNTS}
    if set(tally) != set(found):
        raise stages.fail(stage, f"an object with the fields {', '.join(found)}")
    return found


R = TypeVar("R")


class CountsRows(Protocol):
    """Number of rows that the results of a pass cover."""

    def after(self, done: int, result: Any, /) -> int:
        """After the first `done` results, of which `result` is the last."""

    def at_end(self, done: int, /) -> int:
        """After all results, as exactly as known."""


class RunningStage:
    """A stage of a job while it runs."""

    __slots__ = ("_display", "_start", "done", "kind", "name", "note", "passes", "rows", "total")

    def __init__(
        self, name: str, total: int | None, kind: Kind, note: str, display: ProgressDisplay | None
    ) -> None:
        self.name, self.total, self.kind, self.note = name, total, kind, note
        self.passes = int(kind == "pass")
        """Number of passes over the rows."""
        self.done = self.rows = 0
        self._display, self._start = display, perf_counter()
        self._show()

    @property
    def seconds(self) -> float:
        """Time since the stage began."""
        return perf_counter() - self._start

    def step(self, rows: int = 0) -> None:
        """Count one more step; `rows` are all rows so far."""
        self.done, self.rows = self.done + 1, rows
        self._show()

    def _show(self, *, finished: bool = False) -> None:
        if self._display is not None:
            now = Progress(
                self.name, self.done, self.total, self.rows, self.seconds, self.note, finished
            )
            self._display.show(now, self.kind)

    def finish(self) -> None:
        """Show that the stage is complete."""
        self._show(finished=True)

    def end(self) -> None:
        """Remove the display, whether the stage completed or failed."""
        if self._display is not None:
            self._display.end()


class Journal:
    """Shows and logs the stages of a job, and keeps their timings.

    `progress` is True for a bar or lines on standard error, or a function that is called with a
    `Progress`; an exception that it raises stops the job.
    """

    def __init__(self, progress: Any = False, *, within: Journal | None = None) -> None:
        self._display: ProgressDisplay | None = None
        if within is not None:
            self._display = within._display
        elif progress or callable(progress):
            self._display = display_of(progress)
        self._thread: int = get_ident() if within is None else within._thread
        self._within, self._start = within, perf_counter()
        self._lock, self._tallies = threading.Lock(), dict[str, Tally]()
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
        """The journal of a part of this job, with its own timings, which are added here as well."""
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
    ) -> Iterator[RunningStage]:
        """A stage of `total` steps; a pass is over rows of `row_bytes` each."""
        display = self._display if get_ident() == self._thread else None
        stage = RunningStage(name, total, kind, note, display)
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
        """Plain numbers by stage so far, and in total, with the time of the whole job.

        Stages that ran at the same time on several threads add up to more than that.
        """
        total = Tally()
        with self._lock:
            for tally in self._tallies.values():
                total.add(tally)
            timings = {stage: asdict(tally) for stage, tally in self._tallies.items()}
        total.seconds = perf_counter() - self._start
        return timings | {TOTAL: asdict(total)}

    def _add(self, stage: str, tally: Tally) -> None:
        with self._lock:
            self._tallies.setdefault(stage, Tally()).add(tally)
        if self._within is not None:
            self._within._add(stage, tally)


def _log(stage: RunningStage, tally: Tally) -> None:
    """Log a stage: at DEBUG for solvers, of which a fit may have many, else at INFO."""
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
