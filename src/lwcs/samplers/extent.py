"""How large rows and their weights are: enough to know that no sum of theirs overflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.rows import stored_values

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.geometry import Geometry

_LARGEST_WEIGHT = 1e200
_LARGEST_COST = 1e307


@dataclass(frozen=True, slots=True)
class Extent:
    """Total weight and largest coordinate of some rows; together they bound every cost."""

    weight: float = 0.0
    largest: float = 0.0

    @classmethod
    def of(cls, rows: Rows, weight: float, geometry: Geometry) -> Extent:
        """Of rows as they are measured; rows outside of the domain are refused."""
        values = stored_values(geometry.measured(rows).values)
        zero = abs(geometry.divergence.zero)
        return cls(weight, float(np.abs(values).max(initial=0.0)) + zero)

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.weight + other.weight, max(self.largest, other.largest))

    def check(self, n_features: int, what: str) -> None:
        """Refuse rows whose costs may overflow: Σω‖x − y‖² ≤ Ω·d·(2·largest)²."""
        with np.errstate(over="ignore"):
            cost = self.weight * (n_features * np.square(2.0 * np.float64(self.largest)))
        if not (self.weight < _LARGEST_WEIGHT and cost < _LARGEST_COST):
            raise ValueError(
                f"with {what}, weights sum to {self.weight:g} and values go up to "
                f"{self.largest:g}, which is so large that costs overflow; scale the weights or "
                "the data down"
            )


def weight_of(weights: FloatArray | None, n_rows: int) -> float:
    """Total weight of rows, which is their number if they have no weights."""
    return float(n_rows if weights is None else weights.sum())
