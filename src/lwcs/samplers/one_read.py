"""One read where the paper needs two: distances to a pivot, then rejection to the mean's.

A pivot near the mean is known before the scan, so one scan gives the mean, Φ and what every cell
of a few rows costs around the pivot. Rows are then drawn in proportion to their distance to the
mean by rejection (`rejection`); about 94 % of the proposals are accepted for a pivot of 1,000
rows. Only the cells of proposed rows are read a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import component_arrays, pieces
from lwcs.kernels import Hits
from lwcs.runtime.parallel import ordered_map
from lwcs.runtime.randomness import Round
from lwcs.samplers import device_draws
from lwcs.samplers.draws import PIVOT_ROWS, PROPOSALS_AT_ONCE, Rejection, RunningWeights, hit_cells
from lwcs.samplers.first_pass import check_cost, check_total
from lwcs.samplers.sampler import Run, Summary
from lwcs.samplers.two_rounds import Picked
from lwcs.sources.memory.tensors import DeviceSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.kernels import BlockScans, Pivot
    from lwcs.sources import Block, LocalSource

    MakePivot = Callable[[FloatArray], Pivot]

_FETCHED_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Around:
    """What the scan around the pivot knows: the cost of every cell, and the totals."""

    pivot: Pivot
    cells: FloatArray
    """Σω·a over the rows of every cell, a = ‖x − pivot‖²."""
    mean: FloatArray
    center: Pivot
    """The mean, for the kernels."""
    cost: float
    """Φ."""
    slip: float
    """δ = ‖pivot − mean‖²."""


@dataclass(frozen=True, slots=True)
class PivotScan:
    """The one read: fills `cells` in place, returns the sums of every block."""

    geometry: Geometry
    pivot: Pivot
    block_rows: int
    cell_rows: int
    cells: FloatArray

    def __call__(self, stretch: Block) -> BlockScans:
        """Scan the rows of one block or of several."""
        start, points = stretch.first_row, stretch.points
        own = self.cells[start // self.cell_rows : -(-(start + points.shape[0]) // self.cell_rows)]
        rows = self.geometry.measured(points, start)
        sums = rows.scan_cells(stretch.weights, self.pivot, self.block_rows, own, self.cell_rows)
        if not sums.finite.all():
            first = int(np.argmin(sums.finite)) * self.block_rows
            block = points[first : first + self.block_rows]
            raise BadValueError.found_in(block, start + first, 0)
        return sums


def draw_in_one_read(source: LocalSource, size: int, run: Run) -> tuple[Picked, Summary]:
    """Draw exactly q in one read (module docstring)."""
    if isinstance(source, DeviceSource):
        return device_draws.draw_in_one_read(source, size, run)
    weights = RunningWeights(source.n_rows, source.weights, source.cell_rows)
    check_total(weights.total)
    around = _scan(source, *_pivot(source, weights, run), weights.total, run)
    rng = run.generator(Round.ONE_READ)
    by_cost = size - int(rng.binomial(size, 0.5)) if around.cost > 0.0 else 0
    drawn = [weights.draw(rng.random(size - by_cost))]
    if by_cost:
        propose = Propose.around(around, source, weights, run.geometry)
        drawn.append(_by_cost(by_cost, propose, rng, run.n_jobs))
    rows, counts = np.unique(np.concatenate(drawn), return_counts=True)
    points = _fetch(source, rows, run.n_jobs)
    distances = run.geometry.measured(points).distances_to_pivot(around.center)
    summary = Summary(source.n_rows, weights.total, around.mean, around.cost)
    return Picked(points, rows, distances, counts), summary


def running_weights(source: LocalSource) -> RunningWeights | device_draws.Weights:
    """The weights of local rows."""
    if isinstance(source, DeviceSource):
        return device_draws.Weights.of(source)
    return RunningWeights(source.n_rows, source.weights, source.cell_rows)


def _pivot(source: LocalSource, weights: RunningWeights, run: Run) -> tuple[FloatArray, MakePivot]:
    """Mean of about 1,000 rows drawn in proportion to their weights, and what makes it a pivot.

    Drawn uniformly, acceptance falls below 1 % under very skewed weights.
    """
    rows = np.sort(weights.draw(run.generator(Round.PIVOT).random(PIVOT_ROWS)))
    points = source.take(rows)
    try:
        sample = run.geometry.measured(points)
        point = sample.moments(None).mean
        if not np.isfinite(sample.distances_to_pivot(sample.pivot(point)).sum()):
            raise BadValueError.found_in(points, 0, 0)
    except BadValueError as bad:
        # Said here, since a bad pivot would spoil every block and the first would be blamed.
        row = int(rows[bad.row]) - bad.row
        raise bad.explained(row, "", source.feature_names) from None
    return point, sample.pivot


def _scan(
    source: LocalSource, point: FloatArray, make_pivot: MakePivot, weight: float, run: Run
) -> Around:
    # Made once: that takes as long as the scan of some thousand sparse rows.
    pivot = make_pivot(point)
    cells = np.empty(-(-source.n_rows // source.cell_rows))
    task = PivotScan(run.geometry, pivot, source.block_rows, source.cell_rows, cells)
    shift, cost = np.zeros(source.n_features), 0.0
    rows = source.stretch_rows(run.n_jobs) if run.geometry.keeps_rows else None
    for part in run.each_block(source, task, "reading", rows):
        # Block after block: the sums must not depend on how many there are in a stretch.
        for own_shift, own_cost in zip(*part, strict=True):
            shift += own_shift
            cost += float(own_cost)
    slip = shift / weight
    delta = float(slip @ slip)
    cost = max(cost - weight * delta, 0.0)
    check_cost(cost, weight, lost=bool(shift.any()))
    mean = point + slip
    return Around(pivot, cells, mean, make_pivot(mean), cost, delta)


def _by_cost(
    count: int, propose: Propose, rng: np.random.Generator, n_jobs: int | None
) -> IntArray:
    """Rows in proportion to ω·d, by rejection from ω·h."""
    accepted = np.empty(0, dtype=np.int64)
    while (missing := count - len(accepted)) > 0:
        batch = int((missing + 4.0 * np.sqrt(missing)) / propose.by.acceptance) + 8
        proposed = propose.all(rng.random(min(batch, PROPOSALS_AT_ONCE)), n_jobs)
        passed = rng.random(len(proposed.rows)) * proposed.bounds < proposed.distances
        accepted = np.concatenate([accepted, proposed.rows[passed][:missing]])
    return accepted


@dataclass(frozen=True, slots=True)
class Propose:
    """Rows in proportion to ω·h: a cell by its running sum, then a row of it, which is measured."""

    source: LocalSource
    geometry: Geometry
    weights: RunningWeights
    by: Rejection
    pivot: Pivot
    mean: Pivot
    sums: FloatArray
    """Running sums of ω·h over cells."""

    @classmethod
    def around(
        cls, around: Around, source: LocalSource, weights: RunningWeights, geometry: Geometry
    ) -> Propose:
        """From what the scan knows; the sums of its cells become those of ω·h."""
        by = Rejection.of(weights.total, around.slip, around.cost)
        # In place: fresh memory costs more than the sums.
        sums = around.cells
        sums *= by.scale
        weights.add_to(sums, by.floor)
        np.cumsum(sums, out=sums)
        return cls(source, geometry, weights, by, around.pivot, around.center, sums)

    def all(self, fractions: FloatArray, n_jobs: int | None) -> Hits:
        """One row per uniform number on [0, 1)."""
        # In the order of the rows, which some sources read from a file, chunk by chunk.
        order = np.argsort(fractions)
        # Rows that are copied are no more than a quarter of a block, or 64 very wide ones.
        cells = max(64, self.source.block_rows // (4 * self.source.cell_rows))
        lots = (fractions[order[part]] for part in pieces(len(order), cells))
        parts = ordered_map(self, lots, n_jobs)
        sorted_hits = [np.concatenate(each) for each in zip(*parts, strict=True)]
        hits = Hits(*(np.empty_like(each) for each in sorted_hits))
        for own, each in zip(hits, sorted_hits, strict=True):
            own[order] = each
        return hits

    def __call__(self, fractions: FloatArray) -> Hits:
        """The same for a few; their cells are looked at once and not kept."""
        cells, targets = hit_cells(self.sums, fractions)
        starts, stops = self.weights.runs(cells)
        own = self.geometry
        views = own.keeps_rows and own.kernel == "compiled" and own.device is None
        block, at = self.source.take_runs(starts, stops, views=views)
        hits = own.measured(block.points).hit_rows(
            block.weights, self.pivot, self.mean, self.by.scale, self.by.floor,
            (at, at + (stops - starts), targets),
        )  # fmt: skip
        return hits._replace(rows=hits.rows + (starts - at))


def _fetch(source: LocalSource, rows: IntArray, n_jobs: int | None) -> Rows:
    """Copy the drawn rows, on all threads where that is one read each; nobody else has them."""
    if source.gives_views:
        whole = source.read(0, source.n_rows)
        points = np.empty((len(rows), source.n_features), dtype=whole.dtype)

        def copy(part: slice) -> None:
            whole.take(rows[part], axis=0, out=points[part], mode="clip")

        list(ordered_map(copy, pieces(len(rows), _FETCHED_AT_ONCE), n_jobs))
    else:
        points = source.take(rows)
    for part in component_arrays(points):
        # Read-only, they need not be copied once more for the coreset.
        part.flags.writeable = False
    return points


def distances_to(points: Rows, center: FloatArray, geometry: Geometry) -> FloatArray:
    """Squared distances of some rows to a point."""
    rows = geometry.measured(points)
    return rows.distances_to_pivot(rows.pivot(center))
