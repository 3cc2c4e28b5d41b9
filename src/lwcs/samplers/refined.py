"""Refined coresets: a lightweight coreset's solution as the rough one of a sensitivity coreset.

k-means on a small lightweight coreset takes the place of k passes of D² sampling: one pass of
matrix products measures every row against that solution, then rows are drawn by sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import check_count
from lwcs.foundation.randomness import Stage
from lwcs.samplers.lightweight import Lightweight
from lwcs.samplers.rough import Rough, assign
from lwcs.samplers.sensitivity import check_clusters, check_passes, draw_by_sensitivity, needed
from lwcs.solvers.kmeans import solve
from lwcs.solvers.points import Points
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    from lwcs.divergences import Divergence, Measure
    from lwcs.samplers.base import Draws, Run
    from lwcs.sources import Source

PILOT_DRAWS = 10
PILOT_ROUNDS = 5


@dataclass(frozen=True)
class Refined:
    """A sensitivity coreset without D² sampling of all rows.

    Parameters
    ----------
    n_clusters : int, optional
        Clusters of the rough solution; by default as many as `build` is told.
    pilot_size : int, optional
        Draws of the lightweight coreset that is solved first; 10 a cluster by default.
    """

    n_clusters: int | None = None
    pilot_size: int | None = None
    name = "refined"

    def __post_init__(self) -> None:
        check_clusters(self.n_clusters)
        if self.pilot_size is not None:
            check_count(self.pilot_size, "pilot_size")

    def passes(self, source: Source, divergence: Divergence) -> int:
        """The lightweight coreset's, and one; two where no row is kept in memory."""
        own = 1 if isinstance(source, LocalSource) else 2
        return Lightweight().passes(source, divergence) + own

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Solve a pilot, measure all rows against it, draw m by their sensitivities."""
        k = needed(self.n_clusters, self.name)
        check_passes(source, passes, self.passes(source, run.divergence), self.name)
        # Rows are gone over for every cluster: compiled kernels pay much earlier.
        run = replace(run, kernel=kernels.choose(source.n_values * k))
        lightweight, draws = Lightweight(), self.pilot_size or PILOT_DRAWS * k
        own = lightweight.passes(source, run.divergence)
        pilot = lightweight.draw(source, draws, own, replace(run, stage=Stage.PILOT))
        measure = pilot.summary.measure(run.divergence)
        points = Points.of(pilot.points, pilot.weights, measure, run.kernel)
        # Rough is enough: greedy seeding, or rounds to the end, cost more than they gave.
        found = solve(
            points,
            k,
            init="plain-k-means++",
            max_iter=PILOT_ROUNDS,
            seed=run.seed,
            stage=Stage.PILOT_SEEDING,
            n_jobs=run.n_jobs,
        )
        centers = found.centers * points.unit + points.origin
        if isinstance(source, LocalSource):
            rough = assign(source, centers, measure, run)
        else:
            rough = Rough(centers, measure)
        noise = _noise(pilot, measure)
        return draw_by_sensitivity(source, rough, k, size, pilot.summary, run, noise)


def _noise(pilot: Draws, measure: Measure) -> float:
    """What rows that lie on their center still cost, since a center is a rounded mean."""
    known, dtype = pilot.summary, pilot.points.dtype
    assert known.mean is not None
    assert known.cost is not None
    if not measure.squared:
        return measure.noise(known.mean, known.weight, known.rows)
    precision = np.finfo(np.float32 if dtype == np.float32 else np.float64).eps
    mean = known.mean if known.scale is None else known.mean / known.scale
    return float((8.0 * precision) ** 2 * (known.cost + known.weight * float(mean @ mean)))
