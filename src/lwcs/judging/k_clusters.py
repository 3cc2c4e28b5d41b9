"""k-means for every k: solutions, their prices by draws that they have not seen, and evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
import numpy as np
from typing import TYPE_CHECKING, Any

from lwcs.choosing.kmeans import Answer
from lwcs.choosing.path import Path
from lwcs.choosing.solution import Solution
from lwcs.coreset import explaining_points
from lwcs.estimators import CoresetKMeans
from lwcs.estimators.inputs import set_features
from lwcs.foundation.parallel import workers
from lwcs.geometry import Centers
from lwcs.judging.k_rows import KRow
from lwcs.trust.indices import TwoNearest, davies_bouldin, silhouette
from lwcs.trust.referee import NONE, Price, SamplingError
from lwcs.trust.separation import tell_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.coreset import Coreset
    from lwcs.judging.k_draws import Drawn, Rules
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
    path = Path(solved.points, solved.weights, geometry, rules.seed, rules.n_jobs, rules.journal)
    with explaining_points(solved):
        found = path.solve(ks)
    with explaining_points(judges):
        rows = geometry.measured(judges.points)
    priced = []
    with (
        rules.journal.stage("judging", len(ks)) as stage,
        workers(rules.n_jobs) as run,
        explaining_points(judges),
    ):
        for each in found:
            near = TwoNearest.of(rows, Centers(each.centers.points, geometry), run)
            own = Price.on_draws(solved.weights, solved.counts, each.distances)
            other = Price.on_draws(judges.weights, judges.counts, near.nearest)
            priced.append(Priced(each, near, own, other))
            stage.step()
    return priced


def judged(
    drawn: Drawn, found: Sequence[Priced], n_bootstrap: int, rules: Rules
) -> tuple[KRow, ...]:
    """What is known of every solution."""
    whole = drawn.whole
    geometry = whole.geometry(drawn.kernel)
    rows = geometry.measured(whole.points)
    out = []
    import os
    for each in found:
        row = _row(drawn, each)
        if row.k > 1:
            c = Centers(each.found.centers.points, geometry)
            if os.environ.get("HELD"):
                own = drawn.judges
                r = geometry.measured(own.points)
                nb = tell_apart(r, own.weights, own.counts, c, each.near.labels, fitted=np.zeros(len(own)))
            else:
                nb = tell_apart(rows, whole.weights, whole.counts, c, rows.labels(c), fitted=drawn.fitted)
            row = replace(row, separated=not nb.joined, weakest=float(nb.depth.min()) if len(nb.depth) else None)
        out.append(row)
    return tuple(out)


def _row(drawn: Drawn, priced: Priced) -> KRow:
    """Cost and indices of one solution."""
    own, near, centers = drawn.judges, priced.near, priced.found.centers
    row = KRow(len(centers), drawn.cost(priced.other))
    if len(centers) == 1:
        return row
    apart = davies_bouldin(own.weights, near, centers)
    return replace(
        row,
        silhouette=silhouette(
            own.weights, own.counts, near, squared=centers.geometry.squared
        ).value,
        davies_bouldin=apart if isfinite(apart) else None,
    )


def kmeans_model(solved: Coreset, priced: Priced, parameters: dict[str, Any]) -> CoresetKMeans:
    """A solution as the model that a fit on the same coreset would give."""
    found, own = priced.found, priced.own
    error = NONE if solved.exact else SamplingError.of(own, priced.other)
    solution = Solution(solved, found.centers.geometry, found, own, error)
    model = CoresetKMeans(len(found.centers), **parameters)
    set_features(model, solved)
    answer = Answer(solution, solution.centers, found.cost, error)
    vars(model).update(model._fitted_to(answer, model._wish()))
    return model
