"""Files on a store: their bytes in ranges, which are fetched ahead of the reader.

The ranges that a format will read are known before it reads them: for Parquet, the chunks of the
wanted columns. Neighbours are fetched by one request, many requests at a time, within a limit in
bytes, and pyarrow's readers find them in memory whatever the file system. Libraries do less:
pyarrow's `pre_buffer` holds row groups of any size; fsspec's read-ahead fetches what nobody wants,
one request after the other; `fsspec.parquet` makes as many requests (54 where this makes 56, for 14
of 40 columns in 4 row groups), but holds all of them at once and takes no file system of pyarrow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import RawIOBase
from itertools import chain, zip_longest
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
LARGEST = 2**25
"""Most bytes of one request: larger ones take longer than several side by side, and smaller ones
are more requests than pyarrow makes."""
_SMALLEST = 2**16
# A request is at most this part of what may be held: one is read while others are on their way.
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

    def file(
        self, path: str, lanes: Sequence[Lane] = (), most: int = 0, *, in_turns: bool = False
    ) -> PrefetchedFile:
        """A file whose lanes are prefetched, up to `most` bytes of them."""
        fetch, size = partial(self.fetch, path), self.size(path)
        return PrefetchedFile(fetch, size, self.pool, lanes, most, in_turns=in_turns)


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
    """A range of bytes that is fetched at once, and dropped after its last window."""

    start: int
    stop: int
    unread: int = 0
    """Number of its windows that are still to be read."""
    content: Future[bytes] | None = None
    """Its bytes, from when it is sent until it is dropped."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.stop - self.start


@dataclass(slots=True, eq=False)
class _Window:
    """A part of a lane that lies in one request."""

    start: int
    stop: int
    before: _Window | None = None
    """The window of the lane that is read before it."""
    request: _Request | None = None
    """The request that it lies in, until it has been read."""


def _windows(piece: Piece, size: int) -> list[_Window]:
    """Cut a piece into equally large windows of at most `size` bytes."""
    length = piece.stop - piece.start
    step = -(-length // -(-length // size))
    starts = range(piece.start, piece.stop, step)
    return [_Window(start, min(start + step, piece.stop)) for start in starts]


def _waves(
    lanes: Sequence[Lane], most: int, *, in_turns: bool
) -> Iterator[tuple[list[_Window], int]]:
    """Cut lanes into windows: those that are needed together, and most bytes of their requests.

    Pieces that are read in turns are held together if that takes at most `most` bytes. Otherwise,
    there is room for two windows of each.
    """
    largest = min(LARGEST, max(most // _SHARES, _SMALLEST))
    numbered = [[(number, piece) for piece in lane] for number, lane in enumerate(lanes)]
    last: list[_Window | None] = [None] * len(lanes)
    for stage in zip_longest(*numbered) if in_turns else [chain.from_iterable(numbered)]:
        pieces, size, count = list(filter(None, stage)), largest, 1
        if in_turns:
            together = merged((piece for _, piece in pieces), _CHEAP)
            if fits := sum(each.stop - each.start for each in together) <= most:
                size = LARGEST
            else:
                size = min(largest, max(_SMALLEST, most // (2 * len(pieces))))
        cut = [(number, _windows(piece, size)) for number, piece in pieces]
        if in_turns and not fits:
            count = max(len(windows) for _, windows in cut)
        waves: list[list[_Window]] = [[] for _ in range(count)]
        for number, windows in cut:
            for i, window in enumerate(windows):
                window.before, last[number] = last[number], window
                waves[i * count // len(windows)].append(window)
        yield from ((wave, max(size, largest)) for wave in waves)


class PrefetchedFile(RawIOBase):
    """A file whose lanes are prefetched; bytes outside of them are fetched when they are read.

    All requests are planned in the order in which their bytes are needed, and each is sent once
    there is room for it, so that they do not become smaller and more where there is little. It is
    read by one thread at a time, as pyarrow reads files of Python.
    """

    def __init__(
        self,
        fetch: Fetch,
        size: int,
        pool: ThreadPoolExecutor,
        lanes: Sequence[Lane] = (),
        most: int = 0,
        *,
        in_turns: bool = False,
    ) -> None:
        """Hold at most `most` bytes of the lanes, which are read in turns or one by one."""
        self._fetch, self._size, self._pool, self._position = fetch, size, pool, 0
        self._tail: bytes | None = None
        self._begun, self._most, self._held = False, most, 0
        self._windows, self._requests = list[_Window](), list[_Request]()
        self._next = 0
        """Number of requests that were sent, or are not needed any more."""
        for wave, largest in _waves(lanes, most, in_turns=in_turns):
            pieces = merged((Piece(each.start, each.stop) for each in wave), _CHEAP, largest)
            requests = [_Request(each.start, each.stop) for each in pieces]
            starts = [each.start for each in requests]
            for window in wave:
                window.request = requests[bisect_right(starts, window.start) - 1]
                window.request.unread += 1
            self._windows += wave
            self._requests += requests
        self._windows.sort(key=attrgetter("start"))
        self._starts = [each.start for each in self._windows]

    @property
    def most_held(self) -> int:
        """Number of bytes that it holds at most, with unwanted ones between the wanted."""
        return min(self._most, sum(each.size for each in self._requests))

    def begin(self) -> None:
        """Begin to prefetch, if that has not begun."""
        self._begun = True
        self._prefetch()

    def _prefetch(self) -> None:
        """Send requests in their order, as far as there is room."""
        while self._next < len(self._requests):
            request = self._requests[self._next]
            if request.unread and not self._send(request):
                return
            self._next += 1

    def _send(self, request: _Request) -> bool:
        """Send a request if there is room for it, or it was sent; else return False."""
        if request.content is None and self._held + request.size <= self._most:
            request.content = self._pool.submit(self._fetch, request.start, request.stop)
            self._held += request.size
        return request.content is not None

    def _drop(self, window: _Window) -> None:
        """Forget a window; the bytes of a request are freed with its last window."""
        if (request := window.request) is None:
            return
        window.request = None
        request.unread -= 1
        if not request.unread and request.content is not None:
            request.content.cancel()
            request.content = None
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
        number = bisect_right(self._starts, start)
        if self._begun and number and start < self._windows[number - 1].stop:
            window = self._windows[number - 1]
            if window.request is not None:
                return self._read_window(window, window.request, start, min(stop, window.stop))
        if number < len(self._starts):
            stop = min(stop, self._starts[number])
        tail = max(0, self._size - _TAIL)
        if start < tail:
            return self._fetch(start, stop)
        if self._tail is None:
            self._tail = self._fetch(tail, self._size)
        return memoryview(self._tail)[start - tail : stop - tail]

    def _read_window(
        self, window: _Window, request: _Request, start: int, stop: int
    ) -> bytes | memoryview:
        """Read bytes of a window, which is dropped after its last one, as are those before it."""
        behind = window.before
        while behind is not None and behind.request is not None:
            self._drop(behind)
            behind = behind.before
        data: bytes | memoryview
        if self._send(request) and request.content is not None:
            first = request.start
            data = memoryview(request.content.result())[start - first : stop - first]
        else:
            # Lanes that are read later than planned take the room.
            data = self._fetch(start, stop)
        if stop == window.stop:
            self._drop(window)
        self._prefetch()
        return data

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
