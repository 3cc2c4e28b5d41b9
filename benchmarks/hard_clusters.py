"""Four families of data on which coresets fail: many similar rows, and few that matter.

After Draganov, Saulpic and Schwiegelshohn, "Settling Time vs. Accuracy Tradeoffs for Clustering
Big Data" (2024), who compare summaries by their distortion on data of this kind. All are clusters
far apart, and differ in their sizes and places. `distortion` is theirs too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.passes import full_cost
from lwcs.solvers.lloyd import lloyd
from lwcs.solvers.points import Points
from lwcs.solvers.seeding import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.sources import Source

    Sizes = Callable[[int, int, np.random.Generator], IntArray]
    Places = Callable[[int, int, np.random.Generator], FloatArray]


@dataclass(frozen=True, slots=True)
class ClusterFamily:
    """Clusters of some sizes at some places, with Gaussian noise around them."""

    sizes: Sizes
    """Rows of every cluster, from n, k and a generator."""
    places: Places
    """Center of every cluster, from d, the number of clusters and a generator."""
    noise: float
    """Standard deviation of the rows of a cluster around its center, in every column."""

    def __call__(self, n: int, d: int, k: int, seed: int) -> FloatArray:
        """Make n rows with d columns for k clusters, in random order."""
        rng = np.random.default_rng(seed)
        sizes, places = self._clusters(n, d, k, rng)
        X = np.repeat(places, sizes, axis=0)
        X += self.noise * rng.normal(size=X.shape)
        return rng.permutation(X)

    def centers(self, n: int, d: int, k: int, seed: int) -> FloatArray:
        """The places of the clusters of the same rows, at most k."""
        return self._clusters(n, d, k, np.random.default_rng(seed))[1]

    def _clusters(
        self, n: int, d: int, k: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        sizes = self.sizes(n, k, rng)
        return sizes, self.places(d, len(sizes), rng)


def one_and_outliers(n: int, k: int, _: np.random.Generator) -> IntArray:
    """All rows but k − 1 in one cluster, and k − 1 single rows."""
    return np.array([n - k + 1] + [1] * (k - 1))


def imbalanced(n: int, k: int, rng: np.random.Generator) -> IntArray:
    """Sizes in proportion to exp(10·u), u uniform on [0, 1], at least one row each."""
    return _rounded(n, np.exp(10.0 * rng.random(k)))


def decaying(n: int, k: int, _: np.random.Generator) -> IntArray:
    """Sizes in proportion to 1, r, r², …, where r = n^(1/k), at least one row each."""
    return _rounded(n, float(n) ** (np.arange(k) / k))


def halving(n: int, k: int, _: np.random.Generator) -> IntArray:
    """Sizes n/2, n/4, …; from the first cluster on that would have none, single rows."""
    singles = max(0, k - int(np.log2(n)))
    shares = np.exp2(-np.arange(1.0, k - singles + 1))
    return np.concatenate([_rounded(n - singles, shares), np.ones(singles, dtype=np.int64)])


def two_and_small(n: int, k: int, _: np.random.Generator) -> IntArray:
    """Two clusters of nearly all rows, and k − 2 of twenty rows each."""
    sizes = np.full(k, 20)
    sizes[:2] = (n - 20 * (k - 2)) // 2
    sizes[0] += n - sizes.sum()
    return sizes


def scattered(d: int, k: int, rng: np.random.Generator) -> FloatArray:
    """Places drawn from a normal distribution."""
    return rng.normal(size=(k, d))


def corners(d: int, k: int, _: np.random.Generator) -> FloatArray:
    """Corners of a simplex; where k > d, those of further ones, each twice as large."""
    places = np.zeros((k, d))
    places[np.arange(k), np.arange(k) % d] = 2.0 ** (np.arange(k) // d)
    return places


def around_the_mean(d: int, k: int, rng: np.random.Generator) -> FloatArray:
    """Two places on both sides of the origin, far from it, and the others near it."""
    places = 0.1 * rng.normal(size=(k, d))
    places[0] = 10.0 / np.sqrt(d)
    places[1] = -places[0]
    return places


def _rounded(n: int, shares: FloatArray) -> IntArray:
    """Integer sizes ≥ 1 in proportion to `shares`, with the sum n: the largest takes the rest."""
    sizes = np.maximum(1, np.floor(n * shares / shares.sum())).astype(np.int64)
    sizes[np.argmax(sizes)] += n - sizes.sum()
    return sizes


FAMILIES: dict[str, ClusterFamily] = {
    "c-outlier": ClusterFamily(one_and_outliers, scattered, 1e-3),
    "imbalanced": ClusterFamily(imbalanced, scattered, 1e-2),
    "geometric": ClusterFamily(decaying, corners, 1e-3),
    "halving": ClusterFamily(halving, scattered, 1e-4),
}

AT_THE_MEAN = ClusterFamily(two_and_small, around_the_mean, 1e-3)
"""Small clusters at the mean of all rows, which lightweight draws are least likely to be of."""


def distortion(source: Source, coreset: Coreset, k: int, seed: int, starts: int = 3) -> float:
    """max(φ_C(Q)/φ_X(Q), φ_X(Q)/φ_C(Q)) at centers Q that solve k-means on the coreset.

    Q is the best of some starts, each with local search: at centers that lack a cluster of the
    coreset, the ratio would measure how the solver fails.
    """
    points = Points.of(coreset.host_points, coreset.host_weights, coreset.geometry().in_float64())
    found = []
    for attempt in range(starts):
        rng = np.random.default_rng([seed, attempt])
        centers = start(points, k, "local-search", rng)
        found.append(lloyd(points, centers, max_iter=100, tol=1e-4))
    best = min(found, key=lambda each: each.cost)
    ratio = full_cost(source, best.centers) / best.cost
    return max(ratio, 1.0 / ratio)
