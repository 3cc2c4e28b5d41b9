"""Draws around centers that are there: by sensitivity, in one more pass over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

from lwcs.coreset.coreset import Coreset
from lwcs.runtime.journal import TIMINGS
from lwcs.samplers import Refined, Run
from lwcs.samplers.around_centers import Assignment, assign, draw_by_sensitivity, weigh
from lwcs.samplers.sampler import Summary
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import DenseRows
    from lwcs.coreset.building import BuildContext
    from lwcs.geometry import Geometry
    from lwcs.samplers.around_centers import ClusterTotals
    from lwcs.sizing.levels import SolverParams


@dataclass(frozen=True, slots=True)
class Around:
    """Centers, and the coreset whose solution they are."""

    coreset: Coreset
    geometry: Geometry
    centers: DenseRows
    """In the units of the data."""
    weighed: Sequence[ClusterTotals] | None = None
    """The clusters of every partition, where a pass has weighed them."""


def draw_around(
    context: BuildContext, around: Around, size: int, seed: int, params: SolverParams
) -> tuple[Coreset, float]:
    """Draw rows by sensitivity around centers; return them, and the cost on all rows there."""
    source, before, geometry = context.source, around.coreset, around.geometry
    journal = params.journal.part()
    run, centers = Run(seed, geometry, params.n_jobs, journal), geometry.own_centers(around.centers)
    if isinstance(source, LocalSource):
        assignment = assign(source, centers, run)
    else:
        assignment = Assignment(centers)
    weighed = weigh(source, assignment, run) if around.weighed is None else around.weighed
    known = Summary(
        before.n_samples, before.total_weight, geometry.mean, before.total_cost, before.scale
    )
    noise = 0.0
    if geometry.mean is not None and known.cost is not None:
        noise = geometry.noise(known.weight, known.rows, known.cost, before.host_points.dtype)
    draws = draw_by_sensitivity(source, assignment, params.k, size, known, run, noise, weighed)
    drawn = Coreset.drawn(
        draws,
        source.like,
        method=Refined.name,
        divergence=before.divergence,
        seed=seed,
        feature_names=before.feature_names,
        details={**before.details, TIMINGS: journal.timings()},
    )
    return drawn, fsum(float(part.costs.sum()) for part in weighed)
