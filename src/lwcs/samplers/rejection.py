"""Rejection from distances to a pivot to distances to the mean: exact, with one read.

With a(x) = ‖x − pivot‖², d(x) = ‖x − mean‖², δ = ‖pivot − mean‖² and ρ = Ωδ/Φ, rows that are
proposed in proportion to

    ω·h(x),   h = (1 + c)·a + (1 + 1/c)·δ ≥ d,   c = √(ρ/(1 + ρ)),

and accepted with probability d/h follow ω·d exactly. Acceptance is (√(1+ρ) − √ρ)².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
