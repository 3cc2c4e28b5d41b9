"""Lightweight draws in one read, where the paper needs two: rejection from a pivot to the mean.

A pivot near the mean, the mean of some 1,000 rows, is known before the scan. One scan then gives
the mean, Φ, and the cost around the pivot of every cell (a few consecutive rows). Rows are proposed
by their distance to the pivot, a cell by its sum and then a row in it, and accepted so that the
accepted ones follow the distance to the mean. Only the cells of proposed rows are read a second
time; keeping a distance per row instead costs more, in page faults, than measuring these again.

With a(x) = ‖x − pivot‖², d(x) = ‖x − mean‖², δ = ‖pivot − mean‖² and ρ = Ωδ/Φ, rows that are
proposed in proportion to

    ω·h(x),   h = (1 + c)·a + (1 + 1/c)·δ ≥ d,   c = √(ρ/(1 + ρ)),

and accepted with probability d/h follow ω·d exactly. The acceptance rate is (√(1+ρ) − √ρ)², about
94 % for a pivot of 1,000 rows. `one_pass` draws from its reservoirs by the same rejection, and
`device_draws` has the same steps for rows on a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import component_arrays, pieces
from lwcs.kernels import Hits, cell_sums, cross
from lwcs.runtime.parallel import ordered_map
from lwcs.runtime.randomness import Round
from lwcs.samplers.first_pass import check_cost, check_total
from lwcs.samplers.sampler import Run, Summary
from lwcs.samplers.two_rounds import Picked
from lwcs.sources.memory.local import is_on_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.kernels import BlockScans, Pivot
    from lwcs.samplers.device_draws import DeviceWeights
    from lwcs.sources import Block, LocalSource

    MakePivot = Callable[[FloatArray], Pivot]

PIVOT_ROWS = 1_000
"""Number of rows whose mean is the pivot."""
PROPOSALS_AT_ONCE = 2**16
_LEAST_C = 1e-8
_DRAWS_AT_ONCE = 2048
_FETCHED_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Rejection:
    """h = scale·a + floor, and how many proposals are accepted."""

    rho: float
    scale: float
    floor: float
    acceptance: float

    @classmethod
    def of(cls, weight: float, slip: float, cost: float) -> Rejection:
        """Choose both constants from Ω, δ and Φ > 0."""
        rho = weight * slip / cost
        c = max(float(np.sqrt(rho / (1.0 + rho))), _LEAST_C)
        acceptance = float((np.sqrt(1.0 + rho) - np.sqrt(rho)) ** 2)
        return cls(rho, 1.0 + c, (1.0 + 1.0 / c) * slip, acceptance)

    def batch(self, missing: int) -> int:
        """Number of proposals of which mostly at least `missing` are accepted."""
        proposals = int((missing + 4.0 * np.sqrt(missing)) / self.acceptance) + 8
        return min(proposals, PROPOSALS_AT_ONCE)


def hit_cells(sums: FloatArray, fractions: FloatArray) -> tuple[IntArray, FloatArray]:
    """Cells in proportion to their mass, and where in its mass each is hit.

    `sums` are the running sums over all cells; `fractions` are uniform on [0, 1), one per draw.
    """
    targets = fractions * sums[-1]
    # A target that rounding pushed past the end belongs to the last cell that has mass.
    last = np.searchsorted(sums, sums[-1], side="left")
    hit = np.minimum(np.searchsorted(sums, targets, side="right"), last)
    before = np.where(hit > 0, sums[hit - 1], 0.0)
    return hit, np.maximum(targets - before, 0.0)


class RunningWeights:
    """The weights of rows as running sums over cells; without weights, every row counts as one."""

    def __init__(self, n_rows: int, weights: FloatArray | None, cell_rows: int) -> None:
        self._n_rows, self._weights, self._cell_rows = n_rows, weights, cell_rows
        self.total = float(n_rows)
        if weights is not None:
            cells = cell_sums(weights, cell_rows)
            self.total = float(cells.sum())
            self._sums = np.cumsum(cells, out=cells)

    def draw(self, fractions: FloatArray) -> IntArray:
        """Rows in proportion to their weights, one per uniform number on [0, 1)."""
        if self._weights is None:
            return np.minimum((fractions * self._n_rows).astype(np.int64), self._n_rows - 1)
        drawn = np.empty(len(fractions), dtype=np.int64)
        for some in pieces(len(fractions), _DRAWS_AT_ONCE):
            cells, targets = hit_cells(self._sums, fractions[some])
            drawn[some] = cross(self._weights, *self.runs(cells), targets)
        return drawn

    def runs(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Where the rows of some cells start and stop."""
        starts = cells * self._cell_rows
        return starts, np.minimum(starts + self._cell_rows, self._n_rows)

    def add_to(self, cells: FloatArray, factor: float) -> None:
        """Add `factor` times the weight of every cell to these."""
        if self._weights is None:
            cells += factor * self._cell_rows
            cells[-1] -= factor * (len(cells) * self._cell_rows - self._n_rows)
        else:
            cells[0] += factor * self._sums[0]
            cells[1:] += factor * np.diff(self._sums)


@dataclass(frozen=True, slots=True)
class PivotSums:
    """Result of a scan around the pivot: the cost of every cell, and the totals.

    On a device, pivot, cells and center are tensors.
    """

    pivot: Any
    center: Any
    """The mean, as kernels take it."""
    cells: Any
    """Σω·a over the rows of every cell, a = ‖x − pivot‖²."""
    mean: FloatArray
    cost: float
    """Φ."""
    slip: float
    """δ = ‖pivot − mean‖²."""


@dataclass(frozen=True, slots=True)
class PivotScan:
    """The task of the scan: fills `cells` in place, returns the sums of every block."""

    geometry: Geometry
    pivot: Pivot
    block_rows: int
    cell_rows: int
    cells: FloatArray

    def __call__(self, stretch: Block) -> BlockScans:
        """Scan the rows of one or more blocks."""
        start, points, step = stretch.first_row, stretch.points, self.cell_rows
        cells = self.cells[start // step : -(-(start + points.shape[0]) // step)]
        rows = self.geometry.measured(points, start)
        sums = rows.kernels.scan_cells(
            rows.values, stretch.weights, self.pivot, self.block_rows, cells, step
        )
        if not sums.finite.all():
            first = int(np.argmin(sums.finite)) * self.block_rows
            block = points[first : first + self.block_rows]
            raise BadValueError.found_in(block, start + first, 0)
        return sums


def draw_in_one_read(source: LocalSource, size: int, run: Run) -> tuple[Picked, Summary]:
    """Draw rows by q, half by weight and half by cost, in one read."""
    if is_on_device(source):
        from lwcs.samplers import device_draws

        return device_draws.draw_in_one_read(source, size, run)
    weights = RunningWeights(source.n_rows, source.weights, source.cell_rows)
    check_total(weights.total)
    sums = _scan(source, *_pivot(source, weights, run), weights.total, run)
    rng = run.generator(Round.ONE_READ)
    by_cost = size - int(rng.binomial(size, 0.5)) if sums.cost > 0.0 else 0
    drawn = [weights.draw(rng.random(size - by_cost))]
    if by_cost:
        proposals = Proposals.around(sums, source, weights, run.geometry)
        drawn.append(_by_cost(by_cost, proposals, rng, run.n_jobs))
    rows, counts = np.unique(np.concatenate(drawn), return_counts=True)
    points = _fetch(source, rows, run.n_jobs)
    distances = run.geometry.measured(points).distances_to_pivot(sums.center)
    summary = Summary(source.n_rows, weights.total, sums.mean, sums.cost)
    return Picked(points, rows, distances, counts), summary


def running_weights(source: LocalSource) -> RunningWeights | DeviceWeights:
    """The weights of local rows as running sums, where the rows are."""
    if is_on_device(source):
        from lwcs.samplers.device_draws import DeviceWeights

        return DeviceWeights.of(source)
    return RunningWeights(source.n_rows, source.weights, source.cell_rows)


def _pivot(source: LocalSource, weights: RunningWeights, run: Run) -> tuple[FloatArray, MakePivot]:
    """The mean of rows drawn by weight, and a function that prepares points for the kernels.

    With rows drawn uniformly, the acceptance rate is below 1 % for very skewed weights.
    """
    rows = np.sort(weights.draw(run.generator(Round.PIVOT).random(PIVOT_ROWS)))
    points = source.take(rows)
    try:
        sample = run.geometry.measured(points)
        point = sample.moments(None).mean
        if not np.isfinite(sample.distances_to_pivot(sample.pivot(point)).sum()):
            raise BadValueError.found_in(points, 0, 0)
    except BadValueError as bad:
        # Raised here, since a bad pivot spoils the sums of every block, also of the first.
        row = int(rows[bad.row]) - bad.row
        raise bad.explained(row, "", source.feature_names) from None
    return point, sample.pivot


def _scan(
    source: LocalSource, point: FloatArray, make_pivot: MakePivot, weight: float, run: Run
) -> PivotSums:
    # Prepared once, which takes as long as the scan of some thousand sparse rows.
    pivot = make_pivot(point)
    cells = np.empty(-(-source.n_rows // source.cell_rows))
    task = PivotScan(run.geometry, pivot, source.block_rows, source.cell_rows, cells)
    shift, cost = np.zeros(source.n_features), 0.0
    own = run.geometry
    rows = source.stretch_rows(run.n_jobs, own.kernel) if own.keeps_rows else None
    for part in run.each_block(source, task, "reading", rows):
        # Block by block, so that the sums do not depend on the number of blocks in a stretch.
        for block_shift, block_cost in zip(*part, strict=True):
            shift += block_shift
            cost += float(block_cost)
    mean, cost, slip = from_pivot(point, shift, cost, weight)
    return PivotSums(pivot, make_pivot(mean), cells, mean, cost, slip)


def from_pivot(
    pivot: FloatArray, shift: FloatArray, cost: float, weight: float
) -> tuple[FloatArray, float, float]:
    """Mean, Φ, and ‖pivot − mean‖² of rows, from Σω·(x − pivot) and Σω·‖x − pivot‖²."""
    offset = shift / weight
    slip = float(offset @ offset)
    cost = max(cost - weight * slip, 0.0)
    check_cost(cost, weight, lost=bool(shift.any()))
    return pivot + offset, cost, slip


def _by_cost(
    count: int, proposals: Proposals, rng: np.random.Generator, n_jobs: int | None
) -> IntArray:
    """Draw rows in proportion to ω·d, by rejection from ω·h."""
    drawn = np.empty(0, dtype=np.int64)
    while (missing := count - len(drawn)) > 0:
        hits = proposals.draw(rng.random(proposals.rejection.batch(missing)), n_jobs)
        accepted = rng.random(len(hits.rows)) * hits.bounds < hits.distances
        drawn = np.concatenate([drawn, hits.rows[accepted][:missing]])
    return drawn


@dataclass(frozen=True, slots=True)
class Proposals:
    """Rows in proportion to ω·h: a cell by its running sum, then a row of it, which is measured."""

    source: LocalSource
    geometry: Geometry
    weights: RunningWeights
    rejection: Rejection
    pivot: Pivot
    mean: Pivot
    sums: FloatArray
    """Running sums of ω·h over cells."""

    @classmethod
    def around(
        cls, around: PivotSums, source: LocalSource, weights: RunningWeights, geometry: Geometry
    ) -> Proposals:
        """Turn the cells of a scan into running sums of ω·h, in place."""
        rejection = Rejection.of(weights.total, around.slip, around.cost)
        # In place, since fresh memory costs more than the sums.
        sums = around.cells
        sums *= rejection.scale
        weights.add_to(sums, rejection.floor)
        np.cumsum(sums, out=sums)
        return cls(source, geometry, weights, rejection, around.pivot, around.center, sums)

    def draw(self, fractions: FloatArray, n_jobs: int | None) -> Hits:
        """Propose one row per uniform number on [0, 1)."""
        # In the order of the rows, which some sources read from a file, chunk by chunk.
        order = np.argsort(fractions)
        # At most a quarter of a block is copied at a time, or 64 very wide rows.
        cells = max(64, self.source.block_rows // (4 * self.source.cell_rows))
        lots = (fractions[order[part]] for part in pieces(len(order), cells))
        parts = ordered_map(self, lots, n_jobs)
        sorted_hits = [np.concatenate(each) for each in zip(*parts, strict=True)]
        hits = Hits(*(np.empty_like(each) for each in sorted_hits))
        for unsorted, each in zip(hits, sorted_hits, strict=True):
            unsorted[order] = each
        return hits

    def __call__(self, fractions: FloatArray) -> Hits:
        """Propose rows for a few uniform numbers; their cells are read for this alone."""
        cells, targets = hit_cells(self.sums, fractions)
        starts, stops = self.weights.runs(cells)
        geometry, by = self.geometry, self.rejection
        views = geometry.keeps_rows and geometry.kernels.reads_runs and geometry.device is None
        block, at = self.source.take_runs(starts, stops, views=views)
        runs = (at, at + (stops - starts), targets)
        rows = geometry.measured(block.points)
        hits = rows.kernels.hit_rows(
            rows.values, block.weights, self.pivot, self.mean, by.scale, by.floor, runs
        )
        return hits._replace(rows=hits.rows + (starts - at))


def _fetch(source: LocalSource, rows: IntArray, n_jobs: int | None) -> Rows:
    """Copy the drawn rows, on all threads where rows are in memory."""
    if source.gives_views:
        whole = source.read(0, source.n_rows)
        points = np.empty((len(rows), source.n_features), dtype=whole.dtype)

        def copy(part: slice) -> None:
            whole.take(rows[part], axis=0, out=points[part], mode="clip")

        list(ordered_map(copy, pieces(len(rows), _FETCHED_AT_ONCE), n_jobs))
    else:
        points = source.take(rows)
    for part in component_arrays(points):
        # Read-only, so that the coreset need not copy them once more.
        part.flags.writeable = False
    return points


def distances_to(points: Rows, center: FloatArray, geometry: Geometry) -> FloatArray:
    """Squared distances of some rows to a point."""
    rows = geometry.measured(points)
    return rows.distances_to_pivot(rows.pivot(center))
