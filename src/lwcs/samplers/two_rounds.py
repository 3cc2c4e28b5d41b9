"""Draws from partitions in two rounds (section 4 of the paper).

In round one every partition returns the totals of its masses; in round two it gets a quota of
draws, draws its rows in a single scan, and returns them. Rows are drawn by one or more masses, each
with the same share of the draws. All draws are allocated at once by a multinomial over partitions,
which has the distribution of the paper's loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lwcs.arrays.rows import stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.sources import Block

# Rows have changed if the totals of a partition differ by more than this between the two rounds.
_CHANGED = 1e-9


@dataclass(frozen=True, slots=True)
class Quota:
    """The draws of one partition, and the totals of its masses."""

    partition: int
    draws: int
    totals: tuple[float, ...]
    strata: tuple[FloatArray, ...] | None = None
    """For stratified draws, their sorted positions on [0, total) for every mass."""


def allocate(size: int, totals: Sequence[Sequence[float]], rng: np.random.Generator) -> list[Quota]:
    """Allocate `size` i.i.d. draws to the partitions, by a multinomial.

    `totals` has the totals of all partitions for every mass; a mass that is zero everywhere has no
    share of the draws.
    """
    masses = _shares(totals).sum(axis=0)
    counts = np.zeros(len(masses), dtype=np.int64)
    # A partition without mass gets no draws, not even those that rounding leaves over.
    nonzero = np.flatnonzero(masses)
    counts[nonzero] = rng.multinomial(size, masses[nonzero] / masses.sum())
    by_partition = zip(*totals, strict=True)
    return [
        Quota(i, int(n), tuple(map(float, each)))
        for i, (n, each) in enumerate(zip(counts, by_partition, strict=True))
    ]


def allocate_strata(
    size: int, totals: Sequence[Sequence[float]], rng: np.random.Generator
) -> list[Quota]:
    """Allocate stratified draws: one uniform draw in each of `size` equal strata of all mass.

    All masses are laid out on a line, one after the other, each by partition; every row is drawn as
    often in expectation as with i.i.d. draws.
    """
    shares = _shares(totals)
    flat = shares.ravel()
    ends = np.cumsum(flat)
    targets = (np.arange(size) + rng.random(size)) / size * ends[-1]
    part = np.minimum(np.searchsorted(ends, targets, side="right"), np.flatnonzero(flat)[-1])
    fractions = (targets - (ends - flat)[part]) / flat[part]
    parts = np.split(np.clip(fractions, 0.0, 1.0), np.searchsorted(part, range(1, len(flat))))
    quotas = []
    for i, each in enumerate(zip(*totals, strict=True)):
        strata = tuple(parts[m * shares.shape[1] + i] * each[m] for m in range(len(each)))
        quotas.append(Quota(i, sum(map(len, strata)), tuple(map(float, each)), strata))
    return quotas


def _shares(totals: Sequence[Sequence[float]]) -> FloatArray:
    """Masses by partition, each scaled to a sum of one unless it is zero everywhere."""
    sums = [float(np.sum(each)) for each in totals]
    if not np.isfinite(sums).all():
        raise ValueError(
            "the sampling probabilities of some rows cannot be computed, since weights and "
            "distances range over too many decades; leave out rows whose weight is negligible, or "
            "scale the data to unit variance"
        )
    shares = [
        np.asarray(each) / total if total > 0.0 else np.zeros(len(each))
        for each, total in zip(totals, sums, strict=True)
    ]
    return np.array(shares, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Picked:
    """Drawn rows of one or more partitions."""

    points: Rows
    rows: IntArray
    """Row numbers, counted from the start of the partition."""
    values: FloatArray
    """The distance or sensitivity that q is computed from; ω cancels in ω/(m·q)."""
    counts: IntArray

    @classmethod
    def out_of(cls, block: Block, values: FloatArray, drawn: IntArray) -> Picked:
        """The rows of a block that are drawn, given with repetitions."""
        rows, counts = np.unique(drawn, return_counts=True)
        return cls(block.points[rows], rows + block.first_row, values[rows], counts)


class Total(NamedTuple):
    """The total of a mass over a partition in round one, and a bound of its rounding error."""

    value: float
    rounding: float = 0.0


def draw_along(
    blocks: Iterator[Block],
    targets: Sequence[FloatArray],
    totals: Sequence[Total],
    masses_of: Callable[[Block], tuple[FloatArray, Sequence[FloatArray]]],
) -> list[Picked]:
    """Draw rows of a partition in one scan, by one or more masses.

    `masses_of` gives the values of a block's rows that are returned with the drawn ones, and every
    mass of its rows. `targets` are sorted positions on the running sum of each mass: each of them
    draws the row that it falls on. `totals` are the totals of round one.
    """
    crossings = [Crossing(each) for each in targets]
    tails: list[tuple[Block, FloatArray, int] | None] = [None] * len(crossings)
    picked: list[Picked] = []
    for block in blocks:
        values, masses = masses_of(block)
        drawn = np.concatenate([c.meet(m) for c, m in zip(crossings, masses, strict=True)])
        picked.append(Picked.out_of(block, values, drawn))
        for i, mass in enumerate(masses):
            if (last := _last_with_mass(mass)) is not None:
                tails[i] = block, values, last
    for crossing, total in zip(crossings, totals, strict=True):
        if abs(crossing.total - total.value) > _CHANGED * total.value + total.rounding:
            raise ValueError(
                "the rows changed between two passes over them; give them a fixed order, let "
                "their writer finish, and cache or write out what is computed anew for each pass"
            )
    # Targets beyond the end of the running sum, by rounding, belong to the last row with mass.
    for crossing, tail in zip(crossings, tails, strict=True):
        last_row = tail or tails[0]
        if last_row is not None and crossing.leftover:
            block, values, last = last_row
            picked.append(Picked.out_of(block, values, np.full(crossing.leftover, last)))
    return [part for part in picked if len(part.rows)]


class Crossing:
    """Sorted targets on [0, total), met block after block as the running sum of a mass grows."""

    def __init__(self, targets: FloatArray) -> None:
        self._targets = targets
        self._met = 0
        self._running = 0.0
        # Reused for every block: fresh memory costs more than the sums.
        self._sums = np.empty(0)

    def meet(self, masses: FloatArray) -> IntArray:
        """Rows of the next block that are drawn, with repetitions; rows without mass never are."""
        if not len(masses):
            return np.empty(0, dtype=np.int64)
        if self._met == len(self._targets):
            self._running += float(masses.sum())
            return np.empty(0, dtype=np.int64)
        if len(self._sums) < len(masses):
            self._sums = np.empty(len(masses))
        sums = np.cumsum(masses, out=self._sums[: len(masses)])
        sums += self._running
        upto = int(np.searchsorted(self._targets, sums[-1], side="left"))
        drawn = np.searchsorted(sums, self._targets[self._met : upto], side="right")
        self._met = max(self._met, upto)
        self._running = float(sums[-1])
        return drawn.astype(np.int64, copy=False)

    @property
    def total(self) -> float:
        """The running sum."""
        return self._running

    @property
    def leftover(self) -> int:
        """Number of targets beyond the running sum; there are any only by rounding."""
        return len(self._targets) - self._met


def _last_with_mass(masses: FloatArray) -> int | None:
    """The last row with mass, which is mostly the last row."""
    if len(masses) and masses[-1] > 0.0:
        return len(masses) - 1
    nonzero = np.flatnonzero(masses)
    return int(nonzero[-1]) if len(nonzero) else None


def merge(partitions: Iterable[list[Picked]], n_rows: Sequence[int]) -> Picked:
    """The drawn rows of all partitions: each distinct row once, in order, with its draws added.

    `n_rows` are the numbers of rows of the partitions, which start their row numbers at 0.
    """
    parts: list[Picked] = []
    rows_before = np.cumsum([0, *n_rows[:-1]])
    for offset, picked in zip(rows_before, partitions, strict=True):
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
