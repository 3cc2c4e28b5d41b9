"""Local search on a device: the swaps of `local_search`, with all that is per point left there.

Every candidate takes one wait for the device, which says whether the swap pays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.rows import pieces
from lwcs.geometry import Centers
from lwcs.geometry.device import DeviceRows
from lwcs.solvers.local_search import CANCELLED, WORTH
from lwcs.solvers.seeding import FLOAT32_DOWN_TO

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.types import FloatArray
    from lwcs.solvers.points import Points

# Values of one piece of the points × centers product.
_PIECE_VALUES = 2**25


class DeviceSearch:
    """Centers, and the nearest and second nearest one of every point, as `local_search` asks."""

    def __init__(self, points: Points, centers: Centers, dtype: npt.DTypeLike) -> None:
        import torch

        from lwcs.kernels.device.graphs import Replayed

        rows = points.rows
        assert isinstance(rows, DeviceRows)
        self._geometry, self._device, self._rows = centers.geometry, rows, rows.tensor
        self._weights = points.device_weights / float(points.weights.sum())
        frame = rows.geometry.metric.frame(rows.sample(), dtype)
        self.fast = frame.dtype == np.float32
        self._dtype = torch.float32 if self.fast else torch.float64
        self._clear_down_to = FLOAT32_DOWN_TO * points.average * frame.unit**2
        self._origin = rows.put(frame.origin)
        self._factor = None if frame.factor is None else rows.put(frame.factor).double()
        self._values = torch.empty(self._rows.shape, dtype=self._dtype, device=self._rows.device)
        for part in pieces(len(points), _PIECE_VALUES // rows.n_features):
            self._values[part] = self._in_frame(self._rows[part])
        self._heights = (self._values * self._values).sum(dim=1)
        self._points = rows.put(centers.points).clone()
        self._slopes = self._in_frame(self._points)
        self._offsets = (self._slopes * self._slopes).sum(dim=1)
        n, device = len(points), self._rows.device
        self._labels, self._others = torch.empty((2, n), dtype=torch.int64, device=device)
        self._nearest, self._second = torch.empty((2, n), dtype=self._dtype, device=device)
        # Written in place, so that the decision on a candidate can be captured and replayed.
        self._losses = torch.empty(len(centers), dtype=torch.float64, device=device)
        self._apart, self._decision = torch.empty_like(self._nearest), self._losses.new_empty(2)
        self._decide_all = Replayed(self._decide, self._rows)
        for part in pieces(n, max(64, _PIECE_VALUES // len(centers))):
            self._find_two(part)
        self._add_up()

    def _in_frame(self, values: Any) -> Any:
        moved = values.double() - self._origin
        return (moved if self._factor is None else moved * self._factor).to(self._dtype)

    @property
    def centers(self) -> Centers:
        """The present centers, on the host."""
        return Centers(np.array(self._points.cpu().numpy()), self._geometry)

    @property
    def clear(self) -> bool:
        """Whether float32 has the digits: no distance has overflowed, and the cost is no noise."""
        return self._clear_down_to < self._cost and bool(self._losses.isfinite().all())

    def _find_two(self, at: Any) -> None:
        """Find the two nearest centers of some points."""
        import torch

        scores = torch.addmm(self._offsets, self._values[at], self._slopes.T, beta=-1.0, alpha=2.0)
        top, best = scores.topk(2, dim=1)
        found = (self._heights[at, None] - top).clamp_min(0.0)
        for j, (labels, distances) in enumerate(
            ((self._labels, self._nearest), (self._others, self._second))
        ):
            labels[at] = best[:, j]
            distances[at] = found[:, j] if self.fast else self._exact(at, best[:, j], found[:, j])

    def _exact(self, at: Any, labels: Any, found: Any) -> Any:
        """Distances from differences, where these are finite."""
        from lwcs.kernels import device as kernels

        rows, precision = self._rows[at], self._device.precision
        exact = kernels.own_distances(rows, self._points, labels.int(), precision)
        return exact.where(exact.isfinite(), found)

    def _add_up(self) -> None:
        """The cost, and by how much it would rise without each center."""
        self._cost = float(self._weights @ self._nearest.double())
        self._losses.copy_(self._sums(self._weights * (self._second - self._nearest)))

    def _sums(self, values: Any) -> Any:
        from lwcs.kernels import device as kernels

        return kernels.cluster_totals(self._labels.int(), values, values, len(self._points))[0]

    def swap(self, uniforms: FloatArray) -> bool:
        """Try some points; False if all points are centers already."""
        import torch

        sums = torch.cumsum(self._weights * self._nearest, dim=0)
        total = float(sums[-1])
        if not 0.0 < total < np.inf:
            return False
        below = np.minimum(uniforms * total, np.nextafter(total, 0.0))
        drawn = torch.searchsorted(sums, self._device.put(below), right=True)
        for point, distances in zip(drawn, self._distances(drawn), strict=True):
            self._try(point, distances)
        return True

    def _distances(self, drawn: Any) -> Any:
        """d of all points to some of them."""
        import torch

        if self.fast:
            some = self._values[drawn]
            found = torch.addmm(self._heights, some, self._values.T, alpha=-2.0)
            found += self._heights[drawn, None]
        else:
            mode = "donot_use_mm_for_euclid_dist"
            found = torch.cdist(self._values[drawn], self._values, compute_mode=mode) ** 2
        return found.scatter_(1, drawn[:, None], 0.0)

    def _try(self, point: Any, distances: Any) -> None:
        """Swap a point for the center whose loss costs least, if that pays."""
        self._apart.copy_(distances)
        self._decide_all()
        gained, at = self._decision.tolist()
        if gained > WORTH * self._cost:
            there = self._apart < self._second
            self._replace(int(at), point, there, self._apart.clamp_min(0.0))

    def _decide(self) -> None:
        """Write which center is lost for a candidate, and what that gains."""
        import torch

        # For all other points, nothing changes but what the loss of their own center costs.
        nearest, second = self._nearest, self._second
        there, apart = self._apart < second, self._apart.clamp_min(0.0)
        closest = torch.minimum(nearest, apart)
        gain = torch.where(there, self._weights * (nearest - closest), 0.0).sum()
        # With the point, the loss of their own center costs apart − closest instead.
        saved = self._weights * ((second - nearest) - (apart - closest))
        losses = self._losses - self._sums(torch.where(there, saved, 0.0))
        # A difference below rounding, or of infinite distances, is no reason to lose a center.
        losses = torch.fmax(losses, CANCELLED * self._losses)
        lost = losses.argmin(dim=0, keepdim=True)
        self._decision.copy_(torch.cat([gain - losses[lost], lost.double()]))

    def _replace(self, lost: int, point: Any, there: Any, apart: Any) -> None:
        """Put a point in the place of a center; `apart` is how far all are from it."""
        import torch

        bereft = ((self._labels == lost) | (self._others == lost)).nonzero()[:, 0]
        self._points[lost] = self._rows[point].double()
        self._slopes[lost] = self._values[point]
        self._offsets[lost] = self._heights[point]
        labels, nearest = self._labels, self._nearest
        nearer = there & (apart < nearest)
        between = there & ~nearer
        others = torch.where(nearer, labels, torch.where(between, lost, self._others))
        second = torch.where(nearer, nearest, torch.where(between, apart, self._second))
        self._others.copy_(others)
        self._second.copy_(second)
        self._labels.copy_(torch.where(nearer, lost, labels))
        self._nearest.copy_(torch.where(nearer, apart, nearest))
        for part in pieces(len(bereft), max(64, _PIECE_VALUES // len(self._points))):
            self._find_two(bereft[part])
        self._add_up()
