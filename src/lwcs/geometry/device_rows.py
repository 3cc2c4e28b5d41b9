"""Rows on a device, measured by squared distances: arrays with one value per row stay there.

The methods of `Measured` return NumPy arrays, and are called for coresets and single blocks. The
fused ones (`cost`, `assign_into`, `cluster_step`, `weigh`, `label_block`, `distance_block`), which
a pass calls once per block, copy nothing per row to the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray, on_device, write
from lwcs.arrays.rows import as_floats, pieces, single_or_double
from lwcs.geometry.dense_rows import dense_products
from lwcs.geometry.measured import Measured

if TYPE_CHECKING:
    from types import ModuleType

    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, IntArray, Labels, Mask
    from lwcs.geometry import Geometry
    from lwcs.geometry.centers import Centers
    from lwcs.geometry.dense_rows import DenseProducts
    from lwcs.kernels import Kernels

# Values of a temporary with one number per row and center.
_PIECE_VALUES = 2**25


def _operations() -> ModuleType:
    """Import the kernels, and with them torch, once there is something on a device."""
    from lwcs.kernels.torch import operations

    return operations


def to_device(points: Any, device: str) -> DeviceArray:
    """Copy rows of the host to a device, by the thread's current stream."""
    import torch

    rows, where = as_floats(points), torch.device(device)
    if where.type == "cpu":
        return DeviceArray(on_device(rows, torch.empty(0)))
    dtype = torch.float32 if rows.dtype == np.float32 else torch.float64
    # From pinned memory, the copy is asynchronous; torch keeps the memory until it is done.
    pinned = torch.empty(rows.shape, dtype=dtype, pin_memory=True)
    pinned.numpy()[...] = rows
    return DeviceArray(pinned.to(where, non_blocking=True))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRows(Measured):
    """Rows of a `DeviceArray`, in a type that the kernels read."""

    @classmethod
    def of(cls, geometry: Geometry, points: Any, first_row: int) -> DeviceRows:
        """Measure rows of the data, which are copied to the device if necessary."""
        given = isinstance(points, DeviceArray)
        values = points if given else to_device(points, geometry.device or "cpu")
        return cls(geometry, values, geometry.product_dtype(values.dtype), points, first_row)

    @property
    def kernels(self) -> Kernels:
        """Those in torch, whatever serves rows of the host."""
        from lwcs.kernels import torch

        return torch

    @property
    def tensor(self) -> Any:
        """The rows as a torch tensor, row after row in memory."""
        return self.values.tensor.contiguous()

    @property
    def wide(self) -> Any:
        """The rows in float32 or float64, for solvers: the points of a coreset are few."""
        rows = self.tensor
        return rows.double() if single_or_double(self.values.dtype) is np.float64 else rows.float()

    @property
    def precision(self) -> Any:
        """The precision of every column as a tensor, or None."""
        own = self.geometry.precision
        return None if own is None else self.put(own)

    @property
    def mode(self) -> Literal["tf32x3", "tf32"]:
        """How the kernels multiply float32 numbers: as accurately as float32, or as TF32."""
        return "tf32" if self.geometry.precision_of_products == "tf32" else "tf32x3"

    def put(self, values: Any) -> Any:
        """Copy values to the device of the rows; None stays None."""
        return None if values is None else on_device(values, self.values.tensor)

    def _weights(self, weights: Any) -> Any:
        return None if weights is None else self.put(weights).double()

    def threads(self, n_jobs: int | None) -> int:
        """One: each step fills the device."""
        del n_jobs
        return 1

    def _differs(self, column: int) -> bool:
        least, largest = self.values.tensor[:, column].aminmax()
        return bool(least != largest)

    def _sums(self, labels: Any, weights: Any, around: Centers) -> tuple[Any, Any]:
        references = self.put(around.references)
        return _operations().cluster_sums(
            self.tensor, self._weights(weights), labels, len(around), references
        )

    def distances_and_doubt(
        self, centers: Centers, labels: Labels
    ) -> tuple[FloatArray, Mask | None]:
        """From differences."""
        own = self.geometry.precision
        return self.kernels.own_distances(self.values, centers.points, labels, own), None

    def extent(self) -> tuple[float, float]:
        """Over all values."""
        if not self.values.size:
            return np.inf, -np.inf
        least, largest = self.values.tensor.aminmax()
        return float(least), float(largest)

    def products(self, dtype: npt.DTypeLike | None = None, *, again: bool = False) -> DenseProducts:
        """Products on the host, for callers that do not know of devices."""
        return dense_products(self, dtype, again=again)

    def nearest(self, centers: Centers) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """The nearest center of every row, and the distance to it, on the host."""
        labels, distances = self.nearest_on_device(centers)
        return labels.cpu().numpy(), distances.cpu().numpy()

    def nearest_on_device(self, centers: Centers, *, measure: bool = True) -> tuple[Any, Any]:
        """Label, and distance if wanted, of every row as tensors; bad rows are refused."""
        labels, distances, _ = _operations().nearest(
            self.tensor, self.put(centers.points), self.precision, measure, self.mode
        )
        if len(self):
            bad = labels.amin() < 0 if distances is None else ~distances.sum().isfinite()
            if bool(bad):
                lost = labels < 0 if distances is None else ~distances.isfinite()
                if bool(lost.any()):
                    self.refuse(np.array([int(lost.byte().argmax())]))
        return labels, distances

    def labels(self, centers: Centers) -> npt.NDArray[np.int32]:
        """The nearest center of every row, on the host."""
        return np.asarray(self.nearest_on_device(centers, measure=False)[0].cpu().numpy())

    def all_distances(self, centers: Centers) -> FloatArray:
        """Euclidean distances of every row to every center, on the host."""
        return np.asarray(self._all_distances(centers, np.float64))

    def _all_distances(self, centers: Centers, dtype: npt.DTypeLike) -> DeviceArray:
        import torch

        rows, precision = self.tensor, self.precision
        points = self.put(centers.points)
        origin = points[:1]
        scale = 1.0 if precision is None else precision.sqrt()
        kind = torch.float32 if dtype == np.float32 else torch.float64
        found = torch.empty(len(self), len(centers), dtype=kind, device=rows.device)
        to = (points - origin) * scale
        lost = None
        for part in pieces(len(self), _PIECE_VALUES // max(len(centers), self.n_features)):
            # From differences, so that rows on a center are at zero.
            apart = torch.cdist(
                (rows[part].double() - origin) * scale,
                to,
                compute_mode="donot_use_mm_for_euclid_dist",
            )
            found[part] = apart
            bad = ~apart.isfinite().all(dim=1)
            if lost is None and bool(bad.any()):
                lost = part.start + int(bad.byte().argmax())
        if lost is not None:
            self.refuse(np.array([lost]))
        return DeviceArray(found)

    def cost(self, centers: Centers, weights: Any) -> float:
        """Σω·d(x, nearest center), added up on the device."""
        return self._weighted_sum(weights, self.nearest_on_device(centers)[1])

    def _weighted_sum(self, weights: Any, values: Any) -> float:
        return float(values.sum() if weights is None else self._weights(weights) @ values)

    def label_block(self, centers: Centers) -> DeviceArray:
        """The nearest center of every row, on the device."""
        return DeviceArray(self.nearest_on_device(centers, measure=False)[0])

    def distance_block(self, centers: Centers) -> DeviceArray:
        """On the device."""
        data = self.values if self.points is None else self.points
        return self._all_distances(centers, single_or_double(data.dtype))

    def assign_into(
        self,
        centers: Centers,
        weights: Any,
        labels: Any,
        distances: Any,
        at: slice,
        dropped: Mask | None = None,
    ) -> float:
        """On the device; `labels` and `distances` may be on the device or on the host."""
        nearest, found = self.nearest_on_device(centers)
        if dropped is not None:
            nearest[self.put(dropped)] = -1
        write(labels, at, nearest)
        if distances is not None:
            write(distances, at, found)
        return self._weighted_sum(weights, found)

    def cluster_step(self, centers: Centers, weights: Any) -> tuple[FloatArray, FloatArray, float]:
        """On the device; the sums are copied to the host."""
        labels, distances = self.nearest_on_device(centers)
        totals, sums = self._sums(labels, weights, centers)
        cost = self._weighted_sum(weights, distances)
        return totals.cpu().numpy(), sums.cpu().numpy(), cost

    def weigh(self, centers: Centers, weights: Any) -> tuple[FloatArray, FloatArray]:
        """On the device; the sums are copied to the host."""
        labels, distances = self.nearest_on_device(centers)
        return weigh_on_device(DeviceArray(labels), DeviceArray(distances), weights, len(centers))

    def refuse(self, rows: IntArray) -> None:
        """Raise for the first of some rows that cannot be measured; only this row is copied."""
        if len(rows):
            super(DeviceRows, self).refuse(rows)
        sizes = self.values.tensor.abs().amax(dim=1)
        bad = ~sizes.isfinite()
        row = int(bad.byte().argmax() if bool(bad.any()) else sizes.argmax())
        raise BadValueError.found_in(
            np.asarray(self.values[row : row + 1]), self.first_row + row, 0
        )


def weigh_on_device(
    labels: DeviceArray, distances: Any, weights: Any, k: int
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·d of every cluster, on the host."""
    omega = None if weights is None else on_device(weights, labels.tensor).double()
    apart = on_device(distances, labels.tensor)
    totals, costs = _operations().cluster_totals(labels.tensor, omega, apart, k)
    return totals.cpu().numpy(), costs.cpu().numpy()
