"""Drawing rows that are on a device: the mechanics of `one_read` and `around_centers`, there.

The same random numbers are drawn on the host, in the same order, so that the same rows come out.
Nothing per row comes back but the numbers of drawn rows; what is drawn on the host is drawn while
the device reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray, on_device
from lwcs.arrays.rows import pieces
from lwcs.kernels import Hits
from lwcs.runtime.randomness import Round, generator
from lwcs.samplers.draws import PIVOT_ROWS, PROPOSALS_AT_ONCE, Rejection, RunningWeights
from lwcs.samplers.first_pass import check_cost, check_total
from lwcs.samplers.sampler import Draws, Summary
from lwcs.samplers.two_rounds import Picked
from lwcs.sources.base import PARTITION_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.geometry import Geometry
    from lwcs.samplers.around_centers import Assignment, Clusters, Scores
    from lwcs.samplers.sampler import Run
    from lwcs.samplers.two_rounds import Quota
    from lwcs.sources import Block
    from lwcs.sources.memory.tensors import DeviceSource


def draw_in_one_read(source: DeviceSource, size: int, run: Run) -> tuple[Picked, Summary]:
    """Draw exactly q in one read, by rejection from distances to a pivot (`one_read`)."""
    import torch

    import lwcs.kernels.device as device

    weights = Weights.of(source)
    check_total(weights.total)
    around, numbers = _read(source, weights, size, run)
    drawn = [numbers.by_weight]
    if numbers.by_cost:
        drawn += _by_cost(source, weights, around, numbers, run.geometry)
    chosen, counts = torch.unique(torch.cat(drawn), return_counts=True)
    points = source.array.tensor[chosen]
    only = torch.zeros_like(chosen, dtype=torch.int32)
    rows = run.geometry.measured(DeviceArray(points)).values.tensor
    distances = device.own_distances(rows, around.center[None, :], only, around.precision)
    # One copy: the bits of distances among numbers.
    host = np.asarray(DeviceArray(_packed(chosen, counts, distances.view(torch.int64))))
    indices, times, bits = host.reshape(3, -1)
    summary = Summary(source.n_rows, weights.total, around.mean, around.cost)
    return Picked(DeviceArray(points), indices, bits.view(np.float64), times), summary


def _read(source: DeviceSource, weights: Weights, size: int, run: Run) -> tuple[_Around, _Numbers]:
    """The one read; random numbers are drawn on the host beside it."""
    import lwcs.kernels.device as device

    pivot, rows = _pivot(source, weights, run), source.array.tensor
    precision = run.geometry.precision
    tau = None if precision is None else on_device(precision, rows)

    def scan(block: Block) -> Any:
        own = run.geometry.measured(block.points, block.first_row).values.tensor
        at = slice(block.first_row, block.first_row + len(own))
        each = None if weights.each is None else weights.each[at]
        return device.scan_cells(own, each, pivot, tau, source.cell_rows)

    # Rows that are transformed are copied: no more than a block of them at a time.
    step = source.n_rows if run.geometry.keeps_rows else source.block_rows
    parts = list(run.each_block(source, scan, "reading", max(1, step)))
    cells = parts[0].cells if len(parts) == 1 else _packed(*(part.cells for part in parts))
    sums = sum(_packed(part.shift, part.cost) for part in parts)
    numbers = _Numbers.of(size, run, weights)
    # Here the host waits for the read.
    host = np.asarray(DeviceArray(_packed(sums, pivot)))
    shift, cost, point = np.split(host, [len(pivot), len(pivot) + 1])
    if not np.isfinite(host).all():
        with source.explaining():
            refuse(source, run)
    slip = shift / weights.total
    delta = float(slip @ slip)
    total = max(float(cost[0]) - weights.total * delta, 0.0)
    check_cost(total, weights.total, lost=bool(slip.any()))
    mean = point + slip
    around = _Around(pivot, on_device(mean, rows), tau, cells, mean, total, delta)
    return around, numbers if total > 0.0 else _Numbers.of(size, run, weights, only_weights=True)


def _by_cost(
    source: DeviceSource, weights: Weights, around: _Around, numbers: _Numbers, geometry: Geometry
) -> list[Any]:
    """Rows in proportion to ω·d, by rejection from ω·h."""
    by = Rejection.of(weights.total, around.slip, around.cost)
    running = weights.add_to(around.cells.mul_(by.scale), by.floor).cumsum_(0)
    drawn: list[Any] = []
    while (missing := numbers.by_cost - sum(map(len, drawn))) > 0:
        batch = int((missing + 4.0 * np.sqrt(missing)) / by.acceptance) + 8
        batch = min(batch, PROPOSALS_AT_ONCE)
        fractions, tosses = numbers.take(batch), numbers.take(batch)
        cells, targets = hit_cells(running, fractions)
        hits = _hit_rows(source, weights, around, by, cells, targets, geometry)
        drawn.append(hits.rows[tosses * hits.bounds < hits.distances][:missing])
    return drawn


def _hit_rows(
    source: DeviceSource, weights: Weights, around: _Around, by: Rejection,
    cells: Any, targets: Any, geometry: Geometry,
) -> Any:  # fmt: skip
    """One row of every cell that is hit; rows that are transformed are so for these cells alone."""
    import torch

    import lwcs.kernels.device as device

    rows, step = source.array.tensor, source.cell_rows

    def hit(points: Any, each: Any, cells: Any, targets: Any) -> Any:
        return device.hit_rows(
            points, each, around.pivot, around.center, around.precision,
            by.scale, by.floor, step, cells, targets,
        )  # fmt: skip

    if geometry.keeps_rows:
        return hit(rows, weights.each, cells, targets)
    within, found = torch.arange(step, device=rows.device), []
    for part in pieces(len(cells), source.block_rows // step):
        own = (cells[part, None] * step + within).reshape(-1)
        inside, own = (own < len(rows)).double(), own.clamp_max(len(rows) - 1)
        points = geometry.measured(DeviceArray(rows[own])).values.tensor
        each = inside if weights.each is None else inside * weights.each[own]
        hits = hit(points, each, torch.arange(len(targets[part]), device=own.device), targets[part])
        found.append(hits._replace(rows=own[hits.rows]))
    return Hits(*map(torch.cat, zip(*found, strict=True)))


class _Around(NamedTuple):
    """What the scan around the pivot knows."""

    pivot: Any
    center: Any
    """The mean, on the device."""
    precision: Any
    cells: Any
    """Σω·‖x − pivot‖² of every cell."""
    mean: FloatArray
    cost: float
    """Φ."""
    slip: float
    """‖pivot − mean‖²."""


class _Numbers:
    """The random numbers of one read, drawn ahead and brought to the device while that reads.

    `by_cost` is how many rows are drawn by distance; `by_weight` are the others. One long draw has
    the numbers of several short ones.
    """

    def __init__(self, rng: np.random.Generator, size: int, by_cost: int, weights: Weights) -> None:
        self._rng, self.by_cost, self._like = rng, by_cost, weights.source.array.tensor
        self.by_weight = weights.draw_there(rng.random(size - by_cost))
        # Two numbers for every proposal, of which some 94 % are accepted.
        self._ahead = on_device(rng.random(int(2.3 * by_cost)), self._like)

    @classmethod
    def of(cls, size: int, run: Run, weights: Weights, *, only_weights: bool = False) -> _Numbers:
        """As `one_read` draws them; without any cost, there is no toss between the two halves."""
        rng = run.generator(Round.ONE_READ)
        by_cost = 0 if only_weights else size - int(rng.binomial(size, 0.5))
        return cls(rng, size, by_cost, weights)

    def take(self, count: int) -> Any:
        """The next so many."""
        more = count - len(self._ahead)
        if more > 0:
            self._ahead = _packed(self._ahead, on_device(self._rng.random(more), self._like))
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken


def _packed(*values: Any) -> Any:
    """Tensors of one device as one, to be copied at once."""
    import torch

    return torch.cat([value.reshape(-1) for value in values])


def _pivot(source: DeviceSource, weights: Weights, run: Run) -> Any:
    """Mean of about 1,000 rows, without waiting for the device; the scan finds bad values."""
    rows = np.sort(weights.draw(run.generator(Round.PIVOT).random(PIVOT_ROWS)))
    try:
        sample = run.geometry.measured(source.take(rows)).values.tensor.double()
    except BadValueError as bad:
        row = int(rows[bad.row]) - bad.row
        raise bad.explained(row, "", source.feature_names, source.dropping) from None
    # Around a row of theirs: no digits are lost at an offset.
    return sample[0] + (sample - sample[0]).mean(dim=0)


def refuse(source: DeviceSource, run: Run) -> None:
    """Name the first row that is not finite, or the one with the largest value."""
    blocks = list(source.all_blocks())
    sizes = [float(block.points.tensor.abs().max()) for block in blocks]
    bad = np.flatnonzero(~np.isfinite(sizes))
    block = blocks[int(bad[0] if len(bad) else np.argmax(sizes))]
    run.geometry.measured(block.points, block.first_row).refuse(np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of rows on a device, as `RunningWeights` are on the host."""

    source: DeviceSource
    total: float
    each: Any = None
    """One per row, or None."""
    sums: Any = None
    """Running sums over cells."""
    cells: Any = None

    @classmethod
    def of(cls, source: DeviceSource) -> Weights:
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
            own = RunningWeights(self.source.n_rows, None, self.source.cell_rows)
            return own.draw(fractions)
        return np.asarray(DeviceArray(self.draw_there(fractions)))

    def draw_there(self, fractions: FloatArray) -> Any:
        """The same, as a tensor."""
        import lwcs.kernels.device as device

        rows = self.source.array.tensor
        if self.each is None:
            return on_device(self.draw(fractions), rows)
        cells, targets = hit_cells(self.sums, on_device(fractions, rows))
        nowhere = rows[0].double()
        found = device.hit_rows(
            rows, self.each, nowhere, nowhere, None, 0.0, 1.0, self.source.cell_rows, cells, targets
        )
        return found.rows

    def add_to(self, cells: Any, factor: float) -> Any:
        """Add `factor` times the weight of every cell to these, in place."""
        if self.cells is not None:
            return cells.add_(self.cells, alpha=factor)
        step, n_rows = self.source.cell_rows, self.source.n_rows
        cells += factor * step
        cells[-1] -= factor * (len(cells) * step - n_rows)
        return cells


def hit_cells(sums: Any, fractions: Any) -> tuple[Any, Any]:
    """Cells in proportion to their mass, and where in its mass each is hit (`crossing`)."""
    import torch

    total = sums[-1:]
    targets = fractions * total
    last = torch.searchsorted(sums, total)
    hit = torch.minimum(torch.searchsorted(sums, targets, right=True), last)
    before = torch.where(hit > 0, sums[(hit - 1).clamp(min=0)], 0.0)
    return hit, (targets - before).clamp(min=0.0)


def cross(masses: DeviceArray, weights: Any, uniform: float) -> int:
    """Draw an index in proportion to its mass, times its weight (`d2_sampling`)."""
    import torch

    own = masses.tensor if weights is None else masses.tensor * weights.tensor
    sums = own.cumsum(0)
    target = torch.minimum(uniform * sums[-1:], sums[-1:].nextafter(torch.zeros_like(sums[-1:])))
    return int(torch.searchsorted(sums, target, right=True))


def weigh(source: DeviceSource, assignment: Assignment) -> list[Clusters]:
    """Weight and cost of every cluster, by partition (`around_centers.weigh`)."""
    import torch

    import lwcs.kernels.device as device
    from lwcs.samplers.around_centers import Clusters

    k, parts = len(assignment.centers), source.count_partitions()
    labels = assignment.labels.tensor
    each = None if source.weights is None else source.weights.tensor
    numbers = torch.arange(source.n_rows, device=labels.device) // PARTITION_ROWS * k + labels
    sums = device.cluster_totals(numbers, each, assignment.distances.tensor, parts * k)
    weights, costs = (np.asarray(DeviceArray(own)).reshape(parts, k) for own in sums)
    ends = np.minimum(np.arange(1, parts + 1) * PARTITION_ROWS, source.n_rows)
    counts = np.diff(ends, prepend=0)
    return [Clusters(int(n), w, c) for n, w, c in zip(counts, weights, costs, strict=True)]


def draw_around_centers(
    source: DeviceSource,
    assignment: Assignment,
    scores: Scores,
    quotas: Sequence[Quota],
    mass: float,
    size: int,
    known: Summary,
    run: Run,
) -> Draws:
    """Draw the rows of every partition's quota, as `around_centers.DrawTask` does."""
    import torch

    import lwcs.kernels.device as device

    labels, distances = assignment.labels.tensor, assignment.distances.tensor
    floors = on_device(scores.floors, labels)
    rows: list[IntArray] = []
    for block in source.all_blocks():
        at = slice(block.first_row, block.first_row + len(block.points))
        own = range(at.start // PARTITION_ROWS, -(-at.stop // PARTITION_ROWS))
        targets = [_targets(quotas[i], run) for i in own]
        part = np.repeat(np.arange(len(own)), list(map(len, targets)))
        if not len(part):
            continue
        masses = scores.slope * distances[at] + floors[labels[at].long()]
        if source.weights is not None:
            masses *= source.weights.tensor[at]
        padding = len(own) * PARTITION_ROWS - len(masses)
        masses = torch.nn.functional.pad(masses, (0, padding)).reshape(len(own), -1)
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
    return Draws(source.take(chosen), chosen, counts, weights, known)


def _targets(quota: Quota, run: Run) -> FloatArray:
    """Where on [0, total) the rows of a partition are drawn."""
    if not quota.draws:
        return np.empty(0)
    if quota.strata is not None:
        return quota.strata[0]
    rng = generator(run.seed, run.stage, Round.DRAW, quota.partition)
    return np.sort(rng.random(quota.draws)) * quota.totals[0]
