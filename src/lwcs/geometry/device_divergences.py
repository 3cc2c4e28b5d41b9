"""Rows on a device, measured by divergences: transformed and smoothed there, in float64.

Squared distances of transformed rows are those of `DeviceRows`. Other divergences label rows as
`nearest` does on the host: one product finds the nearest center of most rows, and where two scores
are closer to each other than products are accurate, distances value by value decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.device import DeviceArray, on_device
from lwcs.arrays.rows import pieces
from lwcs.geometry.dense_rows import DenseProducts
from lwcs.geometry.device_rows import DeviceRows, to_device
from lwcs.geometry.measured import Measured
from lwcs.geometry.products import ACCURATE, CLEAR
from lwcs.kernels import BlockMoments

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask
    from lwcs.geometry import Geometry
    from lwcs.geometry.centers import Centers
    from lwcs.geometry.products import Memory

# float64 values of a temporary: on a GPU 64 MB, on a CPU what stays in its cache.
_GPU_VALUES, _CPU_VALUES = 2**23, 2**17


def measured_on_device(geometry: Geometry, points: Any, first_row: int) -> DeviceRows:
    """Measure dense rows of a device, or of the host, on a device; refuse those not allowed."""
    if geometry.keeps_rows:
        return DeviceRows.of(geometry, points, first_row)
    own, there = geometry.divergence, isinstance(points, DeviceArray)
    given = points if there else to_device(points, geometry.device or "cpu")
    row = own.first_refused(given.tensor)
    if row is not None:
        # Checked again on the host, which raises the error.
        own.check(np.asarray(given[row : row + 1]), first_row + row)
    rows = own.transform(given.tensor.double())
    if not geometry.squared:
        values = DeviceArray(_smoothed(rows, geometry))
        return BregmanRows(geometry, values, np.float64, points, first_row)
    return TransformedRows(geometry, DeviceArray(rows), np.float64, points, first_row)


def _smoothed(rows: Any, geometry: Geometry) -> Any:
    """`Geometry.smoothed`, which is a factor and a shift for every column."""
    tau, d = geometry.divergence.smoothing, rows.shape[1]
    if not tau or geometry.mean is None:
        return rows
    factors = np.where(geometry.varying(d), 1.0 - tau, 0.0)
    shift = geometry.smoothed(np.zeros((1, d)))[0]
    return (rows * on_device(factors, rows)).add_(on_device(shift, rows))


@dataclass(frozen=True, slots=True, eq=False)
class TransformedRows(DeviceRows):
    """Rows whose squared distances are measured in transformed coordinates."""

    def refuse(self, rows: IntArray) -> None:
        """Name the value in the data."""
        Measured.refuse(self, rows)


@dataclass(frozen=True, slots=True, eq=False)
class BregmanRows(TransformedRows):
    """Rows measured by a divergence that is not a squared distance."""

    def moments(self, weights: FloatArray | None) -> BlockMoments:
        """Weight and mean alone: Φ of a divergence does not follow from moments."""
        omega, rows = self._weights(weights), self.tensor
        weight = float(len(self)) if omega is None else float(omega.sum())
        sums = (rows.sum(dim=0) if omega is None else omega @ rows).cpu().numpy()
        return BlockMoments(weight, sums / weight if weight else sums, np.zeros(self.n_features))

    def extent(self) -> tuple[float, float]:
        """Over all values but those of columns at an end of the domain."""
        values = self.tensor[:, self.put(self.geometry.varying(self.n_features))]
        if not values.numel():
            return np.inf, -np.inf
        least, largest = values.aminmax()
        return float(least), float(largest)

    def products(self, dtype: npt.DTypeLike | None = None, *, again: bool = False) -> DenseProducts:
        """Products on the host, for callers that do not know of devices."""
        del dtype, again
        frame = self.geometry.metric.frame(self.sample(), np.float64)
        return _HostProducts(frame, self.geometry, self.n_features)

    def add_center(
        self,
        weights: FloatArray | None,
        center: Centers,
        label: int,
        reach: FloatArray | None,
        closest: FloatArray,
        labels: Labels,
    ) -> tuple[float, int]:
        """Measure every row; both arrays may be on a device."""
        del reach
        own, marks = self.put(closest), self.put(labels)
        found = self._own_distances(center, marks.new_zeros(len(marks)))
        nearer = found < own
        own, marks = found.where(nearer, own), marks.masked_fill(nearer, label)
        for target, new in ((closest, own), (labels, marks)):
            target[:] = DeviceArray(new)
        cost = self._weighted_sum(weights, own)
        if not np.isfinite(cost):
            self.refuse(np.flatnonzero(~own.isfinite().cpu().numpy()))
        return cost, 0

    def distances_and_doubt(
        self, centers: Centers, labels: Labels
    ) -> tuple[FloatArray, Mask | None]:
        """By tangents where these are accurate enough."""
        return self._own_distances(centers, self.put(labels)).cpu().numpy(), None

    def _own_distances(self, centers: Centers, labels: Any) -> Any:
        rows, by = self.tensor, _Distances(centers, self.tensor)
        found = rows.new_empty(len(rows))
        for part in _pieces(rows, len(rows), rows.shape[1]):
            found[part] = by.of_labels(rows[part], labels[part].long())
        return found

    def nearest_on_device(self, centers: Centers, *, measure: bool = True) -> tuple[Any, Any]:
        """Label, and distance if wanted, of every row as tensors; bad rows are refused."""
        import torch

        rows, by = self.tensor, _Distances(centers, self.tensor)
        labels = torch.zeros(len(rows), dtype=torch.int32, device=rows.device)
        distances = rows.new_empty(len(rows)) if measure else None
        scores = None if len(centers) == 1 else _Scores(self.products(), centers, rows)
        for part in _pieces(rows, len(rows), max(rows.shape[1], len(centers))):
            own = labels[part].long()
            if scores is not None:
                own = scores.labels(rows[part], by)
                labels[part] = own
            if distances is not None:
                found = by.of_labels(rows[part], own.clamp_min(0))
                distances[part] = found.masked_fill(own < 0, torch.inf)
        lost = labels < 0 if distances is None else ~distances.isfinite()
        if bool(lost.any()):
            self.refuse(lost.nonzero()[:1, 0].cpu().numpy())
        return labels, distances

    def _all_distances(self, centers: Centers, dtype: npt.DTypeLike) -> DeviceArray:
        import torch

        rows, by = self.tensor, _Distances(centers, self.tensor)
        scores = _Scores(self.products(), centers, rows)
        kind = torch.float32 if dtype == np.float32 else torch.float64
        found = torch.empty(len(rows), len(centers), dtype=kind, device=rows.device)
        lost = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        for part in _pieces(rows, len(rows), max(rows.shape[1], len(centers))):
            apart = scores.all_distances(rows[part], by)
            lost[part] = apart.isnan().any(dim=1)
            found[part] = apart
        if bool(lost.any()):
            self.refuse(lost.nonzero()[:1, 0].cpu().numpy())
        return DeviceArray(found)


class _HostProducts(DenseProducts):
    """Products of rows that are copied to the host first."""

    def rows(self, values: Any, memory: Memory = np.empty) -> DenseRows:
        return super().rows(np.asarray(values), memory)

    def heights(self, values: Any, rows: DenseRows) -> tuple[FloatArray, FloatArray]:
        return super().heights(np.asarray(values), rows)


class _Distances:
    """Distances to centers on the device: by tangents where these are accurate enough."""

    def __init__(self, centers: Centers, like: Any) -> None:
        own, edges = centers.tangents, centers.edges
        self._divergence = centers.geometry.divergence
        self._points = on_device(centers.points, like)
        self._slopes, self._offsets, self._sizes = (on_device(each, like) for each in own)
        self.edges = None if edges is None else on_device(edges, like)

    def of_pairs(self, rows: Any, labels: Any) -> Any:
        """Value by value: accurate at any range."""
        found = rows.new_empty(len(rows))
        for part in _pieces(rows, len(rows), rows.shape[1]):
            found[part] = self._divergence.between(rows[part], self._points[labels[part]]).sum(1)
        return found

    def of_labels(self, rows: Any, labels: Any) -> Any:
        """φ(x) − (x·slope + offset), and value by value where that is small against its parts."""
        heights = self._divergence.phi(rows)
        scores = (rows * self._slopes[labels]).sum(1) + self._offsets[labels]
        found = heights.sum(1) - scores
        doubt = ~(found >= ACCURATE * (abs(heights).sum(1) + self._sizes[labels]))
        if self.edges is not None:
            doubt |= (self.edges[labels] & (rows != self._points[labels])).any(dim=1)
        at = doubt.nonzero()[:, 0]
        if len(at):
            found[at] = self.of_pairs(rows[at], labels[at]).clamp_min(0.0)
        return found

    def nearest_of(self, rows: Any, candidates: Any) -> Any:
        """The nearest of some centers, the first of several; −1 where none is finite."""
        labels = candidates.new_empty(len(rows), dtype=int)
        k = candidates.shape[1]
        for part in _pieces(rows, len(rows), k):
            row, center = candidates[part].nonzero(as_tuple=True)
            found = self.of_pairs(rows[part][row], center).nan_to_num_(nan=np.inf, posinf=np.inf)
            least = rows.new_full((len(rows[part]),), np.inf)
            least = least.scatter_reduce(0, row, found, "amin")
            hits = found == least[row]
            first = labels[part].fill_(k).scatter_reduce(0, row[hits], center[hits], "amin")
            labels[part] = first.masked_fill(~least.isfinite(), -1)
        return labels


class _Scores:
    """Scores of centers on the device, in the coordinates of `products`."""

    def __init__(self, products: DenseProducts, centers: Centers, like: Any) -> None:
        prepared = products.center_matrix(centers)
        self._products, self._divergence = products, products.geometry.divergence
        self._slopes, self._offsets = (
            on_device(each, like) for each in (prepared.matrix[:-1].T, prepared.offsets)
        )
        self._sizes = on_device(prepared.sizes, like)
        self._origin = on_device(products.frame.origin, like)
        self._around = on_device(products.frame.around, like)

    def _of(self, rows: Any) -> tuple[Any, Any]:
        moved = rows - self._origin
        return moved, self._offsets.addmm(moved, self._slopes.T)

    def labels(self, rows: Any, by: _Distances) -> Any:
        """The nearest center of every row; −1 where none is finite."""
        own = self._products
        moved, scores = self._of(rows)
        top, best = scores.max(dim=1)
        # The best score is removed and put back: a copy would double the memory.
        second = scores.scatter_(1, best[:, None], -np.inf).amax(dim=1)
        scores.scatter_(1, best[:, None], top[:, None])
        sizes = (moved * self._slopes[best]).abs_().sum(1) + self._sizes[best]
        margins, overflown = own.rounding * sizes + own.tiny, ~(sizes < own.large)
        at = (~(top - second > margins) | overflown).nonzero()[:, 0]
        if len(at):
            candidates = ~(scores[at] < (top - 2.0 * margins)[at, None]) | overflown[at, None]
            best[at] = by.nearest_of(rows[at], candidates)
        if by.edges is not None:
            # A finite slope was used for an infinite one: the center may be infinitely far.
            found = by.of_labels(rows, best.clamp_min(0))
            at = (~found.isfinite()).nonzero()[:, 0]
            if len(at):
                every = best.new_ones((len(at), len(self._offsets)), dtype=bool)
                best[at] = by.nearest_of(rows[at], every)
        return best

    def all_distances(self, rows: Any, by: _Distances) -> Any:
        """Heights less scores, and value by value where that is small against its parts."""
        heights: Any = self._divergence.phi(rows)
        if bool(self._around.any()):
            apart: Any = self._divergence.between(rows, self._origin)
            heights = apart.where(self._around, heights)
        found = heights.sum(1)[:, None] - self._of(rows)[1]
        unclear = ~(found >= CLEAR * (heights.abs().sum(1)[:, None] + self._sizes))
        if by.edges is not None:
            unclear |= by.edges.any(dim=1)
        row, center = unclear.nonzero(as_tuple=True)
        if len(row):
            found[row, center] = by.of_pairs(rows[row], center)
        return found


def _pieces(like: Any, n_rows: int, width: int) -> Iterator[slice]:
    return pieces(n_rows, (_GPU_VALUES if like.is_cuda else _CPU_VALUES) // max(1, width))
