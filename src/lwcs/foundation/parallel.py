"""Tasks on several threads: results in order, single-threaded BLAS inside."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import ExitStack, contextmanager
from queue import Full, Queue, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lwcs.foundation.checks import check_count
from lwcs.foundation.cores import default_jobs, usable_cores
from lwcs.foundation.pool import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from lwcs.foundation.pool import Task

READER = "lwcs-read"

A = TypeVar("A")
R = TypeVar("R")


def as_threads(n_jobs: int | None) -> int:
    """Turn `n_jobs` into a number of threads: -1 means all usable cores, -2 all but one.

    None means what joblib's context or OMP_NUM_THREADS say, else all usable cores.
    """
    if n_jobs is None:
        n_jobs = default_jobs()
    if isinstance(n_jobs, int) and n_jobs < 0:
        return max(1, usable_cores() + 1 + n_jobs)
    return check_count(n_jobs, "n_jobs")


class _Keeper:
    """A thread that runs tasks, one after the other.

    It is a daemon, unlike the threads of an executor: an interrupt while such a thread starts
    leaves it running without an owner, and the process would wait for it at exit.
    """

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[Callable[[], None], threading.Event]] = SimpleQueue()
        threading.Thread(target=self._work, name="lwcs-blas", daemon=True).start()

    def _work(self) -> None:
        while True:
            task, done = self._todo.get()
            try:
                task()
            finally:
                done.set()

    def run(self, task: Callable[[], None]) -> None:
        """Run a task on this thread, and wait for it."""
        done = threading.Event()
        self._todo.put((task, done))
        done.wait()


class _BlasLimit:
    """Counts the callers inside: the first to enter sets the limit, the last to leave lifts it.

    The limit applies to the whole process. If every caller set and restored it, it would stay at
    one forever as soon as two of them overlap; and threadpoolctl lets only the thread that set it
    lift it. So one thread does both for all callers.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start with no caller inside."""
        self._lock, self._inside = threading.Lock(), 0
        self._keeper: _Keeper | None = None
        self._blas: Any = None
        self._modules = 0
        self._limits = ExitStack()

    def enter(self) -> None:
        """Count one more caller."""
        with self._lock:
            # A module that was imported since may have brought a BLAS library of its own.
            if self._inside == 0 or self._modules != len(sys.modules):
                if self._keeper is None:
                    self._keeper = _Keeper()
                self._keeper.run(self._set)
            self._inside += 1

    def leave(self) -> None:
        """Count one caller less."""
        with self._lock:
            if self._inside == 0:
                # It entered in another process, before a fork.
                return
            self._inside -= 1
            if self._inside == 0 and self._keeper is not None:
                self._keeper.run(self._limits.close)

    def _set(self) -> None:
        from threadpoolctl import ThreadpoolController

        if self._modules != len(sys.modules):
            self._blas, self._modules = ThreadpoolController(), len(sys.modules)
        self._limits.enter_context(self._blas.limit(limits=1, user_api="blas"))


_LIMIT = _BlasLimit()
if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork, nor does a lock that one of them held.
    os.register_at_fork(after_in_child=_LIMIT.reset)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread, so that cores are not oversubscribed and sums do not vary."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


@contextmanager
def closing_items(items: Iterable[Any]) -> Iterator[None]:
    """Close a generator in the end: it may have a thread of its own, which must end too."""
    try:
        yield
    finally:
        if hasattr(items, "close"):
            items.close()


def ordered_map(
    function: Callable[[A], R],
    arguments: Iterable[A],
    n_jobs: int | None = None,
    at_once: int | None = None,
) -> Iterator[R]:
    """Yield ``function(argument)`` in the order of the arguments, computed on `n_jobs` threads.

    At most `at_once` tasks are in flight, by default two per thread, so that memory does not grow
    with the number of tasks. After an exception or an interrupt, no further task is started.
    """
    threads = as_threads(n_jobs)
    most = 2 * threads if at_once is None else at_once
    with single_threaded_blas(), closing_items(arguments):
        if threads == 1:
            yield from map(function, arguments)
            return
        waiting: deque[Task[R]] = deque()
        with Tasks(threads) as tasks:
            for argument in arguments:
                waiting.append(tasks.add(function, argument))
                if len(waiting) >= most:
                    yield tasks.result(waiting.popleft())
            while waiting:
                yield tasks.result(waiting.popleft())


class Map(Protocol):
    """The signature of `map`, with results in order."""

    def __call__(self, function: Callable[[A], R], arguments: Iterable[A], /) -> Iterable[R]:
        """Yield ``function(argument)`` for every argument."""


@contextmanager
def workers(n_jobs: int | None) -> Iterator[Map]:
    """A `map` on several threads, for many short rounds of tasks."""
    threads = as_threads(n_jobs)
    with single_threaded_blas():
        if threads == 1:
            yield map
            return

        def run(function: Callable[[A], R], arguments: Iterable[A], /) -> Iterator[R]:
            with Tasks(threads) as tasks:
                waiting = deque([tasks.add(function, argument) for argument in arguments])
                while waiting:
                    yield tasks.result(waiting.popleft())

        yield run


def prefetch(items: Iterable[A], depth: int = 2) -> Generator[A, None, None]:
    """Yield `items`, which a thread of their own produces, up to `depth` ahead.

    This way, reading overlaps with computing. Closing the generator stops the thread.
    """
    ready: Queue[tuple[bool, Any]] = Queue(maxsize=depth)
    stopped = threading.Event()

    def offer(what: tuple[bool, Any]) -> bool:
        while not stopped.is_set():
            try:
                ready.put(what, timeout=0.1)
            except Full:
                continue
            return True
        return False

    def produce() -> None:
        try:
            for item in items:
                if not offer((True, item)):
                    return
            offer((False, None))
        except BaseException as error:  # passed on, and raised where the item is awaited
            offer((False, error))

    thread = threading.Thread(target=produce, name=READER, daemon=True)
    thread.start()
    try:
        while True:
            there, value = ready.get()
            if there:
                yield value
            elif value is None:
                return
            else:
                raise value
    finally:
        stopped.set()
        # It may wait for a silent pipe, which must not make the caller wait.
        thread.join(timeout=1.0)
