"""Drawing rows that are on a device: the mechanics of `one_read` and `around_centers`, there.

The same random numbers are drawn on the host, in the same order, so that the same rows come out.
Nothing per row comes back but the numbers of drawn rows; what is drawn on the host is drawn while
the device reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.device import DeviceArray, on_device
from lwcs.foundation.randomness import Round, generator
from lwcs.samplers.base import Draws, Summary
from lwcs.samplers.crossing import RunningWeights
from lwcs.samplers.first_pass import check_cost, check_total
from lwcs.samplers.rejection import Rejection
from lwcs.samplers.two_rounds import Picked
from lwcs.sources.base import PARTITION_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.foundation.types import FloatArray, IntArray
    from lwcs.samplers.around_centers import Assignment, Clusters, Scores
    from lwcs.samplers.base import Run
    from lwcs.samplers.two_rounds import Quota
    from lwcs.sources import Block
    from lwcs.sources.device import DeviceSource

# As on the host: the law of a batch does not depend on them, but which rows are drawn does.
_PIVOT_ROWS = 1_000
_PROPOSALS_AT_ONCE = 2**16


def draw_in_one_read(source: DeviceSource, size: int, run: Run) -> tuple[Picked, Summary]:
    """Draw exactly q in one read, by rejection from distances to a pivot (`one_read`)."""
    import torch

    import lwcs.kernels.device as device

    weights = Weights.of(source)
    check_total(weights.total)
    point = _pivot(source, weights, run)
    rows = source.array.tensor
    pivot, precision = on_device(point, rows), run.geometry.precision
    tau = None if precision is None else on_device(precision, rows)

    def read(block: Block) -> Any:
        return device.scan_cells(block.points.tensor, weights.each, pivot, tau, source.cell_rows)

    (sums,) = run.each_block(source, read, "reading", max(1, source.n_rows))
    numbers = _Numbers.of(size, run)
    # The one time that the host waits for the read.
    *shift, cost = np.asarray(DeviceArray(_packed(sums.shift, sums.cost))).tolist()
    if not np.isfinite([*shift, cost]).all():
        with source.explaining():
            refuse(source)
    around = _Around.of(point, np.array(shift), cost, weights.total)
    mean = on_device(around.mean, rows)
    by_cost = numbers.by_cost if around.cost > 0.0 else 0
    if not by_cost:
        numbers = _Numbers.of(size, run, only_weights=True)
    drawn = [weights.draw(numbers.by_weight)]
    if by_cost:
        by = Rejection.of(weights.total, around.slip, around.cost)
        running = weights.add_to(sums.cells.mul_(by.scale), by.floor).cumsum_(0)
        accepted = 0
        while accepted < by_cost:
            missing = by_cost - accepted
            batch = int((missing + 4.0 * np.sqrt(missing)) / by.acceptance) + 8
            batch = min(batch, _PROPOSALS_AT_ONCE)
            fractions, tosses = (on_device(numbers.take(batch), rows) for _ in range(2))
            cells, targets = hit_cells(running, fractions)
            found, bounds, distances = device.hit_rows(
                rows, weights.each, pivot, mean, tau, by.scale, by.floor, source.cell_rows,
                cells, targets,
            )  # fmt: skip
            passed = np.asarray(DeviceArray(found.masked_fill(~(tosses * bounds < distances), -1)))
            drawn.append(passed[passed >= 0][:missing])
            accepted += len(drawn[-1])
    chosen, counts = np.unique(np.concatenate(drawn), return_counts=True)
    points = source.take(chosen)
    nearest = torch.zeros(len(chosen), dtype=torch.int32, device=rows.device)
    to_mean = device.own_distances(points.tensor, mean[None, :], nearest, tau)
    picked = Picked(points, chosen, np.asarray(DeviceArray(to_mean)), counts)
    return picked, Summary(source.n_rows, weights.total, around.mean, around.cost)


class _Around(NamedTuple):
    """Mean and cost of all rows, and how far the pivot is from the mean."""

    mean: FloatArray
    cost: float
    slip: float

    @classmethod
    def of(cls, point: FloatArray, shift: FloatArray, cost: float, weight: float) -> _Around:
        """From the sums of a scan around a point."""
        slip = shift / weight
        delta = float(slip @ slip)
        cost = max(cost - weight * delta, 0.0)
        check_cost(cost, weight, lost=bool(shift.any()))
        return cls(point + slip, cost, delta)


class _Numbers:
    """The random numbers of one read, drawn ahead: one long draw has those of several short ones.

    `by_cost` is how many rows are drawn by distance, `by_weight` are numbers for the others.
    """

    def __init__(self, rng: np.random.Generator, size: int, by_cost: int) -> None:
        self._rng, self.by_cost = rng, by_cost
        self.by_weight = rng.random(size - by_cost)
        # Two numbers for every proposal, of which some 94 % are accepted.
        self._ahead = rng.random(int(2.3 * by_cost))

    @classmethod
    def of(cls, size: int, run: Run, *, only_weights: bool = False) -> _Numbers:
        """As `one_read` draws them; without any cost, there is no toss between the two halves."""
        rng = run.generator(Round.ONE_READ)
        return cls(rng, size, 0 if only_weights else size - int(rng.binomial(size, 0.5)))

    def take(self, count: int) -> FloatArray:
        """The next so many."""
        more = count - len(self._ahead)
        if more > 0:
            self._ahead = np.concatenate([self._ahead, self._rng.random(more)])
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken


def _packed(*values: Any) -> Any:
    """Tensors of one device as one, to be copied at once."""
    import torch

    return torch.cat([value.reshape(-1) for value in values])


def _pivot(source: DeviceSource, weights: Weights, run: Run) -> FloatArray:
    """Mean of about 1,000 rows, which come to the host."""
    rows = np.sort(weights.draw(run.generator(Round.PIVOT).random(_PIVOT_ROWS)))
    points = np.asarray(source.take(rows))
    sample = replace(run.geometry, device=None).measured(points)
    point = sample.moments(None).mean
    if not np.isfinite(sample.distances_to_pivot(sample.pivot(point)).sum()):
        bad = BadValueError.found_in(points, 0, 0)
        raise bad.explained(int(rows[bad.row]) - bad.row, "", source.feature_names)
    return point


def refuse(source: DeviceSource) -> None:
    """Name the first row that is not finite, or the largest value; only that row is copied."""
    for block in source.all_blocks():
        tensor = block.points.tensor
        bad = ~tensor.isfinite().all(dim=1)
        if bool(bad.any()):
            row = int(bad.int().argmax())
            break
    else:
        largest = [float(block.points.tensor.abs().max()) for block in source.all_blocks()]
        block = list(source.all_blocks())[int(np.argmax(largest))]
        row = int(block.points.tensor.abs().amax(dim=1).argmax())
    raise BadValueError.found_in(np.asarray(block.points[row : row + 1]), block.first_row + row, 0)


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
            n_rows = self.source.n_rows
            return RunningWeights(n_rows, None, self.source.cell_rows).draw(fractions)
        import lwcs.kernels.device as device

        rows = self.source.array.tensor
        cells, targets = hit_cells(self.sums, on_device(fractions, rows))
        nowhere = rows[0].double()
        found = device.hit_rows(
            rows, self.each, nowhere, nowhere, None, 0.0, 1.0, self.source.cell_rows, cells, targets
        )
        return np.asarray(DeviceArray(found[0]))

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
