"""Draws dealt into parts: any of the draws of a direct coreset, chosen at random, are one too.

The draws are exchangeable, so m of M draws chosen without replacement are a coreset of size m
(weights times M/m), and the others an independent one (times M/(M − m)).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.foundation.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the draws: which rows of the whole, how often each, and their weights."""

    at: IntArray
    counts: IntArray
    weights: FloatArray


def deal(counts: IntArray, sizes: Sequence[int], rng: np.random.Generator) -> list[IntArray]:
    """Deal the draws at random into parts of these sizes; return the counts of every row in each.

    Draws that are left over are in no part.
    """
    shuffled = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    ends = np.cumsum([0, *sizes])
    return [
        np.bincount(shuffled[start:end], minlength=len(counts))
        for start, end in itertools.pairwise(ends)
    ]


def part_of(weights: FloatArray, counts: IntArray, kept: IntArray) -> Part:
    """The rows of a part, with the weights of a coreset of its size."""
    at = np.flatnonzero(kept)
    share = (kept[at] / counts[at]) * (counts.sum() / kept.sum())
    return Part(at, kept[at], weights[at] * share)
