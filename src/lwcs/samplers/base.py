"""What travels between the rounds of a build: Moments up, Quotas down, Draws back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from lwcs import kernels
from lwcs.divergences import Measure, SquaredEuclidean
from lwcs.divergences.measure import EUCLIDEAN
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.progress import track
from lwcs.foundation.randomness import Stage, generator
from lwcs.sources.base import PARTITION_ROWS
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources import Block, LocalSource, Source, Task

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Run:
    """How one build is run: its seed, its kernel, its threads, what it measures by."""

    seed: int
    kernel: KernelName
    n_jobs: int | None = None
    progress: bool = False
    stage: Stage = Stage.CORESET
    divergence: Divergence = field(default_factory=SquaredEuclidean)

    @property
    def measure(self) -> Measure:
        """The divergence, as long as nothing is known of the data."""
        return Measure(self.divergence)

    def generator(self, round_: int, partition: int = 0) -> np.random.Generator:
        """Give the generator of one task of this build."""
        return generator(self.seed, self.stage, round_, partition)

    def gather(
        self, source: Source, task: Task[R], label: str, items: Sequence[Any] | None = None
    ) -> Iterator[R]:
        """Run a task over all partitions with this run's threads and progress bar."""
        results = source.gather(task, items, n_jobs=self.n_jobs)
        return self._watch(results, source, label, source.known_partitions, PARTITION_ROWS)

    def each_block(
        self, source: LocalSource, task: Callable[[Block], R], label: str
    ) -> Iterator[R]:
        """Run a task over all blocks of local rows, likewise."""
        results = source.each_block(task, n_jobs=self.n_jobs)
        blocks = -(-source.n_rows // source.block_rows)
        return self._watch(results, source, label, blocks, source.block_rows)

    def _watch(
        self, results: Iterator[R], source: Source, label: str, total: int | None, rows: int
    ) -> Iterator[R]:
        with source.explaining():
            yield from track(results, label, total, show=self.progress, rows=rows)


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, total weight, mean, and scatter Σω(x − mean)² per column of some rows.

    They merge exactly and stay accurate at any offset, which sums of squares do not
    (a float32 column at 1e3 ± 1 already gives a negative Φ).
    """

    rows: int
    weight: float
    mean: FloatArray
    scatter: FloatArray

    def __add__(self, other: Moments) -> Moments:
        """Merge two disjoint sets of rows (Chan, Golub, LeVeque 1979)."""
        rows, weight = self.rows + other.rows, self.weight + other.weight
        # Nothing to merge; but a NaN that a row without weight left must not be lost.
        if other.weight == 0.0:
            return Moments(rows, weight, self.mean + 0.0 * other.mean, self.scatter)
        if self.weight == 0.0:
            return Moments(rows, weight, other.mean + 0.0 * self.mean, other.scatter)
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.weight / weight)
        leverage = self.weight * (other.weight / weight)
        return Moments(rows, weight, mean, self.scatter + other.scatter + leverage * delta**2)

    def cost_around(self, center: FloatArray, precision: FloatArray | None = None) -> float:
        """φ({center}): what these rows cost if `center` were the only center."""
        spread = np.maximum(self.scatter, 0.0) + self.weight * (self.mean - center) ** 2
        return float(spread.sum() if precision is None else precision @ spread)


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of all rows after a build; None where the sampler did not look."""

    rows: int
    weight: float
    mean: FloatArray | None = None
    cost: float | None = None
    scale: FloatArray | None = None

    def measure(self, divergence: Divergence) -> Measure:
        """The divergence on these rows."""
        return Measure(divergence, self.scale, self.mean)


@dataclass(frozen=True, slots=True)
class Draws:
    """Distinct rows in the order of their numbers, how often each was drawn, its weight."""

    points: Rows
    indices: IntArray
    counts: IntArray
    weights: FloatArray
    summary: Summary
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else is to be known of how they were drawn."""


def by_squared_distance(draws: Draws, divergence: Divergence) -> Draws:
    """Say that Φ is of the squared distance that rows were drawn by, and not the divergence's."""
    known, mean = draws.summary, draws.summary.mean
    details = {**draws.details, "distance": "mahalanobis", "squared_cost": known.cost}
    if mean is not None:
        # Sparse rows were measured less what a zero stands for.
        mean = Measure(divergence).whole(mean, draws.points)
    return replace(draws, summary=replace(known, mean=mean, cost=None), details=details)


class Sampler(Protocol):
    """Which rows matter: draws `size` of them, exactly from the distribution that it names."""

    @property
    def name(self) -> str:
        """What the metadata of a coreset calls it."""

    def passes(self, source: Source, divergence: Divergence) -> int:
        """Tell how many passes it makes over `source` if it may choose."""

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw, in so many passes; some samplers leave a choice of one or two."""


@dataclass(frozen=True, slots=True)
class FirstRound:
    """Round one: the moments of a partition."""

    kernel: KernelName
    n_features: int
    measure: Measure = EUCLIDEAN
    """Rows are averaged as they are measured."""

    def __call__(self, blocks: Iterator[Block], partition: int) -> Moments:
        """Fold the blocks' moments."""
        total: Moments | None = None
        for block in blocks:
            with BadValueError.in_partition(partition):
                rows = self.measure.rows(block.points, block.first_row)
            if self.measure.squared:
                part = Moments(rows.shape[0], *kernels.moments(rows, block.weights, self.kernel))
            else:
                part = self._mean(rows, block.weights)
            if not np.isfinite(part.mean.sum() + part.scatter.sum()):
                raise BadValueError.found_in(block.points, block.first_row, partition)
            total = part if total is None else total + part
        if total is None:
            empty = np.zeros(self.n_features)
            return Moments(0, 0.0, empty, empty)
        return total

    def _mean(self, rows: Rows, weights: FloatArray | None) -> Moments:
        """Without the scatter, which is that of squared distances."""
        omega = kernels.unit_weights(weights, rows.shape[0])
        weight, nothing = float(omega.sum()), np.zeros(rows.shape[1])
        # NaN times zero is NaN, so that a bad row without weight is seen too.
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.asarray(rows.T @ omega)
        mean = self.measure.whole(sums / weight, rows) if weight else sums
        return Moments(rows.shape[0], weight, mean, nothing)


def summary_of(total: Moments, source: Source, divergence: Divergence) -> Summary:
    """What moments tell of all rows: of squared distances also a scale, if one is wanted, and Φ."""
    check_total(total.weight, total.rows)
    if not divergence.squared:
        return Summary(total.rows, total.weight, total.mean)
    scale = standard_scale(total) if source.scale == "standard" else None
    cost = total.cost_around(total.mean, None if scale is None else scale**-2.0)
    check_cost(cost)
    return Summary(total.rows, total.weight, total.mean, cost, scale)


def looks_first(source: Source, divergence: Divergence) -> bool:
    """Whether a pass must come first: for a scale, or the mean that rows are smoothed towards."""
    return source.scale is not None or divergence.smoothing > 0.0


def hindrance_to_one_read(source: Source) -> str | None:
    """What about a source stands in the way of a single pass, if anything."""
    if source.scale is not None:
        return f"with scale={source.scale!r}, which is known only after a pass"
    if not source.can_take and not isinstance(source, SequenceSource):
        return f"for {type(source).__name__}, whose rows cannot be fetched by number"
    return None


def check_passes_possible(source: Source, passes: int, hindrance: str | None) -> None:
    """Refuse one pass where something stands in its way, and several over rows that come once."""
    if passes == 1 and hindrance is not None:
        raise ValueError(f"passes=1 is not possible {hindrance}; pass passes=2 or 'auto'")
    if passes > 1 and not source.rereadable:
        why = "" if hindrance is None else f" {hindrance}"
        raise ValueError(
            f"{passes} passes are needed{why}, but these rows come only once; write them to a file "
            "first, or leave out what needs more than one pass"
        )


def standard_scale(moments: Moments) -> FloatArray:
    """Standard deviation of every column; 1 for a constant one, which then counts for nothing."""
    check_cost(float(moments.scatter.max()))
    scale = np.sqrt(np.maximum(moments.scatter, 0.0) / moments.weight)
    scale[scale == 0.0] = 1.0
    return scale


def check_cost(cost: float) -> None:
    """Refuse data whose squared distances are lost to underflow."""
    if 0.0 < cost < 1e-280:
        raise ValueError(
            f"distances are so small (in all, squared: {cost:g}) that they underflow; "
            "scale the data up, for example to unit variance"
        )


def check_total(weight: float, rows: int = 1) -> None:
    """Refuse data without any rows, or without any weight."""
    if not rows:
        raise ValueError("there are no rows; at least one is needed")
    if weight <= 0.0:
        raise ValueError("all weights are zero; give some row a weight > 0")
