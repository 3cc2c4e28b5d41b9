"""How much memory rows may take on their way from files to the threads that compute with them.

Rows wait in several places: parts of files are decoded before their turn, batches are cut into
partitions, and partitions wait for a thread. Each of these has a share of one limit, so that memory
does not grow with the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lwcs.foundation.cores import usable_cores

_LEAST, _PER_CORE = 2**30, 256 * 2**20
_LARGEST_BATCH = 32 * 2**20
_SHARE = 4
"""Pieces on their way have this part of the limit: allocators take almost as much again."""
_PIECES = 3
"""Number of pieces on their way, at least: one is cut, one waits, one is worked on."""


class Flight(NamedTuple):
    """How many pieces of the rows, blocks or partitions, are on their way at once."""

    ahead: int
    """Those that wait for a thread."""
    at_once: int
    """Those that threads work on, or have finished out of turn."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in bytes, and its shares."""

    limit: int

    @classmethod
    def of(cls, memory_limit: int | None) -> Budget:
        """By default, a gigabyte; more where many cores wait for rows."""
        if memory_limit is not None:
            return cls(memory_limit)
        return cls(max(_LEAST, _PER_CORE * usable_cores()))

    @property
    def ahead(self) -> int:
        """Bytes of small parts of files that are decoded before their turn."""
        return self.limit // 16

    @property
    def fetched(self) -> int:
        """Bytes of large row groups that are fetched ahead from a store.

        With half of it, columns come in windows so small that reading waits for every second one
        (measured at 30 ms per request).
        """
        return 2 * self.ahead

    @property
    def small(self) -> int:
        """Bytes of a part that is read as a whole."""
        return min(_LARGEST_BATCH, self.ahead // 2)

    @property
    def batch(self) -> int:
        """Bytes of a batch."""
        return min(_LARGEST_BATCH, self.limit // 32)

    def flight(self, size: int, threads: int) -> Flight | None:
        """How many pieces of so many bytes may be on their way; None if they are too large."""
        fitting = self.limit // _SHARE // max(1, size)
        if fitting < _PIECES:
            return None
        # One is being cut; the rest is shared by those that wait and those that are worked on.
        ahead = 2 if fitting >= 2 * _PIECES else 1
        return Flight(ahead, min(2 * threads, fitting - 1 - ahead))

    @staticmethod
    def least(block: int) -> int:
        """The smallest limit for blocks of so many bytes."""
        return _SHARE * _PIECES * block
