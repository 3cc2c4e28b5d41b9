"""A reservoir: rows drawn with replacement, in proportion to a mass, in one pass over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.rows import replace_rows

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, IntArray, Rows


@dataclass
class Reservoir:
    """Slots, each of which holds one i.i.d. draw from all rows that have passed.

    For a block with mass W_b that brings the total to W, Binomial(slots, W_b/W) slots are
    overwritten by draws from the block: every slot holds a row of it with probability W_b/W.
    """

    slots: int
    total: float = 0.0
    points: Rows | None = None
    rows: IntArray | None = None

    def update(
        self, points: Rows, masses: FloatArray, first_row: int, rng: np.random.Generator
    ) -> None:
        """Let a block pass."""
        sums = np.cumsum(masses)
        mass = float(sums[-1]) if len(sums) else 0.0
        if mass <= 0.0:
            return
        self.total += mass
        if self.points is None:
            slots = np.arange(self.slots)
        else:
            taken = int(rng.binomial(self.slots, mass / self.total))
            slots = rng.choice(self.slots, taken, replace=False, shuffle=False)
        at = np.searchsorted(sums, rng.random(len(slots)) * mass, side="right")
        # A target that rounding pushed past the end belongs to the last row that has mass.
        at = np.minimum(at, np.flatnonzero(masses)[-1])
        if self.points is None or self.rows is None:
            self.points, self.rows = points[at], at + first_row
        elif len(slots):
            self.points = replace_rows(self.points, slots, points[at])
            self.rows[slots] = at + first_row

    def copy(self, dtype: np.dtype[Any] | None = None) -> Reservoir:
        """A reservoir that may go another way, and may hold its rows in another dtype."""
        points: Any = self.points
        if points is not None:
            points = points.astype(points.dtype if dtype is None else dtype)
        rows = None if self.rows is None else self.rows.copy()
        return Reservoir(self.slots, self.total, points, rows)
