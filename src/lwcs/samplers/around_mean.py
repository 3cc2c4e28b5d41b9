"""Drawing rows around their mean (Algorithm 1): half by weight, half by distance to the mean.

q(x) = ω/2Ω + ω·d(x, mean)/2Φ, m draws with replacement, weight ω/(m·q) each. For squared
distances by one read, one pass with reservoirs, or two rounds; for other divergences around the
mean as the only center, since smoothing needs the mean before any distance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.divergences.transformed import SquaredBound
from lwcs.geometry import Centers, Geometry
from lwcs.runtime.randomness import Round, Stage, generator
from lwcs.samplers.around_centers import Assignment, Scores, assign, draw_around_centers, weigh
from lwcs.samplers.first_pass import (
    check_passes,
    check_passes_possible,
    first_pass,
    moments_of,
    refuse_underflow,
    summarise,
    why_not_one_pass,
    without_rounding,
)
from lwcs.samplers.one_pass import draw_in_one_pass
from lwcs.samplers.one_read import draw_in_one_read
from lwcs.samplers.sampler import Draws, Run, Summary
from lwcs.samplers.two_rounds import (
    Picked,
    Quota,
    Total,
    allocate,
    allocate_strata,
    draw_along,
    merge,
    rows_before,
)
from lwcs.sources import LocalSource
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.sources import Block, Source


@dataclass(frozen=True, slots=True)
class MeanDraw:
    """How rows are drawn around the mean."""

    stratified: bool = False
    by_squared_distance: bool = False
    """Whether rows are drawn by squared distances though they are measured by a divergence."""

    def passes(self, source: Source, geometry: Geometry) -> int:
        """One where rows can be fetched by number or be read only once, else two.

        By a divergence, two passes over rows in memory and three over others.
        """
        if self._by_divergence(source, geometry):
            return 2 if isinstance(source, LocalSource) else 3
        if self._why_not_one(source) is not None:
            return 2
        return 1 if source.can_take or not source.rereadable else 2

    def draw(self, source: Source, size: int, passes: int, run: Run, name: str) -> Draws:
        """Draw m rows from q and weight them."""
        if self._by_divergence(source, run.geometry):
            how = f"method={name!r} with divergence={run.geometry.divergence.name!r}"
            check_passes(source, passes, self.passes(source, run.geometry), how)
            return self._draw_by_divergence(source, size, run)
        if not run.geometry.cost_follows_from_moments:
            squared = replace(run, geometry=squared_bound(run.geometry))
            return drawn_by_squared_distance(self.draw(source, size, passes, squared, name))
        check_passes_possible(source, passes, self._why_not_one(source))
        if passes == 1 and isinstance(source, SequenceSource):
            return draw_in_one_pass(source, size, run)
        if passes == 1 and isinstance(source, LocalSource):
            picked, summary = draw_in_one_read(source, size, run)
        else:
            picked, summary = self._draw_in_two_rounds(source, size, run)
        weights = picked.counts * coreset_weights(picked.values, size, summary)
        return Draws(picked.points, picked.rows, picked.counts, weights, summary)

    def _by_divergence(self, source: Source, geometry: Geometry) -> bool:
        """Whether the mean must be known before anything can be measured."""
        if geometry.cost_follows_from_moments or self.by_squared_distance:
            return False
        return source.rereadable

    def _why_not_one(self, source: Source) -> str | None:
        return "with draws='stratified'" if self.stratified else why_not_one_pass(source)

    def _draw_by_divergence(self, source: Source, size: int, run: Run) -> Draws:
        """q ∝ ω·(1 + d/average)."""
        known = first_pass(source, run)
        assert known.mean is not None
        geometry = known.geometry(run.geometry)
        around = Assignment(Centers(known.mean[None, :], geometry))
        if isinstance(source, LocalSource):
            around = assign(source, around.centers, run)
        weighed = weigh(source, around, run)
        total = float(sum(part.costs[0] for part in weighed))
        cost = without_rounding(total, geometry, known)
        scores = Scores(known.weight / cost if cost else 0.0, np.ones(1))
        draws = draw_around_centers(
            source, around, weighed, scores, size, known, run, stratified=self.stratified
        )
        refuse_underflow(total, geometry, known, draws.points)
        return replace(draws, summary=replace(known, cost=cost))

    def _draw_in_two_rounds(self, source: Source, size: int, run: Run) -> tuple[Picked, Summary]:
        moments = moments_of(source, run)
        known = summarise(moments, source, run.geometry)
        assert known.mean is not None
        assert known.cost is not None
        geometry = known.geometry(run.geometry)
        costs = [part.cost_around(known.mean, geometry.precision) for part in moments]
        share = allocate_strata if self.stratified else allocate
        quotas = share(size, [[m.weight for m in moments], costs], run.generator(Round.PLAN))
        task = MeanDrawTask(run.seed, run.stage, geometry, known.cost / known.weight)
        drawn = run.gather(source, task, "second pass", quotas)
        return merge(drawn, rows_before([part.rows for part in moments])), known


@dataclass(frozen=True, slots=True)
class MeanDrawTask:
    """Round two: u rows in proportion to weight, v in proportion to weight·distance.

    A partition is told u + v, and tosses u itself, by a binomial.
    """

    seed: int
    stage: Stage
    geometry: Geometry = field(default_factory=Geometry)
    """With the mean; without one, all rows are drawn by weight."""
    average: float = 0.0
    """Φ/Ω."""

    def __call__(self, blocks: Iterator[Block], quota: Quota) -> list[Picked]:
        """Draw this partition's quota in one scan."""
        if not quota.draws:
            return []
        weight, cost = quota.totals
        totals = (Total(weight), Total(cost, weight * self._rounding()))
        return draw_along(blocks, self._targets(quota), totals, self._masses_of)

    def _rounding(self) -> float:
        """What a squared distance to a mean far from the origin may be off by."""
        point, precision = self.geometry.mean, self.geometry.precision
        if point is None:
            return 0.0
        return float(1e-12 * np.sum(point**2 if precision is None else precision * point**2))

    def _targets(self, quota: Quota) -> tuple[FloatArray, ...]:
        if quota.strata is not None:
            return quota.strata
        rng = generator(self.seed, self.stage, Round.DRAW, quota.partition)
        weight, total = quota.totals
        # Ω_i/2Ω against φ_i/2Φ; without any cost, all draws are by weight.
        cost = total / self.average if self.average > 0.0 else 0.0
        by_weight = int(rng.binomial(quota.draws, weight / (weight + cost)))
        return (
            np.sort(rng.random(by_weight)) * weight,
            np.sort(rng.random(quota.draws - by_weight)) * total,
        )

    def _masses_of(self, block: Block) -> tuple[FloatArray, Sequence[FloatArray]]:
        omega = kernels.unit_weights(block.weights, block.points.shape[0])
        if self.geometry.mean is None:
            distances = np.zeros(block.points.shape[0])
            return distances, (omega, distances)
        distances = np.empty(block.points.shape[0])
        rows = self.geometry.measured(block.points)
        rows.scan(block.weights, rows.pivot(self.geometry.mean), distances)
        return distances, (omega, distances if block.weights is None else omega * distances)


def coreset_weights(distances: FloatArray, size: int, summary: Summary) -> FloatArray:
    """ω/(m·q) of rows by their distance to the mean; ω cancels. With Φ = 0, q = ω/Ω."""
    if not summary.cost:
        return np.full(len(distances), summary.weight / size)
    weights: FloatArray = 1.0 / (size * (0.5 / summary.weight + 0.5 * distances / summary.cost))
    return weights


def squared_bound(geometry: Geometry) -> Geometry:
    """Squared distances of rows as a divergence transforms them: d_A of the paper, A = a·I."""
    if geometry.cost_follows_from_moments:
        return geometry
    return replace(geometry, divergence=SquaredBound(geometry.divergence))


def drawn_by_squared_distance(draws: Draws) -> Draws:
    """Say that Φ is of the squared distance that rows were drawn by, not of the divergence."""
    known = draws.summary
    details = {**draws.details, "distance": "sqeuclidean", "squared_cost": known.cost}
    return replace(draws, summary=replace(known, cost=None), details=details)
