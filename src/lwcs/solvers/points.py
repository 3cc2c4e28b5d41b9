"""Weighted points: measured rows of a coreset with their weights, the input of k-means solvers.

float32 rows are clustered with float32 products for as long as the cost has digits left: distances
from these products are off by about 1e-6 of the spread.
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

FLOAT32_DOWN_TO = 1e-3
"""float32 distances are used until the cost has fallen to this part of the spread.

Sampling probabilities are then off by at most a thousandth.
"""
WORTH_THREADS = 2**27
"""Number of products of a whole seeding or local search from which on threads pay."""


@dataclass(frozen=True, slots=True)
class Points:
    """Weighted rows of a coreset, or all rows of small data."""

    rows: Measured
    weights: FloatArray
    average: float
    """The average cost of a row around the mean."""
    device_weights: Any = None
    """The weights as a tensor, for rows on a device; None for rows of the host."""

    @classmethod
    def of(cls, data: Rows, weights: Any, geometry: Geometry | None = None) -> Points:
        """Measure weighted rows of data; the weights may be on a device."""
        geometry = Geometry() if geometry is None else geometry
        if not geometry.squared:
            # The device code of solvers is for squared distances alone, and a coreset is small.
            data, geometry = copied(data), replace(geometry, device=None)
        rows: Any = geometry.measured(data)
        tensor = None
        omega = kernels.unit_weights(copied(weights), len(rows))
        if is_on_device(rows):
            tensor = rows.put(omega if weights is None else weights).double()
        moments = rows.moments(omega if tensor is None else DeviceArray(tensor))
        if rows.geometry.cost_follows_from_moments:
            scatter, precision = np.maximum(moments.scatter, 0.0), rows.geometry.precision
            cost = float(scatter.sum() if precision is None else precision @ scatter)
        else:
            mean = Centers(moments.mean[None, :], rows.geometry)
            cost = float(omega @ rows.distances_to(mean))
        return cls(rows, omega, cost / moments.weight, tensor)

    def part(self, at: IntArray, weights: FloatArray) -> Points:
        """Some of the rows with other weights; the average cost is that of all rows."""
        rows, tensor = self.rows[at], None
        if is_on_device(rows) and self.device_weights is not None:
            tensor = rows.put(weights).double()
        return Points(rows, weights, self.average, tensor)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def variance(self) -> float:
        """The average cost per column: for squared distances, the mean variance of the columns."""
        return self.average / self.rows.n_features


class HasCost(Protocol):
    """A clustering, or several of them, with a cost."""

    @property
    def cost(self) -> float:
        """Σw·d."""


Found = TypeVar("Found", bound=HasCost)


def precisely(
    data: Rows, weights: FloatArray, geometry: Geometry, solve: Callable[[Points], Found]
) -> Found:
    """Cluster weighted rows of data in sufficient precision.

    float32 rows are clustered by float32 products, and again by float64 products if the cost is so
    small compared to their spread that float32 had no digits left. On a device this is not needed:
    there, labels and costs are decided by differences wherever products have too few digits.
    """
    points = Points.of(data, weights, geometry)
    solution = solve(points)
    spread = points.average * points.weights.sum()
    single = points.rows.dtype == np.float32 and points.device_weights is None
    if single and not solution.cost >= FLOAT32_DOWN_TO * spread:
        return solve(Points.of(data, weights, geometry.in_float64()))
    return solution


def draw_points(sums: FloatArray, uniforms: FloatArray) -> IntArray:
    """Points in proportion to their masses, given as running sums; never one without mass."""
    # A uniform number times a subnormal sum may be rounded up to the sum.
    below = np.minimum(uniforms * sums[-1], np.nextafter(sums[-1], 0.0))
    return np.searchsorted(sums, below, side="right")
