"""Draws of rows on a device: the steps of `one_read` and `around_centers` with tensors.

Random numbers are drawn on the host in the same order as for rows of the host, so that the same
rows are drawn; they are drawn while the device reads, and host and device wait for each other once
per read. Nothing per row comes back to the host but the numbers of the drawn rows. The text of the
host looks at sums in between, so one text for both would wait for the device at each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray, on_device
from lwcs.arrays.rows import pieces
from lwcs.kernels import Hits
from lwcs.runtime.randomness import Round, generator
from lwcs.samplers.around_centers import ClusterTotals
from lwcs.samplers.first_pass import check_total
from lwcs.samplers.one_read import PIVOT_ROWS, PivotSums, Rejection, RunningWeights, from_pivot
from lwcs.samplers.sampler import Draws, Summary
from lwcs.samplers.two_rounds import Picked
from lwcs.sources.base import PARTITION_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.geometry import Geometry
    from lwcs.samplers.around_centers import Assignment, Scores
    from lwcs.samplers.sampler import Run
    from lwcs.samplers.two_rounds import Quota
    from lwcs.sources import Block
    from lwcs.sources.memory.tensors import DeviceSource


def draw_in_one_read(source: DeviceSource, size: int, run: Run) -> tuple[Picked, Summary]:
    """Draw rows by q in one read, by rejection from distances to a pivot (`one_read`)."""
    import torch

    from lwcs.kernels.torch import operations as device

    weights = DeviceWeights.of(source)
    check_total(weights.total)
    sums, numbers = _scan(source, weights, size, run)
    drawn = [numbers.by_weight]
    if numbers.by_cost:
        drawn += _by_cost(source, weights, sums, numbers, run.geometry)
    chosen, counts = torch.unique(torch.cat(drawn), return_counts=True)
    points = source.array.tensor[chosen]
    labels = torch.zeros_like(chosen, dtype=torch.int32)
    rows = run.geometry.measured(DeviceArray(points)).values.tensor
    precision = _precision(run.geometry, rows)
    distances = device.own_distances(rows, sums.center[None, :], labels, precision)
    # One copy to the host, with the bits of distances among integers.
    host = np.asarray(DeviceArray(_packed(chosen, counts, distances.view(torch.int64))))
    indices, times, bits = host.reshape(3, -1)
    summary = Summary(source.n_rows, weights.total, sums.mean, sums.cost)
    return Picked(DeviceArray(points), indices, bits.view(np.float64), times), summary


def _precision(geometry: Geometry, like: Any) -> Any:
    """The precision of a geometry on the device of a tensor."""
    return None if geometry.precision is None else on_device(geometry.precision, like)


def _scan(
    source: DeviceSource, weights: DeviceWeights, size: int, run: Run
) -> tuple[PivotSums, _RandomNumbers]:
    """The one read; random numbers are drawn on the host meanwhile."""
    from lwcs.kernels.torch import operations as device

    pivot, rows = _pivot(source, weights, run), source.array.tensor
    precision = _precision(run.geometry, rows)

    def scan(block: Block) -> Any:
        points = run.geometry.measured(block.points, block.first_row).values.tensor
        at = slice(block.first_row, block.first_row + len(points))
        each = None if weights.each is None else weights.each[at]
        return device.scan_cells(points, each, pivot, precision, source.cell_rows)

    # Transformed rows are copies, which are made of one block at a time.
    step = source.n_rows if run.geometry.keeps_rows else source.block_rows
    parts = list(run.each_block(source, scan, "reading", max(1, step)))
    cells = parts[0].cells if len(parts) == 1 else _packed(*(part.cells for part in parts))
    sums = sum(_packed(part.shift, part.cost) for part in parts)
    numbers = _RandomNumbers.of(size, run, weights)
    # The host waits for the read here.
    host = np.asarray(DeviceArray(_packed(sums, pivot)))
    shift, cost, point = np.split(host, [len(pivot), len(pivot) + 1])
    if not np.isfinite(host).all():
        with source.explaining():
            _refuse_bad_rows(source, run)
    mean, total, slip = from_pivot(point, shift, float(cost[0]), weights.total)
    if not total:
        numbers = _RandomNumbers.of(size, run, weights, only_weights=True)
    return PivotSums(pivot, on_device(mean, rows), cells, mean, total, slip), numbers


def _by_cost(
    source: DeviceSource,
    weights: DeviceWeights,
    sums: PivotSums,
    numbers: _RandomNumbers,
    geometry: Geometry,
) -> list[Any]:
    """Draw rows in proportion to ω·d, by rejection from ω·h."""
    rejection = Rejection.of(weights.total, sums.slip, sums.cost)
    running = weights.add_to(sums.cells.mul_(rejection.scale), rejection.floor).cumsum_(0)
    drawn: list[Any] = []
    while (missing := numbers.by_cost - sum(map(len, drawn))) > 0:
        batch = rejection.batch(missing)
        fractions, tosses = numbers.take(batch), numbers.take(batch)
        cells, targets = hit_cells(running, fractions)
        hits = _hit_rows(source, weights, sums, rejection, cells, targets, geometry)
        drawn.append(hits.rows[tosses * hits.bounds < hits.distances][:missing])
    return drawn


def _hit_rows(
    source: DeviceSource, weights: DeviceWeights, sums: PivotSums, rejection: Rejection,
    cells: Any, targets: Any, geometry: Geometry,
) -> Any:  # fmt: skip
    """One row of every cell that is hit; only the rows of these cells are transformed."""
    import torch

    from lwcs.kernels.torch import operations as device

    rows, step = source.array.tensor, source.cell_rows
    precision = _precision(geometry, rows)

    def hit(points: Any, each: Any, cells: Any, targets: Any) -> Any:
        return device.hit_rows(
            points, each, sums.pivot, sums.center, precision,
            rejection.scale, rejection.floor, step, cells, targets,
        )  # fmt: skip

    if geometry.keeps_rows:
        return hit(rows, weights.each, cells, targets)
    within, parts = torch.arange(step, device=rows.device), []
    for part in pieces(len(cells), source.block_rows // step):
        at = (cells[part, None] * step + within).reshape(-1)
        inside, at = (at < len(rows)).double(), at.clamp_max(len(rows) - 1)
        points = geometry.measured(DeviceArray(rows[at])).values.tensor
        each = inside if weights.each is None else inside * weights.each[at]
        hits = hit(points, each, torch.arange(len(targets[part]), device=at.device), targets[part])
        parts.append(hits._replace(rows=at[hits.rows]))
    return Hits(*map(torch.cat, zip(*parts, strict=True)))


class _RandomNumbers:
    """The random numbers of one read, drawn and brought to the device while that reads.

    `by_cost` is the number of rows that are drawn by distance; `by_weight` are the other rows. One
    long sequence has the same numbers as several short ones.
    """

    def __init__(
        self, rng: np.random.Generator, size: int, by_cost: int, weights: DeviceWeights
    ) -> None:
        self._rng, self.by_cost, self._like = rng, by_cost, weights.source.array.tensor
        self.by_weight = weights.draw_tensor(rng.random(size - by_cost))
        # Two numbers for every proposal, of which some 94 % are accepted.
        self._ahead = on_device(rng.random(int(2.3 * by_cost)), self._like)

    @classmethod
    def of(
        cls, size: int, run: Run, weights: DeviceWeights, *, only_weights: bool = False
    ) -> _RandomNumbers:
        """The numbers in the order of `one_read`, which draws all rows by weight if Φ is 0."""
        rng = run.generator(Round.ONE_READ)
        by_cost = 0 if only_weights else size - int(rng.binomial(size, 0.5))
        return cls(rng, size, by_cost, weights)

    def take(self, count: int) -> Any:
        """The next `count` numbers."""
        more = count - len(self._ahead)
        if more > 0:
            self._ahead = _packed(self._ahead, on_device(self._rng.random(more), self._like))
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken


def _packed(*values: Any) -> Any:
    """Tensors of one device as one flat tensor, to be copied at once."""
    import torch

    return torch.cat([value.reshape(-1) for value in values])


def _pivot(source: DeviceSource, weights: DeviceWeights, run: Run) -> Any:
    """The mean of rows drawn by weight, without waiting for the device; the scan finds bad rows."""
    rows = np.sort(weights.draw(run.generator(Round.PIVOT).random(PIVOT_ROWS)))
    try:
        sample = run.geometry.measured(source.take(rows)).values.tensor.double()
    except BadValueError as bad:
        row = int(rows[bad.row]) - bad.row
        raise bad.explained(row, "", source.feature_names, source.dropping) from None
    # Differences from one of the rows, since sums lose digits at a large offset.
    return sample[0] + (sample - sample[0]).mean(dim=0)


def _refuse_bad_rows(source: DeviceSource, run: Run) -> None:
    """Name the first row that is not finite, or else the row with the largest value."""
    blocks = list(source.all_blocks())
    sizes = [float(block.points.tensor.abs().max()) for block in blocks]
    bad = np.flatnonzero(~np.isfinite(sizes))
    block = blocks[int(bad[0] if len(bad) else np.argmax(sizes))]
    run.geometry.measured(block.points, block.first_row).refuse(np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class DeviceWeights:
    """The weights of rows on a device as running sums over cells, like `RunningWeights`."""

    source: DeviceSource
    total: float
    each: Any = None
    """One per row, or None."""
    sums: Any = None
    """Running sums over cells."""
    cells: Any = None

    @classmethod
    def of(cls, source: DeviceSource) -> DeviceWeights:
        """Add up the weights of a source."""
        if source.weights is None:
            return cls(source, float(source.n_rows))
        import torch

        each, step = source.weights.tensor, source.cell_rows
        whole = len(each) // step * step
        cells = each[:whole].reshape(-1, step).sum(dim=1)
        if whole < len(each):
            cells = torch.cat([cells, each[whole:].sum()[None]])
        sums = cells.cumsum(0)
        return cls(source, float(cells.sum()), each, sums, cells)

    def draw(self, fractions: FloatArray) -> IntArray:
        """Rows in proportion to their weights, one per uniform number on [0, 1)."""
        if self.each is None:
            weights = RunningWeights(self.source.n_rows, None, self.source.cell_rows)
            return weights.draw(fractions)
        return np.asarray(DeviceArray(self.draw_tensor(fractions)))

    def draw_tensor(self, fractions: FloatArray) -> Any:
        """Rows like those of `draw`, on the device."""
        from lwcs.kernels.torch import operations as device

        rows = self.source.array.tensor
        if self.each is None:
            return on_device(self.draw(fractions), rows)
        cells, targets = hit_cells(self.sums, on_device(fractions, rows))
        # With scale 0, the point does not matter.
        point = rows[0].double()
        hits = device.hit_rows(
            rows, self.each, point, point, None, 0.0, 1.0, self.source.cell_rows, cells, targets
        )
        return hits.rows

    def add_to(self, cells: Any, factor: float) -> Any:
        """Add `factor` times the weight of every cell to these, in place."""
        if self.cells is not None:
            return cells.add_(self.cells, alpha=factor)
        step, n_rows = self.source.cell_rows, self.source.n_rows
        cells += factor * step
        cells[-1] -= factor * (len(cells) * step - n_rows)
        return cells


def hit_cells(sums: Any, fractions: Any) -> tuple[Any, Any]:
    """Cells in proportion to their mass, and where in its mass each is hit, as in `one_read`."""
    import torch

    total = sums[-1:]
    targets = fractions * total
    last = torch.searchsorted(sums, total)
    hit = torch.minimum(torch.searchsorted(sums, targets, right=True), last)
    before = torch.where(hit > 0, sums[(hit - 1).clamp(min=0)], 0.0)
    return hit, (targets - before).clamp(min=0.0)


def cross(masses: DeviceArray, weights: Any, uniform: float) -> int:
    """Draw an index in proportion to its mass times its weight, for D² sampling."""
    import torch

    values = masses.tensor if weights is None else masses.tensor * weights.tensor
    sums = values.cumsum(0)
    target = torch.minimum(uniform * sums[-1:], sums[-1:].nextafter(torch.zeros_like(sums[-1:])))
    return int(torch.searchsorted(sums, target, right=True))


def weigh(source: DeviceSource, assignment: Assignment) -> list[ClusterTotals]:
    """Weight and cost of every cluster, by partition, as in `around_centers`."""
    import torch

    from lwcs.kernels.torch import operations as device

    k, parts = len(assignment.centers), source.count_partitions()
    labels = assignment.labels.tensor
    each = None if source.weights is None else source.weights.tensor
    numbers = torch.arange(source.n_rows, device=labels.device) // PARTITION_ROWS * k + labels
    sums = device.cluster_totals(numbers, each, assignment.distances.tensor, parts * k)
    weights, costs = (np.asarray(DeviceArray(each)).reshape(parts, k) for each in sums)
    ends = np.minimum(np.arange(1, parts + 1) * PARTITION_ROWS, source.n_rows)
    counts = np.diff(ends, prepend=0)
    return [ClusterTotals(int(n), w, c) for n, w, c in zip(counts, weights, costs, strict=True)]


def draw_around_centers(
    source: DeviceSource,
    assignment: Assignment,
    scores: Scores,
    quotas: Sequence[Quota],
    mass: float,
    size: int,
    summary: Summary,
    run: Run,
) -> Draws:
    """Draw the rows of every partition's quota, as `around_centers.DrawTask` does."""
    import torch

    from lwcs.kernels.torch import operations as device

    labels, distances = assignment.labels.tensor, assignment.distances.tensor
    floors = on_device(scores.floors, labels)
    rows: list[IntArray] = []
    for block in source.all_blocks():
        at = slice(block.first_row, block.first_row + len(block.points))
        partitions = range(at.start // PARTITION_ROWS, -(-at.stop // PARTITION_ROWS))
        targets = [_targets(quotas[i], run) for i in partitions]
        part = np.repeat(np.arange(len(partitions)), list(map(len, targets)))
        if not len(part):
            continue
        masses = scores.slope * distances[at] + floors[labels[at].long()]
        if source.weights is not None:
            masses *= source.weights.tensor[at]
        padding = len(partitions) * PARTITION_ROWS - len(masses)
        masses = torch.nn.functional.pad(masses, (0, padding)).reshape(len(partitions), -1)
        sums = masses.cumsum(dim=1)
        where = on_device(part, labels)
        # A target that rounding pushed past the end belongs to the last row that has mass.
        below = torch.nextafter(sums[:, -1], torch.zeros_like(sums[:, -1]))[where]
        aims = torch.minimum(on_device(np.concatenate(targets), labels), below)
        starts = where * PARTITION_ROWS
        found = device.bisect(sums.reshape(-1), starts, starts + PARTITION_ROWS, aims)
        rows.append(np.asarray(DeviceArray(found)) + at.start)
    chosen, counts = np.unique(np.concatenate(rows), return_counts=True)
    drawn = on_device(chosen, labels)
    values = np.asarray(DeviceArray(scores.slope * distances[drawn] + floors[labels[drawn].long()]))
    weights = counts * (mass / (size * values))
    return Draws(source.take(chosen), chosen, counts, weights, summary)


def _targets(quota: Quota, run: Run) -> FloatArray:
    """Sorted positions on [0, total) of the draws of a partition."""
    if not quota.draws:
        return np.empty(0)
    if quota.strata is not None:
        return quota.strata[0]
    rng = generator(run.seed, run.stage, Round.DRAW, quota.partition)
    return np.sort(rng.random(quota.draws)) * quota.totals[0]
