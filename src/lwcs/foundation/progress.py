"""The one progress bar: how far a pass over the data is, on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

R = TypeVar("R")


def track(results: Iterable[R], label: str, total: int | None, *, show: bool) -> Iterator[R]:
    """Yield `results`, drawing a bar with the time left while they come, if `show`.

    Nothing is drawn where standard error is not a terminal.
    """
    if not show or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track as rich_track

    yield from rich_track(
        results, description=label, total=total, console=Console(stderr=True), transient=True
    )
