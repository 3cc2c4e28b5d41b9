"""Weighted rows in memory, as the solvers want them: measured, and what a row costs on average."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.device import DeviceArray, copied
from lwcs.geometry import Centers, Geometry
from lwcs.geometry.device import DeviceRows

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Measured


@dataclass(frozen=True, slots=True)
class Points:
    """Weighted rows of a coreset, or all rows of small data."""

    rows: Measured
    weights: FloatArray
    average: float
    """What a row costs around the mean, on average."""
    device_weights: Any = None
    """The weights as a tensor beside rows on a device; None for rows of the host."""

    @classmethod
    def of(cls, data: Rows, weights: Any, geometry: Geometry | None = None) -> Points:
        """Measure weighted rows of data; weights may be on a device, too."""
        how = Geometry() if geometry is None else geometry
        if not how.squared:
            # Solvers on a device know squared distances alone, and a coreset is small.
            data, how = copied(data), replace(how, device=None)
        rows = how.measured(data)
        omega, own = kernels.unit_weights(copied(weights), len(rows)), rows.geometry
        if isinstance(rows, DeviceRows):
            return cls._on_device(rows, omega, weights)
        moments = rows.moments(omega)
        if own.cost_follows_from_moments:
            scatter, precision = np.maximum(moments.scatter, 0.0), own.precision
            cost = float(scatter.sum() if precision is None else precision @ scatter)
        else:
            cost = float(omega @ rows.distances_to(Centers(moments.mean[None, :], own)))
        return cls(rows, omega, cost / moments.weight)

    @classmethod
    def _on_device(cls, rows: DeviceRows, omega: FloatArray, given: Any) -> Points:
        weights = rows.put(omega if given is None else given).double()
        moments, precision = rows.moments(DeviceArray(weights)), rows.geometry.precision
        scatter = np.maximum(moments.scatter, 0.0)
        cost = float(scatter.sum() if precision is None else precision @ scatter)
        return cls(rows, omega, cost / moments.weight, weights)

    def part(self, at: IntArray, weights: FloatArray) -> Points:
        """Some of the rows, with weights of their own; a row costs as much on average."""
        rows, own = self.rows[at], None
        if isinstance(rows, DeviceRows) and self.device_weights is not None:
            own = rows.put(weights).double()
        return Points(rows, weights, self.average, own)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def variance(self) -> float:
        """The average cost per column; with squared distances, a variance."""
        return self.average / self.rows.n_features
