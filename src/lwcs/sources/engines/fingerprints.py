"""Fingerprints of partitions, which explain why two runs over an engine's data differ.

The first pass over all rows computes two hashes of each partition on the way. One does not depend
on the order of its rows, the other does: together they tell different rows from reordered ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.kernels.hashes import hash_sums
from lwcs.kernels.numpy.bits import mix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lwcs.sources.base import Block

MOST_LISTED = 1_000
"""Where there are more partitions, consecutive ones share a fingerprint."""
_DIGITS = 16
_HEX = re.compile(f"[0-9a-f]{{{_DIGITS}}}")
_DAMAGED = (
    "field 'details.partitions' must have the number of partitions, and rows, contents and "
    "fingerprints of all of them"
)


@dataclass(slots=True)
class PartitionHash:
    """The hashes of a partition, updated block by block."""

    rows: int = 0
    content: int = 0
    """Hash that does not depend on the order of the rows."""
    order: int = 0
    """Hash that depends on the order of the rows."""

    def take(self, block: Block) -> None:
        """Add the next rows."""
        content, order = hash_sums(block.points, block.weights, self.rows)
        self.content = (self.content + content) % 2**64
        self.order = (self.order + order) % 2**64
        self.rows += block.points.shape[0]


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of all partitions; entry i is that of partitions i·`each` … (i+1)·`each` − 1."""

    partitions: int
    each: int
    rows: tuple[int, ...]
    contents: tuple[str, ...]
    """Equal for the same rows in any order."""
    fingerprints: tuple[str, ...]
    """Equal only for the same rows in the same order."""

    @classmethod
    def of(cls, prints: Sequence[PartitionHash]) -> Fingerprints:
        """Combine the hashes of all partitions."""
        each = max(1, -(-len(prints) // MOST_LISTED))
        groups = [prints[start : start + each] for start in range(0, len(prints), each)]
        return cls(
            len(prints),
            each,
            tuple(sum(one.rows for one in group) for group in groups),
            tuple(_text(sum(one.content for one in group) % 2**64) for group in groups),
            tuple(_folded(one.order for one in group) for group in groups),
        )

    @classmethod
    def read(cls, saved: object) -> Fingerprints:
        """Read the details of a saved coreset, and check them: a file may hold anything."""
        match saved:
            case {
                "partitions": number,
                "each": each,
                "rows": [*rows],
                "contents": [*contents],
                "fingerprints": [*prints],
            } if number and each and all(map(_is_count, [number, each, *rows])):
                texts = all(isinstance(t, str) and _HEX.fullmatch(t) for t in contents + prints)
                if texts and len(rows) == len(contents) == len(prints) == -(-number // each):
                    return cls(number, each, tuple(rows), tuple(contents), tuple(prints))
        raise ValueError(_DAMAGED)

    @property
    def whole(self) -> str:
        """One fingerprint of rows, order and partitions."""
        return _folded(int(text, 16) for text in self.fingerprints)

    @property
    def all_contents(self) -> str:
        """One fingerprint of all rows, whatever their order and partitions."""
        return _text(sum(int(text, 16) for text in self.contents) % 2**64)

    def to_details(self) -> dict[str, Any]:
        """The fingerprints as JSON values, for the details of a coreset."""
        return {
            "partitions": self.partitions,
            "each": self.each,
            "rows": list(self.rows),
            "contents": list(self.contents),
            "fingerprints": list(self.fingerprints),
            "fingerprint": self.whole,
        }


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _text(number: int) -> str:
    return f"{number:0{_DIGITS}x}"


def _folded(numbers: Iterable[int]) -> str:
    """Combine several numbers to one, which depends on their order."""
    return _text(reduce(lambda total, each: _mixed((total + each) % 2**64), numbers, 0))


def _mixed(number: int) -> int:
    return int(mix(np.array([number], dtype=np.uint64))[0])
