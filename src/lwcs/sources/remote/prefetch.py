"""Files on a store: their bytes in ranges, which are fetched ahead of the reader.

The ranges that a format will read are known before it reads them: for Parquet, the chunks of the
wanted columns. Neighbours are fetched by one request, many requests at a time, within a limit in
bytes, and pyarrow's readers find them in memory whatever the file system. Libraries do less:
pyarrow's `pre_buffer` holds whole row groups; fsspec's read-ahead fetches what nobody wants, one
request after the other; `fsspec.parquet` makes as many requests (54 where this makes 56, for 14 of
40 columns in 4 row groups), but holds all of them at once and takes no file system of pyarrow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import RawIOBase
from itertools import pairwise
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any

from lwcs.runtime.parallel import READER
from lwcs.storage.locations import reaching
from lwcs.storage.stores import fsspec_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow import fs

    from lwcs.sources.files.change_detection import Stamp

Fetch = Callable[[int, int], bytes]
"""Fetches bytes, given the first one and the one after the last."""

REQUESTS = 24
"""Number of requests at a time."""
LARGEST = 2**24
"""Most bytes of one request: larger ones take longer than several side by side, and smaller ones
are more requests than pyarrow makes."""
_SMALLEST = 2**16
# A request is at most this part of what may be held.
_SHARES = 4
# Bytes between two ranges are fetched along with them if they are fewer than the wanted bytes
# before them (and than _HOLE), or so few that another request would take longer in any case.
_HOLE = 2**19
_CHEAP = 2**14
# The end of a file, where formats keep what is read first.
_TAIL = 2**16
# Files of pyarrow that stay open: to open one asks a store for its size. On these object stores
# they hold no connection, so that all files of a scan stay open.
_OPEN_FILES, _UNCONNECTED = 256, ("s3", "abfs")
# Bytes of small files, fetched as a whole, that are kept for further passes.
_KEPT = 2**23


class WaitingThreads(ThreadPoolExecutor):
    """Threads that wait for a store or a disk.

    If the block that they serve ends by an error or an interrupt, nobody waits for them: a store
    that does not answer would keep them forever.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most, thread_name_prefix=READER)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for all work, or for none after an error."""
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


class Store:
    """The files of a scan, which are not on this machine."""

    def __init__(self, filesystem: fs.FileSystem, stamps: Mapping[str, Stamp]) -> None:
        self._filesystem, self._stamps = filesystem, stamps
        self._fsspec = fsspec_files(filesystem)
        self._open: dict[str, Future[Any]] = {}
        kind = filesystem.type_name
        self._most_open = len(stamps) if kind in _UNCONNECTED else _OPEN_FILES
        self._kept: dict[str, bytes] = {}
        self._room = _KEPT
        self._lock = Lock()
        self.pool = WaitingThreads(REQUESTS)
        """Threads that wait for the store; they end with this object."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without threads and open files."""
        return Store, (self._filesystem, self._stamps)

    def size(self, path: str) -> int:
        """Number of bytes of a file."""
        return self._stamps[path][0]

    def fetch(self, path: str, start: int, stop: int) -> bytes:
        """Fetch some bytes of a file; may be called by several threads."""
        if (whole := self._kept.get(path)) is not None:
            return whole[start:stop]
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
        with self._lock:
            if len(data) == self.size(path) <= self._room and path not in self._kept:
                self._kept[path] = data
                self._room -= len(data)
        return data

    def _opened(self, path: str) -> Any:
        """The open file; of several threads, one opens it and the others wait."""
        with self._lock:
            known = self._open.get(path)
            if mine := known is None or (known.done() and known.exception() is not None):
                known = self._open[path] = Future()
                while len(self._open) > self._most_open:
                    # It is closed once no thread reads it.
                    del self._open[next(iter(self._open))]
        assert known is not None
        if mine:
            try:
                known.set_result(self._filesystem.open_input_file(path))
            except BaseException as error:
                known.set_exception(error)
        return known.result()

    def file(self, path: str, lanes: Sequence[Lane] = (), most: int = 0) -> PrefetchedFile:
        """A file whose lanes are prefetched, up to `most` bytes of them."""
        return PrefetchedFile(partial(self.fetch, path), self.size(path), self.pool, lanes, most)


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """A range of bytes of a file."""

    start: int
    stop: int


Lane = list[Piece]
"""Pieces that are read one after the other, each from its first byte to its last."""


def merged(pieces: Iterable[Piece], cheap: int, largest: int = LARGEST) -> Iterator[Piece]:
    """Merge pieces that are near each other into requests of at most `largest` bytes, in order.

    Up to `cheap` unwanted bytes between two pieces are fetched along, or as many as are wanted
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
    """A range of bytes that is requested or fetched, and the windows that lie in it."""

    start: int
    size: int
    content: Future[bytes]
    windows: set[_Window]


@dataclass(slots=True, eq=False)
class _Window:
    """A part of a lane that is fetched and dropped as a whole."""

    start: int
    stop: int
    lane: int
    """The number of its lane."""
    after: _Window | None = None
    """The next window of the lane."""
    request: _Request | None = None
    """The request that fetches it, from when it is sent until the window is dropped."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    def bytes_of(self, start: int, stop: int) -> memoryview:
        """Some of its bytes; waits until they are fetched."""
        assert self.request is not None
        first = self.request.start
        return memoryview(self.request.content.result())[start - first : stop - first]

    def next(self, reach: int) -> Iterator[_Window]:
        """Yield this window and those after it, up to `reach` bytes, but at least two."""
        window: _Window | None = self
        while window is not None:
            reach -= window.size
            if reach < 0 and window is not self and window is not self.after:
                return
            yield window
            window = window.after


def _windows(number: int, lane: Lane, size: int) -> list[_Window]:
    """Cut a lane into windows of at most `size` bytes; those of a piece are equally large."""
    windows = list[_Window]()
    for piece in lane:
        length = piece.stop - piece.start
        step = -(-length // -(-length // size))
        starts = range(piece.start, piece.stop, step)
        windows += [_Window(start, min(start + step, piece.stop), number) for start in starts]
    for before, after in pairwise(windows):
        before.after = after
    return windows


class PrefetchedFile(RawIOBase):
    """A file whose lanes are prefetched; bytes outside of them are fetched when they are read.

    It is read by one thread at a time, as pyarrow reads files of Python.
    """

    def __init__(
        self,
        fetch: Fetch,
        size: int,
        pool: ThreadPoolExecutor,
        lanes: Sequence[Lane] = (),
        most: int = 0,
    ) -> None:
        """Hold at most `most` bytes of the lanes."""
        self._fetch, self._size, self._pool, self._position = fetch, size, pool, 0
        self._tail: bytes | None = None
        self._begun = False
        lanes = list(filter(None, lanes))
        total = sum(piece.stop - piece.start for lane in lanes for piece in lane)
        # Every lane has room for two windows, and lanes that are read soon for two more.
        width = max(len(lanes), 1)
        early = min(width, REQUESTS) - 1
        window = LARGEST if total <= most else most // (2 * (width + early))
        window = min(LARGEST, max(_SMALLEST, window))
        # Bytes of a lane that are prefetched, where all lanes have room.
        self._reach = total if total <= most else (most - 2 * early * window) // width
        cut = [_windows(number, lane, window) for number, lane in enumerate(lanes)]
        self._current: list[_Window | None] = [windows[0] for windows in cut]
        """The window that each lane is read from; None after its end."""
        self._window, self._most = window, most
        # Small enough that some requests are read while others are on their way.
        self._largest = min(LARGEST, max(most // _SHARES, window))
        self._requests: dict[_Request, None] = {}
        """The requests that are held, the first sent first."""
        self._held = 0
        """Number of their bytes."""
        every = (each for windows in cut for each in windows)
        self._windows = sorted(every, key=attrgetter("start"))
        self._starts = [each.start for each in self._windows]

    @property
    def most_held(self) -> int:
        """Number of bytes that it holds at most, with unwanted ones between the wanted."""
        return min(self._most, sum(each.stop - each.start for each in self._merged(self._windows)))

    def begin(self) -> None:
        """Begin to prefetch, if that has not begun."""
        if not self._begun:
            self._begun = True
            firsts = [first for first in self._current if first is not None]
            self._prefetch([each for first in firsts for each in first.next(self._reach)])

    def _merged(self, windows: Iterable[_Window]) -> list[Piece]:
        pieces = (Piece(each.start, each.stop) for each in windows)
        return list(merged(pieces, _CHEAP, self._largest))

    def _prefetch(self, wanted: Iterable[_Window]) -> None:
        """Request windows in the order in which they are needed, as far as there is room."""
        room, windows, total = self._most - self._held, list[_Window](), 0
        for each in wanted:
            if each.request is None:
                total += each.size
                if total > room:
                    break
                windows.append(each)
        while windows:
            pieces = self._merged(windows)
            total = sum(each.stop - each.start for each in pieces)
            if total <= room:
                self._send(windows, pieces)
                return
            # Unwanted bytes between the windows take room, too.
            windows = windows[: min(len(windows) - 1, len(windows) * room // total)]

    def _send(self, windows: list[_Window], pieces: list[Piece]) -> None:
        """Send the requests for some windows."""
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
        """Forget a window; the bytes of a request are freed with its last window."""
        if (request := window.request) is None:
            return
        window.request = None
        request.windows.discard(window)
        if not request.windows:
            request.content.cancel()
            del self._requests[request]
            self._held -= request.size

    def read(self, n: int | None = -1) -> bytes | memoryview:
        """Read up to `n` bytes; a view of what was fetched where one request has them all."""
        stop = self._size if n is None or n < 0 else min(self._size, self._position + n)
        parts: list[bytes | memoryview] = []
        while self._position < stop:
            parts.append(self._read_part(self._position, stop))
            self._position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_part(self, start: int, stop: int) -> bytes | memoryview:
        """Read bytes up to the end of a window, or up to the next window."""
        number = bisect_right(self._starts, start) - 1
        if number >= 0 and start < self._windows[number].stop:
            window = self._windows[number]
            if window.request is not None or start < self._size - _TAIL:
                return self._read_window(window, start, stop)
        if number + 1 < len(self._starts):
            stop = min(stop, self._starts[number + 1])
        tail = max(0, self._size - _TAIL)
        if start < tail:
            return self._fetch(start, stop)
        if self._tail is None:
            self._tail = self._fetch(tail, self._size)
        return memoryview(self._tail)[start - tail : stop - tail]

    def _read_window(self, window: _Window, start: int, stop: int) -> memoryview:
        """Read bytes of a window, which is dropped after its last one."""
        self._move_to(window)
        if window.request is None:
            self._prefetch_after(window, stop)
        if window.request is None:
            # What was requested last is needed last.
            while self._requests and self._held + window.size > self._most:
                for each in list(next(reversed(self._requests)).windows):
                    self._drop(each)
            self._send([window], [Piece(window.start, window.stop)])
        data = window.bytes_of(start, min(stop, window.stop))
        if stop >= window.stop:
            self._drop(window)
            self._current[window.lane] = window.after
            self._prefetch_after(window, stop)
        return data

    def _move_to(self, window: _Window) -> None:
        """Go to a window of a lane, and drop those before it."""
        behind = self._current[window.lane]
        self._current[window.lane] = window
        while behind is not None and behind.start < window.start:
            self._drop(behind)
            behind = behind.after

    def _prefetch_after(self, window: _Window, stop: int) -> None:
        """Request what is needed next: what is being read, then other lanes, then its own lane."""
        own, width = self._current[window.lane], len(self._current)
        wanted = list[_Window]()
        if own is not None:
            wanted += (each for each in own.next(stop - own.start) if each.start < stop)
        if self._begun:
            # The next lanes are read soon, and would all have to wait if they were requested then.
            for lane in range(window.lane + 1, window.lane + min(width, REQUESTS)):
                if (other := self._current[lane % width]) is not None:
                    wanted += other.next(self._reach + 2 * self._window)
            if own is not None:
                wanted += own.next(self._reach)
        self._prefetch(dict.fromkeys(wanted))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte, counted from the start, from the current position or from the end."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def close(self) -> None:
        """Drop what was fetched, and do not wait for the rest."""
        if not self.closed:
            for window in self._windows:
                self._drop(window)
        super().close()

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True
