"""Sensitivity coresets (CS of the paper; Lucic, Bachem, Krause 2016), around a rough solution.

With B, the clusters of its centers (weight Ω_i, cost S_i), c = Σω·d(x, B)/Ω, α = 16(ln k + 2):

    s(x) = α·d(x, B)/c + 2α·S_i/(Ω_i·c) + 4Ω/Ω_i,   p ∝ ω·s,

m i.i.d. draws from p, weight ω/(m·p) each. Σω·s/Ω = 3α + 4·(clusters that are not empty).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import reduce
from math import log
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import BadValueError, check_count
from lwcs.foundation.randomness import Round, Stage, generator
from lwcs.samplers.base import (
    Draws,
    FirstRound,
    Run,
    Summary,
    check_passes_possible,
    looks_first,
    summary_of,
)
from lwcs.samplers.rough import Rough, d2_sampling, d2_sampling_in_rounds
from lwcs.samplers.two_rounds import Picked, Total, draw_along, merge
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray
    from lwcs.kernels import KernelName
    from lwcs.sources import Block, Source


@dataclass(frozen=True)
class Sensitivity:
    """The paper's CS: D² sampling of all rows as the rough solution.

    Parameters
    ----------
    n_clusters : int, optional
        Rows that D² sampling chooses, one pass each; by default as many as `build` is told.
    """

    n_clusters: int | None = None
    name = "sensitivity"

    def __post_init__(self) -> None:
        check_clusters(self.n_clusters)

    def passes(self, source: Source, divergence: Divergence) -> int:
        """One a cluster; where no row is kept in memory, two more to weigh and to draw."""
        extra = 0 if isinstance(source, LocalSource) else 2
        return needed(self.n_clusters, self.name) + extra + looks_first(source, divergence)

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows in proportion to their sensitivities."""
        k = needed(self.n_clusters, self.name)
        check_passes(source, passes, self.passes(source, run.divergence), self.name)
        if source.on_cluster:
            warnings.warn(
                f"method='sensitivity' goes over the rows {passes} times, once a cluster and "
                "twice more; method='refined' needs four passes",
                UserWarning,
                stacklevel=3,
            )
        # Rows are gone over for every cluster: compiled kernels pay much earlier.
        run = replace(run, kernel=kernels.choose(source.n_values * k))
        known = look(source, run) if looks_first(source, run.divergence) else None
        measure = run.measure if known is None else known.measure(run.divergence)
        if isinstance(source, LocalSource):
            rough = d2_sampling(source, k, measure, run)
        else:
            rough = Rough(d2_sampling_in_rounds(source, k, measure, run), measure)
        return draw_by_sensitivity(source, rough, k, size, known, run)


def check_clusters(n_clusters: int | None) -> None:
    """Refuse a number of clusters that is none; None is for `build` to fill in."""
    if n_clusters is not None:
        check_count(n_clusters, "n_clusters")


def needed(n_clusters: int | None, name: str) -> int:
    """Give the number of clusters, without which there is no rough solution."""
    if n_clusters is None:
        raise ValueError(
            f"method={name!r} starts from a rough solution of k clusters; pass n_clusters=k"
        )
    return n_clusters


def check_passes(source: Source, passes: int, own: int, name: str) -> None:
    """Refuse a number of passes other than the one that a sampler makes."""
    if not source.rereadable:
        check_passes_possible(source, max(own, 2), f"by method={name!r}")
    if passes != own:
        raise ValueError(
            f"passes={passes} is not possible: method={name!r} makes {own} passes over this "
            "data; pass passes='auto'"
        )


def look(source: Source, run: Run) -> Summary:
    """A pass for the mean; of squared distances also for Φ, and for a scale if one is wanted."""
    first = FirstRound(run.kernel, source.n_features, run.measure)
    return summary_of(reduce(add, run.gather(source, first, "first pass")), source, run.divergence)


def approximation_factor(k: int) -> float:
    """α = 16(ln k + 2): how far D² sampling is from the optimum, in expectation, times 2."""
    return 16.0 * (log(k) + 2.0)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Rows of some data, and the weight Ω_i and the cost S_i of every cluster of B in it."""

    rows: int
    weights: FloatArray
    costs: FloatArray

    def __add__(self, other: Clusters) -> Clusters:
        """Put the rows of both together."""
        return Clusters(
            self.rows + other.rows, self.weights + other.weights, self.costs + other.costs
        )


@dataclass(frozen=True, slots=True)
class Sensitivities:
    """s(x) = slope·d(x, B) + floor of x's cluster."""

    slope: float
    floors: FloatArray

    @classmethod
    def of(cls, clusters: Clusters, k: int, noise: float = 0.0) -> Sensitivities:
        """The module's formula; if nothing costs more than `noise`, its third term alone."""
        weight, cost = float(clusters.weights.sum()), float(clusters.costs.sum())
        there = clusters.weights > 0.0
        floors = np.zeros(len(there))
        floors[there] = 4.0 * weight / clusters.weights[there]
        if cost <= noise:
            return cls(0.0, floors)
        alpha = approximation_factor(k)
        average = cost / weight
        shares = clusters.costs[there] / clusters.weights[there]
        floors[there] += 2.0 * alpha * shares / average
        return cls(alpha / average, floors)

    def __call__(self, labels: npt.NDArray[np.int32], distances: FloatArray) -> FloatArray:
        """The sensitivity of every row."""
        return self.slope * distances + self.floors[labels]

    def total(self, clusters: Clusters) -> float:
        """Σω·s over some rows, from their clusters."""
        return float(self.slope * clusters.costs.sum() + self.floors @ clusters.weights)


@dataclass(frozen=True, slots=True)
class Share:
    """What one partition is told: how many rows to draw, and what its masses come to."""

    partition: int
    draws: int
    total: float
    strata: FloatArray | None = None
    """Stratified draws: where on [0, total) they fall, sorted."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """A task that needs every row's nearest center and distance."""

    kernel: KernelName
    rough: Rough
    starts: Sequence[int] | None
    """Of rows whose labels and distances are known: where each partition starts in them."""

    def measured(self, block: Block, partition: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Look them up where they are kept, else measure the block."""
        labels, distances = self.rough.labels, self.rough.distances
        if self.starts is not None and labels is not None and distances is not None:
            first = self.starts[partition] + block.first_row
            part = slice(first, first + block.points.shape[0])
            return labels[part], distances[part]
        with BadValueError.in_partition(partition):
            return self.rough.nearest(block, self.kernel)


@dataclass(frozen=True, slots=True)
class WeighClusters(_Measured):
    """Round one: weight and cost of every cluster in a partition."""

    def __call__(self, blocks: Iterator[Block], partition: int) -> Clusters:
        """Add up the blocks."""
        k = len(self.rough.centers)
        total = Clusters(0, np.zeros(k), np.zeros(k))
        for block in blocks:
            labels, distances = self.measured(block, partition)
            omega = kernels.unit_weights(block.weights, len(labels))
            weights: FloatArray = np.bincount(labels, omega, k).astype(np.float64)
            costs: FloatArray = np.bincount(labels, omega * distances, k).astype(np.float64)
            total += Clusters(len(labels), weights, costs)
        return total


@dataclass(frozen=True, slots=True)
class DrawBySensitivity(_Measured):
    """Round two: rows in proportion to ω·s."""

    seed: int
    stage: Stage
    sensitivities: Sensitivities

    def __call__(self, blocks: Iterator[Block], share: Share) -> list[Picked]:
        """Draw this partition's share in one scan."""
        if not share.draws:
            return []
        rng = generator(self.seed, self.stage, Round.DRAW, share.partition)
        targets = share.strata
        if targets is None:
            targets = np.sort(rng.random(share.draws)) * share.total

        def measure(block: Block) -> tuple[FloatArray, Sequence[FloatArray]]:
            scores = self.sensitivities(*self.measured(block, share.partition))
            return scores, (kernels.unit_weights(block.weights, len(scores)) * scores,)

        return draw_along(blocks, [targets], [Total(share.total)], measure)


def draw_by_sensitivity(
    source: Source,
    rough: Rough,
    k: int,
    size: int,
    known: Summary | None,
    run: Run,
    noise: float = 0.0,
) -> Draws:
    """Draw m rows by their sensitivities around a rough solution of k clusters.

    A cost of no more than `noise` is what rounding leaves of zero.
    """
    weighed = weigh(source, rough, run)
    total = reduce(add, weighed)
    if known is None:
        known = Summary(total.rows, float(total.weights.sum()))
    scores = Sensitivities.of(total, k, noise)
    return draw_weighed(source, rough, weighed, scores, size, known, run)


def weigh(source: Source, rough: Rough, run: Run) -> list[Clusters]:
    """Weight and cost of every cluster of a rough solution, by partition."""
    task = WeighClusters(run.kernel, rough, _starts(source, rough))
    return list(run.gather(source, task, "weighing"))


def _starts(source: Source, rough: Rough) -> list[int] | None:
    if rough.labels is None:
        return None
    return [source.locate(i)[0] for i in range(source.n_partitions)]


def draw_weighed(
    source: Source,
    rough: Rough,
    weighed: Sequence[Clusters],
    sensitivities: Sensitivities,
    size: int,
    known: Summary,
    run: Run,
    *,
    stratified: bool = False,
) -> Draws:
    """Draw m rows from p ∝ ω·s around a rough solution, and weight them by ω/(m·p)."""
    masses = np.array([sensitivities.total(part) for part in weighed])
    share = _share_strata if stratified else _share
    told = share(size, masses, run.generator(Round.PLAN))
    starts = _starts(source, rough)
    task = DrawBySensitivity(run.kernel, rough, starts, run.seed, run.stage, sensitivities)
    offsets = np.cumsum([0, *(part.rows for part in weighed[:-1])])
    picked = merge(run.gather(source, task, "drawing", told), offsets)
    weights = picked.counts * (masses.sum() / (size * picked.values))
    return Draws(picked.points, picked.rows, picked.counts, weights, known)


def _share(size: int, masses: FloatArray, rng: np.random.Generator) -> list[Share]:
    """Share out i.i.d. draws by a multinomial."""
    there = np.flatnonzero(masses)
    draws = np.zeros(len(masses), dtype=np.int64)
    draws[there] = rng.multinomial(size, masses[there] / masses.sum())
    return [
        Share(i, int(n), float(mass)) for i, (n, mass) in enumerate(zip(draws, masses, strict=True))
    ]


def _share_strata(size: int, masses: FloatArray, rng: np.random.Generator) -> list[Share]:
    """Share out stratified draws: one uniform in each of `size` equal parts of all mass."""
    ends = np.cumsum(masses)
    targets = (np.arange(size) + rng.random(size)) / size * ends[-1]
    parts = np.split(targets, np.searchsorted(targets, ends[:-1]))
    starts = ends - masses
    return [
        Share(i, len(part), float(mass), np.clip(part - start, 0.0, mass))
        for i, (part, mass, start) in enumerate(zip(parts, masses, starts, strict=True))
    ]
