"""Sums of results of partitions, added in levels of 32, in one order wherever that is done.

The order of the additions depends on the number of each result alone: it does not matter how many
of the levels were added up elsewhere, so that engines and this process give the same bits.
"""

from __future__ import annotations

from functools import reduce
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

GROUP = 32
"""Number of consecutive results that are added up first, then of consecutive sums, and so on."""
_LEVELS = 8
"""Levels of sums, which are enough for 32⁸ partitions."""

A = TypeVar("A")
R = TypeVar("R")


def in_groups(items: Iterable[A]) -> Iterator[list[A]]:
    """Yield lists of `GROUP` consecutive items, the last one shorter."""
    remaining = iter(items)
    while group := list(islice(remaining, GROUP)):
        yield group


def joined_in_levels(results: Iterable[A], join: Callable[[list[A]], A]) -> list[A]:
    """Join groups of `GROUP` results, then groups of what was joined, until at most one is left."""
    groups = [join(group) for group in in_groups(results)]
    return groups if len(groups) <= 1 else joined_in_levels(groups, join)


def add_groups(results: Iterable[R]) -> Iterator[R]:
    """Yield the sum of every `GROUP` consecutive results, added from left to right."""
    remaining = iter(results)
    for first in remaining:
        yield reduce(add, islice(remaining, GROUP - 1), first)


def add_up(results: Iterable[R]) -> R:
    """The sum of all results: of groups of `GROUP`, of groups of their sums, until one is left.

    The order of the additions depends on the number of each result alone, so that it does not
    matter how many of the levels were added up elsewhere. One sum per level is held.
    """
    for _ in range(_LEVELS):
        results = add_groups(results)
    (total,) = results
    return total
