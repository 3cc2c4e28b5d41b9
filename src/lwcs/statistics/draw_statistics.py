"""Statistics of draws beside the centers found on them, and the errors that these predict.

Centers Q that are fitted on m draws with probabilities q cost more than those of all rows because
the means of their clusters are means of draws. To second order around a regular optimum, that is

    E = Σ_j W_j·Var(mean of cluster j)/φ(Q) = Σ_x ω·d(x, Q)·r(x)/W_j(x) / (m·φ(Q)),   r = ω/q,

with the weight W_j of the cluster of x: r is Ω for uniform draws, 1/(1/2Ω + d(x, mean)/2Φ) for
lightweight ones, and Σωs/s(x) for draws by their sensitivity s around Q. Draws by any of these
methods estimate all three sums, and the sums also hold for Bregman divergences. Added to that is
the cost of clusters of which nothing is drawn: W_j times the distance to the next center, with
probability exp(−m·q(cluster j)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.geometry import Centers
from lwcs.geometry.dense_rows import DenseRows
from lwcs.samplers.around_centers import ClusterTotals, sensitivities
from lwcs.statistics.indices import TwoNearest

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.geometry import Measured

OWN = "own"
"""The key of the formula for the draws themselves."""
HEAVIEST = 10
"""The number of draws in `DrawStatistics.heaviest`."""
# A cluster with this many expected draws will not be missed.
_SURE = 20.0


class Formula(NamedTuple):
    """The two parts of a predicted error."""

    means: float
    """The part of centers that are means of draws."""
    missed: float
    """The part of clusters without draws."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawStatistics:
    """Draws, and where they are beside some centers and beside their mean."""

    weights: FloatArray
    counts: IntArray
    labels: IntArray
    distances: FloatArray
    """d of every draw from its own center."""
    from_mean: FloatArray
    """d of every draw from the mean of all of them."""
    k: int
    center: float = 0.0
    """d of that mean from the nearest center."""
    apart: FloatArray | None = None
    """d of every center from the next one, where its cluster may be missed; else 0."""

    @classmethod
    def of(
        cls, rows: Measured, weights: FloatArray, counts: IntArray, labels: Any,
        distances: FloatArray, centers: Centers, draws: int,
    ) -> DrawStatistics:  # fmt: skip
        """Compare draws with their centers and their mean, to predict errors of `draws` of them."""
        mean = Centers(rows.moments(weights).mean[None, :], rows.geometry)
        with np.errstate(over="ignore", invalid="ignore"):
            from_mean = rows.distances_to(mean)
        nearest = float(_distances_between(mean, centers).min())
        statistics = cls(weights, counts, labels, distances, from_mean, len(centers), nearest)
        apart = np.zeros(len(centers))
        uncertain = np.flatnonzero(statistics.shares * draws < _SURE)
        if len(centers) > 1 and len(uncertain):
            apart[uncertain] = _distances_to_next(centers, uncertain)
        return replace(statistics, apart=apart)

    @property
    def shares(self) -> FloatArray:
        """Share of every cluster in the weight."""
        return self._by_cluster(self._parts)

    @property
    def cost_share(self) -> float:
        """φ(Q)/Φ: the part of the cost around the mean that the clusters leave; nan for 0/0."""
        around = self._average(self.from_mean)
        return self._average(self.distances) / around if around else nan

    @property
    def heaviest(self) -> float:
        """Share of a few draws in the cost, those that have most of it."""
        average = self._average(self.distances)
        if not 0.0 < average < inf:
            return nan
        costs = self._parts * (self.distances / average)
        few = min(HEAVIEST, len(costs))
        return float(np.partition(costs, len(costs) - few)[-few:].sum())

    def spread(self, draws: int) -> float:
        """Bound on the standard deviation of φ_C(Q)/φ(Q) for this many lightweight draws.

        √(2(Φ + Ω·d(mean, nearest center))/(m·φ(Q))), for squared distances.
        """
        average = self._average(self.distances)
        most = self._average(self.from_mean) + self.center
        return sqrt(2.0 * most / average / draws) if average else inf

    def formulas(self, draws: int) -> dict[str, Formula]:
        """The module's formula by method for this many draws; empty where the cost is zero.

        Beside those of `METHODS` there is the one of the draws themselves, `OWN`, however they were
        made: r = m·w per draw.
        """
        average, around = self._average(self.distances), self._average(self.from_mean)
        if not (0.0 < average < inf and 0.0 < around < inf):
            return {}
        clusters = self._in_units(average)
        scores = sensitivities(clusters, self.k)
        values = scores(self.labels.astype(np.int32), self.distances / average)
        inverse = {
            "uniform": np.ones(len(self.weights)),
            "lightweight": 2.0 / (1.0 + self.from_mean / around),
            "refined": scores.total(clusters) / values,
            OWN: self.counts.sum() * self._parts / self.counts,
        }
        every, some = self._parts, np.flatnonzero(self._parts)
        # Mostly all of them, which need no copy.
        at = slice(None) if len(some) == len(every) else some
        parts, labels = every[at], self.labels[at]
        terms = parts / clusters.weights[labels] * (self.distances[at] / average)
        return {
            name: Formula(
                float(terms @ r[at]) / draws,
                self._missed(parts / r[at], labels, clusters, average, draws),
            )
            for name, r in inverse.items()
        }

    @property
    def _parts(self) -> FloatArray:
        """Part of every draw in the weight."""
        parts: FloatArray = self.weights / self.weights.sum()
        return parts

    def _average(self, values: FloatArray) -> float:
        return float(self._parts @ values)

    def _by_cluster(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.labels, values, self.k).astype(np.float64)

    def _in_units(self, average: float) -> ClusterTotals:
        """Weight and cost of the clusters as parts of all: at any range of numbers."""
        costs = self._by_cluster(self._parts * (self.distances / average))
        return ClusterTotals(len(costs), self.shares, costs)

    def _missed(
        self,
        drawn: FloatArray,
        labels: IntArray,
        clusters: ClusterTotals,
        average: float,
        draws: int,
    ) -> float:
        """Expected cost of the clusters of which nothing is drawn."""
        if self.apart is None:
            return 0.0
        share = np.bincount(labels, drawn, self.k)
        return float(np.exp(-draws * share) @ (clusters.weights * (self.apart / average)))


def _distances_to_next(centers: Centers, chosen: IntArray) -> FloatArray:
    """d of the chosen centers from the nearest other one; each is nearest to itself."""
    points = centers.points[chosen]
    try:
        found = TwoNearest.of(DenseRows(centers.geometry, points, np.float64, points), centers)
    except BadValueError:
        # Some are so far apart that squares overflow.
        return np.full(len(chosen), np.inf)
    return found.second


def _distances_between(one: Centers, others: Centers) -> FloatArray:
    """d of a center from others; infinite where it is beyond the range of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = one.geometry.metric.between(one.points, others.points).sum(axis=1)
    return np.where(np.isnan(found), np.inf, found)
