"""One read where the paper needs two: distances to a pivot, then rejection to the mean's.

A pivot near the mean is known before the scan, so one scan gives the mean, Φ and a
distance a(x) = ‖x − pivot‖² for every row. Rows are proposed in proportion to

    ω·h(x),  h = (1 + c)·a + (1 + 1/c)·δ ≥ d,  δ = ‖pivot − mean‖²,

and accepted with probability d(x)/h(x), where d(x) = ‖x − mean‖²: the accepted rows follow
ω·d exactly. Acceptance is (√(1+ρ) − √ρ)², ρ = Ωδ/Φ, about 94 % for a pivot of 1,000 rows.
Only proposed rows are read a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.parallel import ordered_map
from lwcs.foundation.randomness import Round
from lwcs.kernels import Pivot
from lwcs.samplers.base import Run, Summary, check_cost, check_total
from lwcs.samplers.crossing import CELL_ROWS, Masses, cell_sums, draw_from_cells
from lwcs.samplers.two_rounds import Picked

if TYPE_CHECKING:
    from lwcs.divergences import Measure
    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.kernels import KernelName, Scan
    from lwcs.sources import Block, LocalSource

PIVOT_ROWS = 1_000
_PROPOSALS_AT_ONCE = 2**16


@dataclass(frozen=True, slots=True)
class Around:
    """What the scan about the pivot knows: one number a row, its sums over cells, the totals."""

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

    kernel: KernelName
    measure: Measure
    pivot: Pivot
    distances: FloatArray
    cells: FloatArray

    def __call__(self, block: Block) -> Scan:
        """Scan a block."""
        start, n_rows = block.first_row, block.points.shape[0]
        out = self.distances[start : start + n_rows]
        rows = self.measure.rows(block.points, start)
        sums = kernels.scan(rows, block.weights, self.pivot, out, self.kernel)
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
    distances = _distances(points, Pivot(around.mean), run)
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
    """Rows in proportion to their weights, one for each uniform number on [0, 1)."""
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
        pivot = kernels.moments(run.measure.rows(points), None, run.kernel).mean
        if not np.isfinite(_distances(points, Pivot(pivot), run).sum()):
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
    task = PivotScan(run.kernel, run.measure, Pivot(pivot), distances, cells)
    shift, cost = np.zeros(source.n_features), 0.0
    for part in run.each_block(source, task, "reading"):
        shift += part.shift
        cost += part.cost
    slip = shift / weight
    delta = float(slip @ slip)
    cost = max(cost - weight * delta, 0.0)
    check_cost(cost)
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
    rho = weight * around.slip / around.cost
    c = max(float(np.sqrt(rho / (1.0 + rho))), 1e-8)
    scale, floor = 1.0 + c, (1.0 + 1.0 / c) * around.slip
    masses = Masses(source.n_rows, source.weights, around.distances, scale=scale, floor=floor)
    cells = scale * around.cost_cells
    cells += floor * weights
    accepted = np.empty(0, dtype=np.int64)
    acceptance = (np.sqrt(1.0 + rho) - np.sqrt(rho)) ** 2
    while (missing := count - len(accepted)) > 0:
        batch = int((missing + 4.0 * np.sqrt(missing)) / acceptance) + 8
        proposed = draw_from_cells(rng.random(min(batch, _PROPOSALS_AT_ONCE)), cells, masses)
        distances = _distances_of(source, proposed, Pivot(around.mean), run)
        bound = scale * around.distances[proposed] + floor
        passed = proposed[rng.random(len(proposed)) * bound < distances]
        accepted = np.concatenate([accepted, passed[:missing]])
    return accepted


def _distances_of(source: LocalSource, rows: IntArray, center: Pivot, run: Run) -> FloatArray:
    """Distances of some rows, fetched a few at a time: they are looked at once and not kept."""
    few = max(64, source.block_rows // 8)
    lots = [rows[start : start + few] for start in range(0, len(rows), few)]
    parts = ordered_map(lambda lot: _distances(source.take(lot), center, run), lots, run.n_jobs)
    return np.concatenate(list(parts))


def _distances(points: Rows, center: Pivot, run: Run) -> FloatArray:
    distances = np.empty(points.shape[0])
    kernels.scan(run.measure.rows(points), None, center, distances, run.kernel)
    return distances
