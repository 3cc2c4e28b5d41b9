"""The threads of this process that help callers with their tasks.

All callers share them, so that fits side by side share the cores. A caller runs tasks itself as
well: they get done even if no helper is free, so that a task may have tasks of its own.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lwcs.foundation.cores import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

R = TypeVar("R")

# Seconds after which an idle thread ends, and with it the memory that it keeps.
_IDLE = 1.0


class _Helpers:
    """Threads that start when they are needed, and turn from one caller to the next.

    They are daemons: an interrupt while a thread starts leaves it running without an owner, and
    the process would wait for it at exit.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without threads."""
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._wishes: SimpleQueue[Tasks] = SimpleQueue()
        # Wishes that wait or are being fulfilled.
        self._wished = 0

    def help(self, tasks: Tasks) -> None:
        """Have one more thread help with tasks, now or when one is free."""
        self._wishes.put(tasks)
        with self._lock:
            self._wished += 1
            if len(self._threads) < min(self._wished, tasks.most_helpers):
                thread = threading.Thread(target=self._work, name="lwcs", daemon=True)
                thread.start()
                self._threads.add(thread)

    def _work(self) -> None:
        while (tasks := self._next()) is not None:
            # Task by task where others wait, so that all get on.
            while (more := tasks.run_one()) and self._wishes.empty():
                pass
            if more:
                self._wishes.put(tasks)
            else:
                with self._lock:
                    self._wished -= 1
            # Kept while this thread waits, it would keep the data of its caller in memory.
            del tasks

    def _next(self) -> Tasks | None:
        """The next wish, or None if this thread is to end."""
        while True:
            try:
                return self._wishes.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._wishes.empty():
                        self._threads.discard(threading.current_thread())
                        return None


_HELPERS = _Helpers()
if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork, nor does a lock that one of them held.
    os.register_at_fork(after_in_child=_HELPERS.reset)


class Task(Generic[R]):
    """A function and its argument, and later its result or its error."""

    __slots__ = ("_error", "_todo", "_value", "done")

    def __init__(self, function: Callable[[Any], R], argument: Any) -> None:
        self._todo: tuple[Callable[[Any], R], Any] | None = (function, argument)
        self._error: BaseException | None = None
        self.done = False

    def run(self, kept: type[BaseException]) -> None:
        """Run it; errors of this type are kept for the caller."""
        assert self._todo is not None
        # Results wait for their turn; the rows that they are made of do not wait with them.
        (function, argument), self._todo = self._todo, None
        try:
            self._value = function(argument)
        except kept as error:
            self._error = error
        self.done = True

    def result(self) -> R:
        """What the function returned; its error is raised."""
        if self._error is not None:
            raise self._error
        return self._value


class Tasks:
    """The tasks of one caller, run by its own thread and up to ``threads − 1`` helpers.

    Leaving the context waits for the tasks that run, and starts no other. The caller may be
    interrupted at any point. So only helpers write down what they do, and no count relies on the
    caller; the lock is a plain one, which an interrupt cannot leave locked.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._helpers = threads, 0
        self.most_helpers = max(usable_cores(), threads) - 1
        """So many threads help all callers together."""
        self._lock, self._running = threading.Lock(), 0
        self._todo: deque[Task[Any]] = deque()
        # Something for every task that a helper has ended, after that can be seen.
        self._ended: SimpleQueue[None] = SimpleQueue()

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget the tasks that have not started, and wait for the others."""
        with self._lock:
            self._todo.clear()
        while self._running:
            self._ended.get()

    def add(self, function: Callable[[Any], R], argument: Any) -> Task[R]:
        """Have a task run soon."""
        task = Task(function, argument)
        with self._lock:
            self._todo.append(task)
            more = self._helpers < self._threads - 1
            self._helpers += more
        if more:
            _HELPERS.help(self)
        return task

    def result(self, task: Task[R]) -> R:
        """The result of a task; meanwhile, this thread runs what has not started."""
        while not task.done:
            with self._lock:
                own = self._todo.popleft() if self._todo else None
            if own is None:
                self._ended.get()
            else:
                # An interrupt is not the error of a task.
                own.run(Exception)
        return task.result()

    def run_one(self) -> bool:
        """For helpers: run a task, or return False if none is left."""
        with self._lock:
            if not self._todo:
                self._helpers -= 1
                return False
            task = self._todo.popleft()
            self._running += 1
        task.run(BaseException)
        with self._lock:
            self._running -= 1
        self._ended.put(None)
        return True
