"""k-means for every k: solutions, their prices by draws that they have not seen, and evidence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.coreset.coreset import explaining_points
from lwcs.estimators.coreset_kmeans import solved_model
from lwcs.evaluation.k_rows import KRow
from lwcs.evaluation.k_verdict import passes
from lwcs.geometry import Centers
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import workers
from lwcs.sizing.path import Path
from lwcs.sizing.solution import FitResult, Solution
from lwcs.sizing.stability import Original, bootstrap
from lwcs.statistics.indices import TwoNearest, davies_bouldin, silhouette
from lwcs.statistics.referee import NONE, Price, SamplingError
from lwcs.statistics.separation import FEWEST_DRAWS, tell_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.estimators.coreset_kmeans import CoresetKMeans
    from lwcs.evaluation.k_selection import Drawn, Rules
    from lwcs.geometry import Measured
    from lwcs.solvers.lloyd import Clustering


@dataclass(frozen=True, slots=True)
class Priced:
    """A solution, and the draws that judge it."""

    found: Clustering
    near: TwoNearest
    """The nearest centers of the rows that judge."""
    own: Price
    """Its cost on the draws that were solved."""
    other: Price
    """Its cost on those that were not."""


def solve_clusters(drawn: Drawn, ks: Sequence[int], rules: Rules) -> list[Priced]:
    """Solve every k on some of the draws, and price it by the others."""
    solved, judges = drawn.solved, drawn.judges
    geometry = solved.geometry(drawn.kernel)
    path = Path(
        solved.host_points, solved.host_weights, geometry, rules.seed, rules.n_jobs, rules.journal
    )
    with explaining_points(solved):
        found = path.solve(ks)
    with explaining_points(judges):
        rows = geometry.measured(judges.host_points)
    priced = []
    with (
        rules.journal.stage("judging", len(ks)) as stage,
        workers(rules.n_jobs) as run,
        explaining_points(judges),
    ):
        for each in found:
            near = TwoNearest.of(rows, Centers(each.centers.points, geometry), run)
            own = Price.on_draws(solved.host_weights, solved.counts, each.distances)
            other = Price.on_draws(judges.host_weights, judges.counts, near.nearest)
            priced.append(Priced(each, near, own, other))
            stage.step()
    return priced


def evidence_of(
    drawn: Drawn, found: Sequence[Priced], n_bootstrap: int, rules: Rules, *, every_k: bool
) -> tuple[KRow, ...]:
    """What is known of every solution, from the most clusters down.

    Bootstrap coresets, which take long, are looked at until one solution has passed, which is then
    the one that is recommended; or for every k.
    """
    evidence, rows = Evidence.of(drawn, rules), [_row(drawn, each) for each in found]
    passed = False
    with rules.journal.stage("telling apart", len(found)) as stage:
        for at in range(len(found) - 1, -1, -1):
            if rows[at].k > 1:
                rows[at] = evidence.told_apart(rows[at], found[at])
                if n_bootstrap and (every_k or (rows[at].separated and not passed)):
                    rows[at] = evidence.sought_again(rows[at], found[at], n_bootstrap)
                passed = passed or passes(rows[at])
            stage.step()
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All draws, which say whether clusters are real."""

    drawn: Drawn
    rules: Rules
    measured: Measured
    fitted: FloatArray
    places: tuple[IntArray, IntArray]
    """Of the draws that were solved, and of those that judge, among all."""

    @classmethod
    def of(cls, drawn: Drawn, rules: Rules) -> Evidence:
        """Measure all draws."""
        whole, parts = drawn.whole, (drawn.solved, drawn.judges)
        with explaining_points(whole):
            measured = whole.geometry(drawn.kernel).measured(whole.host_points)
        solved, judges = (np.searchsorted(whole.indices, part.indices) for part in parts)
        fitted = np.zeros(len(whole))
        fitted[solved] = drawn.solved.host_weights
        return cls(drawn, rules, measured, fitted, (solved, judges))

    def told_apart(self, row: KRow, priced: Priced) -> KRow:
        """Whether the draws have a valley between any two neighbours."""
        whole, labels = self.drawn.whole, np.empty(len(self.fitted), dtype=np.int64)
        for at, known in zip(self.places, (priced.found.labels, priced.near.labels), strict=True):
            labels[at] = known
        near = tell_apart(
            self.measured,
            whole.host_weights,
            whole.counts,
            Centers(priced.found.centers.points, self.measured.geometry),
            labels,
            fitted=self.fitted,
            n_jobs=self.rules.n_jobs,
        )
        least = float(near.depth.min()) if len(near.depth) else None
        # Clusters without neighbours are centers that coincide: there is but one.
        separated = bool(len(near.apart)) and not near.joined
        smallest = int(np.bincount(labels[whole.host_weights > 0.0], minlength=near.k).min())
        return replace(row, separated=separated, weakest=least, smallest=smallest)

    def sought_again(self, row: KRow, priced: Priced, n_bootstrap: int) -> KRow:
        """How well the clusters recur in bootstrap coresets."""
        geometry = self.measured.geometry
        original = Original.of(self.drawn.whole, geometry, geometry.to_data(priced.found.centers))
        # Its stage would take the place of the one that is shown.
        seen = bootstrap(original, n_bootstrap, self.rules.seed, self.rules.n_jobs, Journal())
        # A third of the replicates have not drawn a row that is alone.
        sizes = np.bincount(original.labels, original.coreset.host_weights > 0.0, original.k)
        counted = seen.score[sizes >= FEWEST_DRAWS]
        return replace(row, stability=float(counted.min()) if len(counted) else None)


def _row(drawn: Drawn, priced: Priced) -> KRow:
    """Cost and indices of one solution."""
    own, near, centers = drawn.judges, priced.near, priced.found.centers
    row = KRow(len(centers), drawn.cost(priced.other))
    if len(centers) == 1:
        return row
    apart = davies_bouldin(own.host_weights, near, centers)
    return replace(
        row,
        silhouette=silhouette(own.host_weights, own.counts, near, centers.geometry).value,
        davies_bouldin=apart if isfinite(apart) else None,
    )


@dataclass(frozen=True, slots=True)
class Models:
    """The solutions as fitted models, made when they are asked for."""

    solved: Coreset
    priced: Mapping[int, Priced]
    parameters: Mapping[str, Any]
    made: dict[int, CoresetKMeans] = field(default_factory=dict)

    def __call__(self, k: int) -> CoresetKMeans:
        """The model that a fit on the same coreset would give."""
        if k not in self.made:
            self.made[k] = self._make(self.priced[k])
        return self.made[k]

    def _make(self, priced: Priced) -> CoresetKMeans:
        found, own = priced.found, priced.own
        error = NONE if self.solved.exact else SamplingError.of(own, priced.other)
        solution = Solution(self.solved, found.centers.geometry, found, own, error)
        answer = FitResult(solution, solution.centers, found.cost, error)
        return solved_model(answer, self.parameters)
