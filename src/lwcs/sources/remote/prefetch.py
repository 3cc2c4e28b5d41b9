"""Files on a store: their bytes in ranges, by any file system of pyarrow or fsspec."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lwcs.runtime.parallel import READER, as_threads
from lwcs.sources.blocks import Budget
from lwcs.sources.files.chunked import ChunkedSource, StackedSource
from lwcs.sources.memory.local import LocalSource
from lwcs.storage.locations import reaching
from lwcs.storage.stores import fsspec_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow import fs

    from lwcs.arrays.types import DenseRows, IntArray
    from lwcs.sources.base import Block, Task
    from lwcs.sources.files.change_detection import Stamp, Stamps


# Files that stay open: to open one asks a store for its size.
_OPEN_FILES = 256


class Store:
    """The files of a scan, which are not on this machine."""

    def __init__(self, filesystem: fs.FileSystem, stamps: Mapping[str, Stamp]) -> None:
        self._filesystem, self._stamps = filesystem, stamps
        self._fsspec = fsspec_files(filesystem)
        self._open: dict[str, Future[Any]] = {}
        self._lock = Lock()
        self.pool = WaitingThreads(REQUESTS)
        """Threads that wait for answers; they end with the store."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Threads and open files stay here: a copy in another process has its own."""
        return Store, (self._filesystem, self._stamps)

    def size(self, path: str) -> int:
        """Number of bytes of a file."""
        return self._stamps[path][0]

    def fetch(self, path: str, start: int, stop: int) -> bytes:
        """Some bytes of a file; may be called by several threads."""
        with reaching(path):
            if self._fsspec is not None:
                data = self._fsspec.fetch(path, start, stop, self.size(path))
            else:
                data = self._opened(path).read_at(stop - start, start)
        if len(data) != stop - start:
            raise ValueError(
                f"{path!r} cannot be read in parts: {stop - start:,} bytes were asked for, and "
                f"{len(data):,} came; if its server does not give parts of files, copy it to this "
                "machine"
            )
        return data

    def _opened(self, path: str) -> Any:
        """The open file; others wait for the one that opens it."""
        with self._lock:
            known = self._open.get(path)
            if mine := known is None or (known.done() and known.exception() is not None):
                known = self._open[path] = Future()
                while len(self._open) > _OPEN_FILES:
                    # Whoever reads it holds it; nobody closes it under their hands.
                    del self._open[next(iter(self._open))]
        assert known is not None
        if mine:
            try:
                known.set_result(self._filesystem.open_input_file(path))
            except BaseException as error:
                known.set_exception(error)
        return known.result()

    def file(self, path: str, lanes: Sequence[Lane] = (), most: int = 0) -> Ahead:
        """A file whose lanes are fetched ahead, up to `most` bytes of them; see `Ahead`."""
        return Ahead(partial(self.fetch, path), self.size(path), self.pool, lanes, most)


Fetch = Callable[[int, int], bytes]
"""From the first byte and the one after the last to the bytes."""

REQUESTS = 24
"""Number of requests at a time."""
LARGEST = 2**23
"""Most bytes of one request: larger ones take longer than several side by side."""
_SMALLEST = 2**16
# A request is at most this part of what may be held.
_SHARES = 4
# Bytes that nobody wants are fetched along, if they are not more than what is wanted beside them,
# or so few that another request would take longer whatever else is limited.
_HOLE = 2**19
_CHEAP = 2**14
# The end of a file, where formats keep what is read first.
_TAIL = 2**16


class WaitingThreads(ThreadPoolExecutor):
    """Threads that wait for a store or a disk.

    Where the block they serve ends by an error or an interrupt, nobody waits for them: a store that
    does not answer would keep them forever.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most, thread_name_prefix=READER)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for all work, or for none after an error."""
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """Some bytes of a file."""

    start: int
    stop: int


Lane = list[Piece]
"""Pieces that are read one after the other, each from its first byte to its last."""


def bytes_in(lane: Lane) -> int:
    """Number of bytes of a lane."""
    return sum(piece.stop - piece.start for piece in lane)


def merged(pieces: Iterable[Piece], cheap: int, largest: int = LARGEST) -> Iterator[Piece]:
    """Requests for some pieces, in order: near ones together, as long as they are not large.

    Between two pieces, `cheap` bytes that nobody wants are fetched along, or as many as are wanted
    before them.
    """
    current: Piece | None = None
    wanted = 0
    for piece in sorted(pieces):
        if current is not None:
            near = piece.start - current.stop <= max(cheap, min(wanted, _HOLE))
            if near and piece.stop - current.start <= largest:
                current = Piece(current.start, max(current.stop, piece.stop))
                wanted += piece.stop - piece.start
                continue
            yield current
        current, wanted = piece, piece.stop - piece.start
    if current is not None:
        yield current


@dataclass(slots=True, eq=False)
class _Request:
    """Bytes that are asked for, or there, and the windows that wait for them."""

    start: int
    size: int
    answer: Future[bytes]
    windows: set[_Window]


@dataclass(slots=True, eq=False)
class _Window:
    """A piece of a lane, while it is fetched and read."""

    start: int
    stop: int
    lane: int
    """The number of its lane."""
    after: _Window | None = None
    """The next of the lane."""
    request: _Request | None = None
    """What it is a part of, once it is asked for."""

    def bytes_of(self, start: int, stop: int) -> memoryview:
        """Some of its bytes, once they are there."""
        assert self.request is not None
        first = self.request.start
        return memoryview(self.request.answer.result())[start - first : stop - first]

    def next(self, reach: int) -> Iterator[_Window]:
        """It and those after it, at most so many bytes, but two at least."""
        window: _Window | None = self
        while window is not None:
            reach -= window.stop - window.start
            if reach < 0 and window is not self and window is not self.after:
                return
            yield window
            window = window.after


def _cut(number: int, lane: Lane, size: int) -> list[_Window]:
    """The windows of a lane, of at most so many bytes; those of a piece are equally large."""
    windows = list[_Window]()
    for piece in lane:
        length = piece.stop - piece.start
        step = -(-length // -(-length // size))
        starts = range(piece.start, piece.stop, step)
        windows += [_Window(start, min(start + step, piece.stop), number) for start in starts]
    for before, after in pairwise(windows):
        before.after = after
    return windows


def _start(window: _Window) -> int:
    return window.start


class Ahead:
    """A file whose lanes are fetched ahead; what is read elsewhere is fetched when it is.

    It is read by one thread at a time, as pyarrow reads files of Python.
    """

    closed = False

    def __init__(
        self,
        fetch: Fetch,
        size: int,
        pool: ThreadPoolExecutor,
        lanes: Sequence[Lane] = (),
        most: int = 0,
    ) -> None:
        """Fetch at most so many bytes ahead."""
        self._fetch, self._size, self._pool, self._at = fetch, size, pool, 0
        self._tail: bytes | None = None
        self._begun = False
        lanes = list(filter(None, lanes))
        total, width = sum(map(bytes_in, lanes)), max(len(lanes), 1)
        # Two windows of every lane, and two more of the lanes that are asked for early.
        early = min(width, REQUESTS) - 1
        window = LARGEST if total <= most else most // (2 * (width + early))
        window = min(LARGEST, max(_SMALLEST, window))
        # Bytes of a lane that are asked for at a time, where all lanes have room.
        self._reach = total if total <= most else (most - 2 * early * window) // width
        cut = [_cut(number, lane, window) for number, lane in enumerate(lanes)]
        self._current: list[_Window | None] = [windows[0] for windows in cut]
        """Where each lane is read; None after its end."""
        self._window, self._most = window, most
        # Of several requests, some are read while others are on their way.
        self._largest = min(LARGEST, max(most // _SHARES, window))
        self._requests: dict[_Request, None] = {}
        self._held = 0
        """Bytes that are asked for, or there."""
        self._windows = sorted((each for windows in cut for each in windows), key=_start)
        self._starts = list(map(_start, self._windows))

    @property
    def most_held(self) -> int:
        """Number of bytes that it holds at most, with those that nobody wants."""
        return min(self._most, sum(each.stop - each.start for each in self._merged(self._windows)))

    def begin(self) -> None:
        """Begin to fetch, if that has not begun."""
        if not self._begun:
            self._begun = True
            firsts = [first for first in self._current if first is not None]
            self._ask(each for first in firsts for each in first.next(self._reach))

    def _merged(self, windows: Iterable[_Window]) -> list[Piece]:
        pieces = (Piece(each.start, each.stop) for each in windows)
        return list(merged(pieces, _CHEAP, self._largest))

    def _ask(self, wanted: Iterable[_Window]) -> None:
        """Ask for windows, in the order in which they are needed, as far as there is room."""
        room, fitting, total = self._most - self._held, list[_Window](), 0
        for window in wanted:
            if window.request is None:
                total += window.stop - window.start
                if total > room:
                    break
                fitting.append(window)
        while fitting:
            requests = self._merged(fitting)
            total = sum(each.stop - each.start for each in requests)
            if total <= room:
                self._send(fitting, requests)
                return
            # What nobody wants takes room too.
            fitting = fitting[: min(len(fitting) - 1, len(fitting) * room // total)]

    def _send(self, windows: list[_Window], pieces: list[Piece]) -> None:
        requests = [
            _Request(
                each.start, each.stop - each.start,
                self._pool.submit(self._fetch, each.start, each.stop), set(),
            )
            for each in pieces
        ]  # fmt: skip
        starts = [each.start for each in pieces]
        for window in windows:
            window.request = requests[bisect_right(starts, window.start) - 1]
            window.request.windows.add(window)
        self._requests |= dict.fromkeys(requests)
        self._held += sum(each.size for each in requests)

    def _drop(self, window: _Window) -> None:
        """Forget the bytes of a window; those of a request go with its last window."""
        if (request := window.request) is None:
            return
        window.request = None
        request.windows.discard(window)
        if not request.windows:
            request.answer.cancel()
            del self._requests[request]
            self._held -= request.size

    def read(self, n: int = -1) -> bytes | memoryview:
        """The next bytes."""
        stop = self._size if n < 0 else min(self._size, self._at + n)
        parts: list[bytes | memoryview] = []
        while self._at < stop:
            parts.append(self._some(self._at, stop))
            self._at += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, start: int, stop: int) -> bytes | memoryview:
        """The next bytes, up to the end of what one request brings."""
        number = bisect_right(self._starts, start) - 1
        if number >= 0 and start < self._windows[number].stop:
            window = self._windows[number]
            if window.request is not None or start < self._size - _TAIL:
                return self._of_window(window, start, stop)
        if number + 1 < len(self._starts):
            stop = min(stop, self._starts[number + 1])
        return self._elsewhere(start, stop)

    def _of_window(self, window: _Window, start: int, stop: int) -> memoryview:
        """The bytes of a window, which is dropped after its last one."""
        self._move_to(window)
        if window.request is None:
            self._ask_ahead(window, stop)
        if window.request is None:
            self._make_room(window)
            self._send([window], [Piece(window.start, window.stop)])
        data = window.bytes_of(start, min(stop, window.stop))
        if stop >= window.stop:
            self._drop(window)
            self._current[window.lane] = window.after
            self._ask_ahead(window, stop)
        return data

    def _move_to(self, window: _Window) -> None:
        """Go to a window of a lane, and drop what lies behind it."""
        behind = self._current[window.lane]
        self._current[window.lane] = window
        while behind is not None and behind.start < window.start:
            self._drop(behind)
            behind = behind.after

    def _ask_ahead(self, window: _Window, stop: int) -> None:
        """Ask for what is needed after a window: what is being read, other lanes, its own lane."""
        own, width = self._current[window.lane], len(self._current)
        wanted = list[_Window]()
        if own is not None:
            wanted += (each for each in own.next(stop - own.start) if each.start < stop)
        if self._begun:
            # The next lanes will soon move on as well, and more than one would wait for its answer.
            for lane in range(window.lane + 1, window.lane + min(width, REQUESTS)):
                if (other := self._current[lane % width]) is not None:
                    wanted += other.next(self._reach + 2 * self._window)
            if own is not None:
                wanted += own.next(self._reach)
        self._ask(dict.fromkeys(wanted))

    def _make_room(self, window: _Window) -> None:
        """Drop what is needed last, until a window that is needed at once has room."""

        def needed(request: _Request) -> tuple[int, int]:
            return min(self._turns(each, window) for each in request.windows)

        while self._requests and self._held + window.stop - window.start > self._most:
            for each in list(max(self._requests, key=needed).windows):
                self._drop(each)

    def _turns(self, other: _Window, now: _Window) -> tuple[int, int]:
        """How many lanes are read before another window, and its place."""
        width = len(self._current)
        behind = other.lane == now.lane and other.start < now.start
        return (other.lane - now.lane - 1) % width + width * behind, other.start

    def _elsewhere(self, start: int, stop: int) -> bytes | memoryview:
        first = max(0, self._size - _TAIL)
        if start < first:
            return self._fetch(start, stop)
        if self._tail is None:
            self._tail = self._fetch(first, self._size)
        return memoryview(self._tail)[start - first : stop - first]

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte, counted from the start, from here or from the end."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """The number of the next byte."""
        return self._at

    def size(self) -> int:
        """The number of bytes of the file."""
        return self._size

    def close(self) -> None:
        """Drop what was fetched, and do not wait for the rest."""
        self.closed = True
        for window in self._windows:
            self._drop(window)

    def readable(self) -> bool:
        """It can be read."""
        return True

    def writable(self) -> bool:
        """It cannot be written."""
        return False

    def seekable(self) -> bool:
        """It can be read from any byte on."""
        return True


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
class _ArrayWindow:
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
    held: dict[tuple[str, int], _ArrayWindow] = field(default_factory=dict)
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

    def _wanted(self, number: int) -> _ArrayWindow:
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

    def _asked(self, number: int) -> _ArrayWindow:
        known = self._windows.held.get((self._path, number))
        if known is None:
            size = self._windows.size
            start, stop = number * size, min((number + 1) * size, self._bytes)
            answer = self._fetch(Piece(self._first + start, self._first + stop))
            known = self._windows.held[self._path, number] = _ArrayWindow(answer, stop - start)
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
