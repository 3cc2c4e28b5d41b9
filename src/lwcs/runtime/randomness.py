"""Random generators: one per task, from one seed, and the draws that are split with them.

A generator is keyed by the stage, the round and the partition of its task, never by the thread or
the attempt. A task that is retried, or run by another thread, therefore draws the same numbers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import IntEnum
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray, IntArray


class Stage(IntEnum):
    """Purpose of the numbers; stages of one seed are independent of each other."""

    CORESET = 0
    REDUCE = 1
    SEEDING = 2
    PILOT = 3
    PILOT_SEEDING = 4
    COMPARE = 5
    STREAM = 6
    RESTART = 7
    LEVELS = 8
    AGAIN = 9
    PILOT_AGAIN = 10
    PILOT_ONCE_MORE = 11
    HOLDOUT = 12
    BOOTSTRAP = 13
    CHOICE = 14
    CHECK = 15


class Round(IntEnum):
    """Which draw of a build the numbers are for."""

    PLAN = 0
    DRAW = 1
    PIVOT = 2
    ONE_READ = 3
    UNIFORM = 4
    D2 = 5
    RESERVOIR = 6
    FINISH = 7
    D2_CANDIDATES = 1_000
    """First of a range of rounds, one per center."""


def generator(seed: int, stage: Stage, round_: int = 0, partition: int = 0) -> np.random.Generator:
    """The Philox generator of one task."""
    key = np.random.SeedSequence(seed, spawn_key=(int(stage), round_, partition))
    return np.random.Generator(np.random.Philox(key))


def as_seed(random_state: object) -> int:
    """Turn scikit-learn's `random_state` into the one integer that is stored with the result.

    ``None`` takes fresh entropy, a generator gives one draw, an integer is used as it is.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**63, dtype=np.int64))
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ValueError(f"random_state={random_state} is negative; pass an integer >= 0")
        return int(random_state)
    raise TypeError(
        f"random_state={random_state!r} cannot seed a build; "
        "pass None, an integer >= 0 or a NumPy generator"
    )


@dataclass(frozen=True, slots=True)
class Subsample:
    """Some of the draws: the numbers of their rows, how often each was drawn, and their weights."""

    at: IntArray
    counts: IntArray
    weights: FloatArray


def deal(counts: IntArray, sizes: Sequence[int], rng: np.random.Generator) -> list[IntArray]:
    """Deal the draws at random into parts of these sizes; return the count of every row per part.

    Draws that are left over are in no part.
    """
    shuffled = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    ends = np.cumsum([0, *sizes])
    return [
        np.bincount(shuffled[start:end], minlength=len(counts))
        for start, end in itertools.pairwise(ends)
    ]


def part_of(weights: FloatArray, counts: IntArray, kept: IntArray) -> Subsample:
    """The rows of a part, with weights as in a coreset of the size of that part."""
    at = np.flatnonzero(kept)
    share = (kept[at] / counts[at]) * (counts.sum() / kept.sum())
    return Subsample(at, kept[at], weights[at] * share)
