"""Weighted rows in memory, as the solvers want them: measured, and what a row costs on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.geometry import Centers, Geometry

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.geometry import Measured


@dataclass(frozen=True, slots=True)
class Points:
    """Weighted rows of a coreset, or all rows of small data."""

    rows: Measured
    weights: FloatArray
    average: float
    """What a row costs around the mean, on average."""

    @classmethod
    def of(cls, data: Rows, weights: FloatArray | None, geometry: Geometry | None = None) -> Points:
        """Measure weighted rows of data."""
        rows = (Geometry() if geometry is None else geometry).measured(data)
        omega, own = kernels.unit_weights(weights, len(rows)), rows.geometry
        moments = rows.moments(omega)
        if own.cost_follows_from_moments:
            scatter, precision = np.maximum(moments.scatter, 0.0), own.precision
            cost = float(scatter.sum() if precision is None else precision @ scatter)
        else:
            cost = float(omega @ rows.distances_to(Centers(moments.mean[None, :], own)))
        return cls(rows, omega, cost / moments.weight)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def variance(self) -> float:
        """The average cost per column; with squared distances, a variance."""
        return self.average / self.rows.n_features
