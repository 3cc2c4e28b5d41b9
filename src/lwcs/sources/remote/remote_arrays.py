"""Rows of .npy files on a store: read in large windows, the next ones while one is used.

Threads read blocks of rows that are smaller than a good request, and that do not end where windows
do: so windows are shared by all threads of a scan, and dropped once all of their bytes were read.
fsspec's caches prefetch one block at most, and do not serve the file systems of pyarrow: of 122 MB,
at 30 ms per request and 100 MB/s per connection, a pass takes 0.55 s here, and 1.8 s with the best
of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.sources.blocks import Budget
from lwcs.sources.files.chunked import BlockReader, ChunkedSource, StackedSource
from lwcs.sources.memory.local import LocalSource
from lwcs.sources.remote import prefetch
from lwcs.sources.remote.prefetch import Piece, Store, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows, IntArray, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources.base import Block, Task
    from lwcs.sources.files.change_detection import Stamps

R = TypeVar("R")

# Windows that are held: half of them may be prefetched, the rest is for threads that need one now.
_WINDOWS = 32
# Number of windows after the one that is read that are prefetched.
_AHEAD = 4
_HEADER = 2**16
# Rows that are this close are fetched by one request; farther ones by two at the same time, which
# is faster.
_GAP = 2**17


@dataclass(slots=True)
class _ArrayWindow:
    """Consecutive bytes of a file, requested or fetched."""

    content: Future[bytes]
    unread: int
    """Number of bytes that no thread has read."""


@dataclass(slots=True)
class Windows:
    """The windows of the files of a scan; every pass reads each byte once."""

    store: Store
    stamps: Stamps
    size: int
    """Bytes of a window."""
    held: dict[tuple[str, int], _ArrayWindow] = field(default_factory=dict)
    """The windows that are held by path and number, the oldest first."""
    lock: Any = field(default_factory=Lock)
    passes: int = 0
    """Number of passes at this time whose files are checked together."""

    @classmethod
    def of(cls, store: Store, stamps: Stamps, memory_limit: int | None = None) -> Windows:
        """Windows within their share of a memory limit."""
        share = 2 * Budget.of(memory_limit).ahead // _WINDOWS
        return cls(store, stamps, min(prefetch.LARGEST, max(1, share)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what is held."""
        return Windows, (self.store, self.stamps, self.size)

    def limit(self, memory_limit: int) -> None:
        """Hold no more than a share of this limit."""
        with self.lock:
            self.held.clear()
            self.size = Windows.of(self.store, self.stamps, memory_limit).size

    def request(self, path: str, number: int, bytes_: Piece) -> _ArrayWindow:
        """A window that is held, or else requested in place of the oldest one."""
        if (window := self.held.get((path, number))) is None:
            while len(self.held) >= _WINDOWS:
                del self.held[next(iter(self.held))]
            window = _ArrayWindow(self.fetch(path, bytes_), bytes_.stop - bytes_.start)
            self.held[path, number] = window
        return window

    def fetch(self, path: str, bytes_: Piece) -> Future[bytes]:
        """Request some bytes of a file."""
        return self.store.pool.submit(self.store.fetch, path, bytes_.start, bytes_.stop)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Check the files that are read in the block at its end, all at once."""
        with self.lock:
            self.passes += 1
        try:
            yield
        finally:
            with self.lock:
                self.passes -= 1
        self.stamps.finish()

    def checked(self, results: Iterable[R]) -> Iterator[R]:
        """Yield results of a pass, the last one after a check that no file has changed."""
        held = list[R]()
        with self.together():
            for result in results:
                yield from held
                held = [result]
        yield from held

    def after(self, path: str) -> None:
        """Check a file after its last row, or with the others that are read together."""
        self.stamps.after(path, last=True)
        if not self.passes:
            self.stamps.finish()


class RemoteArray:
    """The rows of a .npy file in C order, with the interface that `ChunkedSource` needs."""

    def __init__(self, windows: Windows, path: str) -> None:
        from lwcs.sources.files.array_files import header

        size = windows.store.size(path)
        file: Any = windows.store.file(path, [[Piece(0, min(size, _HEADER))]], _HEADER)
        file.begin()
        self.shape, fortran, self.dtype = header(file, size)
        if fortran and len(self.shape) > 1:
            raise ValueError(
                "it is in Fortran order, so that a row lies in as many places as it has columns; "
                "copy it to this machine, or save it again in C order with "
                "np.save(…, np.ascontiguousarray(X))"
            )
        self._windows, self._path, self._first = windows, path, file.tell()
        self._row = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        self._bytes = self.shape[0] * self._row
        self._requested = -1
        """The last window that was requested in this pass."""

    def __getitem__(self, rows: slice | IntArray) -> DenseRows:
        """Consecutive rows, or rows by number in ascending order.

        A pass begins with the first row and ends with the last one.
        """
        if not isinstance(rows, slice):
            return self._take(rows)
        start, stop, _ = rows.indices(self.shape[0])
        data = np.empty(max(stop - start, 0) * self._row, np.uint8)
        if start == 0 and len(data):
            self._requested = -1
        copied = 0
        while copied < len(data):
            copied += self._copy(start * self._row + copied, data[copied:])
        if stop == self.shape[0] and len(data):
            self._windows.after(self._path)
        return data.view(self.dtype).reshape(-1, *self.shape[1:])

    @property
    def oindex(self) -> RemoteArray:
        """Rows by number, as zarr calls it."""
        return self

    def _copy(self, start: int, data: DenseRows) -> int:
        """Copy bytes up to the end of their window; returns their number."""
        windows = self._windows
        number, within = divmod(start, windows.size)
        window = self._window(number)
        try:
            part = np.frombuffer(window.content.result(), np.uint8)[within : within + len(data)]
        except BaseException:
            # The next read asks the store again.
            windows.held.pop((self._path, number), None)
            raise
        data[: len(part)] = part
        with windows.lock:
            window.unread -= len(part)
            if window.unread <= 0:
                windows.held.pop((self._path, number), None)
        return len(part)

    def _window(self, number: int) -> _ArrayWindow:
        """Request a window, and prefetch those after it as far as there is room."""
        windows = self._windows
        last = min(number + _AHEAD, (self._bytes - 1) // windows.size)
        with windows.lock:
            window = windows.request(self._path, number, self._bytes_of(number))
            self._requested = max(self._requested, number)
            while (
                self._requested < min(number + _AHEAD, last) and len(windows.held) < _WINDOWS // 2
            ):
                self._requested += 1
                windows.request(self._path, self._requested, self._bytes_of(self._requested))
        return window

    def _bytes_of(self, number: int) -> Piece:
        start, size = self._first + number * self._windows.size, self._windows.size
        return Piece(start, min(start + size, self._first + self._bytes))

    def _take(self, rows: IntArray) -> DenseRows:
        """Fetch rows by number: near ones by one request, several requests at a time."""
        starts = self._first + rows * self._row
        pieces = (Piece(int(start), int(start) + self._row) for start in starts)
        requests = list(merged(pieces, _GAP, self._windows.size))
        taken = np.empty((len(rows), self._row), np.uint8)
        for first in range(0, len(requests), _WINDOWS):
            some = requests[first : first + _WINDOWS]
            contents = [self._windows.fetch(self._path, each) for each in some]
            for each, content in zip(some, contents, strict=True):
                begin, end = np.searchsorted(starts, [each.start, each.stop])
                within = starts[begin:end, None] - each.start + np.arange(self._row)
                taken[begin:end] = np.frombuffer(content.result(), np.uint8)[within]
        self._windows.after(self._path)
        return taken.reshape(-1).view(self.dtype).reshape(-1, *self.shape[1:])


class _LimitedSource(BlockReader):
    """Rows of .npy files on a store: windows are limited, too."""

    windows: Windows

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of rows on their way; refuse a limit too small for a few blocks."""
        least = Budget.least(self._block_bytes())
        if limit < least:
            raise ValueError(
                f"memory_limit={limit / 1e6:.3g}MB is too little to read {self.n_features} "
                f"column{'s' * (self.n_features != 1)}; pass memory_limit={-(-least // 10**6)}MB "
                "or more"
            )
        super().limit_memory(limit)
        self.windows.limit(limit)

    def each_block(
        self,
        task: Callable[[Block], R],
        *,
        rows: int | None = None,
        n_jobs: int | None = None,
        kernel: KernelName = "numpy",
    ) -> Iterator[R]:
        """Run a task over every block, and check the files at the end."""
        return self.windows.checked(
            super().each_block(task, rows=rows, n_jobs=n_jobs, kernel=kernel)
        )

    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every partition, and check the files at the end."""
        return self.windows.checked(super().gather(task, items, n_jobs=n_jobs))


class RemoteSource(_LimitedSource, ChunkedSource):
    """The rows of a .npy file on a store."""

    def __init__(self, windows: Windows, path: str) -> None:
        self.windows = windows
        super().__init__(RemoteArray(windows, path))


class RemoteStack(_LimitedSource, StackedSource):
    """The rows of several .npy files on a store."""

    def __init__(
        self, windows: Windows, paths: Sequence[str], open_file: Callable[[str], LocalSource]
    ) -> None:
        self.windows = windows
        # They hold no connection: all stay open, so that their headers are read once.
        super().__init__(paths, cache(open_file))

    def take(self, rows: IntArray) -> Rows:
        """Fetch the requested rows; the files are checked together."""
        with self.windows.together():
            return super().take(rows)
