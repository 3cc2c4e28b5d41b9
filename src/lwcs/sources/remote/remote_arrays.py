"""Arrays in .npy files on a store, whose rows are fetched in ranges."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.runtime.parallel import as_threads
from lwcs.sources.blocks import Budget
from lwcs.sources.files.chunked import ChunkedSource
from lwcs.sources.files.stacked import StackedSource
from lwcs.sources.memory.in_process import LocalSource
from lwcs.sources.remote.prefetch import LARGEST, Piece, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows, IntArray
    from lwcs.sources.base import Block, Task
    from lwcs.sources.files.change_detection import Stamps
    from lwcs.sources.remote.prefetch import Store

R = TypeVar("R")

# Windows that are held: half of them may be fetched ahead, so that threads which need one at once
# do not take those of others.
_WINDOWS = 32
# How many windows after the one that is read are fetched.
_AHEAD = 4
_HEADER = 2**16
# Rows that are this close come by one request; with more between them, two side by side are faster.
_GAP = 2**17


@dataclass(slots=True)
class _Window:
    """Consecutive bytes of the rows of a file, from when they are asked for."""

    answer: Future[bytes]
    unread: int
    """Number of bytes that nobody has read."""
    readers: int = 0
    """Number of threads that wait for it or copy from it."""


@dataclass(slots=True)
class Windows:
    """What is held of the files of a scan; every pass reads each byte once."""

    store: Store
    stamps: Stamps
    size: int
    """Bytes of a window."""
    held: dict[tuple[str, int], _Window] = field(default_factory=dict)
    """By path and number, the oldest first."""
    lock: Any = field(default_factory=Lock)

    @classmethod
    def of(cls, store: Store, stamps: Stamps, memory_limit: int | None = None) -> Windows:
        """Windows within their share of a limit."""
        return cls(store, stamps, min(LARGEST, max(1, Budget.of(memory_limit).fetched // _WINDOWS)))

    def __reduce__(self) -> tuple[Any, ...]:
        """What is held stays here."""
        return Windows, (self.store, self.stamps, self.size)

    def limit(self, memory_limit: int) -> None:
        """Hold no more than a share of this limit."""
        with self.lock:
            self.held.clear()
            self.size = Windows.of(self.store, self.stamps, memory_limit).size

    def make_room(self) -> None:
        """Drop the oldest windows that nobody waits for."""
        for key, window in list(self.held.items()):
            if len(self.held) < _WINDOWS:
                return
            if not window.readers:
                window.answer.cancel()
                del self.held[key]

    def check(self, path: str) -> None:
        """Raise an error if a file is not what it was."""
        # By a thread of the pool: an interrupt does not wait for the answer of a store.
        self.store.pool.submit(self.stamps.check, path).result()


class RemoteArray:
    """The rows of a .npy file in C order, as `ChunkedSource` reads them."""

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
        self._bytes = int(np.prod(self.shape)) * self.dtype.itemsize
        self._row = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        self._read = set[int]()
        """Windows that were read to their end in this pass."""

    def __getitem__(self, rows: slice) -> DenseRows:
        """Consecutive rows; the windows after them are fetched ahead.

        With the first row a pass begins, and with the last one it ends: then the file is checked.
        """
        start, stop, _ = rows.indices(self.shape[0])
        data = np.empty(max(stop - start, 0) * self._row, np.uint8)
        if start == 0 and len(data):
            self._windows.check(self._path)
            self._read.clear()
        at, end = start * self._row, start * self._row + len(data)
        while at < end:
            number, within = divmod(at, self._windows.size)
            begin = at - start * self._row
            at += self._copy(number, within, data[begin:])
        if stop == self.shape[0] and len(data):
            self._windows.check(self._path)
        return data.view(self.dtype).reshape(-1, *self.shape[1:])

    def _copy(self, number: int, within: int, data: DenseRows) -> int:
        """Copy bytes of a window, and drop it after its last one; the number of these bytes."""
        window = self._wanted(number)
        length = 0
        try:
            part = np.frombuffer(window.answer.result(), np.uint8)[within : within + len(data)]
            length = len(part)
            data[:length] = part
        finally:
            with self._windows.lock:
                window.readers -= 1
                window.unread -= length
                # After an error, whoever asks again shall get another answer.
                if not length or window.unread <= 0:
                    self._windows.held.pop((self._path, number), None)
                if window.unread <= 0:
                    self._read.add(number)
        return length

    def _wanted(self, number: int) -> _Window:
        """A window, and those after it on their way, as far as there is room."""
        windows, last = self._windows, (self._bytes - 1) // self._windows.size
        with windows.lock:
            if (self._path, number) not in windows.held:
                windows.make_room()
            window = self._asked(number)
            window.readers += 1
            for each in range(number + 1, min(number + _AHEAD, last) + 1):
                if each not in self._read and len(windows.held) < _WINDOWS // 2:
                    self._asked(each)
        return window

    def _asked(self, number: int) -> _Window:
        known = self._windows.held.get((self._path, number))
        if known is None:
            size = self._windows.size
            start, stop = number * size, min((number + 1) * size, self._bytes)
            answer = self._fetch(Piece(self._first + start, self._first + stop))
            known = self._windows.held[self._path, number] = _Window(answer, stop - start)
        return known

    def _fetch(self, piece: Piece) -> Future[bytes]:
        store = self._windows.store
        return store.pool.submit(store.fetch, self._path, piece.start, piece.stop)

    @property
    def oindex(self) -> _Chosen:
        """Rows by number, as in zarr."""
        return _Chosen(self)

    def take(self, rows: IntArray) -> DenseRows:
        """Rows by number, in ascending order: near ones by one request, several side by side."""
        starts = self._first + rows * self._row
        pieces = (Piece(int(at), int(at) + self._row) for at in starts)
        requests = list(merged(pieces, _GAP, self._windows.size))
        taken = np.empty((len(rows), self._row), np.uint8)
        for first in range(0, len(requests), _WINDOWS):
            some = requests[first : first + _WINDOWS]
            for each, answer in zip(some, list(map(self._fetch, some)), strict=True):
                begin, end = np.searchsorted(starts, [each.start, each.stop])
                within = starts[begin:end, None] - each.start + np.arange(self._row)
                taken[begin:end] = np.frombuffer(answer.result(), np.uint8)[within]
        self._windows.check(self._path)
        return taken.reshape(-1).view(self.dtype).reshape(-1, *self.shape[1:])


class _Chosen:
    def __init__(self, array: RemoteArray) -> None:
        self._array = array

    def __getitem__(self, rows: IntArray) -> DenseRows:
        return self._array.take(rows)


class _OnStore(LocalSource):
    """Rows that wait in memory for threads, within a limit."""

    dtype: np.dtype[Any]
    windows: Windows
    memory_limit: int | None = None

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of rows on their way; refuse what is too little for a few blocks."""
        least = Budget.least(self._block_bytes())
        if limit < least:
            raise ValueError(
                f"memory_limit={limit / 1e6:.3g}MB is too little to read {self.n_features} "
                f"column{'s' * (self.n_features != 1)}; pass memory_limit={-(-least // 10**6)}MB "
                "or more"
            )
        self.memory_limit = limit
        self.windows.limit(limit)

    def _block_bytes(self) -> int:
        return min(self.block_rows, self.n_rows) * self.n_features * self.dtype.itemsize

    def _jobs(self, n_jobs: int | None) -> int | None:
        """Number of threads whose blocks fit: one is read and one waits for each of them."""
        if self.memory_limit is None:
            return n_jobs
        flight = Budget(self.memory_limit).flight(self._block_bytes(), as_threads(n_jobs))
        return 1 if flight is None else max(1, flight.at_once // 2)

    def each_block(
        self, task: Callable[[Block], R], *, rows: int | None = None, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every block, on as many threads as there is memory for."""
        return super().each_block(task, rows=rows, n_jobs=self._jobs(n_jobs))

    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every partition, on as many threads as there is memory for."""
        return super().gather(task, items, n_jobs=self._jobs(n_jobs))


class RemoteSource(_OnStore, ChunkedSource):
    """The rows of a .npy file on a store."""

    def __init__(self, windows: Windows, path: str) -> None:
        self.windows = windows
        super().__init__(RemoteArray(windows, path))


class RemoteStack(_OnStore, StackedSource):
    """The rows of several .npy files on a store."""

    def __init__(
        self, windows: Windows, paths: Sequence[str], open_file: Callable[[str], LocalSource]
    ) -> None:
        self.windows = windows
        super().__init__(paths, open_file)
