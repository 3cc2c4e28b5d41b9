"""The one pool: tasks over partitions, results in order, BLAS held to one thread inside."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import Full, Queue, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lwcs.foundation.checks import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

READER = "lwcs-read"

A = TypeVar("A")
R = TypeVar("R")


def usable_cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def as_threads(n_jobs: int | None) -> int:
    """Turn `n_jobs` into a number of threads: None and -1 mean all usable cores."""
    if n_jobs is None or n_jobs == -1:
        return usable_cores()
    if isinstance(n_jobs, int) and n_jobs < -1:
        return max(1, usable_cores() + 1 + n_jobs)
    return check_count(n_jobs, "n_jobs")


@cache
def _blas(scipy: bool) -> Any:
    """Control of the libraries that are loaded; scipy brings another one than NumPy."""
    from threadpoolctl import ThreadpoolController

    del scipy
    return ThreadpoolController()


class _Keeper:
    """A thread that runs what it is told, one thing after the other.

    A daemon, unlike those of an executor: an interrupt while one of these starts leaves a thread
    that nobody knows of and that the end of the process waits for.
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
        """Have a task done."""
        done = threading.Event()
        self._todo.put((task, done))
        done.wait()


class _BlasLimit:
    """Counts who is inside: the first one in sets the limit, the last one out lifts it.

    The limit belongs to the process. Set and restored by each caller, it would stay at one for
    good once two overlap; and threadpoolctl lets only the thread that set it lift it. So one
    thread does both, whoever comes and goes.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start with nobody inside."""
        self._lock, self._inside = threading.Lock(), 0
        self._keeper: _Keeper | None = None
        self._limit: Any = None

    def enter(self) -> None:
        """Come in."""
        with self._lock:
            if self._inside == 0:
                if self._keeper is None:
                    self._keeper = _Keeper()
                self._keeper.run(self._set)
            self._inside += 1

    def leave(self) -> None:
        """Go out."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._keeper is not None:
                self._keeper.run(lambda: self._limit.__exit__(None, None, None))

    def _set(self) -> None:
        self._limit = _blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
        self._limit.__enter__()


_LIMIT = _BlasLimit()
if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork, nor does a lock that one of them held.
    os.register_at_fork(after_in_child=_LIMIT.reset)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread, so that cores are not shared twice and sums do not vary."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


@contextmanager
def _closing(items: Iterable[Any]) -> Iterator[None]:
    """Close a generator in the end: it may have a thread of its own, which must not outlive us."""
    try:
        yield
    finally:
        if hasattr(items, "close"):
            items.close()


def ordered_map(
    function: Callable[[A], R], arguments: Iterable[A], n_jobs: int | None = None
) -> Iterator[R]:
    """Yield ``function(argument)`` in the order of the arguments, computed on `n_jobs` threads.

    At most two tasks a thread are in flight, so that memory does not grow with their
    number, and an exception or an interrupt starts no further task.
    """
    threads = as_threads(n_jobs)
    with single_threaded_blas():
        if threads == 1:
            with _closing(arguments):
                yield from map(function, arguments)
            return
        pool = ThreadPoolExecutor(threads, thread_name_prefix="lwcs")
        waiting: deque[Future[R]] = deque()
        try:
            for argument in arguments:
                waiting.append(pool.submit(function, argument))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            with _closing(arguments):
                pass


class Map(Protocol):
    """`map`, in order."""

    def __call__(self, function: Callable[[A], R], arguments: Iterable[A], /) -> Iterable[R]:
        """Yield ``function(argument)`` of every argument."""


@contextmanager
def workers(n_jobs: int | None) -> Iterator[Map]:
    """Keep threads for many short rounds of tasks; with one thread, there are none."""
    threads = as_threads(n_jobs)
    with single_threaded_blas():
        if threads == 1:
            yield map
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="lwcs") as pool:

            def run(function: Callable[[A], R], arguments: Iterable[A], /) -> Iterable[R]:
                # Short tasks go out in a few lots: handing over each would cost more than it.
                todo = list(arguments)
                size = max(1, -(-len(todo) // (2 * threads)))
                lots = [todo[start : start + size] for start in range(0, len(todo), size)]
                for done in pool.map(lambda lot: [function(one) for one in lot], lots):
                    yield from done

            yield run


def prefetch(items: Iterable[A], depth: int = 2) -> Generator[A, None, None]:
    """Yield `items`, made by a thread of their own, up to `depth` ahead.

    Reading is so hidden behind computing. Whoever stops listening stops the thread too.
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
        except BaseException as error:  # handed over, and raised where it is waited for
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
        # It may be waiting for a pipe that says nothing; that is no reason for us to wait.
        thread.join(timeout=1.0)
