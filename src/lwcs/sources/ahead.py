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
from typing import TYPE_CHECKING

from lwcs.foundation.parallel import READER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Fetch = Callable[[int, int], bytes]
"""From the first byte and the one after the last to the bytes."""

REQUESTS = 16
"""Number of requests at a time."""
LARGEST = 2**23
"""Most bytes of one request: larger ones take longer than several side by side."""
_SMALLEST = 2**16
# Bytes that nobody wants are fetched along if another request would take longer.
_HOLE = 2**19
# The end of a file, where formats keep what is read first.
_TAIL = 2**16


def waiting_threads(most: int) -> ThreadPoolExecutor:
    """Threads that wait for a store or a disk."""
    return ThreadPoolExecutor(most, thread_name_prefix=READER)


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    """Bytes of a file that are read from the first to the last."""

    start: int
    stop: int


def merged(lanes: Iterable[Lane], largest: int = LARGEST) -> Iterator[Lane]:
    """Requests for some lanes, in order: near ones together, up to `largest` bytes."""
    current: Lane | None = None
    for lane in sorted(lanes):
        if current is not None:
            near = lane.start - current.stop <= _HOLE
            if near and lane.stop - current.start <= largest:
                current = Lane(current.start, max(current.stop, lane.stop))
                continue
            yield current
        current = lane
    if current is not None:
        yield current


@dataclass(slots=True)
class _Window:
    """A piece of a lane, while it is fetched and read."""

    start: int
    stop: int
    last: bool
    """Whether its lane ends with it."""
    answer: Future[bytes] | None = None
    """What it is a part of, once it is asked for."""
    first: int = 0
    """The first byte of that."""

    def bytes_of(self, start: int, stop: int) -> memoryview:
        """Some of its bytes, once they are there."""
        assert self.answer is not None
        return memoryview(self.answer.result())[start - self.first : stop - self.first]


def _cut(lane: Lane, window: int) -> Iterator[_Window]:
    for start in range(lane.start, lane.stop, window):
        stop = min(start + window, lane.stop)
        yield _Window(start, stop, stop == lane.stop)


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
        width: int = 1,
    ) -> None:
        """Fetch at most so many bytes ahead, where so many lanes are read at a time."""
        self._fetch, self._size, self._pool, self._at = fetch, size, pool, 0
        self._tail: bytes | None = None
        self._begun = False
        total = sum(lane.stop - lane.start for lane in lanes)
        window = LARGEST if total <= most else most // (2 * width)
        window = min(LARGEST, max(_SMALLEST, window))
        # Windows of a lane that are held at a time.
        self._depth = total // window + 1 if total <= most else max(2, most // (width * window))
        self._windows = [each for lane in sorted(lanes) for each in _cut(lane, window)]
        self._starts = [each.start for each in self._windows]

    def begin(self) -> None:
        """Begin to fetch, if that has not begun."""
        if self._begun:
            return
        self._begun = True
        first, wanted = 0, list[_Window]()
        for number, window in enumerate(self._windows):
            if number < first + self._depth:
                wanted.append(window)
            if window.last:
                first = number + 1
        self._ask(wanted)

    def _ask(self, windows: list[_Window]) -> None:
        requests = list(merged(Lane(each.start, each.stop) for each in windows))
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
            if window.answer is not None:
                self._move_on(number)
                return window.bytes_of(start, min(stop, window.stop))
            stop = min(stop, window.stop)
        elif number + 1 < len(self._starts):
            stop = min(stop, self._starts[number + 1])
        return self._elsewhere(start, stop)

    def _move_on(self, number: int) -> None:
        """Ask for what comes into reach with a window, and drop what lies behind it."""
        before = number - 1
        while before >= 0 and not self._windows[before].last and self._windows[before].answer:
            self._windows[before].answer = None
            before -= 1
        for after in range(number, min(number + self._depth, len(self._windows))):
            if self._windows[after].answer is None:
                self._ask([self._windows[after]])
            if self._windows[after].last:
                break

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
