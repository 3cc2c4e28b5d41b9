"""Weighted points: the measured rows of a coreset, which all solvers of k-means take.

Solvers compute with float32 rows in float32 for as long as the cost has digits left: distances
from float32 products err by about 1e-6 of the spread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from lwcs import kernels
from lwcs.arrays.device import DeviceArray, copied
from lwcs.geometry import Centers, Geometry
from lwcs.geometry.measured import is_on_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Measured
    from lwcs.geometry.device_rows import DeviceRows

FLOAT32_DOWN_TO = 1e-3
"""float32 distances are used until the cost has fallen to this part of the spread.

Sampling probabilities are then off by a thousandth at most.
"""
WORTH_THREADS = 2**27
"""Products of a whole seeding or local search from which on it pays to start threads."""


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
        if is_on_device(rows):
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
        if is_on_device(rows) and self.device_weights is not None:
            own = rows.put(weights).double()
        return Points(rows, weights, self.average, own)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def variance(self) -> float:
        """The average cost per column; with squared distances, a variance."""
        return self.average / self.rows.n_features


class HasCost(Protocol):
    """A clustering, or several of them, with a cost."""

    @property
    def cost(self) -> float:
        """Σw·d."""


Found = TypeVar("Found", bound=HasCost)


def precisely(
    data: Rows, weights: FloatArray, geometry: Geometry, how: Callable[[Points], Found]
) -> Found:
    """Cluster weighted rows of data in a precision that is enough.

    float32 rows are clustered by float32 products, and once more by float64 products if the cost
    comes out so small against their spread that float32 had no digits left. On a device, labels
    are nearest and costs are those of differences in any case.
    """
    points = Points.of(data, weights, geometry)
    found = how(points)
    spread = points.average * points.weights.sum()
    single = points.rows.dtype == np.float32 and points.device_weights is None
    if single and not found.cost >= FLOAT32_DOWN_TO * spread:
        found = how(Points.of(data, weights, geometry.in_float64()))
    return found


def draw_points(sums: FloatArray, uniforms: FloatArray) -> IntArray:
    """Points in proportion to the steps of `sums`; a point without a step is never drawn."""
    # A uniform number times a sum that is not a normal number can be rounded up to the sum.
    below = np.minimum(uniforms * sums[-1], np.nextafter(sums[-1], 0.0))
    return np.searchsorted(sums, below, side="right")
