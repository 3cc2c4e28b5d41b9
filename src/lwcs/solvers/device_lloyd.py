"""Lloyd on a device: rows, labels and centers stay there; a few numbers per cluster come back.

The iterations are those of `lloyd`. Every point is compared with all centers each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.geometry import Centers
from lwcs.geometry.centers import LARGEST_SPLIT, SPLIT
from lwcs.geometry.device import DeviceRows
from lwcs.solvers.lloyd import NOTHING

if TYPE_CHECKING:
    from lwcs.foundation.parallel import Map
    from lwcs.foundation.types import FloatArray, IntArray, Mask
    from lwcs.solvers.points import Points


class _Step(NamedTuple):
    """What an update comes to."""

    weights: FloatArray
    """Of the clusters that were wanted, else zeros."""
    shift: float
    moves: bool
    """Whether any center moves at all."""


class DeviceState:
    """Centers and the label of every point, as `lloyd` asks for them."""

    def __init__(self, points: Points, centers: Centers) -> None:
        import torch

        from lwcs.kernels.device.graphs import Replayed

        assert isinstance(points.rows, DeviceRows)
        self._points, self._device = points, points.rows
        self._rows, self._precision = self._device.tensor, self._device.precision
        # Written in place, so that an iteration can be captured and replayed.
        self._centers = self._device.put(centers.points).clone()
        self._next, k = torch.empty_like(self._centers), len(centers)
        self._labels = torch.full((len(points),), -1, dtype=torch.int32, device=self._rows.device)
        self._changed = torch.ones(k, dtype=torch.bool, device=self._rows.device)
        self._wanted, self._stride = self._changed.clone(), self._centers.new_ones(())
        self._told = self._centers.new_empty(k + 2)
        # Products of float64 rows wait for the number of rows that they cannot tell apart.
        single = self._rows.dtype == torch.float32
        self._assign_all = Replayed(self._find_labels, self._rows, allowed=single)
        plain = self._device.geometry.leaves_means
        self._move_all = Replayed(self._find_means, self._rows, allowed=plain)
        self._moved, self._assigned = True, False
        self.astray = np.zeros(len(centers), dtype=bool)
        """Which centers are beyond the means of their clusters."""

    @property
    def centers(self) -> Centers:
        """The present centers, on the host."""
        return Centers(np.array(self._centers.cpu().numpy()), self._device.geometry)

    @property
    def labels(self) -> IntArray:
        """The present labels, on the host."""
        return np.asarray(self._labels.cpu().numpy(), dtype=np.int64)

    def assign(self, run: Map) -> Mask:
        """Give every point its nearest center; tell which clusters gained or lost a point."""
        del run
        if not self._moved:
            return np.zeros(len(self._centers), dtype=bool)
        first, self._moved = not self._assigned, False
        self._assigned = True
        self._assign_all()
        if first:
            return np.ones(len(self._centers), dtype=bool)
        return np.array(self._changed.cpu().numpy())

    def _find_labels(self) -> None:
        """Write the labels, and which clusters they changed."""
        import torch

        from lwcs.kernels import device as kernels

        k, old = len(self._centers), self._labels
        labels = kernels.nearest(
            self._rows, self._centers, self._precision, mode=self._device.mode
        ).labels
        changed = torch.zeros(k + 1, dtype=torch.bool, device=labels.device)
        differ = labels != old
        for each in (labels, old):
            at = torch.where(differ & (each >= 0), each, k)
            changed.index_fill_(0, at.long(), True)
        self._changed.copy_(changed[:k])
        self._labels.copy_(labels)

    def update(self, changed: Mask, run: Map, stride: float = 1.0) -> float:
        """Move the centers of changed clusters towards their means; return how far."""
        old, changed = self._centers, changed | self.astray
        step = self._step(changed, stride)
        empty = np.flatnonzero(changed & (step.weights == 0.0))
        if len(empty) and self._relocate(empty, run):
            stride = 1.0
            step = self._step(np.ones(len(old), dtype=bool), stride)
        self._centers.copy_(self._next)
        self._moved = step.moves
        self.astray = step.weights > 0.0 if stride != 1.0 else np.zeros(len(old), dtype=bool)
        return step.shift

    def _step(self, wanted: Mask, stride: float) -> _Step:
        """Find where the clusters that are wanted move, and wait for the device."""
        self._wanted.copy_(self._device.put(wanted))
        self._stride.fill_(stride)
        self._move_all()
        *weights, shift, moves = self._told.tolist()
        return _Step(np.array(weights), shift, moves > 0.0)

    def _find_means(self) -> None:
        """Write the next centers, the weights of clusters, and how far the centers move."""
        import torch

        from lwcs.kernels import device as kernels

        old = self._centers
        labels = self._labels.where(self._wanted[self._labels.long().clamp_min(0)], -1)
        references = _references(old)
        weights = self._points.device_weights
        totals, sums = kernels.cluster_sums(self._rows, weights, labels, len(old), references)
        fresh = (totals > 0.0)[:, None]
        means = self._constrained(sums / torch.where(fresh, totals[:, None], 1.0) + references)
        centers = torch.where(fresh, means + (self._stride - 1.0) * (means - old), old)
        squares = (centers - old) ** 2
        squares = squares if self._precision is None else squares * self._precision
        few = torch.stack([squares.sum(), (centers != old).any().double()])
        self._next.copy_(centers)
        self._told.copy_(torch.cat([totals, few]))

    def _constrained(self, means: Any) -> Any:
        """Means as centers, which most divergences leave as they are."""
        geometry = self._device.geometry
        if geometry.leaves_means:
            return means
        host = geometry.divergence.round_to_domain(np.array(means.cpu().numpy()))
        return self._device.put(geometry.divergence.constrain(host))

    def _relocate(self, empty: IntArray, run: Map) -> bool:
        """Give every empty cluster one of the costliest points; tell whether there were any."""
        import torch

        del run
        distances = self._distances()
        nothing = NOTHING[np.dtype(self._device.dtype).itemsize] * self._points.average
        costs = torch.where(distances > nothing, self._points.device_weights * distances, 0.0)
        most, at = costs.topk(min(len(empty), len(costs)))
        costliest = at.flip(0)[most.flip(0) > 0.0]
        self._labels[costliest] = self._device.put(empty[: len(costliest)]).int()
        return len(costliest) > 0

    def _distances(self) -> Any:
        from lwcs.kernels import device as kernels

        return kernels.own_distances(self._rows, self._centers, self._labels, self._precision)

    def cost(self, run: Map) -> float:
        """The cost, from differences."""
        del run
        return float(self._points.device_weights @ self._distances())

    def distances(self, run: Map) -> FloatArray:
        """d of every point from its own center, on the host."""
        del run
        return np.asarray(self._distances().cpu().numpy())


def _references(centers: Any) -> Any:
    """`Centers.references` of centers on a device: with half of the digits."""
    import torch

    shifted = SPLIT * centers
    coarse = shifted - (shifted - centers)
    return torch.where(centers.abs().amax() < LARGEST_SPLIT, coarse, centers)
