"""Which clusters are real: the result of `stability()`, and the bootstrap that it comes from.

The draws of a coreset are drawn again with replacement, and clustered from fresh seeds (Hennig
2007), or from the original centers where that costs less: fresh seeds may miss a small cluster. The
score of a cluster is its Jaccard overlap with its best match there, by the weights of all rows of
the coreset, averaged over the replicates.

k-means cuts an elongated cluster at the same place every time, and would call both halves stable.
Parts of one cluster in a replicate that the draws cannot tell apart (`statistics.separation`) are
therefore counted as one: half of a cluster has an overlap of one half with the whole, and a whole
cluster matches itself even in a replicate that has cut it. Parts of two clusters that the draws
tell apart are never joined: the score of a cluster says nothing of what happens beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lwcs.coreset.coreset import explaining_points
from lwcs.geometry import Centers
from lwcs.runtime import formatting as markup
from lwcs.runtime.parallel import workers
from lwcs.runtime.randomness import Stage, generator, part_of
from lwcs.sizing.levels import LevelSample, Limits, SolverParams, solve_inner, solve_level
from lwcs.solvers.lloyd import cheapest
from lwcs.solvers.points import precisely
from lwcs.statistics.record import shares_on_draws
from lwcs.statistics.separation import Neighbours, join, summed, tell_apart
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels
    from lwcs.coreset.coreset import Coreset
    from lwcs.geometry import Geometry, Measured
    from lwcs.runtime.journal import Journal
    from lwcs.solvers.lloyd import Clustering
    from lwcs.solvers.points import Points
    from lwcs.storage.fields import Fields

STABILITY = "stability"
STABLE = 0.85
"""Clusters that the data really has score more."""
DOUBTFUL = 0.6
"""Halves of a cluster score less."""
SHOWN = 20
"""Maximum number of clusters and pairs in a table of text."""
COLUMN_WORDS = (
    "jaccard: how much of a cluster is found again when the draws are drawn again, from 0 to 1, on "
    f"average; score: the same, where clusters without a gap between them count as one. Above "
    f"{STABLE}, a cluster is found every time; below {DOUBTFUL}, it is a part of a larger one, or "
    "chance. center error: how far its center is off by the draws, typically."
)
"""Meaning of the columns in a table of stabilities."""
# Draws of a replicate: in all, per cluster, and of the smallest cluster that counts. Fewer are
# solved faster, and all draws judge what was found.
_DRAWS, _PER_CLUSTER, _OF_SMALLEST = 5_000, 100, 40
_ITERATIONS, _TOL = 100, 1e-4
# Number of replicates that are submitted at once: an interrupt waits for them to finish.
_AT_A_TIME = 8
_PER_CLUSTER_FIELDS = ("score", "jaccard", "share", "share_error", "center_error")
_FRACTIONS = ("score", "jaccard", "share")
_COUNTS = ("n_bootstrap", "draws", "replicate_draws")


@dataclass(frozen=True, slots=True, eq=False)
class Stability(Tabular):
    """How real the clusters of a model are, by bootstrap coresets.

    Attributes
    ----------
    score : array of shape (n_clusters,)
        Mean Jaccard overlap of each cluster with its best match in the replicates, where parts of
        one cluster that the draws cannot tell apart count as one. Above 0.85, a cluster is found
        every time; below 0.6, it is a part of a larger one, or not found again.
    jaccard : array of shape (n_clusters,)
        The same without that, as by Hennig (2007). It is high for both halves of a cluster that is
        cut at the same place every time.
    share, share_error : arrays of shape (n_clusters,)
        Share of each cluster in the weight of all rows, and its standard error; 0 if all rows
        were used.
    center_errors : array of shape (n_clusters, n_features) or None
        Standard error of each center per column, in the units of the data: how far the center of
        the match that `score` is about is away, by root mean square. A file keeps `center_error`
        alone.
    center_error : array of shape (n_clusters,)
        Its length over all columns, as distances are measured: in standard deviations for data
        that was scanned with ``scale="standard"``.
    pairs : tuple of pairs of int
        Neighbouring clusters that the draws cannot tell apart.
    n_bootstrap, draws, replicate_draws : int
        Number of replicates, and of the draws of the coreset and of each replicate.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (500, 2)) for center in (0.0, 10.0, 20.0)])
    >>> stability = lwcs.CoresetKMeans(3, random_state=0).fit(X).stability(random_state=0)
    >>> stability
    <Stability of 3 clusters, 3 stable>
    >>> bool((stability.score > 0.85).all())
    True
    """

    score: FloatArray
    jaccard: FloatArray
    share: FloatArray
    share_error: FloatArray
    center_errors: FloatArray | None
    center_error: FloatArray
    pairs: tuple[tuple[int, int], ...]
    n_bootstrap: int
    draws: int
    replicate_draws: int

    _instead_of_rows: ClassVar[str] = "pass rows of data"

    def __len__(self) -> int:
        """Number of clusters."""
        return len(self.score)

    def worst_first(self) -> list[int]:
        """The clusters, the least stable first; of equally stable ones the smaller number."""
        return [int(each) for each in np.argsort(self.score, kind="stable")]

    def __str__(self) -> str:
        order = self.worst_first()
        lines = [self._heading(), "cluster  score  jaccard           share  center error"]
        for cluster, score, jaccard, share, error in map(self._cells, order[:SHOWN]):
            lines.append(f"{cluster:>7}  {score:>5}  {jaccard:>7}  {share:>14}  {error:>12}")
        if len(order) > SHOWN:
            more = len(order) - SHOWN
            lines.append(f"and {more} more, which score {self.score[order[SHOWN]]:.2f} or more")
        return "\n".join([*lines, pair_words(self.pairs), COLUMN_WORDS])

    def __repr__(self) -> str:
        return f"<Stability of {len(self)} clusters, {int((self.score > STABLE).sum())} stable>"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        names = ("cluster", "score", "jaccard", "share", "center error")
        shown = markup.table(names, map(self._cells, self.worst_first()))
        words = markup.paragraphs([pair_words(self.pairs), COLUMN_WORDS])
        return f"{markup.paragraphs([self._heading()])}{shown}{words}"

    def _cells(self, cluster: int) -> tuple[int, str, str, str, str]:
        """The line of a cluster in the table."""
        return (
            cluster,
            f"{self.score[cluster]:.2f}",
            f"{self.jaccard[cluster]:.2f}",
            share_words(self.share[cluster], self.share_error[cluster]),
            f"{self.center_error[cluster]:.3g}",
        )

    def words(self) -> str:
        """How many clusters are stable, and how many are not."""
        stable, doubtful = int((self.score > STABLE).sum()), int((self.score < DOUBTFUL).sum())
        between = len(self) - stable - doubtful
        words = (
            f"{stable} of {len(self)} cluster{'s' * (len(self) != 1)} {_are(stable)} stable "
            f"(score > {STABLE}), {doubtful} {_are(doubtful)} not (score < {DOUBTFUL})"
        )
        return words + (f", {between} {_are(between)} in between" if between else "")

    def _heading(self) -> str:
        draws = f"{self.n_bootstrap} bootstrap coresets of {self.replicate_draws:,} draws"
        return f"{self.words()}, by {draws}"

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table: one row per cluster, without the pairs."""
        import pyarrow as pa

        columns = {name: getattr(self, name) for name in _PER_CLUSTER_FIELDS}
        return pa.table({"cluster": np.arange(len(self)), **columns})

    def saved(self) -> dict[str, Any]:
        """The result as metadata of a file, without the errors of centers per column."""
        return {
            **{name: getattr(self, name).tolist() for name in _PER_CLUSTER_FIELDS},
            "n_pairs": len(self.pairs),
            "pairs": [each for pair in self.pairs for each in pair],
            **{name: getattr(self, name) for name in _COUNTS},
        }

    @classmethod
    def read(cls, fields: Fields, k: int) -> Stability | None:
        """Read it off the metadata of a model with k clusters; None if the file has no result."""
        if fields.null(STABILITY, missing=True):
            return None
        own = fields.inner(STABILITY)
        columns: dict[str, Any] = {}
        for name in _PER_CLUSTER_FIELDS:
            values = own.vector(name, k)
            most = 1.0 + 1e-9 if name in _FRACTIONS else np.inf
            if values is None or (values < 0.0).any() or (values > most).any():
                wanted = "from 0 to 1" if name in _FRACTIONS else ">= 0"
                raise own.fail(name, f"a list of {k:,} numbers {wanted}")
            columns[name] = values
        pairs = own.vector("pairs", 2 * own.integer("n_pairs", most=k * (k - 1) // 2))
        flat = np.empty(0) if pairs is None else pairs
        one, other = flat[::2], flat[1::2]
        whole = (flat == np.floor(flat)) & (flat >= 0)
        if pairs is None or not whole.all() or not ((one < other) & (other < k)).all():
            raise own.fail("pairs", f"pairs of different clusters from 0 to {k - 1:,}, in order")
        numbers: dict[str, Any] = {name: own.integer(name, least=1) for name in _COUNTS}
        found = tuple(zip(one.astype(int).tolist(), other.astype(int).tolist(), strict=True))
        return cls(center_errors=None, pairs=found, **columns, **numbers)


def pair_words(pairs: Sequence[Sequence[int]]) -> str:
    """A sentence on the pairs that may be one cluster."""
    if not pairs:
        return "The rows show a gap between every two neighbouring clusters."
    shown = ", ".join(f"{one} and {other}" for one, other in pairs[:SHOWN])
    more = len(pairs) - SHOWN
    rest = f", and {more} more pairs" if more > 0 else ""
    return f"No gap between these clusters, which may be parts of one: {shown}{rest}."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def share_words(share: float, error: float) -> str:
    """A share with its standard error, in percent."""
    return markup.plain_percent(share) + (f" ± {100 * error:.2g}" if error > 0.0 else "")


@dataclass(frozen=True, slots=True)
class Original:
    """The clusters that are scored, and the labels of a coreset by them."""

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

    def groups(self, n_jobs: int | None) -> tuple[Neighbours, IntArray]:
        """Which clusters can be told apart, and the group of every cluster."""
        coreset = self.coreset
        draws = self.rows, coreset.host_weights, coreset.counts, self.centers, self.labels
        found = tell_apart(*draws, n_jobs=n_jobs)
        return found, join(found, *draws, n_jobs=n_jobs)

    def replicate_size(self) -> int:
        """Number of draws of a replicate, enough for every cluster of the coreset to recur."""
        counts = np.bincount(self.labels, self.coreset.counts, self.k)
        smallest = max(float(counts.min()), 1.0)
        wanted = max(_DRAWS, _PER_CLUSTER * self.k, _OF_SMALLEST * self.coreset.size / smallest)
        return int(min(self.coreset.size, np.ceil(wanted)))


@dataclass(frozen=True, slots=True)
class Replicate:
    """The match of every cluster in one bootstrap coreset."""

    overlaps: FloatArray
    """Jaccard overlap of every cluster with its best match."""
    merged: FloatArray
    """Overlap where clusters that cannot be told apart count as one."""
    matches: DenseRows
    """The centers of these matches, in the units of the data."""


def bootstrap(
    original: Original, n_bootstrap: int, seed: int, n_jobs: int | None, journal: Journal
) -> Stability:
    """Score clusters by `n_bootstrap` bootstrap coresets; threads do not change the result."""
    coreset, k = original.coreset, original.k
    weights, counts, labels = coreset.host_weights, coreset.counts, original.labels
    size = original.replicate_size()
    neighbours, groups = original.groups(n_jobs)
    found = replicates(original, groups, n_bootstrap, seed, n_jobs, journal)
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
        pairs=tuple(pair for pair in neighbours.joined if groups[pair[0]] == groups[pair[1]]),
        n_bootstrap=n_bootstrap,
        draws=coreset.size,
        replicate_draws=size,
    )


def replicates(
    original: Original,
    groups: IntArray,
    n_bootstrap: int,
    seed: int,
    n_jobs: int | None,
    journal: Journal,
) -> list[Replicate]:
    """Look for the clusters in bootstrap coresets; those of one group cannot be told apart."""
    size, found = original.replicate_size(), list[Replicate]()
    threads = original.rows.threads(n_jobs)
    with journal.stage("bootstrap", n_bootstrap) as stage, workers(threads) as run:
        for first in range(0, n_bootstrap, _AT_A_TIME):
            some = range(first, min(first + _AT_A_TIME, n_bootstrap))
            for each in run(lambda number: _replicate(original, groups, size, seed, number), some):
                found.append(each)
                stage.step()
    return found


def _replicate(
    original: Original, groups: IntArray, size: int, seed: int, number: int
) -> Replicate:
    """Draw again, cluster afresh, and look for the original clusters."""
    coreset, geometry, k = original.coreset, original.geometry, original.k
    weights, counts = coreset.host_weights, coreset.counts
    rng = generator(seed, Stage.BOOTSTRAP, number)
    part = part_of(weights, counts, rng.multinomial(size, counts / counts.sum()))
    params = SolverParams(k, "local-search", None, _ITERATIONS, None, int(rng.integers(2**63)), 1)

    def solve(points: Points) -> Clustering:
        """The cheaper one of a solution from fresh starts, and that from the original centers."""
        best = solve_inner(LevelSample(points, part.counts), [], params).found
        limits = Limits(_ITERATIONS, 0.0, _TOL)
        starts = ((best.centers, best.cost), (original.centers, np.inf))
        both = [solve_level(points, *start, params, limits) for start in starts]
        return both[cheapest([each.cost for each in both])]

    found = precisely(coreset.host_points[part.at], part.weights, geometry, solve)
    centers = Centers(found.centers.points, geometry)
    labels = original.rows.labels(centers)
    fitted = np.zeros(len(weights))
    fitted[part.at] = part.weights
    pairs = original.labels.astype(np.int64) * k + labels
    shared = np.bincount(pairs, weights, k * k).astype(np.float64).reshape(k, k)
    # Parts of one cluster are joined, not parts of clusters that are told apart.
    draws, within = (original.rows, weights, counts, centers, labels), groups[shared.argmax(axis=0)]
    neighbours = tell_apart(*draws, fitted=fitted)
    groups, each = join(neighbours, *draws, within=within, fitted=fitted), np.arange(k)
    merged = _jaccard(summed(shared.T, groups).T)
    best = np.argmax(merged, axis=1)
    # The center of a group is the mean of its centers; of a group without weight, any of them.
    sizes = np.maximum(np.bincount(found.labels, part.weights, k), np.finfo(float).tiny)
    sizes /= summed(sizes, groups)[groups]
    middles = summed(sizes[:, None] * geometry.to_data(centers), groups)
    return Replicate(_jaccard(shared).max(axis=1), merged[each, best], middles[best])


def _jaccard(shared: FloatArray) -> FloatArray:
    """|A ∩ B|/|A ∪ B| of sets A (rows) and B (columns), by the weights that they share."""
    union = shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared
    found: FloatArray = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0.0)
    return found


def _moved(centers: DenseRows, found: list[Replicate]) -> FloatArray:
    """Root mean square of how far the centers have moved, per column."""
    moved = np.array([each.matches - centers for each in found])
    unit = _unit(moved)
    errors: FloatArray = unit * np.sqrt(np.mean((moved / unit) ** 2, axis=0))
    return errors


def _lengths(vectors: FloatArray) -> FloatArray:
    unit = _unit(vectors)
    return np.asarray(unit * np.sqrt(np.sum((vectors / unit) ** 2, axis=1)))


def _unit(values: FloatArray) -> float:
    """The largest value. Divided by it, values have squares in the range of numbers."""
    return float(np.abs(values).max(initial=0.0)) or 1.0
