"""Lightweight coresets (Algorithm 1): rows drawn around their mean, half by weight, half by cost.

q(x) = ω/2Ω + ω·d(x, mean)/2Φ, m draws with replacement, weight ω/(m·q) each. For squared distances
there are three ways to draw from exactly this q: one read of rows that can be fetched by number
(`one_read`), one pass with reservoirs over rows in order (`one_pass`), or the two rounds of the
paper. Stratified draws always take two rounds, since the rejection of the others would undo the
strata.

For a divergence, the mean must be known before any distance, since rows are smoothed towards it:
rows are drawn around the mean as the only center, with a pass for the mean, one for Φ and one for
the draws (rows in memory keep their distances and need no third pass). Rows that can be read only
once are drawn by the squared distance that bounds the divergence, as in the paper: rejection from a
pivot needs squared distances. The coreset is then measured by its divergence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import check_choice
from lwcs.divergences.transformed import SquaredBound
from lwcs.geometry import Centers, Geometry
from lwcs.runtime.randomness import Round, Stage, generator
from lwcs.samplers import two_rounds
from lwcs.samplers.around_centers import Assignment, Scores, assign, draw_around_centers, weigh
from lwcs.samplers.first_pass import (
    check_passes,
    check_passes_possible,
    first_pass,
    moments_of,
    refuse_underflow,
    summary_of,
    why_not_one_pass,
    without_rounding,
)
from lwcs.samplers.one_read import draw_in_one_read
from lwcs.samplers.sampler import Draws, Run, Sampler, Summary
from lwcs.samplers.two_rounds import Picked, Quota
from lwcs.sources import LocalSource
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.sources import Block, Source


@dataclass(frozen=True)
class Lightweight(Sampler):
    """The paper's sampler: q(x) = ω/2Ω + ω·d(x, mean)/2Φ.

    Parameters
    ----------
    draws : {"iid", "stratified"}, default="iid"
        Independent draws, as in Theorem 2, or one draw in each of m equal strata of q. The latter
        are unbiased too, and their variance is no larger for any fixed centers, but the proof of
        the theorem does not cover them. Stratified draws take two passes.
    distance : {"divergence", "sqeuclidean"}, default="divergence"
        Distance that rows are sampled by, if clusters are measured by a divergence: the
        divergence d_φ(x, mean) itself, which takes one more pass, and two more for rows that are
        not in memory; or the paper's squared distance d_A = a·‖x − mean‖², which bounds it. Rows
        that can be read only once are always sampled by the latter.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_normal((10_000, 3))
    >>> lwcs.build(X, 500, method=lwcs.Lightweight(draws="stratified"), random_state=0)
    Coreset(494 rows × 3, 500 draws by lightweight, stratified, of 10,000 rows)
    """

    draws: Literal["iid", "stratified"] = "iid"
    distance: Literal["divergence", "sqeuclidean"] = "divergence"
    name = "lightweight"

    def __post_init__(self) -> None:
        check_choice(self.draws, "draws", ("iid", "stratified"))
        check_choice(self.distance, "distance", ("divergence", "sqeuclidean"))

    @property
    def label(self) -> str:
        """The name in the metadata of a coreset (`Coreset.method`)."""
        return self.name if self.draws == "iid" else f"{self.name}, {self.draws}"

    def passes(self, source: Source, geometry: Geometry) -> int:
        """One where rows can be fetched by number or be read only once, else two.

        By a divergence, two passes over rows in memory and three over others.
        """
        if self._by_divergence(source, geometry):
            return 2 if isinstance(source, LocalSource) else 3
        if self._why_not_one_pass(source) is not None:
            return 2
        return 1 if source.can_take or not source.rereadable else 2

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows from q and weight them."""
        if self._by_divergence(source, run.geometry):
            how = f"method={self.name!r} with divergence={run.geometry.divergence.name!r}"
            check_passes(source, passes, self.passes(source, run.geometry), how)
            return self._draw_by_divergence(source, size, run)
        if not run.geometry.cost_follows_from_moments:
            squared = replace(run, geometry=squared_bound(run.geometry))
            return drawn_by_squared_distance(self.draw(source, size, passes, squared))
        check_passes_possible(source, passes, self._why_not_one_pass(source))
        if passes == 1 and isinstance(source, SequenceSource):
            from lwcs.samplers.one_pass import draw_in_one_pass

            return draw_in_one_pass(source, size, run)
        if passes == 1 and isinstance(source, LocalSource):
            picked, summary = draw_in_one_read(source, size, run)
        else:
            picked, summary = self._draw_in_two_rounds(source, size, run)
        weights = picked.counts * coreset_weights(picked.values, size, summary)
        return Draws(picked.points, picked.rows, picked.counts, weights, summary)

    def _by_divergence(self, source: Source, geometry: Geometry) -> bool:
        """Whether rows are drawn by a divergence, for which the mean must be known first."""
        if geometry.cost_follows_from_moments or self.distance == "sqeuclidean":
            return False
        return source.rereadable

    def _why_not_one_pass(self, source: Source) -> str | None:
        return "with draws='stratified'" if self._stratified else why_not_one_pass(source)

    @property
    def _stratified(self) -> bool:
        return self.draws == "stratified"

    def _draw_by_divergence(self, source: Source, size: int, run: Run) -> Draws:
        """Draw from q ∝ ω·(1 + d/average), with the mean as the only center."""
        summary = first_pass(source, run)
        assert summary.mean is not None
        geometry = summary.geometry(run.geometry)
        around = Assignment(Centers(summary.mean[None, :], geometry))
        if isinstance(source, LocalSource):
            around = assign(source, around.centers, run)
        totals = weigh(source, around, run)
        total = float(sum(part.costs[0] for part in totals))
        cost = without_rounding(total, geometry, summary)
        scores = Scores(summary.weight / cost if cost else 0.0, np.ones(1))
        draws = draw_around_centers(
            source, around, totals, scores, size, summary, run, stratified=self._stratified
        )
        refuse_underflow(total, geometry, summary, draws.points)
        return replace(draws, summary=replace(summary, cost=cost))

    def _draw_in_two_rounds(self, source: Source, size: int, run: Run) -> tuple[Picked, Summary]:
        moments = moments_of(source, run)
        summary = summary_of(moments, source, run.geometry)
        assert summary.mean is not None
        assert summary.cost is not None
        geometry = summary.geometry(run.geometry)
        costs = [part.cost_around(summary.mean, geometry.precision) for part in moments]
        share = two_rounds.allocate_strata if self._stratified else two_rounds.allocate
        quotas = share(size, [[m.weight for m in moments], costs], run.generator(Round.PLAN))
        task = MeanDrawTask(run.seed, run.stage, geometry, summary.cost / summary.weight)
        drawn = run.gather(source, task, "second pass", quotas)
        return two_rounds.merge(drawn, [part.rows for part in moments]), summary


@dataclass(frozen=True, slots=True)
class MeanDrawTask:
    """Round two: u rows in proportion to weight, v in proportion to weight·distance.

    A partition gets u + v and draws u itself, from a binomial. A multinomial over the two halves of
    all partitions is one over partitions, followed by a binomial in each, so that a quota of three
    numbers is enough.
    """

    seed: int
    stage: Stage
    geometry: Geometry = field(default_factory=Geometry)
    """How rows are measured; without a mean, all rows are drawn by weight."""
    average: float = 0.0
    """Φ/Ω."""

    def __call__(self, blocks: Iterator[Block], quota: Quota) -> list[Picked]:
        """Draw this partition's quota in one scan."""
        if not quota.draws:
            return []
        weight, cost = quota.totals
        totals = (two_rounds.Total(weight), two_rounds.Total(cost, weight * self._rounding()))
        return two_rounds.draw_along(blocks, self._targets(quota), totals, self._masses_of)

    def _rounding(self) -> float:
        """Bound of the rounding error of a squared distance to a mean far from the origin."""
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
        rows.kernels.scan(rows.values, block.weights, rows.pivot(self.geometry.mean), distances)
        return distances, (omega, distances if block.weights is None else omega * distances)


def coreset_weights(distances: FloatArray, size: int, summary: Summary) -> FloatArray:
    """ω/(m·q) of rows by their distance to the mean; ω cancels. With Φ = 0, q = ω/Ω."""
    if not summary.cost:
        return np.full(len(distances), summary.weight / size)
    weights: FloatArray = 1.0 / (size * (0.5 / summary.weight + 0.5 * distances / summary.cost))
    return weights


def squared_bound(geometry: Geometry) -> Geometry:
    """The squared distance that bounds a divergence: d_A of the paper, with A = a·I."""
    if geometry.cost_follows_from_moments:
        return geometry
    return replace(geometry, divergence=SquaredBound(geometry.divergence))


def drawn_by_squared_distance(draws: Draws) -> Draws:
    """Record that Φ is that of the squared distance by which rows were drawn."""
    summary = draws.summary
    details = {**draws.details, "distance": "sqeuclidean", "squared_cost": summary.cost}
    return replace(draws, summary=replace(summary, cost=None), details=details)
