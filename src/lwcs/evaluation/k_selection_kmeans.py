"""k-means for every number of clusters: solutions, evidence that clusters are real, the verdict.

Every k is solved on some of the draws, and priced by the others, which are independent of it.
If k is smaller than the number of clusters in the data, every cluster of the solution is one or
several of them, and has a valley at its borders. If k is larger, a cluster is cut where there is no
valley. The largest k whose clusters all have valleys, and recur in bootstrap coresets, is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.coreset.coreset import explaining_points
from lwcs.estimators.coreset_kmeans import solved_model
from lwcs.evaluation.k_selection_result import KRow
from lwcs.evaluation.k_selection_verdict import RESAMPLES, redrawn
from lwcs.geometry import Centers
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import workers
from lwcs.runtime.randomness import Stage, generator
from lwcs.sizing.solution import FitResult, Solution
from lwcs.sizing.solution_path import SolutionPath
from lwcs.sizing.stability import STABLE, Original, replicates
from lwcs.statistics.indices import TwoNearest, davies_bouldin, silhouette
from lwcs.statistics.referee import NONE, Price, SamplingError
from lwcs.statistics.separation import FEWEST_DRAWS, resample, tell_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.arrays.types import FloatArray, IntArray, Mask
    from lwcs.coreset.coreset import Coreset
    from lwcs.estimators.coreset_kmeans import CoresetKMeans
    from lwcs.evaluation.k_selection import SelectionParams, SplitDraws
    from lwcs.geometry import Measured
    from lwcs.solvers.lloyd import Clustering

# Bootstrap coresets are computed only if that decides more resamples.
_AT_STAKE = 3


@dataclass(frozen=True, slots=True)
class PricedSolution:
    """The solution for one k, and its costs."""

    clustering: Clustering
    near: TwoNearest
    """The nearest centers of the held-out draws."""
    cost_on_solved: Price
    cost_on_held_out: Price


def solve_clusters(
    draws: SplitDraws, ks: Sequence[int], params: SelectionParams
) -> list[PricedSolution]:
    """Solve every k on some of the draws, and price it by the others."""
    solved, held_out = draws.solved, draws.held_out
    geometry = solved.geometry(draws.kernel)
    points, weights = solved.host_points, solved.host_weights
    path = SolutionPath(points, weights, geometry, params.seed, params.n_jobs, params.journal)
    with explaining_points(solved):
        clusterings = path.solve(ks)
    with explaining_points(held_out):
        rows = geometry.measured(held_out.host_points)
    priced = []
    with (
        params.journal.stage("judging", len(ks)) as stage,
        workers(params.n_jobs) as run,
        explaining_points(held_out),
    ):
        for each in clusterings:
            near = TwoNearest.of(rows, Centers(each.centers.points, geometry), run)
            own = Price.on_draws(weights, solved.counts, each.distances)
            other = Price.on_draws(held_out.host_weights, held_out.counts, near.nearest)
            priced.append(PricedSolution(each, near, own, other))
            stage.step()
    return priced


def kmeans_rows(
    draws: SplitDraws,
    solutions: Sequence[PricedSolution],
    n_bootstrap: int,
    params: SelectionParams,
    *,
    every_k: bool,
) -> tuple[tuple[KRow, ...], IntArray]:
    """The evidence for every solution, and the k that each resample chooses (0: none).

    From the most clusters down, until all resamples have chosen: bootstrap coresets, which take
    long, are computed where they can make a difference; or for every k.
    """
    evidence, rows = Evidence.of(draws, params), [_indices(draws, each) for each in solutions]
    chosen = np.zeros(RESAMPLES, dtype=np.int64)
    with params.journal.stage("telling apart", len(rows)) as stage:
        for i in range(len(rows) - 1, -1, -1):
            if rows[i].k > 1:
                rows[i], real = evidence.separation(rows[i], solutions[i], chosen == 0)
                if n_bootstrap and (every_k or real.sum() >= _AT_STAKE):
                    test = evidence.stability(
                        rows[i], solutions[i], n_bootstrap, apart=bool(real.any())
                    )
                    rows[i], stable = test
                    real &= stable
                elif n_bootstrap:
                    real[:] = False
                chosen[real] = rows[i].k
            stage.step()
    return tuple(rows), chosen


def _indices(draws: SplitDraws, priced: PricedSolution) -> KRow:
    """Cost and indices of one solution, by the held-out draws."""
    held_out, near, centers = draws.held_out, priced.near, priced.clustering.centers
    row = KRow(len(centers), draws.cost(priced.cost_on_held_out))
    if len(centers) == 1:
        return row
    weights = held_out.host_weights
    overlap = davies_bouldin(weights, near, centers)
    return replace(
        row,
        silhouette=silhouette(weights, held_out.counts, near, centers.geometry).value,
        davies_bouldin=overlap if isfinite(overlap) else None,
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """All draws, which tell whether clusters are real, and resamples of them."""

    draws: SplitDraws
    params: SelectionParams
    measured: Measured
    fitted: FloatArray
    """Weights that the centers were fitted with; 0 for rows that were held out."""
    parts: tuple[IntArray, IntArray]
    """Row numbers of the draws that were solved, and of those that were held out."""
    resamples: IntArray
    """How often each draw was drawn again, one row per resample."""
    rng: np.random.Generator

    @classmethod
    def of(cls, draws: SplitDraws, params: SelectionParams) -> Evidence:
        """Measure all draws, and draw again."""
        whole = draws.whole
        with explaining_points(whole):
            measured = whole.geometry(draws.kernel).measured(whole.host_points)
        solved, held_out = (
            np.searchsorted(whole.indices, part.indices) for part in (draws.solved, draws.held_out)
        )
        fitted = np.zeros(len(whole))
        fitted[solved] = draws.solved.host_weights
        rng = generator(params.seed, Stage.CHOICE)
        return cls(
            draws,
            params,
            measured,
            fitted,
            (solved, held_out),
            redrawn(whole.size, whole.counts, rng),
            rng,
        )

    def separation(self, row: KRow, priced: PricedSolution, undecided: Mask) -> tuple[KRow, Mask]:
        """Test whether the draws have a valley between any two neighbours.

        Also in which of the resamples that are undecided they have.
        """
        whole, labels = self.draws.whole, np.empty(len(self.fitted), dtype=np.int64)
        known = (priced.clustering.labels, priced.near.labels)
        for part, values in zip(self.parts, known, strict=True):
            labels[part] = values
        rows, weights, n_jobs = self.measured, whole.host_weights, self.params.n_jobs
        centers = Centers(priced.clustering.centers.points, rows.geometry)
        draws = rows, weights, whole.counts, centers, labels
        near = tell_apart(*draws, fitted=self.fitted, n_jobs=n_jobs)
        real = undecided.copy()
        real[undecided] = resample(
            near, self.resamples[undecided], *draws, fitted=self.fitted, n_jobs=n_jobs
        )
        weakest = float(near.depth.min()) if len(near.depth) else None
        # Clusters without neighbours have centers that coincide: there is only one.
        separated = bool(len(near.apart)) and not near.joined
        smallest = int(np.bincount(labels[weights > 0.0], minlength=near.k).min())
        unclear = smallest < FEWEST_DRAWS or bool((near.unclear & ~near.apart).any())
        row = replace(row, separated=separated, weakest=weakest, smallest=smallest, unclear=unclear)
        return row, real

    def stability(
        self, row: KRow, priced: PricedSolution, n_bootstrap: int, *, apart: bool
    ) -> tuple[KRow, Mask]:
        """Measure how well the clusters recur in bootstrap coresets.

        Also whether they do by bootstrap coresets that are drawn again from these, as often as
        there are resamples.
        """
        geometry, params = self.measured.geometry, self.params
        centers = geometry.to_data(priced.clustering.centers)
        original = Original.of(self.draws.whole, geometry, centers)
        groups = np.arange(original.k) if apart else original.groups(params.n_jobs)[1]
        # With a journal of its own: its stage would replace the one that is shown.
        found = replicates(original, groups, n_bootstrap, params.seed, params.n_jobs, Journal())
        # A third of the replicates do not draw a row that is alone in its cluster.
        sizes = np.bincount(original.labels, original.coreset.host_weights > 0.0, original.k)
        scores = np.array([each.merged[sizes >= FEWEST_DRAWS] for each in found])
        if not scores.size:
            return row, np.ones(len(self.resamples), dtype=bool)
        again = self.rng.integers(0, n_bootstrap, (len(self.resamples), n_bootstrap))
        stable = scores[again].mean(axis=1).min(axis=1) > STABLE
        return replace(row, stability=float(scores.mean(axis=0).min())), stable


@dataclass(frozen=True, slots=True)
class KMeansModels:
    """The solutions as fitted models, made on request."""

    solved: Coreset
    solutions: Mapping[int, PricedSolution]
    parameters: Mapping[str, Any]
    made: dict[int, CoresetKMeans] = field(default_factory=dict)

    def __call__(self, k: int) -> CoresetKMeans:
        """The model that a fit on the same coreset would give."""
        if k not in self.made:
            self.made[k] = solved_model(self.result(k), self.parameters)
        return self.made[k]

    def result(self, k: int) -> FitResult:
        """A solution as the result of a fit."""
        priced = self.solutions[k]
        found, own = priced.clustering, priced.cost_on_solved
        error = NONE if self.solved.exact else SamplingError.of(own, priced.cost_on_held_out)
        solution = Solution(self.solved, found.centers.geometry, found, own, error)
        return FitResult(solution, solution.centers, found.cost, error)
