"""Batches of rows as they arrive, and the block that they are copied into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lwcs.foundation.rows import stack
from lwcs.foundation.types import is_sparse
from lwcs.sources.base import Block

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows, FloatArray, Mask, Rows


class Batch(Protocol):
    """Some consecutive rows, in the form in which they arrive."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def beside(self) -> Any:
        """The record batch of columns that are kept beside the rows, or None."""

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy rows start … stop into an array."""

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """Weights of these rows, or None if they have none."""

    def missing(self, start: int, stop: int) -> Mask | None:
        """Which of these rows are to be dropped, or None for no row."""


@dataclass(frozen=True, slots=True)
class ArrayBatch:
    """Rows of an array, dense or CSR."""

    points: Rows
    n_rows: int
    given: FloatArray | None = None
    """Weights of the rows."""
    gone: Mask | None = None
    """Rows that are dropped; their values have been replaced."""
    beside: None = None

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy some rows."""
        out[...] = self.points[start:stop]

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """The weights that were given."""
        return None if self.given is None else self.given[start:stop]

    def missing(self, start: int, stop: int) -> Mask | None:
        """The rows that are dropped, if there are any."""
        if self.gone is None or not self.gone[start:stop].any():
            return None
        return self.gone[start:stop]


class Filling:
    """A block while it is filled from batches."""

    def __init__(self, n_rows: int, n_features: int, dtype: np.dtype[Any]) -> None:
        self._room, self._shape, self.n_rows = n_rows, (n_rows, n_features), 0
        self._dtype = dtype
        self._dense: DenseRows | None = None
        self._sparse: list[Rows] = []
        self._n_sparse = 0
        self._weights: FloatArray | None = None
        self._dropped: Mask | None = None
        self._written = [0]
        """How many rows have been written to the arrays, by this block or a fork of it."""

    def fork(self, dtype: np.dtype[Any] | None = None) -> Filling:
        """The same block, which may be filled in another way, and in another dtype.

        Rows so far are shared, and copied only if both blocks go on: a batch can be tried out
        without a copy of all rows that wait, and without a trace if it is refused.
        """
        other = object.__new__(Filling)
        vars(other).update(vars(self))
        if dtype is not None and dtype != self._dtype:
            other._dtype = dtype
            other._own()
        return other

    def __getstate__(self) -> dict[str, Any]:
        # The rows so far, without the room for others.
        state, n = vars(self).copy(), self.n_rows
        del state["_written"]
        for name in ("_dense", "_weights", "_dropped"):
            state[name] = None if state[name] is None else state[name][:n]
        return state | {"_sparse": self._sparse[: self._n_sparse]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._own()

    def _own(self) -> None:
        """Write to arrays of its own from here on."""
        n, self._written = self.n_rows, [self.n_rows]
        self._sparse = self._sparse[: self._n_sparse]
        if self._dense is not None:
            own = np.empty(self._shape, dtype=self._dtype)
            own[:n] = self._dense[:n]
            self._dense = own
        if self._weights is not None:
            self._weights = np.concatenate([self._weights[:n], np.ones(self._room - n)])
        if self._dropped is not None:
            rest = np.zeros(self._room - n, dtype=bool)
            self._dropped = np.concatenate([self._dropped[:n], rest])

    def take(self, batch: Batch, start: int, stop: int) -> int:
        """Append rows of a batch; return how many of them were dropped."""
        if self._written[0] != self.n_rows:
            self._own()
        part = slice(self.n_rows, self.n_rows + stop - start)
        self._written[0] = part.stop
        if isinstance(batch, ArrayBatch) and is_sparse(batch.points):
            self._sparse.append(batch.points[start:stop])
            self._n_sparse += 1
        else:
            if self._dense is None:
                self._dense = np.empty(self._shape, dtype=self._dtype)
            batch.write(start, stop, self._dense[part])
        weights, missing = batch.weights(start, stop), batch.missing(start, stop)
        if weights is not None or missing is not None:
            if self._weights is None:
                self._weights = np.ones(self._room)
            if weights is not None:
                self._weights[part] = weights
            if missing is not None:
                # A dropped row keeps its number, but with weight 0 it is never drawn. Its values
                # become ones, which every divergence is defined for.
                if self._dropped is None:
                    self._dropped = np.zeros(self._room, dtype=bool)
                self._dropped[part] = missing
                self._weights[part][missing] = 0.0
                if self._dense is not None:
                    self._dense[part][missing] = 1.0
        self.n_rows = part.stop
        return 0 if missing is None else int(missing.sum())

    @property
    def weighted(self) -> bool:
        """Whether any of the rows came with a weight."""
        return self._weights is not None

    def block(self, first_row: int) -> Block:
        """The rows so far as a block."""
        weights = None if self._weights is None else self._weights[: self.n_rows]
        dropped = None if self._dropped is None else self._dropped[: self.n_rows]
        if self._n_sparse:
            return Block(stack(self._sparse[: self._n_sparse]), weights, first_row, dropped)
        assert self._dense is not None
        return Block(self._dense[: self.n_rows], weights, first_row, dropped)
