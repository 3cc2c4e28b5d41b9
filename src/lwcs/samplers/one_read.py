"""One read where the paper needs two: distances to a pivot, then rejection to the mean's.

A pivot near the mean is known before the scan, so one scan gives the mean, Φ and what every cell
of a few rows costs around the pivot. Rows are then drawn in proportion to their distance to the
mean by rejection (`rejection`); about 94 % of the proposals are accepted for a pivot of 1,000
rows. Only the cells of proposed rows are read a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.parallel import ordered_map
from lwcs.foundation.randomness import Round
from lwcs.foundation.rows import pieces, stack
from lwcs.samplers.base import Run, Summary
from lwcs.samplers.crossing import RunningWeights, hit_cells, hit_rows, rows_of_cells
from lwcs.samplers.first_pass import check_cost, check_total
from lwcs.samplers.rejection import Rejection
from lwcs.samplers.two_rounds import Picked

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.kernels import BlockScans
    from lwcs.sources import Block, LocalSource

PIVOT_ROWS = 1_000
_PROPOSALS_AT_ONCE = 2**16
_FETCHED_AT_ONCE = 2048


@dataclass(frozen=True, slots=True)
class Around:
    """What the scan around the pivot knows: the cost of every cell, and the totals."""

    pivot: FloatArray
    cells: FloatArray
    """Σω·a over the rows of every cell, a = ‖x − pivot‖²."""
    mean: FloatArray
    cost: float
    """Φ."""
    slip: float
    """δ = ‖pivot − mean‖²."""


@dataclass(frozen=True, slots=True)
class PivotScan:
    """The one read: fills `cells` in place, returns the sums of every block."""

    geometry: Geometry
    pivot: FloatArray
    block_rows: int
    cell_rows: int
    cells: FloatArray

    def __call__(self, stretch: Block) -> BlockScans:
        """Scan the rows of one block or of several."""
        start, points = stretch.first_row, stretch.points
        own = self.cells[start // self.cell_rows : -(-(start + points.shape[0]) // self.cell_rows)]
        rows = self.geometry.measured(points, start)
        pivot = rows.pivot(self.pivot)
        sums = rows.scan_cells(stretch.weights, pivot, self.block_rows, own, self.cell_rows)
        finite = np.isfinite(sums.costs + sums.shifts.sum(axis=1))
        if not finite.all():
            first = int(np.argmin(finite)) * self.block_rows
            block = points[first : first + self.block_rows]
            raise BadValueError.found_in(block, start + first, 0)
        return sums


def draw_in_one_read(source: LocalSource, size: int, run: Run) -> tuple[Picked, Summary]:
    """Draw exactly q in one read (module docstring)."""
    weights = running_weights(source)
    check_total(weights.total)
    around = _scan(source, _pivot(source, weights, run), weights.total, run)
    rng = run.generator(Round.ONE_READ)
    by_cost = size - int(rng.binomial(size, 0.5)) if around.cost > 0.0 else 0
    drawn = [weights.draw(rng.random(size - by_cost))]
    if by_cost:
        drawn.append(_by_cost(source, by_cost, weights, around, run, rng))
    rows, counts = np.unique(np.concatenate(drawn), return_counts=True)
    points = _fetch(source, rows, run)
    distances = distances_to(points, around.mean, run.geometry)
    summary = Summary(source.n_rows, weights.total, around.mean, around.cost)
    return Picked(points, rows, distances, counts), summary


def running_weights(source: LocalSource) -> RunningWeights:
    """The weights of local rows."""
    return RunningWeights(source.n_rows, source.weights, source.cell_rows)


def _pivot(source: LocalSource, weights: RunningWeights, run: Run) -> FloatArray:
    """Mean of about 1,000 rows drawn in proportion to their weights.

    Drawn uniformly, acceptance falls below 1 % under very skewed weights.
    """
    rows = np.sort(weights.draw(run.generator(Round.PIVOT).random(PIVOT_ROWS)))
    points = source.take(rows)
    try:
        pivot = run.geometry.measured(points).moments(None).mean
        if not np.isfinite(distances_to(points, pivot, run.geometry).sum()):
            raise BadValueError.found_in(points, 0, 0)
    except BadValueError as bad:
        # Said here, since a bad pivot would spoil every block and the first would be blamed.
        row = int(rows[bad.row]) - bad.row
        raise bad.explained(row, "", source.feature_names) from None
    return pivot


def _scan(source: LocalSource, pivot: FloatArray, weight: float, run: Run) -> Around:
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
    return Around(pivot, cells, pivot + slip, cost, delta)


def _by_cost(
    source: LocalSource,
    count: int,
    weights: RunningWeights,
    around: Around,
    run: Run,
    rng: np.random.Generator,
) -> IntArray:
    """Rows in proportion to ω·d, by rejection from ω·h."""
    by = Rejection.of(weights.total, around.slip, around.cost)
    # In place: fresh memory costs more than the sums.
    sums = around.cells
    sums *= by.scale
    weights.add_to(sums, by.floor)
    np.cumsum(sums, out=sums)
    propose = Propose(source, run.geometry, weights, by, around.pivot, around.mean, sums)
    accepted = np.empty(0, dtype=np.int64)
    while (missing := count - len(accepted)) > 0:
        batch = int((missing + 4.0 * np.sqrt(missing)) / by.acceptance) + 8
        proposed = propose.all(rng.random(min(batch, _PROPOSALS_AT_ONCE)), run)
        passed = rng.random(len(proposed.rows)) * proposed.bounds < proposed.distances
        accepted = np.concatenate([accepted, proposed.rows[passed][:missing]])
    return accepted


class Proposals(NamedTuple):
    """Rows that may be drawn, h of each, and its distance to the mean."""

    rows: IntArray
    bounds: FloatArray
    distances: FloatArray


@dataclass(frozen=True, slots=True)
class Propose:
    """Rows in proportion to ω·h: a cell by its running sum, then a row of it, which is measured."""

    source: LocalSource
    geometry: Geometry
    weights: RunningWeights
    by: Rejection
    pivot: FloatArray
    mean: FloatArray
    sums: FloatArray
    """Running sums of ω·h over cells."""

    def all(self, fractions: FloatArray, run: Run) -> Proposals:
        """One row per uniform number on [0, 1)."""
        # In the order of the rows, which some sources read from a file, chunk by chunk.
        order = np.argsort(fractions)
        each = max(64, self.source.block_rows // (8 * self.source.cell_rows))
        lots = (fractions[order[part]] for part in pieces(len(order), each))
        parts = list(ordered_map(self, lots, run.n_jobs))
        back = np.argsort(order)
        return Proposals(*(np.concatenate(each)[back] for each in zip(*parts, strict=True)))

    def __call__(self, fractions: FloatArray) -> Proposals:
        """The same for a few; their cells are looked at once and not kept."""
        cells, targets = hit_cells(self.sums, fractions)
        rows = rows_of_cells(cells, self.source.cell_rows)
        points = self.source.take(np.minimum(rows, self.source.n_rows - 1).ravel())
        bounds = distances_to(points, self.pivot, self.geometry).reshape(rows.shape)
        bounds *= self.by.scale
        bounds += self.by.floor
        within = hit_rows(self.weights.of(rows) * bounds, targets)
        at = np.arange(len(rows)) * rows.shape[1] + within
        distances = distances_to(points[at], self.mean, self.geometry)
        return Proposals(rows.ravel()[at], bounds.ravel()[at], distances)


def _fetch(source: LocalSource, rows: IntArray, run: Run) -> Rows:
    """Some rows in order, fetched on all threads: that takes as long as to wait for memory."""
    lots = (rows[part] for part in pieces(len(rows), _FETCHED_AT_ONCE))
    return stack(list(ordered_map(source.take, lots, run.n_jobs)))


def distances_to(points: Rows, center: FloatArray, geometry: Geometry) -> FloatArray:
    """Squared distances of some rows to a point."""
    rows, distances = geometry.measured(points), np.empty(points.shape[0])
    rows.scan(None, rows.pivot(center), distances)
    return distances
