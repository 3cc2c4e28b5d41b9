"""k-means for every number of clusters: solutions, evidence that clusters are real, the verdict.

Every k is solved on some of the draws, and priced by the others, which are independent of it.
If k is smaller than the number of clusters in the data, every cluster of the solution is one or
several of them, and has a valley at its borders. If k is larger, a cluster is cut where there is no
valley. The largest k whose clusters all have valleys, and recur in bootstrap coresets, is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.coreset.coreset import explaining_points
from lwcs.estimators.coreset_kmeans import solved_model
from lwcs.evaluation.k_selection_result import KRow, RunnerUp, Verdict
from lwcs.geometry import Centers
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import workers
from lwcs.sizing.solution import FitResult, Solution
from lwcs.sizing.solution_path import SolutionPath
from lwcs.sizing.stability import STABLE, Original, bootstrap
from lwcs.statistics.indices import TwoNearest, davies_bouldin, silhouette
from lwcs.statistics.referee import NONE, Price, SamplingError
from lwcs.statistics.separation import FEWEST_DRAWS, tell_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.estimators.coreset_kmeans import CoresetKMeans
    from lwcs.evaluation.k_selection import SelectionParams, SplitDraws
    from lwcs.geometry import Measured
    from lwcs.solvers.lloyd import Clustering

_RUNNERS_UP = 3
# A silhouette below is no substantial structure (Kaufman and Rousseeuw 1990).
_SUBSTANTIAL = 0.25


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
) -> tuple[KRow, ...]:
    """The evidence for every solution, from the most clusters down.

    Bootstrap coresets, which take long, are computed until one solution has passed, which is then
    the one that is recommended; or for every k.
    """
    evidence, rows = Evidence.of(draws, params), [_indices(draws, each) for each in solutions]
    passed = False
    with params.journal.stage("telling apart", len(rows)) as stage:
        for i in range(len(rows) - 1, -1, -1):
            if rows[i].k > 1:
                rows[i] = evidence.with_separation(rows[i], solutions[i])
                if n_bootstrap and (every_k or (rows[i].separated and not passed)):
                    rows[i] = evidence.with_stability(rows[i], solutions[i], n_bootstrap)
                passed = passed or passes(rows[i])
            stage.step()
    return tuple(rows)


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
    """All draws, which tell whether clusters are real."""

    draws: SplitDraws
    params: SelectionParams
    measured: Measured
    fitted: FloatArray
    """Weights that the centers were fitted with; 0 for rows that were held out."""
    parts: tuple[IntArray, IntArray]
    """Row numbers of the draws that were solved, and of those that were held out."""

    @classmethod
    def of(cls, draws: SplitDraws, params: SelectionParams) -> Evidence:
        """Measure all draws."""
        whole = draws.whole
        with explaining_points(whole):
            measured = whole.geometry(draws.kernel).measured(whole.host_points)
        solved, held_out = (
            np.searchsorted(whole.indices, part.indices) for part in (draws.solved, draws.held_out)
        )
        fitted = np.zeros(len(whole))
        fitted[solved] = draws.solved.host_weights
        return cls(draws, params, measured, fitted, (solved, held_out))

    def with_separation(self, row: KRow, priced: PricedSolution) -> KRow:
        """Test whether the draws have a valley between any two neighbours."""
        whole, labels = self.draws.whole, np.empty(len(self.fitted), dtype=np.int64)
        known = (priced.clustering.labels, priced.near.labels)
        for part, values in zip(self.parts, known, strict=True):
            labels[part] = values
        rows, weights, n_jobs = self.measured, whole.host_weights, self.params.n_jobs
        centers = Centers(priced.clustering.centers.points, rows.geometry)
        near = tell_apart(
            rows, weights, whole.counts, centers, labels, fitted=self.fitted, n_jobs=n_jobs
        )
        weakest = float(near.depth.min()) if len(near.depth) else None
        # Clusters without neighbours have centers that coincide: there is only one.
        separated = bool(len(near.apart)) and not near.joined
        smallest = int(np.bincount(labels[weights > 0.0], minlength=near.k).min())
        return replace(row, separated=separated, weakest=weakest, smallest=smallest)

    def with_stability(self, row: KRow, priced: PricedSolution, n_bootstrap: int) -> KRow:
        """Measure how well the clusters recur in bootstrap coresets."""
        geometry, params = self.measured.geometry, self.params
        centers = geometry.to_data(priced.clustering.centers)
        original = Original.of(self.draws.whole, geometry, centers)
        # With a journal of its own: its stage would replace the one that is shown.
        stability = bootstrap(original, n_bootstrap, params.seed, params.n_jobs, Journal())
        # A third of the replicates do not draw a row that is alone in its cluster.
        sizes = np.bincount(original.labels, original.coreset.host_weights > 0.0, original.k)
        scores = stability.score[sizes >= FEWEST_DRAWS]
        return replace(row, stability=float(scores.min()) if len(scores) else None)


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
            priced = self.solutions[k]
            found, own = priced.clustering, priced.cost_on_solved
            error = NONE if self.solved.exact else SamplingError.of(own, priced.cost_on_held_out)
            solution = Solution(self.solved, found.centers.geometry, found, own, error)
            answer = FitResult(solution, solution.centers, found.cost, error)
            self.made[k] = solved_model(answer, self.parameters)
        return self.made[k]


def judge_clusters(rows: Sequence[KRow]) -> Verdict:
    """Recommend the largest number of clusters that are told apart and stable."""
    passed = [row for row in rows if passes(row)]
    if not passed:
        return Verdict(None, _no_structure(rows), _others(rows, None))
    chosen = passed[-1]
    reason = (
        f"k = {chosen.k}: the largest number of clusters that the data tells apart, with a valley "
        "at every border"
    )
    if chosen.stability is not None:
        reason += f", and that recur in bootstrap coresets (stability {chosen.stability:.2f})"
    reason += _small_words(chosen)
    if len(rows) > 1 and chosen is rows[-1]:
        reason += "; it is the largest k that was tried, so there may be more"
    return Verdict(chosen.k, reason, _others(rows, chosen))


def passes(row: KRow) -> bool:
    """Whether all clusters are told apart, and stable as far as that is known."""
    return bool(row.separated) and (row.stability is None or row.stability > STABLE)


def _small_words(row: KRow) -> str:
    """A remark on a cluster of very few rows, which may be errors in the data."""
    if row.smallest is None or row.smallest >= FEWEST_DRAWS:
        return ""
    if row.smallest == 1:
        return "; one of them is a single row (an outlier?)"
    return f"; one of them has {row.smallest} rows alone (outliers?)"


def _no_structure(rows: Sequence[KRow]) -> str:
    tried = [row for row in rows if row.k > 1]
    if not tried:
        return "no structure was looked for: a single cluster is always there; pass k >= 2"
    apart = [row for row in tried if row.separated]
    span = f"{tried[0].k} to {tried[-1].k}" if len(tried) > 1 else str(tried[0].k)
    if apart:
        return (
            f"no structure: of k = {span}, the clusters of k = "
            f"{', '.join(str(row.k) for row in apart)} are told apart by the data, but do not "
            "recur in bootstrap coresets"
        )
    if all(row.smallest is not None and row.smallest < FEWEST_DRAWS for row in tried):
        return (
            f"too few rows to tell: for every k = {span}, a cluster has fewer than {FEWEST_DRAWS} "
            "rows, which show no valley even where there is one"
        )
    return (
        f"no structure: for no k = {span} does the data tell all clusters apart; some borders "
        "have no valley, as where a single group is cut"
    )


def _others(rows: Sequence[KRow], chosen: KRow | None) -> tuple[RunnerUp, ...]:
    """The next largest k whose clusters are told apart, and the best by other criteria."""
    reasons: dict[int, list[str]] = {}
    below = [row for row in rows if passes(row) and row is not chosen]
    if below:
        reasons.setdefault(below[-1].k, []).append("its clusters are told apart, too")
    silhouettes = {row.k: row.silhouette for row in rows if row.silhouette is not None}
    best = max(silhouettes, key=silhouettes.__getitem__, default=None)
    if best is not None and silhouettes[best] >= _SUBSTANTIAL:
        reasons.setdefault(best, []).append(f"the largest silhouette ({silhouettes[best]:.2f})")
    # Every curve has an elbow somewhere, even that of a single group.
    bend = None if chosen is None else elbow(rows)
    if bend is not None:
        reasons.setdefault(bend, []).append("the elbow of the cost")
    others = {k: why for k, why in reasons.items() if chosen is None or k != chosen.k}
    return tuple(RunnerUp(k, " and ".join(why)) for k, why in others.items())[:_RUNNERS_UP]


def elbow(rows: Sequence[KRow]) -> int | None:
    """The k at which the cost is furthest below the line from its first to its last value.

    None if there are fewer than three, or the cost never falls faster than on that line.
    """
    costs = np.array([np.nan if row.cost is None else row.cost.value for row in rows])
    ks = np.array([row.k for row in rows], dtype=np.float64)
    drop = costs[0] - costs[-1]
    if len(rows) < 3 or not 0.0 < drop < inf:
        return None
    line = (ks - ks[0]) / (ks[-1] - ks[0])
    below = (costs[0] - costs) / drop - line
    at = int(np.argmax(below))
    return rows[at].k if below[at] > 0.0 else None
