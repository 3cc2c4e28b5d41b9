"""Refined coresets: a lightweight coreset's solution as the initial one of a sensitivity coreset.

k-means on a small lightweight coreset takes the place of k passes of D² sampling: one pass of
matrix products measures every row against that solution, then rows are drawn by sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lwcs.foundation.checks import check_count
from lwcs.foundation.randomness import Stage
from lwcs.samplers.around_centers import Assignment, assign
from lwcs.samplers.around_mean import MeanDraw
from lwcs.samplers.base import Sampler
from lwcs.samplers.by_sensitivity import check_n_clusters, draw_by_sensitivity, require_n_clusters
from lwcs.samplers.first_pass import check_passes
from lwcs.solvers.kmeans import solve
from lwcs.solvers.points import Points
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    from lwcs.geometry import Geometry
    from lwcs.samplers.base import Draws, Run
    from lwcs.sources import Source

PILOT_DRAWS = 10
PILOT_ITERATIONS = 5


@dataclass(frozen=True)
class Refined(Sampler):
    """A sensitivity coreset without D² sampling of all rows.

    Parameters
    ----------
    n_clusters : int, optional
        Clusters of the initial solution; by default the `n_clusters` of `build`.
    pilot_size : int, optional
        Draws of the lightweight coreset that is solved first; 10 per cluster by default.
    """

    n_clusters: int | None = None
    pilot_size: int | None = None
    name = "refined"
    solves_first = True

    def __post_init__(self) -> None:
        check_n_clusters(self.n_clusters)
        if self.pilot_size is not None:
            check_count(self.pilot_size, "pilot_size")

    def passes(self, source: Source, geometry: Geometry) -> int:
        """The lightweight coreset's, and one; two where no row is kept in memory."""
        own = 1 if isinstance(source, LocalSource) else 2
        return MeanDraw().passes(source, geometry) + own

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Solve a pilot, measure all rows against it, draw m by their sensitivities."""
        k = require_n_clusters(self.n_clusters, self.name)
        check_passes(source, passes, self.passes(source, run.geometry), f"method={self.name!r}")
        run, pilot_draw = run.for_clusters(source, k), MeanDraw()
        pilot = pilot_draw.draw(
            source,
            self.pilot_size or PILOT_DRAWS * k,
            pilot_draw.passes(source, run.geometry),
            replace(run, stage=Stage.PILOT),
            self.name,
        )
        known, geometry = pilot.summary, pilot.summary.geometry(run.geometry)
        # Rough is enough: greedy seeding, or iterating to convergence, cost more than they gave.
        found = solve(
            Points.of(pilot.points, pilot.weights, geometry),
            k,
            init="plain-k-means++",
            max_iter=PILOT_ITERATIONS,
            seed=run.seed,
            stage=Stage.PILOT_SEEDING,
            n_jobs=run.n_jobs,
        )
        if isinstance(source, LocalSource):
            assignment = assign(source, found.centers, run)
        else:
            assignment = Assignment(found.centers)
        noise = geometry.noise(known.weight, known.rows, known.cost or 0.0, pilot.points.dtype)
        return draw_by_sensitivity(source, assignment, k, size, known, run, noise)
