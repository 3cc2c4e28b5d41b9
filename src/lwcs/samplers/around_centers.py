"""Drawing rows around centers: each by its distance to the nearest one, and by its cluster.

q(x) ∝ ω·s(x), s(x) = slope·d(x, nearest center) + floor of its cluster, weight ω/(m·q). A
partition therefore needs only the weight and the cost of every cluster in round one, and draws in
round two. Sensitivities are of this form, and so is a lightweight coreset by a divergence, with
the mean as the only center.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from lwcs.samplers import device_draws
from lwcs.samplers.sampler import Draws, Run, Summary
from lwcs.samplers.two_rounds import (
    Picked,
    Quota,
    Total,
    allocate,
    allocate_strata,
    draw_along,
    merge,
    rows_before,
)
from lwcs.sources.memory.tensors import DeviceSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray
    from lwcs.geometry import Centers, Measured
    from lwcs.sources import Block, LocalSource, Source


@dataclass(frozen=True, slots=True)
class Assignment:
    """Centers; and for local rows, the nearest center of each and the distance to it."""

    centers: Centers
    labels: Any = None
    distances: Any = None

    def of(
        self, block: Block, start: int | None = None
    ) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Nearest center and distance of every row of a block.

        They are looked up where they are kept and the block's partition starts at row `start`.
        """
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
    """Measure local rows against given centers, in one pass of matrix products."""
    labels, distances = source.empty(np.int32), source.empty(np.float64)
    for _ in run.each_block(source, AssignTask(centers, labels, distances), "assigning"):
        pass
    return Assignment(centers, labels, distances)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Rows of some data, and the weight Ω_i and the cost S_i of every cluster in it."""

    rows: int
    weights: FloatArray
    costs: FloatArray

    def __add__(self, other: Clusters) -> Clusters:
        """Put the rows of both together."""
        return Clusters(
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

    def total(self, clusters: Clusters) -> float:
        """Σω·s over some rows, from their clusters."""
        return float(self.slope * clusters.costs.sum() + self.floors @ clusters.weights)


@dataclass(frozen=True, slots=True)
class _AroundCenters:
    """A task that needs the nearest center and the distance of every row."""

    assignment: Assignment
    starts: Sequence[int] | None
    """Where every partition starts, for rows whose distances are kept."""

    def nearest(self, block: Block, partition: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Label and distance of every row of a block."""
        start = None if self.starts is None else self.starts[partition]
        with BadValueError.in_partition(partition):
            return self.assignment.of(block, start)


@dataclass(frozen=True, slots=True)
class ClustersTask(_AroundCenters):
    """Round one: weight and cost of every cluster in a partition."""

    def __call__(self, blocks: Iterator[Block], partition: int) -> Clusters:
        """Add up the blocks."""
        k = len(self.assignment.centers)
        total = Clusters(0, np.zeros(k), np.zeros(k))
        for block in blocks:
            start = None if self.starts is None else self.starts[partition]
            with BadValueError.in_partition(partition):
                found = self.assignment.weigh(block, start)
            total += Clusters(block.points.shape[0], *found)
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

        return draw_along(blocks, targets, [Total(total)], masses_of)


def weigh(
    source: Source, assignment: Assignment, run: Run, stage: str = "weighing"
) -> list[Clusters]:
    """Weight and cost of every cluster, by partition."""
    if isinstance(source, DeviceSource) and assignment.labels is not None:
        return device_draws.weigh(source, assignment)
    task = ClustersTask(assignment, _starts(source, assignment))
    return list(run.gather(source, task, stage))


def _starts(source: Source, assignment: Assignment) -> list[int] | None:
    if assignment.labels is None:
        return None
    return [source.locate(i)[0] for i in range(source.count_partitions())]


def draw_around_centers(
    source: Source,
    assignment: Assignment,
    weighed: Sequence[Clusters],
    scores: Scores,
    size: int,
    known: Summary,
    run: Run,
    *,
    stratified: bool = False,
) -> Draws:
    """Draw m rows from q ∝ ω·s, and weight them by ω/(m·q)."""
    masses = [scores.total(part) for part in weighed]
    share = allocate_strata if stratified else allocate
    quotas = share(size, [masses], run.generator(Round.PLAN))
    if isinstance(source, DeviceSource) and assignment.labels is not None:
        mass = float(np.sum(masses))
        return device_draws.draw_around_centers(
            source, assignment, scores, quotas, mass, size, known, run
        )
    task = DrawTask(assignment, _starts(source, assignment), run.seed, run.stage, scores)
    drawn = run.gather(source, task, "drawing", quotas)
    picked = merge(drawn, rows_before([part.rows for part in weighed]))
    weights = picked.counts * (np.sum(masses) / (size * picked.values))
    return Draws(picked.points, picked.rows, picked.counts, weights, known)


def check_n_clusters(n_clusters: int | None) -> None:
    """Check the number of clusters; None is filled in by `build`."""
    if n_clusters is not None:
        check_count(n_clusters, "n_clusters")


def require_n_clusters(n_clusters: int | None, name: str) -> int:
    """The number of clusters, without which there is no initial solution."""
    if n_clusters is None:
        raise ValueError(
            f"method={name!r} starts from an initial solution with k clusters; pass n_clusters=k"
        )
    return n_clusters


def approximation_factor(k: int) -> float:
    """α = 16(ln k + 2): how far D² sampling is from the optimum, in expectation, times 2."""
    return 16.0 * (log(k) + 2.0)


def sensitivities(clusters: Clusters, k: int, noise: float = 0.0) -> Scores:
    """The module's formula; if nothing costs more than `noise`, its third term alone."""
    weight, cost = float(clusters.weights.sum()), float(clusters.costs.sum())
    there = clusters.weights > 0.0
    floors = np.zeros(len(there))
    floors[there] = 4.0 * weight / clusters.weights[there]
    if cost <= noise:
        return Scores(0.0, floors)
    alpha = approximation_factor(k)
    average = cost / weight
    shares = clusters.costs[there] / clusters.weights[there]
    floors[there] += 2.0 * alpha * shares / average
    return Scores(alpha / average, floors)


def draw_by_sensitivity(
    source: Source,
    assignment: Assignment,
    k: int,
    size: int,
    known: Summary | None,
    run: Run,
    noise: float = 0.0,
    weighed: Sequence[Clusters] | None = None,
) -> Draws:
    """Draw m rows by their sensitivities around an initial solution with k clusters.

    A cost of no more than `noise` is what rounding leaves of zero. `weighed` are the clusters by
    partition, where a pass has weighed them already.
    """
    weighed = weigh(source, assignment, run) if weighed is None else weighed
    total = reduce(add, weighed)
    if known is None:
        known = Summary(total.rows, float(total.weights.sum()))
    scores = sensitivities(total, k, noise)
    return draw_around_centers(source, assignment, weighed, scores, size, known, run)
