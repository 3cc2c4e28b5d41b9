"""The one pool: tasks over partitions, results in order, BLAS held to one thread inside."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from lwcs.foundation.checks import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread, so that cores are not shared twice and sums do not vary."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


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
