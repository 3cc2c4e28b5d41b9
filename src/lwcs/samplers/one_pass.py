"""Draws in one pass over rows in order, which may be unbounded: by reservoirs.

The mean is known only at the end, when the rows are gone. So one reservoir draws rows by weight and
one by squared distance to a pivot, the mean of the first block; at the end, rejection (`one_read`)
turns the draws of both into lightweight draws around the mean. Where less than half of the
proposals would be accepted, rows are weighted by their distance to the pivot instead; both are
unbiased (`Coreset.details`).

A reservoir has a quarter more slots than draws, so that a coreset has all of its draws if two of
three proposals are accepted. The number of proposals is fixed before any is examined: otherwise the
distribution would depend on which reservoir runs out.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import replace_rows, stack
from lwcs.runtime.parallel import as_threads, ordered_map, prefetch
from lwcs.runtime.randomness import Round, Stage, generator
from lwcs.samplers.first_pass import Extent, check_total
from lwcs.samplers.one_read import Rejection, distances_to, from_pivot
from lwcs.samplers.sampler import Draws, Run, Summary
from lwcs.sources import base
from lwcs.sources.base import watched_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.kernels import Scan
    from lwcs.sources import Block
    from lwcs.sources.blocks import Pending
    from lwcs.sources.sequence import SequenceSource


@dataclass
class Reservoir:
    """Slots, each of which holds one i.i.d. draw, in proportion to a mass, from all rows so far.

    For a block with mass W_b that brings the total to W, Binomial(slots, W_b/W) slots are
    overwritten by draws from the block: every slot holds a row of it with probability W_b/W.
    """

    slots: int
    total: float = 0.0
    points: Rows | None = None
    rows: IntArray | None = None

    def update(
        self, points: Rows, masses: FloatArray, first_row: int, rng: np.random.Generator
    ) -> None:
        """Draw from the next block."""
        sums = np.cumsum(masses)
        mass = float(sums[-1]) if len(sums) else 0.0
        if mass <= 0.0:
            return
        self.total += mass
        if self.points is None:
            slots = np.arange(self.slots)
        else:
            taken = int(rng.binomial(self.slots, mass / self.total))
            slots = rng.choice(self.slots, taken, replace=False, shuffle=False)
        at = np.searchsorted(sums, rng.random(len(slots)) * mass, side="right")
        # A target that rounding pushed past the end belongs to the last row that has mass.
        at = np.minimum(at, np.flatnonzero(masses)[-1])
        if self.points is None or self.rows is None:
            self.points, self.rows = points[at], at + first_row
        elif len(slots):
            self.points = replace_rows(self.points, slots, points[at])
            self.rows[slots] = at + first_row

    def copy(self, dtype: np.dtype[Any] | None = None) -> Reservoir:
        """An independent copy, with its rows in `dtype` if one is given."""
        points: Any = self.points
        if points is not None:
            points = points.astype(points.dtype if dtype is None else dtype)
        rows = None if self.rows is None else self.rows.copy()
        return Reservoir(self.slots, self.total, points, rows)


LEAST_ACCEPTANCE = 0.5


@dataclass(frozen=True, slots=True)
class ScannedBlock:
    """A block, and its distances to the pivot and their sums, once there is a pivot."""

    block: Block
    first_row: int
    distances: FloatArray | None
    sums: Scan | None


@dataclass
class OnePass:
    """The state of a pass: reservoirs and sums, which do not grow with the number of rows."""

    size: int
    seed: int
    stage: Stage
    geometry: Geometry
    """Squared distances, since a divergence would need the mean before any distance."""
    by_cost: Reservoir | None
    """None for uniform draws, which need no pivot."""
    by_weight: Reservoir
    rows: int = 0
    pivot: FloatArray | None = None
    shift: FloatArray | None = None
    cost: float = 0.0
    blocks: int = 0

    @classmethod
    def of(cls, size: int, run: Run, *, uniform: bool = False) -> OnePass:
        """The state before the first row."""
        slots = size if uniform else size + size // 4 + 16
        by_cost = None if uniform else Reservoir(slots)
        return cls(size, run.seed, run.stage, run.geometry, by_cost, Reservoir(slots))

    def start(self, block: Block) -> None:
        """Set the pivot to the mean of the first block that has weight."""
        if self.pivot is not None or self.by_cost is None:
            return
        rows = self.geometry.measured(block.points, block.first_row)
        moments = rows.moments(block.weights)
        if not np.isfinite(moments.mean.sum()):
            raise BadValueError.found_in(block.points, block.first_row, 0)
        if moments.weight > 0.0:
            self.pivot, self.shift = moments.mean, np.zeros(len(moments.mean))

    def scan(self, block: Block, first_row: int) -> ScannedBlock:
        """Scan a block around the pivot; may run in parallel with others."""
        if self.pivot is None:
            return ScannedBlock(block, first_row, None, None)
        distances = np.empty(block.points.shape[0])
        partition, row = divmod(first_row, base.PARTITION_ROWS)
        with BadValueError.in_partition(partition):
            rows = self.geometry.measured(block.points, row)
        sums = rows.kernels.scan(rows.values, block.weights, rows.pivot(self.pivot), distances)
        if not np.isfinite(sums.cost + sums.shift.sum()):
            raise BadValueError.found_in(block.points, row, partition)
        return ScannedBlock(block, first_row, distances, sums)

    def update(self, scanned: ScannedBlock) -> None:
        """Draw from a scanned block, and add up its sums."""
        block, n = scanned.block, scanned.block.points.shape[0]
        omega = kernels.unit_weights(block.weights, n)
        rng = generator(self.seed, self.stage, Round.RESERVOIR, self.blocks)
        self.by_weight.update(block.points, omega, scanned.first_row, rng)
        if self.by_cost is not None and scanned.sums is not None:
            assert scanned.distances is not None
            assert self.shift is not None
            masses = omega * scanned.distances
            self.by_cost.update(block.points, masses, scanned.first_row, rng)
            self.shift = self.shift + scanned.sums.shift
            self.cost += scanned.sums.cost
        self.rows += n
        self.blocks += 1

    def copy(self, dtype: np.dtype[Any] | None = None) -> OnePass:
        """An independent copy, with its rows in `dtype` if one is given."""
        by_cost = None if self.by_cost is None else self.by_cost.copy(dtype)
        return replace(self, by_cost=by_cost, by_weight=self.by_weight.copy(dtype))

    def extent(self) -> Extent:
        """The extent of the rows that are kept; sums of the others are known to be finite."""
        extent = Extent(self.by_weight.total)
        if self.pivot is not None:
            extent += Extent(0.0, float(np.abs(self.pivot).max()))
        for reservoir in (self.by_weight, self.by_cost):
            if reservoir is not None and reservoir.points is not None:
                extent += Extent.of(reservoir.points, 0.0, self.geometry)
        return extent

    def finish(self) -> Draws:
        """Draw the coreset; the state does not change."""
        weight = self.by_weight.total
        check_total(weight)
        if self.by_cost is None or self.shift is None or self.pivot is None:
            return self._uniform(Summary(self.rows, weight))
        mean, cost, slip = from_pivot(self.pivot, self.shift, self.cost, weight)
        summary = Summary(self.rows, weight, mean, cost)
        if cost <= 0.0 or self.by_cost.points is None:
            return self._uniform(summary)
        rng = generator(self.seed, self.stage, Round.FINISH)
        by_weight = int(rng.binomial(self.size, 0.5))
        rejection = Rejection.of(weight, slip, cost)
        details = {"rho": rejection.rho, "acceptance": rejection.acceptance}
        if rejection.acceptance < LEAST_ACCEPTANCE:
            draws = self._around_pivot(summary, by_weight)
            return replace(draws, details={"weights": "pivot", **details})
        draws = self._around_mean(summary, max(by_weight, 1), rejection, rng)
        return replace(draws, details={"weights": "mixture", **details})

    def _uniform(self, summary: Summary) -> Draws:
        chosen = _SlotDraws.of(self.by_weight, 0, self.size)
        return chosen.draws(np.full(self.size, summary.weight / self.size), summary)

    def _around_pivot(self, summary: Summary, u: int) -> Draws:
        """All draws from g = ω/2Ω + ω·a/2Σωa."""
        assert self.by_cost is not None
        assert self.pivot is not None
        first = _SlotDraws.of(self.by_weight, 0, u)
        chosen = first + _SlotDraws.of(self.by_cost, 0, self.size - u)
        a = distances_to(chosen.points, self.pivot, self.geometry)
        q = 0.5 / summary.weight + 0.5 * a / self.cost
        return chosen.draws(1.0 / (self.size * q), summary)

    def _around_mean(
        self, summary: Summary, u: int, rejection: Rejection, rng: np.random.Generator
    ) -> Draws:
        """u draws by weight, and v by cost: the accepted ones of the proposals."""
        assert self.pivot is not None
        assert summary.mean is not None
        assert summary.cost
        proposed = self._proposals(u, rejection, summary.weight, rng)
        order = rng.permutation(len(proposed.rows))
        a = distances_to(proposed.points, self.pivot, self.geometry)[order]
        d = distances_to(proposed.points, summary.mean, self.geometry)[order]
        bounds = rejection.scale * a + rejection.floor
        accepted = order[rng.random(len(order)) * bounds < d][: self.size - u]
        chosen = _SlotDraws.of(self.by_weight, 0, u) + proposed.at(accepted)
        distances = distances_to(chosen.points, summary.mean, self.geometry)
        v = len(accepted)
        return chosen.draws(1.0 / (u / summary.weight + v * distances / summary.cost), summary)

    def _proposals(
        self, u: int, rejection: Rejection, weight: float, rng: np.random.Generator
    ) -> _SlotDraws:
        """Draws in proportion to ω·h: by ω from the slots after the first u, the others by ω·a.

        Their number is such that neither reservoir can run out.
        """
        assert self.by_cost is not None
        proposals = self.by_weight.slots - u
        floor = rejection.floor * weight
        flat = floor / (floor + rejection.scale * self.cost)
        from_weight = int(rng.binomial(proposals, flat))
        first = _SlotDraws.of(self.by_weight, u, u + from_weight)
        return first + _SlotDraws.of(self.by_cost, 0, proposals - from_weight)


@dataclass(frozen=True, slots=True)
class _SlotDraws:
    """Draws from the slots of reservoirs, with repetitions."""

    points: Rows
    rows: IntArray

    @classmethod
    def of(cls, reservoir: Reservoir, start: int, stop: int) -> _SlotDraws:
        """The draws in the slots start … stop."""
        assert reservoir.points is not None
        assert reservoir.rows is not None
        return cls(reservoir.points[start:stop], reservoir.rows[start:stop])

    def at(self, which: IntArray) -> _SlotDraws:
        """Some of the draws."""
        return _SlotDraws(self.points[which], self.rows[which])

    def __add__(self, other: _SlotDraws) -> _SlotDraws:
        return _SlotDraws(
            stack([self.points, other.points]), np.concatenate([self.rows, other.rows])
        )

    def draws(self, weights: FloatArray, summary: Summary) -> Draws:
        """Merge repeated rows; every draw has one of `weights`."""
        rows, first, group, counts = np.unique(
            self.rows, return_index=True, return_inverse=True, return_counts=True
        )
        totals: FloatArray = np.bincount(group, weights).astype(np.float64)
        return Draws(self.points[first], rows, counts.astype(np.int64), totals, summary)


def draw_in_one_pass(
    source: SequenceSource, size: int, run: Run, *, uniform: bool = False
) -> Draws:
    """Draw from rows in order, in one pass over them."""
    state = OnePass.of(size, run, uniform=uniform)
    threads = as_threads(run.n_jobs)
    flight = source.block_flight(threads)
    blocks = prefetch(source.pending(), flight.ahead)
    with source.explaining(), closing(blocks):
        step = base.block_rows(source.n_features)
        results = _scanned(state, blocks, threads, flight.at_once)
        for scanned in watched_blocks(results, source, run.journal, "reading", step):
            state.update(scanned)
    return state.finish()


def _scanned(
    state: OnePass, pending: Iterator[Pending], threads: int, at_once: int
) -> Iterator[ScannedBlock]:
    """Scan blocks in order: one after the other until there is a pivot, then on threads."""
    for each in pending:
        block = each.block()
        state.start(block)
        yield state.scan(block, each.first_of_all)
        if state.pivot is not None or state.by_cost is None:
            break
    yield from ordered_map(
        lambda each: state.scan(each.block(), each.first_of_all), pending, threads, at_once
    )
