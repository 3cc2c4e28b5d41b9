"""Which clusters are real: each is sought again in bootstrap coresets (Hennig 2007).

The draws of a coreset are drawn again with replacement, and clustered from fresh seeds. A cluster
is as stable as its best match there: the Jaccard overlap, by the weights of all rows of the
coreset, averaged over the replicates.

k-means cuts an elongated cluster at the same place every time, and would call both halves stable.
So clusters of a replicate that draws cannot tell apart (`trust.separation`) count as one: half a
cluster overlaps with the whole by a half, and a whole one with itself even if a replicate has cut
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.coreset.coreset import explaining_points
from lwcs.geometry import Centers
from lwcs.runtime.parallel import workers
from lwcs.runtime.randomness import Stage, generator, part_of
from lwcs.sizing.levels import LevelSample, Limits, SolverParams, climb, solve_level
from lwcs.sizing.stability_result import Stability
from lwcs.solvers.points import precisely
from lwcs.statistics.record import shares_on_draws
from lwcs.statistics.separation import tell_apart

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels
    from lwcs.coreset.coreset import Coreset
    from lwcs.geometry import Geometry, Measured
    from lwcs.runtime.journal import Journal
    from lwcs.solvers.lloyd import Clustering
    from lwcs.solvers.points import Points

# Draws of a replicate: in all, per cluster, and of the smallest cluster that counts. Fewer are
# solved faster, and all draws judge what was found.
_DRAWS, _PER_CLUSTER, _OF_SMALLEST = 5_000, 100, 40
_ITERATIONS, _TOL = 100, 1e-4
# Replicates that wait for a thread at a time: an interrupt waits for those that have begun.
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class Original:
    """The clusters that are judged, on the coreset that judges them."""

    coreset: Coreset
    geometry: Geometry
    rows: Measured
    centers: Centers
    labels: Labels

    @classmethod
    def of(cls, coreset: Coreset, geometry: Geometry, centers: DenseRows) -> Original:
        """Label the rows of a coreset by centers in the units of the data."""
        with explaining_points(coreset):
            rows, own = geometry.measured(coreset.host_points), geometry.own_centers(centers)
            return cls(coreset, geometry, rows, own, rows.labels(own))

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    def replicate_size(self) -> int:
        """As many draws as it takes for every cluster of the coreset to be seen again."""
        counts = np.bincount(self.labels, self.coreset.counts, self.k)
        smallest = max(float(counts.min()), 1.0)
        wanted = max(_DRAWS, _PER_CLUSTER * self.k, _OF_SMALLEST * self.coreset.size / smallest)
        return int(min(self.coreset.size, np.ceil(wanted)))


@dataclass(frozen=True, slots=True)
class _Replicate:
    """How the clusters were found again in one bootstrap coreset."""

    overlaps: FloatArray
    """Jaccard overlap of every cluster with its best match."""
    merged: FloatArray
    """The same with those as one that cannot be told apart."""
    matches: DenseRows
    """The centers of these matches, in the units of the data."""


def bootstrap(
    original: Original, n_bootstrap: int, seed: int, n_jobs: int | None, journal: Journal
) -> Stability:
    """Judge clusters by this many bootstrap coresets; the threads have no part in the result."""
    coreset, k = original.coreset, original.k
    weights, counts, labels = coreset.host_weights, coreset.counts, original.labels
    size = original.replicate_size()
    found: list[_Replicate] = []
    beside = original.rows.threads(n_jobs)
    with journal.stage("bootstrap", n_bootstrap) as stage, workers(beside) as run:
        own = original.rows, weights, counts, original.centers, labels
        neighbours = tell_apart(*own, n_jobs=n_jobs)
        for first in range(0, n_bootstrap, _AT_A_TIME):
            some = range(first, min(first + _AT_A_TIME, n_bootstrap))
            for each in run(lambda number: _replicate(original, size, seed, number), some):
                found.append(each)
                stage.step()
    shares, variances = shares_on_draws(weights, counts, labels, k)
    centers = original.geometry.to_data(original.centers)
    scale = original.geometry.scale
    # Replicates with fewer draws than the coreset have larger errors.
    moved = _moved(centers, found) * np.sqrt(size / coreset.size)
    return Stability(
        score=np.mean([each.merged for each in found], axis=0),
        jaccard=np.mean([each.overlaps for each in found], axis=0),
        share=shares,
        share_error=np.zeros(k) if coreset.exact else np.sqrt(variances),
        center_errors=moved,
        center_error=_lengths(moved if scale is None else moved / scale),
        pairs=tuple(neighbours.joined),
        n_bootstrap=n_bootstrap,
        draws=coreset.size,
        replicate_draws=size,
    )


def _replicate(original: Original, size: int, seed: int, number: int) -> _Replicate:
    """Draw again, cluster afresh, and look for the original clusters."""
    coreset, geometry, k = original.coreset, original.geometry, original.k
    weights, counts = coreset.host_weights, coreset.counts
    rng = generator(seed, Stage.BOOTSTRAP, number)
    part = part_of(weights, counts, rng.multinomial(size, counts / counts.sum()))
    params = SolverParams(k, "local-search", None, _ITERATIONS, None, int(rng.integers(2**63)), 1)

    def solve(points: Points) -> Clustering:
        """Some starts, as a fit makes them, and the best of them solved."""
        best = climb(LevelSample(points, part.counts), [], params).found
        return solve_level(points, best.centers, best.cost, params, Limits(_ITERATIONS, 0.0, _TOL))

    found = precisely(coreset.host_points[part.at], part.weights, geometry, solve)
    centers = Centers(found.centers.points, geometry)
    labels = original.rows.labels(centers)
    fitted = np.zeros(len(weights))
    fitted[part.at] = part.weights
    neighbours = tell_apart(original.rows, weights, counts, centers, labels, fitted=fitted)
    groups, each = neighbours.groups(), np.arange(k)
    pairs = original.labels.astype(np.int64) * k + labels
    shared = np.bincount(pairs, weights, k * k).astype(np.float64).reshape(k, k)
    merged = _jaccard(_summed(shared.T, groups).T)
    best = np.argmax(merged, axis=1)
    # The center of a group is the mean of its centers; of a group without weight, any of them.
    sizes = np.maximum(np.bincount(found.labels, part.weights, k), np.finfo(float).tiny)
    sizes /= _summed(sizes, groups)[groups]
    middles = _summed(sizes[:, None] * geometry.to_data(centers), groups)
    return _Replicate(_jaccard(shared).max(axis=1), merged[each, best], middles[best])


def _summed(values: FloatArray, groups: IntArray) -> FloatArray:
    """Sums of the rows of every group."""
    found = np.zeros((int(groups.max()) + 1, *values.shape[1:]))
    np.add.at(found, groups, values)
    return found


def _jaccard(shared: FloatArray) -> FloatArray:
    """|A ∩ B|/|A ∪ B| of sets A (rows) and B (columns), by the weights that they share."""
    union = shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared
    found: FloatArray = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0.0)
    return found


def _moved(centers: DenseRows, found: list[_Replicate]) -> FloatArray:
    """Root mean square of how far the centers have moved, per column."""
    moved = np.array([each.matches - centers for each in found])
    unit = _unit(moved)
    errors: FloatArray = unit * np.sqrt(np.mean((moved / unit) ** 2, axis=0))
    return errors


def _lengths(vectors: FloatArray) -> FloatArray:
    unit = _unit(vectors)
    return np.asarray(unit * np.sqrt(np.sum((vectors / unit) ** 2, axis=1)))


def _unit(values: FloatArray) -> float:
    """What to divide values by: their squares may be out of range."""
    return float(np.abs(values).max(initial=0.0)) or 1.0
