"""Threads: how many this process may use, the one pool of them, and BLAS on a single one.

Number of threads. Ours and not `joblib.cpu_count`, which reads the control group at the mount point
alone: it does not see the quota of a nested group (CPUQuota of systemd, a Slurm job, a pod that
shares the namespace of its host; `tests/runtime/test_cores.py`), and to import joblib takes longer
than a small build.

Pool. A caller runs its own tasks, and idle helpers join in. So a task may have tasks of its own
without a deadlock, fits side by side share the cores, and a round of tasks costs a fraction of what
an executor takes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from math import ceil, inf
from pathlib import Path, PurePosixPath
from queue import Empty, Full, Queue, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lwcs.arrays.checks import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import TracebackType
    from typing import Self


def usable_cores() -> int:
    """Number of cores in the affinity mask of this process, or fewer by its CPU quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    # Two threads use 1.5 cores.
    return max(1, ceil(min(cores, _quota_of_this_process())))


def default_jobs() -> int:
    """The default of `n_jobs`, where -1 means all usable cores.

    It is the `n_jobs` of joblib's context, else OMP_NUM_THREADS up to the usable cores, else -1.
    """
    level, jobs = _joblib_context()
    if jobs is not None:
        return jobs
    if (limit := _omp_num_threads()) is not None:
        # joblib's default backend sets it to the share of the cores that a worker may use.
        return min(limit, usable_cores())
    # Workers of other backends do not know how many of them there are.
    return 1 if level > 0 and multiprocessing.parent_process() is not None else -1


def _joblib_context() -> tuple[int, int | None]:
    """Nesting level and `n_jobs` of joblib's context, without importing joblib."""
    active = getattr(sys.modules.get("joblib.parallel"), "get_active_backend", None)
    if active is None:
        return 0, None
    backend, jobs = active()
    return getattr(backend, "nesting_level", None) or 0, jobs


def _omp_num_threads() -> int | None:
    """The first number in OMP_NUM_THREADS, which has one number per level of nesting."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(given) if given.isascii() and given.isdigit() and int(given) > 0 else None


@cache
def _quota_of_this_process() -> float:
    return cpu_quota(Path("/"))


def cpu_quota(root: Path) -> float:
    """Cores that the control groups of this process allow; infinite without a limit.

    `root` is the folder that contains /proc and the mounted control groups.
    """
    quotas = (_quota(folder) for group in _groups(root) for folder in group)
    return min(quotas, default=inf)


def _groups(root: Path) -> Iterator[list[Path]]:
    """The control groups for CPU time that this process is in, each with its ancestors."""
    try:
        mounts = _lines(root / "proc/self/mountinfo")
        member_of = [line.split(":", 2) for line in _lines(root / "proc/self/cgroup")]
    except OSError:
        return
    for line in mounts:
        # ID, parent, device, root, mount point, options, …, "-", type, device, options
        mount, _, system = (part.split() for part in line.partition(" - "))
        if system[0] == "cgroup2":
            paths = [path for number, _, path in member_of if number == "0"]
        elif system[0] == "cgroup" and "cpu" in system[2].split(","):
            paths = [path for _, kinds, path in member_of if "cpu" in kinds.split(",")]
        else:
            continue
        top = root / mount[4].lstrip("/")
        for path in paths:
            inside = _below(PurePosixPath(path), PurePosixPath(mount[3]))
            yield [top / step for step in (inside, *inside.parents)]


def _below(path: PurePosixPath, mounted: PurePosixPath) -> PurePosixPath:
    """Path of a group below the mount point; a container may see nothing above its own group."""
    visible = path.is_relative_to(mounted) and ".." not in path.parts
    return path.relative_to(mounted) if visible else PurePosixPath()


def _quota(group: Path) -> float:
    """Cores that one group allows; infinite if it sets no limit."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        # Without a limit there is no such file, or "max" in it.
        with suppress(OSError, ValueError, IndexError, ZeroDivisionError):
            quota, period = " ".join(_lines(group / name)[0] for name in names).split()
            if int(quota) > 0:
                return int(quota) / int(period)
    return inf


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8", "surrogateescape").splitlines()


R = TypeVar("R")

# Seconds after which an idle thread ends, and its workspace is freed.
_IDLE = 1.0


class _Helpers:
    """Threads that start when they are needed, and help one caller after the other.

    They are daemons: an interrupt while a thread starts leaves it running without an owner, and
    the process would wait for it at exit.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without threads."""
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._requests: SimpleQueue[Tasks] = SimpleQueue()
        # Number of requests that wait or are worked on.
        self._open = 0

    def help(self, tasks: Tasks) -> None:
        """Have one more thread help with tasks, now or when one is free."""
        self._requests.put(tasks)
        with self._lock:
            self._open += 1
            if len(self._threads) < min(self._open, tasks.most_helpers):
                thread = threading.Thread(target=self._work, name="lwcs", daemon=True)
                thread.start()
                self._threads.add(thread)

    def _work(self) -> None:
        while (tasks := self._next()) is not None:
            # If other callers wait, run one task only, so that all of them make progress.
            while (more := tasks.run_one()) and self._requests.empty():
                pass
            if more:
                self._requests.put(tasks)
            else:
                with self._lock:
                    self._open -= 1
            # A reference that lives while this thread waits would keep the caller's data in memory.
            del tasks

    def _next(self) -> Tasks | None:
        """The next request, or None if this thread is to end."""
        while True:
            try:
                return self._requests.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._requests.empty():
                        self._threads.discard(threading.current_thread())
                        return None


_HELPERS = _Helpers()


class PendingCall(Generic[R]):
    """A function and its argument, and later its result or its error."""

    __slots__ = ("_error", "_todo", "_value", "done")

    def __init__(self, function: Callable[[Any], R], argument: Any) -> None:
        self._todo: tuple[Callable[[Any], R], Any] | None = (function, argument)
        self._error: BaseException | None = None
        self.done = False

    def run(self, kept: type[BaseException]) -> None:
        """Run it; errors of this type are kept for the caller."""
        assert self._todo is not None
        # A result may wait for its turn; the rows it was computed from must not be kept until then.
        (function, argument), self._todo = self._todo, None
        try:
            self._value = function(argument)
        except kept as error:
            self._error = error
        self.done = True

    def result(self) -> R:
        """Return what the function returned, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._value


class Tasks:
    """The tasks of one caller, run by its own thread and up to ``threads − 1`` helpers.

    Leaving the context waits for the tasks that run, and starts no other. The caller may be
    interrupted at any point, so counts are kept by helpers only, and the lock is a plain one, which
    an interrupt cannot leave locked.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._helpers = threads, 0
        self.most_helpers = max(usable_cores(), threads) - 1
        """Number of threads that help all callers together."""
        self._lock, self._running = threading.Lock(), 0
        self._todo: deque[PendingCall[Any]] = deque()
        # One item for every task that a helper has finished, put there once `done` is set.
        self._ended: SimpleQueue[None] = SimpleQueue()

    def __enter__(self) -> Self:
        """Start no thread yet."""
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

    def add(self, function: Callable[[Any], R], argument: Any) -> PendingCall[R]:
        """Add a task, and ask for one more helper if fewer than allowed are at work."""
        task = PendingCall(function, argument)
        with self._lock:
            self._todo.append(task)
            more = self._helpers < self._threads - 1
            self._helpers += more
        if more:
            _HELPERS.help(self)
        return task

    def result(self, task: PendingCall[R]) -> R:
        """Wait for the result of a task; meanwhile, run tasks that have not started."""
        while not task.done:
            with self._lock:
                following = self._todo.popleft() if self._todo else None
            if following is None:
                self._ended.get()
            else:
                # An interrupt is not the error of a task.
                following.run(Exception)
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


READER = "lwcs-read"
"""Name of threads that read ahead."""

A = TypeVar("A")


def as_threads(n_jobs: int | None) -> int:
    """Turn `n_jobs` into a number of threads: -1 means all usable cores, -2 all but one.

    None means the number of joblib's context or OMP_NUM_THREADS, else all usable cores.
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
    """Counts the callers that need the limit: the first one sets it, the last one lifts it.

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
            # A module that was imported since then may have loaded another BLAS library.
            if self._inside == 0 or self._modules != len(sys.modules):
                if self._keeper is None:
                    self._keeper = _Keeper()
                self._keeper.run(self._set)
            self._inside += 1

    def leave(self) -> None:
        """Count one caller fewer."""
        with self._lock:
            if self._inside == 0:
                # The caller entered in the parent process, before a fork.
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
    for each in (_HELPERS, _LIMIT):
        os.register_at_fork(after_in_child=each.reset)


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
    """Close a generator at the end: it may have a thread of its own, which must end as well."""
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
        waiting: deque[PendingCall[R]] = deque()
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
            todo = list(arguments)
            if len(todo) == 1:
                # Not by a helper: a thread may have a team for its native calls (`kernels`).
                yield function(todo[0])
                return
            with Tasks(threads) as tasks:
                waiting = deque([tasks.add(function, argument) for argument in todo])
                while waiting:
                    yield tasks.result(waiting.popleft())

        yield run


def prefetch(items: Iterable[A], depth: int = 2) -> Generator[A, None, None]:
    """Yield `items`, which a thread of their own produces, up to `depth` ahead.

    Reading then overlaps with computing. Closing the generator stops the thread.
    """
    ready: Queue[tuple[bool, Any]] = Queue(maxsize=depth)
    stopped = threading.Event()

    def offer(what: tuple[bool, Any]) -> bool:
        while not stopped.is_set():
            with suppress(Full):
                ready.put(what, timeout=0.1)
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
        # The thread may be blocked by a pipe without data; the caller must not be.
        thread.join(timeout=1.0)
