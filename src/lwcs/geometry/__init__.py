"""How the rows of one data set are measured: in which coordinates, and by which distance.

A `Geometry` is made once per fit: a divergence, a scale, the mean that rows are smoothed towards,
a kernel and a precision. It alone converts between the coordinates of the data and its own: rows
become `Measured`, centers become `Centers`, and everything that solvers, passes and samplers do
with rows is an operation on these two. They are types of their own, so that mypy finds a mix-up
with rows or centers of the data. Mahalanobis and cosine distances are squared Euclidean distances
of transformed rows, and use the same loops.

Rows are kept as they are, and only products are shifted, to an origin amid the rows: distances and
means are always computed from the rows themselves, since x − o has lost x where o is larger by
sixteen orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs.arrays.device import DeviceArray, copied
from lwcs.arrays.rows import in_float64, is_sparse, single_or_double, with_values
from lwcs.divergences import Divergence, SquaredEuclidean
from lwcs.geometry.centers import BregmanDistance, Centers, Frame, SquaredDistance
from lwcs.geometry.dense_rows import DenseRows
from lwcs.geometry.measured import Measured
from lwcs.kernels import named

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, Mask, Rows
    from lwcs.geometry.centers import Metric
    from lwcs.kernels import HostKernels, KernelName


__all__ = ["Centers", "Geometry", "Measured"]


@dataclass(frozen=True, eq=False)
class Geometry:
    """How the rows of one data set are measured."""

    divergence: Divergence = field(default_factory=SquaredEuclidean)
    scale: FloatArray | None = None
    """Standard deviations of the columns; for squared Euclidean distances only."""
    mean: FloatArray | None = None
    """Mean of the transformed rows, towards which rows are smoothed."""
    kernel: KernelName = "numpy"
    precision_of_products: Literal["data", "float64", "tf32"] = "data"
    """Precision of the first products of float32 rows: float32 ("data"), or on a device TF32."""
    device: str | None = None
    """Where dense rows of the host are measured, such as "cuda"; rows on a device stay on it."""

    @property
    def squared(self) -> bool:
        """Whether distances are squared Euclidean ones between measured rows."""
        return self.divergence.squared

    @property
    def cost_follows_from_moments(self) -> bool:
        """Whether mean and scatter give Φ, so that one pass before the draws is enough."""
        return self.squared

    @property
    def distance_name(self) -> str:
        """Name of a column of distances."""
        return "squared_distance" if self.squared else "divergence"

    @property
    def length_name(self) -> str:
        """Name of what `lengths` returns."""
        return "distance" if self.squared else "divergence"

    def lengths(self, distances: FloatArray) -> FloatArray:
        """Distances for users: the roots of squared distances, and divergences as they are."""
        return np.sqrt(distances) if self.squared else distances

    def of_lengths(self, lengths: FloatArray) -> FloatArray:
        """The inverse of `lengths`."""
        return lengths**2 if self.squared else lengths

    @property
    def keeps_rows(self) -> bool:
        """Whether measured dense rows are the rows of the data themselves, without a copy."""
        return self.squared and type(self.divergence).transform is Divergence.transform

    @property
    def leaves_means(self) -> bool:
        """Whether means of rows are centers as they are, without any constraint."""
        kind = type(self.divergence)
        return (
            kind.constrain is Divergence.constrain
            and kind.round_to_domain is Divergence.round_to_domain
        )

    @property
    def needs_mean(self) -> bool:
        """Whether rows can be measured only once their mean is known."""
        return self.divergence.smoothing > 0.0

    @property
    def precision(self) -> FloatArray | None:
        """1/scale², if there is a scale."""
        return None if self.scale is None else self.scale**-2.0

    @cached_property
    def metric(self) -> Metric:
        """Distances value by value."""
        return SquaredDistance(self.precision) if self.squared else BregmanDistance(self.divergence)

    def plain_frame(self, n_features: int) -> Frame:
        """The coordinates of the measured rows themselves."""
        around = None if self.squared else np.zeros(n_features, dtype=bool)
        return Frame(np.zeros(n_features), around)

    @property
    def kernels(self) -> HostKernels:
        """The kernels for rows of the host; those for rows on a device know them by their type."""
        return named(self.kernel)

    def with_kernel(self, kernel: KernelName) -> Geometry:
        """A copy with another kernel."""
        return self if kernel == self.kernel else replace(self, kernel=kernel)

    def computed_as(self, other: Geometry) -> Geometry:
        """A copy with the kernel, the device and the precision of another geometry."""
        return replace(
            self,
            kernel=other.kernel,
            device=other.device,
            precision_of_products=other.precision_of_products,
        )

    def in_float64(self) -> Geometry:
        """A copy with products in float64."""
        return replace(self, precision_of_products="float64")

    def measured(self, points: Rows, first_row: int = 0) -> Measured:
        """Convert rows of the data to these coordinates; refuse rows outside of the domain."""
        if self._on_device(points):
            from lwcs.geometry.device_divergences import measured_on_device

            return measured_on_device(self, points, first_row)
        points = copied(points)
        self.divergence.check(points, first_row)
        rows = self.divergence.transform(points)
        if is_sparse(rows):
            from lwcs.geometry.sparse_rows import SparseRows

            return SparseRows(self, self._less_zeros(rows), np.float64, points, first_row)
        if not self.squared:
            wide = self.smoothed(rows.astype(np.float64, copy=False))
            return DenseRows(self, wide, np.float64, points, first_row)
        products = self.product_dtype(points.dtype)
        return DenseRows(self, rows, products, points, first_row)

    def product_dtype(self, dtype: npt.DTypeLike) -> npt.DTypeLike:
        """Dtype of the first products of rows."""
        return np.float64 if self.precision_of_products == "float64" else single_or_double(dtype)

    def _on_device(self, points: Rows) -> bool:
        """Whether to measure rows on a device: dense rows, by divergences that take tensors."""
        if not self.divergence.runs_on_device or is_sparse(points):
            return False
        return self.device is not None or isinstance(points, DeviceArray)

    @property
    def _tau(self) -> float:
        return 0.0 if self.mean is None else self.divergence.smoothing

    @cached_property
    def _unseen(self) -> Mask | None:
        """Columns whose mean is at an end of the domain, which are ignored in other rows.

        All rows that were averaged are at that end, and so are all centers. If such columns were
        not ignored, a held-out document with a new word would be infinitely far from all topics.
        """
        if not self._tau or self.mean is None:
            return None
        rounded = self.divergence.round_to_domain(self.mean)
        unseen: Mask = ~self.divergence.domain.interior(rounded)
        return unseen if unseen.any() else None

    def varying(self, n_features: int) -> Mask:
        """Columns that can cost anything: not those whose mean is at an end of the domain."""
        if self.squared or self.mean is None:
            return np.ones(n_features, dtype=bool)
        own = self.divergence
        return own.domain.interior(own.round_to_domain(self.mean))

    def smoothed(self, points: FloatArray) -> FloatArray:
        """(1 − τ)·x + τ·mean for dense rows or centers."""
        if not self._tau or self.mean is None:
            return points
        moved: FloatArray = (1.0 - self._tau) * points + self._tau * self.mean
        if self._unseen is not None:
            moved[:, self._unseen] = self.mean[self._unseen]
        return moved

    def _less_zeros(self, rows: Any) -> Any:
        """Smooth sparse rows and subtract what a zero stands for, which keeps them sparse."""
        zero = self.divergence.zero
        if not zero and not self._tau:
            return rows if self.squared else in_float64(rows)
        moved = rows.data - zero if zero else rows.data
        data = np.multiply(moved, 1.0 - self._tau, dtype=np.float64)
        if self._unseen is not None:
            data[self._unseen[rows.indices]] = 0.0
        return with_values(rows, data)

    def zeros(self, n_features: int) -> FloatArray:
        """The value that an implicit zero of sparse rows stands for, per column."""
        return self.smoothed(np.full((1, n_features), self.divergence.zero))[0]

    def centers(self, given: npt.NDArray[Any], name: str = "centers") -> Centers:
        """Convert a user's centers to these coordinates, and check that they are in the domain."""
        own = self.divergence
        points: FloatArray = own.round_to_domain(own.transform(given.astype(np.float64)))
        outside = own.domain.outside(points)
        why = f"divergence={own.name!r} requires {own.domain}"
        if self._tau and self.mean is not None and not outside.any():
            inside = own.domain.interior(own.round_to_domain(self.mean))
            outside = ~own.domain.interior(points) & inside
            why = (
                "all rows would be infinitely far from it; smooth centers as rows are smoothed, "
                "with coreset.geometry().smoothed(centers)"
            )
        if outside.any():
            row, column = map(int, np.argwhere(outside)[0])
            raise ValueError(f"{name}[{row}, {column}]={given[row, column]} is not allowed: {why}")
        return Centers(points, self)

    def own_centers(self, centers: npt.NDArray[Any]) -> Centers:
        """Convert centers that `to_data` returned back to these coordinates."""
        return Centers(self.divergence.to_coordinates(centers.astype(np.float64)), self)

    def initial_centers(self, given: FloatArray) -> Centers:
        """Centers to start from: smoothed, as the rows are."""
        plain = replace(self, mean=None).centers(given, "init")
        return Centers(self.smoothed(plain.points), self)

    def means(self, old: Centers, weights: FloatArray, sums: FloatArray) -> Centers:
        """The means of clusters, from their weights and the sums of `Measured.cluster_sums`.

        A cluster without weight keeps its old center.
        """
        own, points, at = self.divergence, old.points.copy(), np.flatnonzero(weights > 0.0)
        moved = sums[at] / weights[at, None]
        moved += old.references[at]
        points[at] = own.constrain(own.round_to_domain(moved))
        return Centers(points, self)

    def to_data(self, centers: Centers) -> FloatArray:
        """Convert centers to the coordinates of the data."""
        return self.divergence.from_coordinates(centers.points)

    def rows_to_data(self, rows: Measured) -> Rows:
        """Transformed rows without smoothing, for a user's `init` function."""
        tau, domain = self._tau, self.divergence.domain
        values: Rows = copied(rows.values)
        if is_sparse(values):
            data = values.data / (1.0 - tau) + self.divergence.zero
            return with_values(values, data.astype(values.dtype))
        if self.mean is not None and tau:
            values = np.clip((values - tau * self.mean) / (1.0 - tau), domain.low, domain.high)
        return self.divergence.from_coordinates(values).astype(values.dtype)

    def center_dtype(self, dtype: npt.DTypeLike) -> npt.DTypeLike:
        """Dtype of stored centers; rounded to float32, one might leave a divergence's domain."""
        return single_or_double(dtype) if self.squared else np.float64

    def apart(self, one: FloatArray, other: FloatArray) -> float:
        """Σd of two arrays of points, row by row."""
        return float(self.metric.between(one, other).sum())

    def noise(self, weight: float, rows: int, cost: float, dtype: npt.DTypeLike) -> float:
        """Cost of rows that lie on their center: it is not 0, since a center is a rounded mean."""
        assert self.mean is not None
        if self.squared:
            eps = float(np.finfo(single_or_double(dtype)).eps)
            mean = self.mean if self.scale is None else self.mean / self.scale
            return float((8.0 * eps) ** 2 * (cost + weight * float(mean @ mean)))
        spread = 8.0 * np.finfo(np.float64).eps * np.sqrt(rows)
        with np.errstate(invalid="ignore"):
            apart = self.metric.between(self.mean * (1.0 - spread), self.mean)
        # At an end of the domain the next value is infinitely far, and no row is there.
        return float(weight * apart[np.isfinite(apart)].sum())

    def __getstate__(self) -> dict[str, Any]:
        """Leave out cached properties, since tasks are sent to workers."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
