"""Fingerprints of partitions: why two runs over an engine's data differ.

The first round over all rows takes two of each partition, in passing. One does not depend on the
order of its rows, the other does: so it can be told whether rows are others, or in another order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.kernels.hashes import hash_sums, mix

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
class Print:
    """Of the rows of a partition, block by block."""

    rows: int = 0
    content: int = 0
    """Whatever the order of the rows."""
    order: int = 0

    def take(self, block: Block) -> None:
        """Add the next rows."""
        content, order = hash_sums(block.points, block.weights, self.rows)
        self.content = (self.content + content) % 2**64
        self.order = (self.order + order) % 2**64
        self.rows += block.points.shape[0]


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Of all partitions; entry i is of the partitions i·`each` … (i + 1)·`each` − 1."""

    partitions: int
    each: int
    rows: tuple[int, ...]
    contents: tuple[str, ...]
    """The same for the same rows in any order."""
    fingerprints: tuple[str, ...]
    """The same for the same rows in the same order only."""

    @classmethod
    def of(cls, prints: Sequence[Print]) -> Fingerprints:
        """Put those of all partitions together."""
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
        """Read them from the details of a coreset, which may hold anything."""
        found: dict[str, Any] = saved if isinstance(saved, dict) else {}
        number, each, rows = (found.get(name) for name in ("partitions", "each", "rows"))
        texts: list[Any] = [found.get(name) for name in ("contents", "fingerprints")]
        whole = isinstance(rows, list) and all(map(_is_count, [number, each, *rows]))
        if not whole or not number or not each:
            raise ValueError(_DAMAGED)
        assert isinstance(rows, list)
        if len(rows) != -(-number // each):
            raise ValueError(_DAMAGED)
        for each_list in texts:
            if not isinstance(each_list, list) or len(each_list) != len(rows):
                raise ValueError(_DAMAGED)
            if not all(isinstance(text, str) and _HEX.fullmatch(text) for text in each_list):
                raise ValueError(_DAMAGED)
        return cls(number, each, tuple(rows), tuple(texts[0]), tuple(texts[1]))

    @property
    def whole(self) -> str:
        """One fingerprint of everything: rows, order and partitions."""
        return _folded(int(text, 16) for text in self.fingerprints)

    @property
    def all_contents(self) -> str:
        """One of all rows, whatever their order and their partitions."""
        return _text(sum(int(text, 16) for text in self.contents) % 2**64)

    def to_details(self) -> dict[str, Any]:
        """For the details of a coreset."""
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
    """One number of several, which depends on their order."""
    return _text(reduce(lambda total, each: _mixed((total + each) % 2**64), numbers, 0))


def _mixed(number: int) -> int:
    return int(mix(np.array([number], dtype=np.uint64))[0])
