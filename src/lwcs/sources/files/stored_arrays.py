"""Dense arrays within files, of which rows are read when they are asked for.

They are not memory-mapped: if a mapped file is truncated while it is read, the operating system
ends the process (SIGBUS), where a read that comes back short is an error like any other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from io import FileIO

    from lwcs.arrays.types import DenseRows, IntArray

# Rows that are this close are read at once, which takes no longer than a second call; and so many
# bytes at most, which stay in the cache of the processor until the rows are picked.
_NEAR = 2**15
_LONGEST = 2**21


@dataclass(frozen=True, slots=True)
class StoredArray:
    """A dense array in a file, with the interface that `ChunkedSource` needs.

    The file is opened for every read, so that threads share no position in it.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    first: int
    """Where the values begin in the file."""
    by_column: bool
    """Whether a column is in one place (Fortran order), not a row."""

    @property
    def oindex(self) -> StoredArray:
        """Rows by number, as zarr calls it."""
        return self

    @property
    def _width(self) -> int:
        """Bytes of a row, or of a value of a column."""
        return self.dtype.itemsize * (1 if self.by_column else prod(self.shape[1:]))

    def __getitem__(self, rows: slice | IntArray) -> DenseRows:
        """Consecutive rows, or rows by number in ascending order."""
        with open(self.path, "rb", buffering=0) as file:
            if not isinstance(rows, slice):
                return self._take(file, rows)
            start, stop, _ = rows.indices(self.shape[0])
            return self._read(file, start, max(start, stop))

    def _read(self, file: FileIO, start: int, stop: int) -> DenseRows:
        n, width = stop - start, self._width
        if not self.by_column:
            values = np.empty((n, *self.shape[1:]), self.dtype)
            self._fill(file, _bytes_of(values), start * width)
            return values
        columns = np.empty((self.shape[1], n), self.dtype)
        memory = _bytes_of(columns)
        for j in range(len(columns)):
            own = memory[j * n * width : (j + 1) * n * width]
            self._fill(file, own, (j * self.shape[0] + start) * width)
        return columns.T

    def _fill(self, file: FileIO, memory: memoryview, at: int) -> None:
        """Read bytes that follow each other, from byte `at` of the array on."""
        while memory:
            if not (read := _read_at(file, memory, self.first + at)):
                raise ValueError(f"{self.path!r} is truncated: {len(memory):,} bytes are missing")
            memory, at = memory[read:], at + read

    def _take(self, file: FileIO, rows: IntArray) -> DenseRows:
        """Read rows that are near each other together."""
        taken, width = np.empty((len(rows), *self.shape[1:]), self.dtype), self._width
        if not len(rows):
            return taken
        steps = np.diff(rows)
        # Long runs are cut as well.
        cut = np.diff(rows // max(1, _LONGEST // width)) > 0
        ends = np.append(np.flatnonzero((steps * width > _NEAR) | cut) + 1, len(rows))
        begins = np.append(0, ends[:-1])
        jumps = np.append(0, np.cumsum(steps != 1))
        whole = (jumps[ends - 1] == jumps[begins]) & (not self.by_column)
        memory = _bytes_of(taken)
        runs = (begins, ends, rows[begins], rows[ends - 1] + 1, whole)
        for begin, end, start, stop, direct in zip(*(each.tolist() for each in runs), strict=True):
            if direct:
                self._fill(file, memory[begin * width : end * width], start * width)
            else:
                near, wanted = self._read(file, start, stop), rows[begin:end] - start
                near.take(wanted, axis=0, out=taken[begin:end], mode="clip")
        return taken


def _bytes_of(values: DenseRows) -> memoryview:
    return values.reshape(-1).view(np.uint8).data


def _read_at(file: FileIO, memory: memoryview, at: int) -> int:
    """Read bytes from a position of a file on; returns their number, 0 at its end."""
    if hasattr(os, "preadv"):
        return os.preadv(file.fileno(), (memory,), at)
    file.seek(at)
    return file.readinto(memory) or 0
