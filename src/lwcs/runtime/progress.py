"""Displays of progress: a bar on a terminal, lines of text elsewhere, or a callback."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    Callback = Callable[["Progress"], object]

LINES_EVERY = 5.0
"""Seconds between two lines; a shorter job writes none."""
_CALLS_EVERY = 0.2
# A fit has many short solvers: only those that take this many seconds have a bar.
_PATIENCE = 0.5
Kind = Literal["pass", "solver", "runs"]
"""Kind of a stage: a pass over the rows, a solver on the draws, or a series of runs."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage of a job is.

    Attributes
    ----------
    stage : str
        Name of the stage, as in the timings: "first pass", "Lloyd", ….
    done, total : int, int or None
        Number of steps that are done (partitions, blocks or iterations), and of all of them if
        that is known.
    rows : int
        Number of rows so far; 0 for stages that are not passes over the rows.
    seconds : float
        Time since the stage began.
    note : str
        What else there is to say, such as "pass 3 of 100".
    finished : bool
        Whether the stage has come to its end.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> seen = []
    >>> coreset = lwcs.build(np.ones((1_000, 2)), 10, progress=seen.append)
    >>> seen[-1].stage, seen[-1].rows, seen[-1].finished
    ('reading', 1000, True)
    """

    stage: str
    done: int
    total: int | None
    rows: int
    seconds: float
    note: str = ""
    finished: bool = False

    @property
    def part(self) -> float | None:
        """How much of the stage is done, from 0 to 1, if that is known."""
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def label(self) -> str:
        """The stage and the note."""
        return f"{self.stage}, {self.note}" if self.note else self.stage

    @property
    def rate(self) -> str:
        """Rows per second, if they are known."""
        if not self.rows or not self.seconds:
            return ""
        speed = self.rows / self.seconds
        return f"{speed / 1e6:.2f} M rows/s" if speed >= 1e5 else f"{speed:,.0f} rows/s"

    def __str__(self) -> str:
        """One line: the stage, rows, percent, rate and time left, as far as they are known."""
        words, part = [], self.part
        if self.rows:
            words.append(f"{self.rows:,} rows")
        elif self.total is None:
            words.append(f"step {self.done:,}")
        if part is not None:
            words.append(f"{100 * part:.0f} %")
        if self.rows and self.seconds:
            words.append(self.rate)
        if part:
            words.append(f"{self.seconds * (1.0 / part - 1.0):.0f} s left")
        return f"{self.label}: {', '.join(words)}"


class ProgressDisplay(Protocol):
    """Shows the progress of a job; called by the thread that started the job only."""

    def show(self, now: Progress, kind: Kind) -> None:
        """Show the progress of a stage."""

    def end(self) -> None:
        """Remove what is shown: the stage has ended, or has failed."""


def display_of(progress: Any) -> ProgressDisplay:
    """The display that a parameter `progress` or `verbose` asks for."""
    return Calls(progress) if callable(progress) else OnStandardError()


class Pace:
    """Says when something that happens every few seconds is due."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, perf_counter()

    def is_due(self) -> bool:
        """Whether it is due; if so, the time is counted from now on."""
        now = perf_counter()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class Calls:
    """Calls a function several times a second, and at the end of every stage."""

    def __init__(self, function: Callback) -> None:
        self._function, self._pace = function, Pace(_CALLS_EVERY)

    def show(self, now: Progress, kind: Kind) -> None:
        """Call the function if it is due; an exception that it raises stops the job."""
        del kind
        if now.finished or self._pace.is_due():
            self._function(now)

    def end(self) -> None:
        """Do nothing: there is no display."""


class OnStandardError:
    """A bar if standard error is a terminal, else a line every few seconds."""

    def __init__(self) -> None:
        self._pace = Pace(LINES_EVERY)
        self._bar: Bar | None = None

    def show(self, now: Progress, kind: Kind) -> None:
        """Draw the bar, or write a line if it is due."""
        if self._bar is not None:
            self._bar.show(now)
        elif sys.stderr is not None and sys.stderr.isatty():
            if not now.finished and (kind != "solver" or now.seconds > _PATIENCE):
                self._bar = Bar(now, rows=kind == "pass")
        elif not now.finished and self._pace.is_due():
            print(now, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the bar."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.end()


class Bar:
    """The bar of one stage."""

    def __init__(self, now: Progress, *, rows: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn()]
        if rows:
            columns.append(TextColumn("{task.fields[rate]}"))
        columns.append(TimeElapsedColumn() if now.total is None else TimeRemainingColumn())
        self._bars = Bars(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bars.add_task(now.label, total=now.total, rate="")
        self._bars.start()

    def show(self, now: Progress) -> None:
        """Move the bar."""
        self._bars.update(self._task, completed=now.done, rate=now.rate)

    def end(self) -> None:
        """Remove the bar."""
        self._bars.stop()
