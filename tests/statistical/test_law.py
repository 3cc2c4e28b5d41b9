"""Drawn rows follow the distribution that the sampler names: chi-squared, fixed seeds.

Each test fails a correct sampler with probability 1e-4; there are 21 of them. Counts of
draws are tested, not weights; cells of fewer than five expected draws are pooled.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.statistical.paths import LIGHTWEIGHT, STRATIFIED, UNIFORM, lightweight_q, uniform_q
from tests.statistical.verdicts import assert_follows, total_counts


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("name", LIGHTWEIGHT)
def test_lightweight_draws_follow_q(name):
    path = LIGHTWEIGHT[name]
    assert_follows(total_counts(path, 400, 50), lightweight_q(path[1]))


@pytest.mark.usefixtures("small_partitions")
def test_native_kernels_draw_the_same_law(monkeypatch):
    monkeypatch.setenv("LWCS_KERNEL", "native")
    path = LIGHTWEIGHT["skewed weights, one read"]
    assert_follows(total_counts(path, 400, 50), lightweight_q(path[1]))


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_draws_follow_the_weights(name):
    path = UNIFORM[name]
    assert_follows(total_counts(path, 400, 50), uniform_q(path[1]))


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("name", STRATIFIED)
def test_stratified_draws_follow_q(name):
    """One random draw from each of many coresets, since draws of one coreset are dependent."""
    make, w = STRATIFIED[name]
    rng, counts = np.random.default_rng(0), np.zeros(150, dtype=np.int64)
    for seed in range(4000):
        coreset = make(seed, 20)
        counts[rng.choice(np.repeat(coreset.indices, coreset.counts))] += 1
    assert_follows(counts, lightweight_q(w))


@pytest.mark.usefixtures("small_partitions")
def test_the_chi_squared_test_notices_a_wrong_law():
    """The same counts against another law: what a biased sampler would look like."""
    counts = total_counts(UNIFORM["uniform"], 400, 50)
    with pytest.raises(AssertionError):
        assert_follows(counts, lightweight_q(None))
