"""Lightweight coresets (Algorithm 1): half of the draws by weight, half by distance to the mean.

q(x) = ω/2Ω + ω·d(x, mean)/2Φ, m draws with replacement, weight ω/(m·q) each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Literal

import numpy as np

from lwcs.divergences.seen import Quadratic
from lwcs.foundation.checks import check_choice
from lwcs.foundation.randomness import Round
from lwcs.kernels import Pivot
from lwcs.samplers.base import (
    Draws,
    FirstRound,
    Run,
    Summary,
    by_squared_distance,
    check_passes_possible,
    hindrance_to_one_read,
    summary_of,
)
from lwcs.samplers.one_pass import draw_in_one_pass
from lwcs.samplers.one_read import draw_in_one_read
from lwcs.samplers.rough import Rough, assign
from lwcs.samplers.sensitivity import Sensitivities, check_passes, draw_weighed, look, weigh
from lwcs.samplers.two_rounds import (
    Picked,
    SecondRound,
    allocate,
    allocate_strata,
    merge,
)
from lwcs.sources import LocalSource
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray
    from lwcs.sources import Source


@dataclass(frozen=True)
class Lightweight:
    """The paper's sampler.

    Parameters
    ----------
    draws : {"iid", "stratified"}
        Independent draws, as in Theorem 2, or one in each of m equal strata of q: as
        unbiased, with no larger variance at any fixed centers, but outside the theorem's proof.
        Stratified draws take two passes.
    distance : {"divergence", "mahalanobis"}
        What q is made of if clusters are measured by a divergence: that one, d_φ(x, mean), which
        takes a second pass and a third where rows are not kept in memory; or the paper's
        squared distance d_A, A = a·I, which it does not exceed, drawn as for k-means. Rows
        that come only once are always drawn by the latter.
    """

    draws: Literal["iid", "stratified"] = "iid"
    distance: Literal["divergence", "mahalanobis"] = "divergence"

    @property
    def name(self) -> str:
        """As it stands in the metadata of a coreset."""
        return "lightweight" if self.draws == "iid" else f"lightweight, {self.draws}"

    def __post_init__(self) -> None:
        check_choice(self.draws, "draws", ("iid", "stratified"))
        check_choice(self.distance, "distance", ("divergence", "mahalanobis"))

    def passes(self, source: Source, divergence: Divergence) -> int:
        """One where rows can be fetched by number or come only once, else two.

        For the distance by a divergence to a mean, two of rows in memory, three of others.
        """
        if self._by_divergence(source, divergence):
            return 2 if isinstance(source, LocalSource) else 3
        if self._hindrance(source) is not None:
            return 2
        return 1 if source.can_take or not source.rereadable else 2

    def _by_divergence(self, source: Source, divergence: Divergence) -> bool:
        """Whether the mean must be known before anything can be measured."""
        return not divergence.squared and self.distance == "divergence" and source.rereadable

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows from q and weight them."""
        if self._by_divergence(source, run.divergence):
            check_passes(source, passes, self.passes(source, run.divergence), self.name)
            return self._draw_by_divergence(source, size, run)
        if not run.divergence.squared:
            squared = replace(run, divergence=Quadratic(run.divergence))
            return by_squared_distance(self.draw(source, size, passes, squared), run.divergence)
        check_passes_possible(source, passes, self._hindrance(source))
        if passes == 1 and isinstance(source, SequenceSource):
            return draw_in_one_pass(source, size, run)
        if passes == 1 and isinstance(source, LocalSource):
            picked, summary = draw_in_one_read(source, size, run)
        else:
            picked, summary = self._draw_in_two_rounds(source, size, run)
        weights = picked.counts * coreset_weights(picked.values, size, summary)
        return Draws(picked.points, picked.rows, picked.counts, weights, summary)

    def _hindrance(self, source: Source) -> str | None:
        if self.draws != "iid":
            return f"with draws={self.draws!r}"
        return hindrance_to_one_read(source)

    def _draw_by_divergence(self, source: Source, size: int, run: Run) -> Draws:
        """Q ∝ ω·(1 + d/average): sensitivities around a rough solution that is the mean."""
        known = look(source, run)
        assert known.mean is not None
        measure = known.measure(run.divergence)
        rough = Rough(known.mean[None, :], measure)
        if isinstance(source, LocalSource):
            rough = assign(source, rough.centers, measure, run)
        weighed = weigh(source, rough, run)
        cost = float(sum(part.costs[0] for part in weighed))
        if cost <= measure.noise(known.mean, known.weight, known.rows):
            cost = 0.0
        scores = Sensitivities(known.weight / cost if cost else 0.0, np.ones(1))
        known, strata = replace(known, cost=cost), self.draws == "stratified"
        return draw_weighed(source, rough, weighed, scores, size, known, run, stratified=strata)

    def _draw_in_two_rounds(self, source: Source, size: int, run: Run) -> tuple[Picked, Summary]:
        first = FirstRound(run.kernel, source.n_features, run.measure)
        moments = list(run.gather(source, first, "first pass"))
        known = summary_of(reduce(add, moments), source, run.divergence)
        assert known.mean is not None
        assert known.cost is not None
        pivot = Pivot(known.mean, known.measure(run.divergence).precision)
        costs = [part.cost_around(known.mean, pivot.precision) for part in moments]
        share = allocate if self.draws == "iid" else allocate_strata
        quotas = share(size, [m.weight for m in moments], costs, run.generator(Round.PLAN))
        average = known.cost / known.weight
        second = SecondRound(run.seed, run.stage, run.kernel, pivot, average, run.measure)
        offsets = np.cumsum([0, *(part.rows for part in moments[:-1])])
        picked = merge(run.gather(source, second, "second pass", quotas), offsets)
        return picked, known


def coreset_weights(distances: FloatArray, size: int, summary: Summary) -> FloatArray:
    """ω/(m·q) of rows by their distance to the mean; ω cancels. With Φ = 0, q = ω/Ω."""
    if not summary.cost:
        return np.full(len(distances), summary.weight / size)
    weights: FloatArray = 1.0 / (size * (0.5 / summary.weight + 0.5 * distances / summary.cost))
    return weights
