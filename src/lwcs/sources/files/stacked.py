"""Rows of several array files, one below the other, never put together as a whole."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import container, stack
from lwcs.sources.base import ROWS_CHANGED
from lwcs.sources.blocks import Places
from lwcs.sources.memory.in_process import LocalSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lwcs.arrays.checks import BadValueError
    from lwcs.arrays.types import IntArray, Rows

# A process may have about a thousand files open.
_OPEN_FILES = 16


class StackedSource(LocalSource):
    """Several files as one sequence of rows, cut as if they were one array.

    Files are opened when their rows are asked for, and only a few stay open.
    """

    feature_names = None

    def __init__(self, paths: Sequence[str], open_file: Callable[[str], LocalSource]) -> None:
        self._paths, self._open = list(paths), lru_cache(_OPEN_FILES)(open_file)
        self._places, self._values, starts, samples = Places(), 0, [0], list[Any]()
        for path in paths:
            part = open_file(path)
            samples.append(part.read(0, 0))
            own, first = samples[-1], samples[0]
            if own.shape != first.shape or container(own) != container(first):
                raise ValueError(
                    f"{path!r} holds {container(own)} rows of {own.shape[1]} columns, but "
                    f"{paths[0]!r} holds {container(first)} rows of {first.shape[1]}; files that "
                    "are read together must have the same columns"
                )
            self._places.enter(path, starts[-1])
            starts.append(starts[-1] + part.n_rows)
            self._values += part.estimate_values()
            self._block_rows = part.block_rows
        self._starts = np.array(starts)
        self.dtype = np.result_type(*[sample.dtype for sample in samples])
        self.n_rows, self.n_features = starts[-1], samples[0].shape[1]

    @property
    def block_rows(self) -> int:
        """That of every file."""
        return self._block_rows

    def estimate_values(self) -> int:
        """The sum over all files."""
        return self._values

    def _part(self, number: int) -> LocalSource:
        part = self._open(self._paths[number])
        expected = int(self._starts[number + 1] - self._starts[number])
        if (part.n_rows, part.n_features) != (expected, self.n_features):
            raise ValueError(f"{ROWS_CHANGED}: {self._paths[number]!r} has another shape now")
        return part

    def read(self, start: int, stop: int) -> Rows:
        """Read consecutive rows; a view if they are in one file."""
        first, last = np.searchsorted(self._starts, [start, stop - 1], side="right") - 1
        parts = []
        for number in range(int(first), int(last) + 1):
            begin, end = (int(at) for at in self._starts[number : number + 2])
            if begin < end:
                rows = self._part(number).read(max(start, begin) - begin, min(stop, end) - begin)
                parts.append(rows.astype(self.dtype, copy=False))
        return parts[0] if len(parts) == 1 else stack(parts)

    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows, file by file."""
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        parts = [
            self._part(number).take(rows[order[begin:end]] - self._starts[number])
            for number, (begin, end) in enumerate(pairwise(cuts))
            if begin < end
        ]
        taken = stack([part.astype(self.dtype, copy=False) for part in parts])
        return taken[np.argsort(order)]

    def explain(self, bad: BadValueError) -> ValueError:
        """Name the file, and the row in it."""
        return self._in_file(bad, self.locate(bad.partition)[0])

    def explain_row(self, bad: BadValueError) -> ValueError:
        """The same where rows are numbered through all partitions."""
        return self._in_file(bad, 0)

    def _in_file(self, bad: BadValueError, first: int) -> ValueError:
        start, where = self._places.find(first + bad.row)
        return bad.explained(first - start, where, None)
