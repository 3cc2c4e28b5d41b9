"""The paper's distributed procedure (section 4): moments up, quotas down, drawn rows back.

All draws are allocated at once, (u, v) ~ Multinomial(m; [Ω_i/2Ω]_i, [φ_i/2Φ]_i), which is
the law of the paper's loop. A partition is told u_i + v_i, and tosses u_i itself, by a binomial;
it then makes its draws in a single scan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lwcs import kernels
from lwcs.divergences.measure import EUCLIDEAN
from lwcs.foundation.randomness import Round, Stage, generator
from lwcs.foundation.types import is_sparse
from lwcs.samplers.crossing import Crossing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.divergences import Measure
    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources import Block

# Sums of one partition in two rounds that differ by more than this part are not of the same rows.
_CHANGED = 1e-9


@dataclass(frozen=True, slots=True)
class Quota:
    """What one partition is told: how many rows to draw, and its totals."""

    partition: int
    draws: int
    weight: float
    cost: float
    strata: tuple[FloatArray, FloatArray] | None = None
    """Stratified draws: where on [0, weight) and on [0, cost) they fall, sorted."""


def allocate(
    size: int, weights: Sequence[float], costs: Sequence[float], rng: np.random.Generator
) -> list[Quota]:
    """Share `size` i.i.d. draws out to the partitions: a multinomial over their parts of q."""
    masses = _halves(weights, costs).reshape(2, -1).sum(axis=0)
    counts = np.zeros(len(masses), dtype=np.int64)
    # A partition without mass gets nothing, not even what rounding leaves over.
    there = np.flatnonzero(masses)
    counts[there] = rng.multinomial(size, masses[there] / masses.sum())
    return [
        Quota(i, int(n), float(w), float(c))
        for i, (n, w, c) in enumerate(zip(counts, weights, costs, strict=True))
    ]


def allocate_strata(
    size: int, weights: Sequence[float], costs: Sequence[float], rng: np.random.Generator
) -> list[Quota]:
    """Share out stratified draws: one uniform in each of `size` equal strata of q.

    The mass of q is laid out in a line, the uniform half of every partition first, then the
    other half; each row is met m·q times in expectation, as with i.i.d. draws.
    """
    halves = _halves(weights, costs)
    ends = np.cumsum(halves)
    targets = (np.arange(size) + rng.random(size)) / size * ends[-1]
    half = np.minimum(np.searchsorted(ends, targets, side="right"), np.flatnonzero(halves)[-1])
    fractions = (targets - (ends - halves)[half]) / halves[half]
    parts = np.split(np.clip(fractions, 0.0, 1.0), np.searchsorted(half, range(1, len(halves))))
    quotas = []
    for i, (weight, cost) in enumerate(zip(weights, costs, strict=True)):
        strata = (parts[i] * weight, parts[len(weights) + i] * cost)
        quotas.append(Quota(i, len(strata[0]) + len(strata[1]), weight, cost, strata))
    return quotas


def _halves(weights: Sequence[float], costs: Sequence[float]) -> FloatArray:
    """The two halves of q by partition; without any cost (Φ = 0) all of q is the first."""
    weight, cost = float(np.sum(weights)), float(np.sum(costs))
    first = np.asarray(weights) / weight
    second = np.asarray(costs) / cost if cost > 0.0 else np.zeros(len(costs))
    return np.concatenate([first, second])


@dataclass(frozen=True, slots=True)
class Picked:
    """Some drawn rows, as a partition sends them home."""

    points: Rows
    rows: IntArray
    """Row numbers, counted from the start of the partition."""
    values: FloatArray
    """What q is made of: the distance to the mean, or the sensitivity; ω cancels in ω/(m·q)."""
    counts: IntArray

    @classmethod
    def out_of(cls, block: Block, values: FloatArray, at: IntArray) -> Picked:
        """Pick rows of a block, each as often as `at` names it."""
        rows, counts = np.unique(at, return_counts=True)
        return cls(block.points[rows], rows + block.first_row, values[rows], counts)


class Total(NamedTuple):
    """What the masses of a partition came to in an earlier round, and how exactly."""

    value: float
    rounding: float = 0.0


def draw_along(
    blocks: Iterator[Block],
    targets: Sequence[FloatArray],
    totals: Sequence[Total],
    measure: Callable[[Block], tuple[FloatArray, Sequence[FloatArray]]],
) -> list[Picked]:
    """Draw rows of a partition in one scan, by one or more measures on its rows.

    Of a block, `measure` gives the values that go home with a row, and the masses of its rows by
    every measure; `targets`, sorted, are where each measure's running sum draws a row; `totals`
    are what the sums come to, as an earlier round found.
    """
    crossings = [Crossing(each) for each in targets]
    tails: list[tuple[Block, FloatArray, int] | None] = [None] * len(crossings)
    picked: list[Picked] = []
    for block in blocks:
        values, masses = measure(block)
        drawn = np.concatenate([c.meet(m) for c, m in zip(crossings, masses, strict=True)])
        picked.append(Picked.out_of(block, values, drawn))
        for i, mass in enumerate(masses):
            if (last := _last_with(mass)) is not None:
                tails[i] = block, values, last
    for crossing, total in zip(crossings, totals, strict=True):
        if abs(crossing.total - total.value) > _CHANGED * total.value + total.rounding:
            raise ValueError(
                "the rows changed between two passes over them; give them a fixed order, let "
                "their writer finish, and cache or write out what is computed anew each time"
            )
    # Targets that the running sum misses by rounding belong to the last row with mass.
    for crossing, tail in zip(crossings, tails, strict=True):
        found = tail or tails[0]
        if found is not None and crossing.leftover:
            block, values, last = found
            picked.append(Picked.out_of(block, values, np.full(crossing.leftover, last)))
    return [part for part in picked if len(part.rows)]


def _last_with(masses: FloatArray) -> int | None:
    """The last row that has mass; mostly it is the last row."""
    if len(masses) and masses[-1] > 0.0:
        return len(masses) - 1
    there = np.flatnonzero(masses)
    return int(there[-1]) if len(there) else None


@dataclass(frozen=True, slots=True)
class SecondRound:
    """Round two: u rows in proportion to weight, v in proportion to weight·distance."""

    seed: int
    stage: Stage
    kernel: KernelName
    mean: kernels.Pivot | None
    average: float = 0.0
    """Φ/Ω."""
    measure: Measure = EUCLIDEAN

    def __call__(self, blocks: Iterator[Block], quota: Quota) -> list[Picked]:
        """Draw this partition's share in one scan."""
        if not quota.draws:
            return []
        totals = (Total(quota.weight), Total(quota.cost, quota.weight * self._rounding()))
        return draw_along(blocks, self._targets(quota), totals, self._measure)

    def _rounding(self) -> float:
        """What a squared distance to a mean far from the origin may be off."""
        if self.mean is None:
            return 0.0
        point, precision = self.mean.point, self.mean.precision
        return float(1e-12 * np.sum(point**2 if precision is None else precision * point**2))

    def _targets(self, quota: Quota) -> tuple[FloatArray, FloatArray]:
        if quota.strata is not None:
            return quota.strata
        rng = generator(self.seed, self.stage, Round.DRAW, quota.partition)
        # Ω_i/2Ω against φ_i/2Φ; without any cost, all draws are by weight.
        cost = quota.cost / self.average if self.average > 0.0 else 0.0
        by_weight = int(rng.binomial(quota.draws, quota.weight / (quota.weight + cost)))
        return (
            np.sort(rng.random(by_weight)) * quota.weight,
            np.sort(rng.random(quota.draws - by_weight)) * quota.cost,
        )

    def _measure(self, block: Block) -> tuple[FloatArray, Sequence[FloatArray]]:
        omega = kernels.unit_weights(block.weights, block.points.shape[0])
        if self.mean is None:
            distances = np.zeros(block.points.shape[0])
            return distances, (omega, distances)
        distances = np.empty(block.points.shape[0])
        rows = self.measure.rows(block.points)
        kernels.scan(rows, block.weights, self.mean, distances, self.kernel)
        return distances, (omega, distances if block.weights is None else omega * distances)


def merge(partitions: Iterable[list[Picked]], offsets: IntArray) -> Picked:
    """Put the partitions' rows together: each distinct row once, in order, counts added."""
    parts: list[Picked] = []
    for offset, picked in zip(offsets, partitions, strict=True):
        parts += [replace(part, rows=part.rows + offset) for part in picked if len(part.rows)]
    rows, first, group = np.unique(
        np.concatenate([part.rows for part in parts]), return_index=True, return_inverse=True
    )
    counts = np.bincount(group, np.concatenate([part.counts for part in parts])).astype(np.int64)
    return Picked(
        stack([part.points for part in parts])[first],
        rows,
        np.concatenate([part.values for part in parts])[first],
        counts,
    )


def stack(parts: list[Rows]) -> Rows:
    """Rows under rows, dense or sparse."""
    if len({is_sparse(part) for part in parts}) > 1:
        raise ValueError("some partitions are sparse and others dense; make them all of one kind")
    if is_sparse(parts[0]):
        import scipy.sparse as sp

        return sp.vstack(parts, format="csr")
    return np.concatenate(parts)
