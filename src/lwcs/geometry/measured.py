"""Measured rows: the operations that passes, samplers and solvers need, for any kind of rows.

The methods of `Measured` compute on the host, by the kernels that the geometry holds. Dense and
sparse rows add what differs between the two; rows on a device override most of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray
from lwcs.arrays.rows import single_or_double, stored_values
from lwcs.geometry.centers import Centers
from lwcs.kernels import BlockMoments, Pivot

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask, Rows
    from lwcs.geometry import Geometry
    from lwcs.geometry.device_rows import DeviceRows
    from lwcs.geometry.products import Products
    from lwcs.kernels import Kernels

    Weights = FloatArray | Any | None

_SAMPLE_ROWS = 16
# The square of a smaller number may be zero.
_SQUARES_UNDERFLOW = 1e-140
# Rows that differ by a larger part of their size are not equal.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Measured(ABC):
    """Rows in the coordinates of a geometry; only `Geometry.measured` makes them from data."""

    geometry: Geometry
    values: Rows
    """Transformed and smoothed; sparse rows less what a zero stands for, so they stay sparse."""
    dtype: npt.DTypeLike
    """Dtype of the first products of these rows."""
    points: Rows | None = None
    """The rows of the data, to name a bad value in; None for a selection of measured rows."""
    first_row: int = 0

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def kernels(self) -> Kernels:
        """The loops over rows of this kind."""
        return self.geometry.kernels

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def work_per_center(self) -> int:
        """Number of multiplications of all rows with one center, as for dense rows."""
        return len(self) * self.n_features

    @property
    def zeros(self) -> FloatArray:
        """What to add to the values: what the zeros of sparse rows stand for."""
        return np.zeros(self.n_features)

    def threads(self, n_jobs: int | None) -> int | None:
        """Number of threads that share the work on these rows: one if a device does it."""
        return n_jobs

    def __getitem__(self, at: slice | IntArray | Mask) -> Self:
        """Some of the rows."""
        if isinstance(at, slice) and at.indices(len(self)) == (0, len(self), 1):
            # A slice of sparse rows is a copy.
            return self
        return type(self)(self.geometry, self.values[at], self.dtype)

    def as_centers(self, at: slice | IntArray = slice(None)) -> Centers:
        """Some of the rows as centers."""
        return Centers(self.full(at), self.geometry)

    def sample(self) -> FloatArray:
        """A few of the rows, evenly spaced, dense and in full."""
        return self.full(slice(None, None, max(1, -(-len(self) // _SAMPLE_ROWS))))

    def full(self, at: slice | IntArray) -> FloatArray:
        """Some of the rows, dense, in float64, with what implicit zeros stand for."""
        return np.array(self.values[at], dtype=np.float64)

    def moments(self, weights: FloatArray | None) -> BlockMoments:
        """Weight and mean, and for squared distances the scatter of every column (else zeros)."""
        if self.geometry.squared:
            return self.kernels.moments(self.values, weights)
        omega = kernels.unit_weights(weights, len(self))
        weight = float(omega.sum())
        # NaN times zero is NaN, so a bad row without weight is found as well.
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.asarray(self.values.T @ omega)
        scatter = np.zeros(self.n_features)
        return BlockMoments(weight, sums / weight if weight else sums, scatter)

    def differ(self) -> bool:
        """Whether a few of the rows differ from each other by more than rounding."""
        some = self.sample()
        spread = some.max(axis=0) - some.min(axis=0)
        return bool((spread > _ROUNDING * np.abs(some).max(axis=0)).any())

    def underflow(self, moments: BlockMoments) -> Mask | None:
        """Columns in which rows differ, but so little that squares underflow to zero; else None."""
        if not self.geometry.squared or not len(self):
            return None
        with np.errstate(over="ignore"):
            small = np.abs(moments.mean) + np.abs(self.full(slice(0, 1))[0])
        lost: Mask = (moments.scatter == 0.0) & (small > 0.0) & (small < _SQUARES_UNDERFLOW)
        for j in np.flatnonzero(lost):
            lost[j] = self._differs(int(j))
        return lost if lost.any() else None

    def _differs(self, column: int) -> bool:
        """Whether the values of a column differ."""
        values = self.values[:, [column]]
        return bool(values.max() != values.min())

    def cluster_sums(
        self, weights: FloatArray | None, labels: Labels, wanted: Mask, around: Centers
    ) -> tuple[FloatArray, FloatArray]:
        """Σω and Σω·(x − reference of its center) of the clusters that are wanted, else zeros."""
        references = self.as_stored(around.references)
        return self.kernels.cluster_sums(self.values, weights, labels, wanted, references)

    @abstractmethod
    def distances_and_doubt(
        self, centers: Centers, labels: Labels
    ) -> tuple[FloatArray, Mask | None]:
        """d(x, c) of every row and its own center, accurate at any range, and a mask.

        The mask marks distances that are small against the terms of their product; None if that
        has to be found from the scores.
        """

    def distances(self, centers: Centers, labels: Labels) -> FloatArray:
        """d(x, c) of every row and the center that its label names."""
        return self.distances_and_doubt(centers, labels)[0]

    def distances_to(self, center: Centers) -> FloatArray:
        """d(x, c) of every row to a single center."""
        return self.distances(center, np.zeros(len(self), dtype=np.int64))

    @abstractmethod
    def extent(self) -> tuple[float, float]:
        """The smallest and the largest value, in columns that can differ from a center."""

    @abstractmethod
    def products(self, dtype: npt.DTypeLike | None = None, *, again: bool = False) -> Products:
        """Products of these rows with centers, in a frame chosen for them.

        `again` says that an earlier product could not tell the centers apart.
        """

    def distances_to_pivot(self, around: Pivot) -> FloatArray:
        """Squared distances of all rows to one point."""
        distances = np.empty(len(self))
        self.kernels.distances(self.values, around, distances)
        return distances

    def add_center(
        self,
        weights: FloatArray | None,
        center: Centers,
        label: int,
        reach: FloatArray | None,
        closest: FloatArray,
        labels: Labels,
    ) -> tuple[float, int]:
        """Update distances to the nearest center in place, given one more center.

        Returns Σω·closest, and how many rows the triangle inequality (`Centers.reach`) skipped.
        """
        own = self.geometry
        if own.squared:
            pivot = self.pivot(center.points[0])
            cost, skipped = self.kernels.closer(
                self.values, weights, pivot, label, reach, closest, labels
            )
        else:
            found = self.distances_to(center)
            cost, skipped = kernels.keep_closer(found, weights, label, closest, labels), 0
        if not np.isfinite(cost):
            self.refuse(np.flatnonzero(~np.isfinite(np.asarray(closest))))
        return cost, skipped

    def pivot(self, point: FloatArray) -> Pivot:
        """A point for the kernels, in the coordinates of the stored values."""
        return Pivot(self.as_stored(point), self.geometry.precision)

    def as_stored(self, points: FloatArray) -> FloatArray:
        """Points in the coordinates of the stored values: for sparse rows less their zeros."""
        return points

    def nearest(self, centers: Centers) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """The nearest center of every row, and the distance to it."""
        from lwcs.geometry.nearest import nearest

        return nearest(self, centers)

    def labels(self, centers: Centers) -> npt.NDArray[np.int32]:
        """The nearest center of every row."""
        from lwcs.geometry.nearest import nearest_labels

        return nearest_labels(self, centers)

    def all_distances(self, centers: Centers) -> DenseRows:
        """Distances of every row to every center: not squared, but a divergence as it is."""
        from lwcs.geometry.nearest import all_distances

        return all_distances(self, centers)

    def cost(self, centers: Centers, weights: Weights) -> float:
        """Σω·d(x, nearest center)."""
        return kernels.weighted_sum(weights, self.nearest(centers)[1])

    def label_block(self, centers: Centers) -> Any:
        """The nearest center of every row as int32, on the device of the rows."""
        return self.labels(centers)

    def distance_block(self, centers: Centers) -> Any:
        """`all_distances` in the precision of the data, on the device of the rows."""
        data = self.values if self.points is None else self.points
        return self.all_distances(centers).astype(single_or_double(data.dtype))

    def assign_into(
        self,
        centers: Centers,
        weights: Weights,
        labels: Any,
        distances: Any,
        at: slice,
        dropped: Mask | None = None,
    ) -> float:
        """Write the label of every row, and its distance if wanted, to the slice `at`; return Σω·d.

        Rows that are dropped have the label −1.
        """
        nearest, found = self.nearest(centers)
        if dropped is not None:
            nearest[dropped] = -1
        labels[at] = nearest
        if distances is not None:
            distances[at] = found
        return kernels.weighted_sum(weights, found)

    def cluster_step(
        self, centers: Centers, weights: Weights
    ) -> tuple[FloatArray, FloatArray, float]:
        """Half of a Lloyd step: `cluster_sums` around the nearest centers, and Σω·d."""
        labels, distances = self.nearest(centers)
        wanted = np.ones(len(centers), dtype=bool)
        totals, sums = self.cluster_sums(weights, labels, wanted, centers)
        return totals, sums, kernels.weighted_sum(weights, distances)

    def weigh(self, centers: Centers, weights: Weights) -> tuple[FloatArray, FloatArray]:
        """Σω and Σω·d of every cluster."""
        return weigh_clusters(*self.nearest(centers), weights, len(centers))

    def refuse(self, rows: IntArray) -> None:
        """Raise for the first of some rows that cannot be measured: not finite, or too far away."""
        assert self.points is not None
        if not len(rows):
            raise BadValueError.found_in(self.points, self.first_row, 0)
        row = int(rows[0])
        own, bad = self.geometry.divergence, self.points[row : row + 1]
        if self.geometry.squared or not np.isfinite(stored_values(bad)).all():
            raise BadValueError.found_in(bad, self.first_row + row, 0)
        remedy = "pass smoothing=0.1 or more" if "smoothing" in vars(own) else own.remedy
        wants = f"is infinitely far from every center by {own!r}: {remedy}"
        raise BadValueError(0, self.first_row + row, None, np.inf, wants)


def is_on_device(rows: Measured) -> TypeGuard[DeviceRows]:
    """Whether rows are on a device, told without importing what computes there."""
    return isinstance(rows.values, DeviceArray)


def weigh_clusters(
    labels: Any, distances: Any, weights: Weights, k: int
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·d of every cluster, from the label and the distance of every row."""
    if isinstance(labels, DeviceArray):
        from lwcs.geometry.device_rows import weigh_on_device

        return weigh_on_device(labels, distances, weights, k)
    omega = kernels.unit_weights(weights, len(labels))
    totals: FloatArray = np.bincount(labels, omega, k).astype(np.float64)
    costs: FloatArray = np.bincount(labels, omega * distances, k).astype(np.float64)
    return totals, costs
