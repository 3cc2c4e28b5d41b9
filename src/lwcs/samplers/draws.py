"""Rejection from distances to a pivot to distances to the mean: exact, with one read.

With a(x) = ‖x − pivot‖², d(x) = ‖x − mean‖², δ = ‖pivot − mean‖² and ρ = Ωδ/Φ, rows that are
proposed in proportion to

    ω·h(x),   h = (1 + c)·a + (1 + 1/c)·δ ≥ d,   c = √(ρ/(1 + ρ)),

and accepted with probability d/h follow ω·d exactly. Acceptance is (√(1+ρ) − √ρ)².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.kernels import cell_sums, cross

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray


PIVOT_ROWS = 1_000
"""Rows whose mean is the pivot."""
PROPOSALS_AT_ONCE = 2**16
_LEAST_C = 1e-8


@dataclass(frozen=True, slots=True)
class Rejection:
    """h = scale·a + floor, and how many proposals are accepted."""

    rho: float
    scale: float
    floor: float
    acceptance: float

    @classmethod
    def of(cls, weight: float, slip: float, cost: float) -> Rejection:
        """From Ω, δ and Φ > 0."""
        rho = weight * slip / cost
        c = max(float(np.sqrt(rho / (1.0 + rho))), _LEAST_C)
        acceptance = float((np.sqrt(1.0 + rho) - np.sqrt(rho)) ** 2)
        return cls(rho, 1.0 + c, (1.0 + 1.0 / c) * slip, acceptance)


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


def hit_cells(sums: FloatArray, fractions: FloatArray) -> tuple[IntArray, FloatArray]:
    """Cells in proportion to their mass, and where in its mass each is hit.

    `sums` are the running sums over all cells; `fractions` are uniform on [0, 1), one per draw.
    """
    targets = fractions * sums[-1]
    # A target that rounding pushed past the end belongs to the last cell that has mass.
    last = np.searchsorted(sums, sums[-1], side="left")
    hit = np.minimum(np.searchsorted(sums, targets, side="right"), last)
    before = np.where(hit > 0, sums[hit - 1], 0.0)
    return hit, np.maximum(targets - before, 0.0)


class RunningWeights:
    """The weights of rows as running sums over cells; without weights, every row counts as one."""

    def __init__(self, n_rows: int, weights: FloatArray | None, cell_rows: int) -> None:
        self._n_rows, self._weights, self._cell_rows = n_rows, weights, cell_rows
        self.total = float(n_rows)
        if weights is not None:
            cells = cell_sums(weights, cell_rows)
            self.total = float(cells.sum())
            self._sums = np.cumsum(cells, out=cells)

    def draw(self, fractions: FloatArray) -> IntArray:
        """Rows in proportion to their weights, one per uniform number on [0, 1)."""
        if self._weights is None:
            return np.minimum((fractions * self._n_rows).astype(np.int64), self._n_rows - 1)
        drawn = np.empty(len(fractions), dtype=np.int64)
        for some in pieces(len(fractions), _DRAWS_AT_ONCE):
            cells, targets = hit_cells(self._sums, fractions[some])
            drawn[some] = cross(self._weights, *self.runs(cells), targets)
        return drawn

    def runs(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Where the rows of some cells start and stop."""
        starts = cells * self._cell_rows
        return starts, np.minimum(starts + self._cell_rows, self._n_rows)

    def add_to(self, cells: FloatArray, factor: float) -> None:
        """Add `factor` times the weight of every cell to these."""
        if self._weights is None:
            cells += factor * self._cell_rows
            cells[-1] -= factor * (len(cells) * self._cell_rows - self._n_rows)
        else:
            cells[0] += factor * self._sums[0]
            cells[1:] += factor * np.diff(self._sums)
