"""One read where the paper needs two: distances to a pivot, then rejection to the mean's.

A pivot near the mean is known before the scan, so one scan gives the mean, Φ and the distance
of every row to the pivot. Rows are then drawn in proportion to their distance to the mean by
rejection (`rejection`); about 94 % of the proposals are accepted for a pivot of 1,000 rows. Only
proposed rows are read a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.parallel import ordered_map
from lwcs.foundation.randomness import Round
from lwcs.foundation.rows import pieces
from lwcs.samplers.base import Run, Summary
from lwcs.samplers.crossing import CELL_ROWS, Masses, cell_sums, draw_from_cells
from lwcs.samplers.first_pass import check_cost, check_total
from lwcs.samplers.rejection import Rejection
from lwcs.samplers.two_rounds import Picked

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.kernels import Scan
    from lwcs.sources import Block, LocalSource

PIVOT_ROWS = 1_000
_PROPOSALS_AT_ONCE = 2**16


@dataclass(frozen=True, slots=True)
class Around:
    """What the scan around the pivot knows: one number per row, its sums over cells, the totals."""

    distances: FloatArray
    """Of every row to the pivot; zeros from there to the end of the last cell."""
    cost_cells: FloatArray
    mean: FloatArray
    cost: float
    """Φ."""
    slip: float
    """δ = ‖pivot − mean‖²."""


@dataclass(frozen=True, slots=True)
class PivotScan:
    """The one read: fills `distances` and `cells` in place, returns the sums of a block."""

    geometry: Geometry
    pivot: FloatArray
    distances: FloatArray
    cells: FloatArray

    def __call__(self, block: Block) -> Scan:
        """Scan a block."""
        start, n_rows = block.first_row, block.points.shape[0]
        out = self.distances[start : start + n_rows]
        rows = self.geometry.measured(block.points, start)
        sums = rows.scan(block.weights, rows.pivot(self.pivot), out)
        if not np.isfinite(sums.cost + sums.shift.sum()):
            raise BadValueError.found_in(block.points, start, 0)
        cells = cell_sums(out if block.weights is None else block.weights * out)
        self.cells[start // CELL_ROWS : start // CELL_ROWS + len(cells)] = cells
        return sums


def draw_in_one_read(source: LocalSource, size: int, run: Run) -> tuple[Picked, Summary]:
    """Draw exactly q in one read (module docstring)."""
    cells = weight_cells(source)
    weight = float(cells.sum())
    check_total(weight)
    around = _scan(source, _pivot(source, cells, run), weight, run)
    rng = run.generator(Round.ONE_READ)
    by_cost = size - int(rng.binomial(size, 0.5)) if around.cost > 0.0 else 0
    drawn = [draw_by_weight(source, rng.random(size - by_cost), cells)]
    if by_cost:
        drawn.append(_by_cost(source, by_cost, weight, cells, around, run, rng))
    rows, counts = np.unique(np.concatenate(drawn), return_counts=True)
    points = source.take(rows)
    distances = distances_to(points, around.mean, run.geometry)
    summary = Summary(source.n_rows, weight, around.mean, around.cost)
    return Picked(points, rows, distances, counts), summary


def weight_cells(source: LocalSource) -> FloatArray:
    """Sums of the weights over cells of rows."""
    if source.weights is not None:
        return cell_sums(source.weights)
    cells = np.full(-(-source.n_rows // CELL_ROWS), float(CELL_ROWS))
    cells[-1] = source.n_rows - CELL_ROWS * (len(cells) - 1)
    return cells


def draw_by_weight(source: LocalSource, fractions: FloatArray, cells: FloatArray) -> IntArray:
    """Rows in proportion to their weights, one per uniform number on [0, 1)."""
    if source.weights is None:
        return np.minimum((fractions * source.n_rows).astype(np.int64), source.n_rows - 1)
    return draw_from_cells(fractions, cells, Masses(source.n_rows, source.weights))


def _pivot(source: LocalSource, cells: FloatArray, run: Run) -> FloatArray:
    """Mean of about 1,000 rows drawn in proportion to their weights.

    Drawn uniformly, acceptance falls below 1 % under very skewed weights.
    """
    rows = np.sort(draw_by_weight(source, run.generator(Round.PIVOT).random(PIVOT_ROWS), cells))
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
    cells = np.empty(-(-source.n_rows // CELL_ROWS))
    distances = np.empty(len(cells) * CELL_ROWS)
    distances[source.n_rows :] = 0.0
    task = PivotScan(run.geometry, pivot, distances, cells)
    shift, cost = np.zeros(source.n_features), 0.0
    for part in run.each_block(source, task, "reading"):
        shift += part.shift
        cost += part.cost
    slip = shift / weight
    delta = float(slip @ slip)
    cost = max(cost - weight * delta, 0.0)
    check_cost(cost, weight, lost=bool(shift.any()))
    return Around(distances, cells, pivot + slip, cost, delta)


def _by_cost(
    source: LocalSource,
    count: int,
    weight: float,
    weights: FloatArray,
    around: Around,
    run: Run,
    rng: np.random.Generator,
) -> IntArray:
    """Rows in proportion to ω·d, by rejection from ω·h."""
    by = Rejection.of(weight, around.slip, around.cost)
    masses = Masses(source.n_rows, source.weights, around.distances, scale=by.scale, floor=by.floor)
    cells = by.scale * around.cost_cells
    cells += by.floor * weights
    accepted = np.empty(0, dtype=np.int64)
    while (missing := count - len(accepted)) > 0:
        batch = int((missing + 4.0 * np.sqrt(missing)) / by.acceptance) + 8
        proposed = draw_from_cells(rng.random(min(batch, _PROPOSALS_AT_ONCE)), cells, masses)
        distances = _distances_of(source, proposed, around.mean, run)
        bound = by.scale * around.distances[proposed] + by.floor
        passed = proposed[rng.random(len(proposed)) * bound < distances]
        accepted = np.concatenate([accepted, passed[:missing]])
    return accepted


def _distances_of(source: LocalSource, rows: IntArray, center: FloatArray, run: Run) -> FloatArray:
    """Distances of some rows, fetched a few at a time: they are looked at once and not kept."""
    lots = [rows[part] for part in pieces(len(rows), max(64, source.block_rows // 8))]
    parts = ordered_map(
        lambda lot: distances_to(source.take(lot), center, run.geometry), lots, run.n_jobs
    )
    return np.concatenate(list(parts))


def distances_to(points: Rows, center: FloatArray, geometry: Geometry) -> FloatArray:
    """Squared distances of some rows to a point."""
    rows, distances = geometry.measured(points), np.empty(points.shape[0])
    rows.scan(None, rows.pivot(center), distances)
    return distances
