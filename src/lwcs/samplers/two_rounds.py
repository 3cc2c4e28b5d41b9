"""Draws from partitions in two rounds (section 4): totals up, quotas down, drawn rows back.

Rows are drawn by one or more measures on them, each with the same share of the draws. All
draws are allocated at once by a multinomial over partitions, which is the law of the paper's loop;
a partition draws its rows in a single scan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lwcs.arrays.rows import stack
from lwcs.samplers.draws import Crossing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.sources import Block

# Sums of one partition in two rounds that differ by more than this part are not of the same rows.
_CHANGED = 1e-9


@dataclass(frozen=True, slots=True)
class Quota:
    """What one partition is told: how many rows to draw, and its total by every measure."""

    partition: int
    draws: int
    totals: tuple[float, ...]
    strata: tuple[FloatArray, ...] | None = None
    """Stratified draws: where on [0, total) they fall, sorted, for every measure."""


def allocate(size: int, totals: Sequence[Sequence[float]], rng: np.random.Generator) -> list[Quota]:
    """Share `size` i.i.d. draws out to the partitions, by a multinomial.

    `totals` are those of every partition, for every measure; a measure without any mass has no
    share of the draws.
    """
    masses = _shares(totals).sum(axis=0)
    counts = np.zeros(len(masses), dtype=np.int64)
    # A partition without mass gets nothing, not even what rounding leaves over.
    there = np.flatnonzero(masses)
    counts[there] = rng.multinomial(size, masses[there] / masses.sum())
    return [
        Quota(i, int(n), tuple(map(float, own)))
        for i, (n, own) in enumerate(zip(counts, zip(*totals, strict=True), strict=True))
    ]


def allocate_strata(
    size: int, totals: Sequence[Sequence[float]], rng: np.random.Generator
) -> list[Quota]:
    """Share out stratified draws: one uniform in each of `size` equal strata of all mass.

    The mass is laid out in a line, one measure of all partitions after the other; each row is
    drawn as often in expectation as with i.i.d. draws.
    """
    shares = _shares(totals)
    flat = shares.ravel()
    ends = np.cumsum(flat)
    targets = (np.arange(size) + rng.random(size)) / size * ends[-1]
    part = np.minimum(np.searchsorted(ends, targets, side="right"), np.flatnonzero(flat)[-1])
    fractions = (targets - (ends - flat)[part]) / flat[part]
    parts = np.split(np.clip(fractions, 0.0, 1.0), np.searchsorted(part, range(1, len(flat))))
    quotas = []
    for i, own in enumerate(zip(*totals, strict=True)):
        strata = tuple(parts[m * shares.shape[1] + i] * own[m] for m in range(len(own)))
        quotas.append(Quota(i, sum(map(len, strata)), tuple(map(float, own)), strata))
    return quotas


def _shares(totals: Sequence[Sequence[float]]) -> FloatArray:
    """Every measure by partition, so that each measure with any mass sums to one."""
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
    """Some drawn rows, as a partition sends them home."""

    points: Rows
    rows: IntArray
    """Row numbers, counted from the start of the partition."""
    values: FloatArray
    """What q is computed from: a distance, or a sensitivity; ω cancels in ω/(m·q)."""
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
    masses_of: Callable[[Block], tuple[FloatArray, Sequence[FloatArray]]],
) -> list[Picked]:
    """Draw rows of a partition in one scan, by one or more measures on its rows.

    For a block, `masses_of` gives the values that go home with a row, and the masses of its rows
    by every measure; `targets`, sorted, are where each measure's running sum draws a row;
    `totals` are what the sums come to, as an earlier round found.
    """
    crossings = [Crossing(each) for each in targets]
    tails: list[tuple[Block, FloatArray, int] | None] = [None] * len(crossings)
    picked: list[Picked] = []
    for block in blocks:
        values, masses = masses_of(block)
        drawn = np.concatenate([c.meet(m) for c, m in zip(crossings, masses, strict=True)])
        picked.append(Picked.out_of(block, values, drawn))
        for i, mass in enumerate(masses):
            if (last := _last_with(mass)) is not None:
                tails[i] = block, values, last
    for crossing, total in zip(crossings, totals, strict=True):
        if abs(crossing.total - total.value) > _CHANGED * total.value + total.rounding:
            raise ValueError(
                "the rows changed between two passes over them; give them a fixed order, let "
                "their writer finish, and cache or write out what is computed anew for each pass"
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


def merge(partitions: Iterable[list[Picked]], rows_before: IntArray) -> Picked:
    """Put the partitions' rows together: each distinct row once, in order, counts added."""
    parts: list[Picked] = []
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


def rows_before(counts: Sequence[int]) -> IntArray:
    """How many rows come before every partition."""
    return np.cumsum([0, *counts[:-1]])
