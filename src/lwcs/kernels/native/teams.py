"""The teams of threads that share native calls, one for each Python thread that asks for one."""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lwcs.kernels.native.arguments import CORE

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Current(threading.local):
    """The team of each Python thread."""

    team: int | None = None

    def forget(self) -> None:
        """In a child process, which has none of the threads: nothing waits for them to end."""
        self.team = None


class _Idle:
    """The team that rests until it is used again: threads take as long to start as a short call."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without one; also in a child process, which has none of the threads."""
        self._lock = threading.Lock()
        self._resting: tuple[int, int] | None = None

    def take(self, threads: int) -> int:
        """The resting team if it has so many threads, else another one."""
        with self._lock:
            found, self._resting = self._resting, None
        if found is not None and found[0] != threads:
            CORE.delete_team(found[1])
            found = None
        return int(CORE.new_team(threads)) if found is None else found[1]

    def put(self, threads: int, team: int) -> None:
        """Let a team rest, in the place of any other."""
        with self._lock:
            other, self._resting = self._resting, (threads, team)
        if other is not None:
            CORE.delete_team(other[1])

    def close(self) -> None:
        """End the threads of the team that rests."""
        with self._lock:
            other, self._resting = self._resting, None
        if other is not None:
            CORE.delete_team(other[1])


CURRENT, _IDLE = _Current(), _Idle()
atexit.register(_IDLE.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CURRENT.forget)
    os.register_at_fork(after_in_child=_IDLE.reset)


@contextmanager
def team(threads: int) -> Iterator[None]:
    """Share the calls of this Python thread among several threads."""
    if threads <= 1 or CURRENT.team is not None:
        yield
        return
    try:
        CURRENT.team = _IDLE.take(threads)
        yield
    finally:
        # An interrupt here leaves a team that can be used, or one that is not named any more.
        members, CURRENT.team = CURRENT.team, None
        if members is not None:
            _IDLE.put(threads, members)
