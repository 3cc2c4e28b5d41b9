"""Drawing rows in proportion to a mass, where its running sum crosses a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, IntArray

CELL_ROWS = 32
_DRAWS_AT_ONCE = 2048


class Crossing:
    """Sorted targets on [0, total), met block after block as the running sum crosses them.

    One scan, whatever the number of blocks: this is the second round's draw.
    """

    def __init__(self, targets: FloatArray) -> None:
        self._targets = targets
        self._met = 0
        self._running = 0.0
        # Kept from block to block: fresh memory costs more than the sums.
        self._sums = np.empty(0)

    def meet(self, masses: FloatArray) -> IntArray:
        """Rows of this block that are drawn, with repetitions; a row without mass never is."""
        if not len(masses):
            return np.empty(0, dtype=np.int64)
        if self._met == len(self._targets):
            self._running += float(masses.sum())
            return np.empty(0, dtype=np.int64)
        if len(self._sums) < len(masses):
            self._sums = np.empty(len(masses))
        sums = np.cumsum(masses, out=self._sums[: len(masses)])
        sums += self._running
        upto = int(np.searchsorted(self._targets, sums[-1], side="left"))
        drawn = np.searchsorted(sums, self._targets[self._met : upto], side="right")
        self._met = max(self._met, upto)
        self._running = float(sums[-1])
        return drawn.astype(np.int64, copy=False)

    @property
    def total(self) -> float:
        """The running sum."""
        return self._running

    @property
    def leftover(self) -> int:
        """How many targets the running sum fell short of by rounding."""
        return len(self._targets) - self._met


def cell_sums(masses: FloatArray) -> FloatArray:
    """Sums over cells of rows, the last one short."""
    whole = len(masses) // CELL_ROWS * CELL_ROWS
    # A product with ones is several times faster than a sum over so short an axis.
    sums: FloatArray = masses[:whole].reshape(-1, CELL_ROWS) @ np.ones(CELL_ROWS)
    if whole == len(masses):
        return sums
    return np.append(sums, masses[whole:].sum())


def draw_from_cells(fractions: FloatArray, cells: FloatArray, masses: Masses) -> IntArray:
    """Rows in proportion to their mass: first a cell by its sum, then a row in it.

    `fractions` are uniform on [0, 1), one per draw. Only the masses of the cells that are hit
    are looked at.
    """
    sums = np.cumsum(cells)
    targets = fractions * sums[-1]
    # A target that rounding pushed past the end belongs to the last cell that has mass.
    hit = np.searchsorted(sums, targets, side="right")
    if hit.max(initial=0) == len(cells):
        hit = np.minimum(hit, np.flatnonzero(cells)[-1])
    within = np.maximum(targets - (sums[hit] - cells[hit]), 0.0)
    chosen = np.empty(len(targets), dtype=np.int64)
    for start in range(0, len(targets), _DRAWS_AT_ONCE):
        some = slice(start, start + _DRAWS_AT_ONCE)
        chosen[some] = hit[some] * CELL_ROWS + _cross(masses(hit[some]), within[some])
    return chosen


def _cross(masses: FloatArray, targets: FloatArray) -> IntArray:
    """Where in its row of masses each target is crossed, at the latest at the last mass."""
    running = np.zeros(len(targets))
    crossed, last = np.zeros(len(targets), dtype=np.int64), np.zeros(len(targets), dtype=np.int64)
    # Down the short rows all at once: a cumulative sum along them takes five times as long.
    for column, mass in enumerate(np.ascontiguousarray(masses.T)):
        running += mass
        crossed += running <= targets
        last[mass > 0.0] = column
    return np.minimum(crossed, last)


class Masses:
    """The mass that rows are drawn by: scale·ω·a + floor·ω; zero beyond the last row."""

    def __init__(
        self,
        n_rows: int,
        weights: FloatArray | None,
        distances: FloatArray | None = None,
        *,
        scale: float = 0.0,
        floor: float = 1.0,
    ) -> None:
        self._n_rows, self._weights = n_rows, weights
        self._cells = None if distances is None else distances.reshape(-1, CELL_ROWS)
        self._scale, self._floor = scale, floor

    def __call__(self, cells: IntArray) -> FloatArray:
        """Masses of the rows of some cells, one row of the result per cell."""
        if self._cells is None:
            masses = np.full((len(cells), CELL_ROWS), self._floor)
        else:
            masses = self._scale * self._cells[cells] + self._floor
        rows = cells[:, None] * CELL_ROWS + np.arange(CELL_ROWS)
        if self._weights is not None:
            masses *= self._weights[np.minimum(rows, self._n_rows - 1)]
        masses[rows >= self._n_rows] = 0.0
        return masses
