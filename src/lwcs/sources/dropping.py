"""Rows in memory of which those with a missing value are dropped.

They keep their numbers, with weight 0: so they are never drawn, and get no label.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.rows import is_missing, with_ones
from lwcs.sources.in_process import LocalSource

if TYPE_CHECKING:
    from lwcs.foundation.types import IntArray, Mask, Rows
    from lwcs.sources.base import Block


class DroppingSource(LocalSource):
    """The rows of another source, without those that have a missing value."""

    def __init__(self, whole: LocalSource) -> None:
        self.whole = whole
        self.n_rows, self.n_features = whole.n_rows, whole.n_features
        self.feature_names, self.skipped = whole.feature_names, whole.skipped
        self.weighted, self.gone = whole.weighted, missing_rows(whole)
        self.dropped = int(self.gone.sum())
        ones = np.ones(self.n_rows) if whole.weights is None else whole.weights
        self.weights = np.where(self.gone, 0.0, ones)

    @property
    def block_rows(self) -> int:
        """As many as there were."""
        return self.whole.block_rows

    def estimate_values(self) -> int:
        """As many as there were."""
        return self.whole.estimate_values()

    def row_bytes(self) -> float:
        """As many as there were."""
        return self.whole.row_bytes()

    def limit_memory(self, limit: int) -> None:
        """As the other source limits it."""
        self.whole.limit_memory(limit)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start … stop, with ones in those that are dropped."""
        return with_ones(self.whole.read(start, stop), self.gone[start:stop])

    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows."""
        return with_ones(self.whole.take(rows), self.gone[rows])

    def _block(self, piece: slice, first: int) -> Block:
        gone = self.gone[first + piece.start : first + piece.stop]
        return replace(super()._block(piece, first), dropped=gone if gone.any() else None)


def missing_rows(source: LocalSource) -> Mask:
    """The rows of a source that have a null or NaN."""
    if hasattr(source, "missing_rows"):
        found: Mask = source.missing_rows()
        return found
    parts = list(source.each_block(lambda block: is_missing(block.points)))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def without_missing(source: LocalSource) -> LocalSource:
    """A source without the rows that have a missing value; itself, if there are none."""
    found = DroppingSource(source)
    return found if found.dropped else source
