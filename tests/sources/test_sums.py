"""Sums of partitions are taken in one order, however many of their levels are added elsewhere."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest

import lwcs
from lwcs.sources.sums import GROUP, add_groups, add_up, joined_in_levels


def in_levels(values):
    """The definition: sums of 32, then of 32 of those, until one is left."""
    while len(values) > 1:
        starts = range(0, len(values), GROUP)
        values = [reduce(add, values[start : start + GROUP]) for start in starts]
    return values[0]


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 1_024, 1_025, 40_000])
def test_any_number_of_levels_elsewhere_gives_the_same_bits(n):
    values = (np.random.default_rng(n).standard_normal(n) * 10.0 ** (np.arange(n) % 17)).tolist()
    want = in_levels(values)
    some = values
    for _ in range(4):
        assert add_up(some) == want
        some = list(add_groups(some))
    assert joined_in_levels(values, lambda group: reduce(add, group)) == [want]


def test_up_to_1024_sums_are_those_of_groups_added_one_after_the_other():
    values = (np.random.default_rng(0).standard_normal(1_000) * 1e6).tolist()
    assert add_up(values) == reduce(add, add_groups(values))


class Counted:
    """A number that counts how many of its kind there are."""

    here = most = 0

    def __init__(self, value):
        self.value = value
        Counted.here += 1
        Counted.most = max(Counted.most, Counted.here)

    def __del__(self):
        Counted.here -= 1

    def __add__(self, other):
        return Counted(self.value + other.value)


def test_no_more_than_a_few_sums_are_held():
    assert add_up(map(Counted, range(40_000))).value == sum(range(40_000))
    assert Counted.most < 16


def test_polish_of_many_partitions_is_added_in_levels():
    X = np.random.default_rng(0).standard_normal((2_200, 3)) * 1e3
    parts = [X[i : i + 2] for i in range(0, len(X), 2)]
    model = lwcs.CoresetKMeans(1, coreset_size=50, polish=1, random_state=0)
    model.fit(lwcs.PartitionedSource(parts))
    sums = in_levels([part.sum(axis=0) for part in parts])
    np.testing.assert_allclose(model.cluster_centers_[0], sums / len(X), rtol=1e-9)
