"""A .npy file on a store, as an array whose rows are fetched in ranges."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.sources.ahead import LARGEST, Piece, merged

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows, IntArray
    from lwcs.sources.remote import Store

# Windows that are held, and how many of these are fetched ahead.
_HELD, _AHEAD = 8, 4
_HEADER = 2**16
# Rows that are this close come by one request; with more between them, two side by side are faster.
_GAP = 2**17


class RemoteArray:
    """The rows of a .npy file in C order, as `ChunkedSource` reads them."""

    def __init__(self, store: Store, path: str) -> None:
        from lwcs.sources.array_files import header

        size = store.size(path)
        file: Any = store.file(path, [[Piece(0, min(size, _HEADER))]], _HEADER)
        file.begin()
        self.shape, fortran, self.dtype = header(file, size)
        if fortran and len(self.shape) > 1:
            raise ValueError(
                "it is in Fortran order, so that a row lies in as many places as it has columns; "
                "copy it to this machine, or save it again in C order with "
                "np.save(…, np.ascontiguousarray(X))"
            )
        self._store, self._path, self._first = store, path, file.tell()
        self._stop = self._first + int(np.prod(self.shape)) * self.dtype.itemsize
        self._row = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        self._held: dict[int, Future[bytes]] = {}
        self._lock = Lock()

    def __getitem__(self, rows: slice) -> DenseRows:
        """Consecutive rows; the windows after them are fetched ahead."""
        start, stop, _ = rows.indices(self.shape[0])
        data = np.empty(max(stop - start, 0) * self._row, np.uint8)
        at, end = start * self._row, start * self._row + len(data)
        while at < end:
            number, within = divmod(at, LARGEST)
            part = np.frombuffer(self._window(number), np.uint8)[within : within + end - at]
            begin = at - start * self._row
            data[begin : begin + len(part)] = part
            at += len(part)
        return data.view(self.dtype).reshape(-1, *self.shape[1:])

    def _window(self, number: int) -> bytes:
        with self._lock:
            last = (self._stop - self._first - 1) // LARGEST
            for each in range(number, min(number + _AHEAD, last) + 1):
                if each not in self._held:
                    self._held[each] = self._store.pool.submit(self._fetch, each)
            answer = self._held[number]
            for old in list(self._held)[: max(len(self._held) - _HELD, 0)]:
                del self._held[old]
        return answer.result()

    def _fetch(self, number: int) -> bytes:
        start = self._first + number * LARGEST
        try:
            return self._store.fetch(self._path, start, min(start + LARGEST, self._stop))
        except BaseException:
            # Whoever asks again shall get another answer.
            with self._lock:
                self._held.pop(number, None)
            raise

    @property
    def oindex(self) -> _Chosen:
        """Rows by number, as in zarr."""
        return _Chosen(self)

    def take(self, rows: IntArray) -> DenseRows:
        """Rows by number, in ascending order: near ones by one request, several side by side."""
        starts = self._first + rows * self._row
        requests = list(merged((Piece(int(at), int(at) + self._row) for at in starts), _GAP))
        taken = np.empty((len(rows), self._row), np.uint8)
        for first in range(0, len(requests), _HELD):
            some = requests[first : first + _HELD]
            answers = self._store.pool.map(
                lambda each: self._store.fetch(self._path, each.start, each.stop), some
            )
            for each, answer in zip(some, answers, strict=True):
                begin, end = np.searchsorted(starts, [each.start, each.stop])
                within = starts[begin:end, None] - each.start + np.arange(self._row)
                taken[begin:end] = np.frombuffer(answer, np.uint8)[within]
        return taken.reshape(-1).view(self.dtype).reshape(-1, *self.shape[1:])


class _Chosen:
    def __init__(self, array: RemoteArray) -> None:
        self._array = array

    def __getitem__(self, rows: IntArray) -> DenseRows:
        return self._array.take(rows)
