"""k-means++, Lloyd and local search for points on a device: the twins of three modules here.

Uniform numbers are drawn on the host, as for points of the host, so that the same points are chosen
up to rounding. Rounds of k-means++, iterations of Lloyd and decisions of local search write into
the same tensors each time, so that they can be captured as CUDA graphs and replayed: launching
their kernels one by one, as the text of the host would, takes several times as long as running
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry import Centers
from lwcs.geometry.centers import LARGEST_SPLIT, SPLIT
from lwcs.geometry.device_rows import DeviceRows
from lwcs.solvers.lloyd import NOTHING
from lwcs.solvers.local_search import CANCELLED, WORTH
from lwcs.solvers.points import FLOAT32_DOWN_TO

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, IntArray, Mask
    from lwcs.runtime.parallel import Map
    from lwcs.solvers.points import Points


def choose_on_device(
    points: Points, uniforms: FloatArray, first: IntArray, down_to: float
) -> IntArray:
    """Choose points by the rounds of `kmeans_plusplus`; fewer than k if the cost is zero.

    Rounds are in float32 until the cost has fallen to the part `down_to` of the spread, and then in
    float64.
    """
    from lwcs.kernels.torch.seeding_rounds import Seeding, choose

    rows = points.rows
    assert isinstance(rows, DeviceRows)
    weights = points.device_weights / float(points.weights.sum())
    put, chosen = rows.put(uniforms), rows.put(first)
    frame = rows.geometry.metric.frame(rows.sample(), np.float32)
    if frame.dtype == np.float32:
        stop_at = down_to * points.average * frame.unit**2
        origin, factor = rows.put(frame.origin.astype(np.float32)), rows.put(frame.factor)
        chosen = choose(Seeding(rows.wide, weights, put, stop_at, origin, factor), chosen)
    if len(chosen) < len(uniforms):
        wide = Seeding(rows.wide, weights, put, 0.0, precision=rows.precision)
        chosen = choose(wide, chosen, _closest(rows, chosen))
    return np.array(chosen.cpu().numpy())


def _closest(rows: DeviceRows, chosen: object) -> object:
    """The distance of every row to the nearest of some of them."""
    from lwcs.kernels.torch import operations as kernels

    centers = rows.tensor[chosen].double()
    return kernels.nearest(rows.tensor, centers, rows.precision, distances=True).distances


class _Step(NamedTuple):
    """The results of moving centers, on the host."""

    weights: FloatArray
    """The weights of the wanted clusters; zero for all others."""
    shift: float
    moves: bool
    """Whether any center moves at all."""


class DeviceState:
    """The centers and the label of every point, with the methods that `lloyd` calls."""

    def __init__(self, points: Points, centers: Centers) -> None:
        import torch

        from lwcs.kernels.torch.common import Replayed

        assert isinstance(points.rows, DeviceRows)
        self._points, self._device = points, points.rows
        self._rows, self._precision = self._device.wide, self._device.precision
        # Written in place, so that iterations can be captured and replayed.
        self._centers = self._device.put(centers.points).clone()
        self._next, k = torch.empty_like(self._centers), len(centers)
        self._labels = torch.full((len(points),), -1, dtype=torch.int32, device=self._rows.device)
        self._changed = torch.ones(k, dtype=torch.bool, device=self._rows.device)
        self._wanted, self._stride = self._changed.clone(), self._centers.new_ones(())
        self._step_results = self._centers.new_empty(k + 2)
        # Labels of float64 rows wait for the number of unclear ones, so that they are not captured.
        single = self._rows.dtype == torch.float32
        self._assign_all = Replayed(self._find_labels, self._rows, allowed=single)
        plain = self._device.geometry.leaves_means
        self._move_all = Replayed(self._find_means, self._rows, allowed=plain)
        self._moved, self._assigned = True, False
        self.beyond_means = np.zeros(len(centers), dtype=bool)
        """Which centers are beyond the means of their clusters, after a stride above 1."""

    @property
    def centers(self) -> Centers:
        """The present centers, on the host."""
        return Centers(np.array(self._centers.cpu().numpy()), self._device.geometry)

    @property
    def labels(self) -> IntArray:
        """The present labels, on the host."""
        return np.asarray(self._labels.cpu().numpy(), dtype=np.int64)

    def move_to(self, centers: Centers) -> None:
        """Put other centers in the place of the present ones, for the next iteration."""
        self._centers.copy_(self._device.put(centers.points))
        self._moved = True

    def saved(self) -> tuple[Any, Any]:
        """What `restore` takes."""
        return self._centers.clone(), self._labels.clone()

    def restore(self, saved: tuple[Any, Any]) -> None:
        """Go back to centers and labels that were saved."""
        for own, each in zip((self._centers, self._labels), saved, strict=True):
            own.copy_(each)
        self._moved = False

    def assign(self, run: Map) -> Mask:
        """Label every point by its nearest center; return which clusters gained or lost points."""
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
        """Write the labels, and which clusters gained or lost points."""
        import torch

        from lwcs.kernels.torch import operations as kernels

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
        """Move the centers of changed clusters towards their means; return the squared length."""
        old, changed = self._centers, changed | self.beyond_means
        step = self._step(changed, stride)
        empty = np.flatnonzero(changed & (step.weights == 0.0))
        if len(empty) and self._relocate(empty, run):
            stride = 1.0
            step = self._step(np.ones(len(old), dtype=bool), stride)
        self._centers.copy_(self._next)
        self._moved = step.moves
        self.beyond_means = (stride != 1.0) & (step.weights > 0.0)
        return step.shift

    def _step(self, wanted: Mask, stride: float) -> _Step:
        """Compute the next centers of the wanted clusters, and wait for the device."""
        self._wanted.copy_(self._device.put(wanted))
        self._stride.fill_(stride)
        self._move_all()
        *weights, shift, moves = self._step_results.tolist()
        return _Step(np.array(weights), shift, moves > 0.0)

    def _find_means(self) -> None:
        """Write the next centers, the weights of clusters, and how far the centers move."""
        import torch

        from lwcs.kernels.torch import operations as kernels

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
        self._step_results.copy_(torch.cat([totals, few]))

    def _constrained(self, means: Any) -> Any:
        """Means as centers of the divergence, which most divergences leave as they are."""
        geometry = self._device.geometry
        if geometry.leaves_means:
            return means
        host = geometry.divergence.round_to_domain(np.array(means.cpu().numpy()))
        return self._device.put(geometry.divergence.constrain(host))

    def _relocate(self, empty: IntArray, run: Map) -> bool:
        """Give every empty cluster one of the costliest points; return whether there are any."""
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
        from lwcs.kernels.torch import operations as kernels

        return kernels.own_distances(self._rows, self._centers, self._labels, self._precision)

    def cost(self, run: Map) -> float:
        """The cost, from differences."""
        del run
        return float(self._points.device_weights @ self._distances())

    def distances(self, run: Map) -> FloatArray:
        """The distance of every point from the center of its cluster, on the host."""
        del run
        return np.asarray(self._distances().cpu().numpy())


def _references(centers: Any) -> Any:
    """Centers rounded to half of the digits, as `Centers.references`."""
    import torch

    shifted = SPLIT * centers
    coarse = shifted - (shifted - centers)
    return torch.where(centers.abs().amax() < LARGEST_SPLIT, coarse, centers)


# Values of one piece of the points × centers product.
_PIECE_VALUES = 2**25


class DeviceSearch:
    """The centers, and the two nearest ones of every point, with the methods for `local_search`."""

    def __init__(self, points: Points, centers: Centers, dtype: npt.DTypeLike) -> None:
        import torch

        from lwcs.kernels.torch.common import Replayed

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
        # Written in place, so that the decision about a candidate can be captured and replayed.
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
        """Whether float32 has enough digits: no distance overflows, and the cost is above noise."""
        return self._clear_down_to < self._cost and bool(self._losses.isfinite().all())

    def _find_two(self, at: Any) -> None:
        """Find the two nearest centers of some points."""
        import torch

        scores = torch.addmm(self._offsets, self._values[at], self._slopes.T, beta=-1.0, alpha=2.0)
        top, best = scores.topk(2, dim=1)
        approximate = (self._heights[at, None] - top).clamp_min(0.0)
        for j, (labels, distances) in enumerate(
            ((self._labels, self._nearest), (self._others, self._second))
        ):
            labels[at] = best[:, j]
            distances[at] = (
                approximate[:, j] if self.fast else self._exact(at, best[:, j], approximate[:, j])
            )

    def _exact(self, at: Any, labels: Any, approximate: Any) -> Any:
        """Distances from differences, or `approximate` where these are not finite."""
        from lwcs.kernels.torch import operations as kernels

        rows, precision = self._rows[at], self._device.precision
        exact = kernels.own_distances(rows, self._points, labels.int(), precision)
        return exact.where(exact.isfinite(), approximate)

    def _add_up(self) -> None:
        """Compute the cost, and by how much it would rise without each center."""
        self._cost = float(self._weights @ self._nearest.double())
        self._losses.copy_(self._sums(self._weights * (self._second - self._nearest)))

    def _sums(self, values: Any) -> Any:
        from lwcs.kernels.torch import operations as kernels

        return kernels.cluster_totals(self._labels.int(), values, values, len(self._points))[0]

    def swap(self, uniforms: FloatArray) -> bool:
        """Try some points as centers; return False if all points are centers already."""
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
        """The distances of all points to some of them."""
        import torch

        if self.fast:
            some = self._values[drawn]
            distances = torch.addmm(self._heights, some, self._values.T, alpha=-2.0)
            distances += self._heights[drawn, None]
        else:
            mode = "donot_use_mm_for_euclid_dist"
            distances = torch.cdist(self._values[drawn], self._values, compute_mode=mode) ** 2
        return distances.scatter_(1, drawn[:, None], 0.0)

    def _try(self, point: Any, distances: Any) -> None:
        """Put a point in the place of the center whose loss costs least, if that pays."""
        self._apart.copy_(distances)
        self._decide_all()
        gained, at = self._decision.tolist()
        if gained > WORTH * self._cost:
            closer = self._apart < self._second
            self._replace(int(at), point, closer, self._apart.clamp_min(0.0))

    def _decide(self) -> None:
        """Write which center is lost for a candidate, and by how much that lowers the cost."""
        import torch

        # For points that the candidate is not nearer to, only the loss of their center matters.
        nearest, second = self._nearest, self._second
        closer, apart = self._apart < second, self._apart.clamp_min(0.0)
        closest = torch.minimum(nearest, apart)
        gain = torch.where(closer, self._weights * (nearest - closest), 0.0).sum()
        # For the others, the loss of their center then costs apart − closest instead.
        saved = self._weights * ((second - nearest) - (apart - closest))
        losses = self._losses - self._sums(torch.where(closer, saved, 0.0))
        # Neither a rounded difference nor infinite distances are a reason to lose a center.
        losses = torch.fmax(losses, CANCELLED * self._losses)
        lost = losses.argmin(dim=0, keepdim=True)
        self._decision.copy_(torch.cat([gain - losses[lost], lost.double()]))

    def _replace(self, lost: int, point: Any, closer: Any, apart: Any) -> None:
        """Put a point in the place of a center; `apart` are the distances of all points to it."""
        import torch

        bereft = ((self._labels == lost) | (self._others == lost)).nonzero()[:, 0]
        self._points[lost] = self._rows[point].double()
        self._slopes[lost] = self._values[point]
        self._offsets[lost] = self._heights[point]
        labels, nearest = self._labels, self._nearest
        nearer = closer & (apart < nearest)
        between = closer & ~nearer
        others = torch.where(nearer, labels, torch.where(between, lost, self._others))
        second = torch.where(nearer, nearest, torch.where(between, apart, self._second))
        self._others.copy_(others)
        self._second.copy_(second)
        self._labels.copy_(torch.where(nearer, lost, labels))
        self._nearest.copy_(torch.where(nearer, apart, nearest))
        for part in pieces(len(bereft), max(64, _PIECE_VALUES // len(self._points))):
            self._find_two(bereft[part])
        self._add_up()
