"""A coreset, clustered: on one level as in the paper, or coarse to fine with a referee."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lwcs.choosing.levels import (
    Climbed,
    How,
    Limits,
    Sample,
    climb,
    level_sizes,
    search_level,
    solve_level,
)
from lwcs.coreset import explaining_points
from lwcs.foundation.parallel import workers
from lwcs.foundation.randomness import Stage, generator
from lwcs.foundation.splits import deal, part_of
from lwcs.solvers.kmeans import cluster, precisely
from lwcs.solvers.points import Points
from lwcs.trust.referee import NONE, UNKNOWN, Price, SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.coreset import ComputedAs, Coreset
    from lwcs.foundation.types import DenseRows
    from lwcs.geometry import Geometry
    from lwcs.solvers.lloyd import Clustering

TOL = 1e-4
# The last level ends where an iteration gains less than this part of the sampling error: there is
# no point in solving a sample that is off by 2 % to the fourth digit. To know the error to a
# quarter of the target is enough for that.
_GAIN_OF_ERROR, _PART_OF_TARGET = 0.2, 0.25
# Problems of fewer products per iteration than this are solved until they converge.
_CHEAP = 2**26


@dataclass(frozen=True, slots=True)
class Solution:
    """What was found on a coreset, and how far it is off as far as the coreset can tell."""

    coreset: Coreset
    geometry: Geometry
    found: Clustering
    own: Price
    """The cost on the draws that were clustered."""
    error: SamplingError

    @property
    def centers(self) -> DenseRows:
        """In the units and the dtype of the data."""
        dtype: Any = self.geometry.center_dtype(self.coreset.rows.dtype)
        return self.geometry.to_data(self.found.centers).astype(dtype)


def solve_on_one_level(
    coreset: Coreset, computed_as: ComputedAs, how: How, holdout: float = 0.0
) -> Solution:
    """Cluster all draws, as in the paper; or all but some that are held back as a referee."""
    geometry, held = coreset.geometry(computed_as), None
    points, weights, counts = coreset.rows, coreset.omega, coreset.counts
    if holdout and not coreset.exact:
        size = coreset.size - max(1, round(holdout * coreset.size))
        kept = deal(counts, [size], generator(how.seed, Stage.LEVELS))[0]
        part, held = part_of(weights, counts, kept), part_of(weights, counts, counts - kept)
        if len(part.at) < how.k:
            raise ValueError(
                f"holdout={holdout:g} leaves {len(part.at)} distinct rows of the coreset for "
                f"n_clusters={how.k}; pass a smaller holdout, or a larger coreset"
            )
        points, weights, counts = points[part.at], part.weights, part.counts
    with explaining_points(coreset):
        found = cluster(
            points,
            weights,
            geometry,
            how.k,
            init="k-means++" if how.chooses_init else how.init,
            n_init=how.n_init or 1,
            max_iter=how.max_iter,
            tol=TOL if how.tol is None else how.tol,
            seed=how.seed,
            n_jobs=how.n_jobs,
            journal=how.journal,
        )
    own = Price.on_draws(weights, counts, found.distances)
    error = NONE if coreset.exact else UNKNOWN
    if held is not None:
        others = Points.of(coreset.rows[held.at], held.weights, geometry)
        with workers(how.n_jobs) as run:
            sample = Sample(others, held.counts)
            other = sample.price(sample.distances(found.centers, run))
        error = SamplingError.of(own, other)
    return Solution(coreset, geometry, found, own, error)


def climb_coreset(
    draws: Coreset, computed_as: ComputedAs, how: How, present: Sequence[DenseRows] = ()
) -> Climbed:
    """Solve the inner levels of a coreset; `present` are centers that may be good already."""
    geometry = draws.geometry(computed_as)
    # All rows are no draws: some of them, chosen at random, may lack what matters.
    sizes = [] if draws.exact else level_sizes(draws.size, how.k)

    def levels(points: Points) -> Climbed:
        own = points.rows.geometry
        starts = [own.own_centers(centers) for centers in present]
        return climb(Sample(points, draws.counts), sizes, how, starts)

    with explaining_points(draws):
        climbed = precisely(draws.rows, draws.omega, geometry, levels)
    # The parts of a union are not independent of each other.
    return replace(climbed, judged=None) if draws.depth else climbed


def finish(
    climbed: Climbed, draws: Coreset, top: Coreset, computed_as: ComputedAs, how: How, target: float
) -> Solution:
    """Solve the last level, starting from the centers of the inner ones of `draws`.

    `top` are the draws themselves, or all rows.
    """
    geometry, start = top.geometry(computed_as), climbed.found.centers
    error = NONE if top.exact else climbed.error()
    with explaining_points(top):
        if top is not draws:
            start = geometry.own_centers(start.geometry.to_data(start))
        elif start.geometry.precision_of_products == "float64":
            geometry = start.geometry

        def last_level(points: Points) -> Clustering:
            cheap = len(points) * start.points.size < _CHEAP
            least = max(error.estimate if error.known else 0.0, _PART_OF_TARGET * target)
            limits = Limits(
                how.max_iter,
                0.0 if how.tol is not None or cheap else _GAIN_OF_ERROR * least,
                TOL if how.tol is None else how.tol,
            )
            found = solve_level(points, start, climbed.cost, how, limits)
            # Draws of all rows may lack clusters, and nothing else would tell.
            searched = top.exact and top is not draws and how.searches
            return search_level(points, found, how, limits) if searched else found

        found = precisely(top.rows, top.omega, geometry, last_level)
    own = Price.on_draws(top.omega, top.counts, found.distances)
    if not top.exact and climbed.judged is not None:
        average, error = own.cost / float(top.omega.sum()), UNKNOWN
        # Draws that cost nothing say nothing of others.
        if average > 0.0:
            error = climbed.judged.error_beside(found.distances, average)
    return Solution(top, geometry, found, own, error.unfinished(found.remaining))
