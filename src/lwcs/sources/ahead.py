"""Bytes of files on a store, fetched in a few large ranges, side by side, ahead of the reader.

Every request to a store takes some hundredths of a second, whatever it asks for. What will be read
is known before: the columns of some row groups, or all bytes in order. It is cut into lanes, each
of which is read forwards; neighbours are fetched by one request, and the bytes that are held or on
their way are limited.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lwcs.foundation.parallel import READER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Fetch = Callable[[int, int], bytes]
"""From the first byte and the one after the last to the bytes."""

REQUESTS = 24
"""Number of requests at a time."""
LARGEST = 2**23
"""Most bytes of one request: larger ones take longer than several side by side."""
_SMALLEST = 2**16
# Bytes that nobody wants are fetched along if another request would take longer.
_HOLE = 2**19
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


def merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Requests for some pieces, in order: near ones together, as long as they are not large."""
    current: Piece | None = None
    for piece in sorted(pieces):
        if current is not None:
            near = piece.start - current.stop <= _HOLE
            if near and piece.stop - current.start <= LARGEST:
                current = Piece(current.start, max(current.stop, piece.stop))
                continue
            yield current
        current = piece
    if current is not None:
        yield current


@dataclass(slots=True, eq=False)
class _Window:
    """A piece of a lane, while it is fetched and read."""

    start: int
    stop: int
    lane: int
    """The number of its lane."""
    before: _Window | None = None
    after: _Window | None = None
    """Its neighbours in the lane."""
    answer: Future[bytes] | None = None
    """What it is a part of, once it is asked for."""
    first: int = 0
    """The first byte of that."""

    def bytes_of(self, start: int, stop: int) -> memoryview:
        """Some of its bytes, once they are there."""
        assert self.answer is not None
        return memoryview(self.answer.result())[start - self.first : stop - self.first]

    def next(self, reach: int) -> Iterator[_Window]:
        """It and those after it, at most so many bytes, but two at least."""
        window: _Window | None = self
        while window is not None:
            reach -= window.stop - window.start
            if reach < 0 and window is not self and window.before is not self:
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
        before.after, after.before = after, before
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
        total, width = sum(map(bytes_in, lanes)), max(len(lanes), 1)
        # Two windows of every lane, and two more of the lanes that are asked for early.
        early = min(width, REQUESTS) - 1
        window = LARGEST if total <= most else most // (2 * (width + early))
        window = min(LARGEST, max(_SMALLEST, window))
        # Bytes of a lane that are held at a time.
        self._reach = total if total <= most else (most - 2 * early * window) // width
        cut = [_cut(number, lane, window) for number, lane in enumerate(filter(None, lanes))]
        self._current = [windows[0] for windows in cut]
        """Where each lane is read."""
        self._window = window
        self._windows = sorted((each for windows in cut for each in windows), key=_start)
        self._starts = list(map(_start, self._windows))

    def begin(self) -> None:
        """Begin to fetch, if that has not begun."""
        if not self._begun:
            self._begun = True
            self._ask([each for first in self._current for each in first.next(self._reach)])

    def _ask(self, windows: list[_Window]) -> None:
        requests = list(merged(Piece(each.start, each.stop) for each in windows))
        starts = [each.start for each in requests]
        answers = [self._pool.submit(self._fetch, each.start, each.stop) for each in requests]
        for window in windows:
            number = bisect_right(starts, window.start) - 1
            window.answer, window.first = answers[number], starts[number]

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
            self._move_on(window)
            return window.bytes_of(start, min(stop, window.stop))
        if number + 1 < len(self._starts):
            stop = min(stop, self._starts[number + 1])
        return self._elsewhere(start, stop)

    def _move_on(self, window: _Window) -> None:
        """Ask for what comes into reach with a window, and drop what lies behind it."""
        if self._current[window.lane] is window and window.answer is not None:
            return
        self._current[window.lane] = window
        behind = window.before
        while behind is not None and behind.answer is not None:
            behind.answer = None
            behind = behind.before
        wanted = list(window.next(self._reach))
        # The next lanes will soon move on as well, and more than one would wait for its answer.
        for other in self._current[window.lane + 1 : window.lane + REQUESTS]:
            wanted += other.next(self._reach + 2 * self._window)
        if missing := [each for each in wanted if each.answer is None]:
            self._ask(missing)

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
            if window.answer is not None:
                window.answer.cancel()
                window.answer = None

    def readable(self) -> bool:
        """It can be read."""
        return True

    def writable(self) -> bool:
        """It cannot be written."""
        return False

    def seekable(self) -> bool:
        """It can be read from any byte on."""
        return True
