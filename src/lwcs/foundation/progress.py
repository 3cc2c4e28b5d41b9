"""The one progress bar, on standard error: the pass, its progress, its speed, the time left."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

R = TypeVar("R")


def track(
    results: Iterable[R], label: str, total: int | None, *, show: bool, rows: int = 0
) -> Iterator[R]:
    """Yield `results`; if `show`, draw a progress bar meanwhile.

    If `rows` is given, every result stands for that many rows, and the bar shows rows per second.
    Nothing is drawn if standard error is not a terminal.
    """
    if not show or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn()]
    if rows:
        columns.append(TextColumn("{task.fields[rate]}"))
    last = TimeElapsedColumn() if total is None else TimeRemainingColumn()
    with Progress(*columns, last, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, rate="")
        for done, result in enumerate(results, 1):
            yield result
            speed = progress.tasks[task].speed
            rate = "" if not speed or not rows else f"{speed * rows / 1e6:.2f} M rows/s"
            progress.update(task, completed=done, rate=rate)
