"""A command that is told to end cleans up first, as it does after Ctrl+C."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

# Windows has no SIGHUP.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised in the main thread: whatever handles Ctrl+C handles these."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Raise TerminatedError at the first signal; a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    before: dict[int, Any] = {
        number: signal.getsignal(number)
        for number in _SIGNALS
        if signal.getsignal(number) != signal.SIG_IGN
    }

    def end(number: int, _: object) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise TerminatedError(number)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
