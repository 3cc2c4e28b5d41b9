"""Drawing rows around centers: each by its distance to the nearest one, and by its cluster.

q(x) ∝ ω·s(x), s(x) = slope·d(x, nearest center) + floor of its cluster, weight ω/(m·q). A
partition therefore needs only the weight and the cost of every cluster in round one, and draws in
round two. Sensitivities have this form,

    s(x) = α·d/average + 2α·(average of the cluster)/average + 4Ω/(weight of the cluster),

and so has a lightweight coreset by a divergence, with the mean as the only center. Rows in memory
keep the label and the distance of the assignment (12 bytes per row), and are not measured again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import log
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_count
from lwcs.geometry.measured import weigh_clusters
from lwcs.passes import AssignTask
from lwcs.runtime.randomness import Round, Stage, generator
from lwcs.samplers import two_rounds
from lwcs.samplers.sampler import Draws, Run, Summary
from lwcs.samplers.two_rounds import Picked, Quota
from lwcs.sources.base import summed
from lwcs.sources.memory.local import is_on_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray
    from lwcs.geometry import Centers, Measured
    from lwcs.sources import Block, LocalSource, Source


_MOST_KEPT = 2**22
"""Numbers per cluster and partition that are kept for a draw that may follow: 32 MB."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Centers; and for local rows, the label and the distance of every row."""

    centers: Centers
    labels: Any = None
    distances: Any = None

    def of(
        self, block: Block, start: int | None = None
    ) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Label and distance of every row of a block, whose partition starts at row `start`."""
        kept = self._kept(block, start)
        return self._measured(block).nearest(self.centers) if kept is None else kept

    def weigh(self, block: Block, start: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Weight and cost of every cluster in a block."""
        kept = self._kept(block, start)
        if kept is None:
            return self._measured(block).weigh(self.centers, block.weights)
        return weigh_clusters(*kept, block.weights, len(self.centers))

    def _kept(self, block: Block, start: int | None) -> tuple[Any, Any] | None:
        if self.labels is None or self.distances is None or start is None:
            return None
        first = start + block.first_row
        part = slice(first, first + block.points.shape[0])
        return self.labels[part], self.distances[part]

    def _measured(self, block: Block) -> Measured:
        return self.centers.geometry.measured(block.points, block.first_row)


def assign(source: LocalSource, centers: Centers, run: Run) -> Assignment:
    """Assign local rows to given centers, in one pass."""
    labels, distances = source.empty(np.int32), source.empty(np.float64)
    task = AssignTask(centers, labels, distances)
    # Rows that are dropped have weight 0, which is enough: the sums need a label of every row.
    for _ in run.each_block(source, lambda block: task(replace(block, dropped=None)), "assigning"):
        pass
    return Assignment(centers, labels, distances)


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """Number of some rows, and the weight Ω_i and the cost S_i of every cluster in them."""

    rows: int
    weights: FloatArray
    costs: FloatArray

    def __add__(self, other: ClusterTotals) -> ClusterTotals:
        """Merge two disjoint sets of rows."""
        return ClusterTotals(
            self.rows + other.rows, self.weights + other.weights, self.costs + other.costs
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """s(x) = slope·d(x, nearest center) + floor of x's cluster."""

    slope: float
    floors: FloatArray

    def __call__(self, labels: npt.NDArray[np.int32], distances: FloatArray) -> FloatArray:
        """s of every row."""
        return self.slope * distances + self.floors[labels]

    def total(self, clusters: ClusterTotals) -> float:
        """Σω·s over some rows, from the totals of their clusters."""
        return float(self.slope * clusters.costs.sum() + self.floors @ clusters.weights)


@dataclass(frozen=True, slots=True)
class _AroundCenters:
    """A task that needs the nearest center and the distance of every row."""

    assignment: Assignment
    starts: Sequence[int] | None
    """The first row of every partition, for rows whose distances are kept."""

    def nearest(self, block: Block, partition: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Label and distance of every row of a block."""
        start = None if self.starts is None else self.starts[partition]
        with BadValueError.in_partition(partition):
            return self.assignment.of(block, start)


@dataclass(frozen=True, slots=True)
class ClustersTask(_AroundCenters):
    """Round one: weight and cost of every cluster in a partition."""

    def __call__(self, blocks: Iterator[Block], partition: int) -> ClusterTotals:
        """Add up the totals of the blocks."""
        k = len(self.assignment.centers)
        total = ClusterTotals(0, np.zeros(k), np.zeros(k))
        for block in blocks:
            start = None if self.starts is None else self.starts[partition]
            with BadValueError.in_partition(partition):
                sums = self.assignment.weigh(block, start)
            total += ClusterTotals(block.points.shape[0], *sums)
        return total


@dataclass(frozen=True, slots=True)
class DrawTask(_AroundCenters):
    """Round two: rows in proportion to ω·s."""

    seed: int
    stage: Stage
    scores: Scores

    def __call__(self, blocks: Iterator[Block], quota: Quota) -> list[Picked]:
        """Draw this partition's quota in one scan."""
        if not quota.draws:
            return []
        (total,), targets = quota.totals, quota.strata
        if targets is None:
            rng = generator(self.seed, self.stage, Round.DRAW, quota.partition)
            targets = (np.sort(rng.random(quota.draws)) * total,)

        def masses_of(block: Block) -> tuple[FloatArray, Sequence[FloatArray]]:
            scores = self.scores(*self.nearest(block, quota.partition))
            return scores, (kernels.unit_weights(block.weights, len(scores)) * scores,)

        return two_rounds.draw_along(blocks, targets, [two_rounds.Total(total)], masses_of)


def weigh(
    source: Source,
    assignment: Assignment,
    run: Run,
    stage: str = "weighing",
    *,
    by_partition: bool = True,
) -> list[ClusterTotals]:
    """Weight and cost of every cluster, by partition; or, where that is much, the sum of all."""
    if is_on_device(source) and assignment.labels is not None:
        from lwcs.samplers import device_draws

        return device_draws.weigh(source, assignment)
    task = ClustersTask(assignment, _starts(source, assignment))
    if by_partition or 2 * len(assignment.centers) * (source.known_partitions or 0) <= _MOST_KEPT:
        return list(run.gather(source, task, stage))
    with source.explaining():
        return [summed(source, task, stage, journal=run.journal, n_jobs=run.n_jobs)]


def _starts(source: Source, assignment: Assignment) -> list[int] | None:
    if assignment.labels is None:
        return None
    return [source.locate(i)[0] for i in range(source.count_partitions())]


def draw_around_centers(
    source: Source,
    assignment: Assignment,
    totals: Sequence[ClusterTotals],
    scores: Scores,
    size: int,
    summary: Summary,
    run: Run,
    *,
    stratified: bool = False,
) -> Draws:
    """Draw m rows from q ∝ ω·s, and weight them by ω/(m·q); `totals` are by partition."""
    masses = [scores.total(part) for part in totals]
    share = two_rounds.allocate_strata if stratified else two_rounds.allocate
    quotas = share(size, [masses], run.generator(Round.PLAN))
    if is_on_device(source) and assignment.labels is not None:
        from lwcs.samplers import device_draws

        mass = float(np.sum(masses))
        return device_draws.draw_around_centers(
            source, assignment, scores, quotas, mass, size, summary, run
        )
    task = DrawTask(assignment, _starts(source, assignment), run.seed, run.stage, scores)
    drawn = run.gather(source, task, "drawing", quotas)
    picked = two_rounds.merge(drawn, [part.rows for part in totals])
    weights = picked.counts * (np.sum(masses) / (size * picked.values))
    return Draws(picked.points, picked.rows, picked.counts, weights, summary)


def check_n_clusters(n_clusters: int | None) -> None:
    """Check the number of clusters; None is filled in by `build`."""
    if n_clusters is not None:
        check_count(n_clusters, "n_clusters")


def require_n_clusters(n_clusters: int | None, name: str) -> int:
    """The number of clusters of the initial solution; refused if it is None."""
    if n_clusters is None:
        raise ValueError(
            f"method={name!r} starts from an initial solution with k clusters; pass n_clusters=k"
        )
    return n_clusters


def approximation_factor(k: int) -> float:
    """α = 16(ln k + 2): twice the expected cost of D² sampling over that of the optimum."""
    return 16.0 * (log(k) + 2.0)


def sensitivities(clusters: ClusterTotals, k: int, noise: float = 0.0) -> Scores:
    """The sensitivities of the module docstring; the third term alone if the cost is ≤ `noise`."""
    weight, cost = float(clusters.weights.sum()), float(clusters.costs.sum())
    nonempty = clusters.weights > 0.0
    floors = np.zeros(len(nonempty))
    floors[nonempty] = 4.0 * weight / clusters.weights[nonempty]
    if cost <= noise:
        return Scores(0.0, floors)
    alpha = approximation_factor(k)
    average = cost / weight
    averages = clusters.costs[nonempty] / clusters.weights[nonempty]
    floors[nonempty] += 2.0 * alpha * averages / average
    return Scores(alpha / average, floors)


def draw_by_sensitivity(
    source: Source,
    assignment: Assignment,
    k: int,
    size: int,
    summary: Summary | None,
    run: Run,
    noise: float = 0.0,
    totals: Sequence[ClusterTotals] | None = None,
) -> Draws:
    """Draw m rows by their sensitivities around an initial solution with k clusters.

    A cost of at most `noise` is zero but for rounding. `totals` are the clusters by partition; by
    default, a pass computes them.
    """
    totals = weigh(source, assignment, run) if totals is None else totals
    total = reduce(add, totals)
    if summary is None:
        summary = Summary(total.rows, float(total.weights.sum()))
    scores = sensitivities(total, k, noise)
    return draw_around_centers(source, assignment, totals, scores, size, summary, run)
