"""φ_C(Q) is unbiased for Q chosen without C: z-tests over 1,000 coresets, fixed
seeds.

Each test looks at five sets of centers and fails a correct sampler with probability 1e-4
(Bonferroni); there are 35 of them. Every coreset is checked for the identity
Σw/Ω + φ_C({μ})/Φ = 2 on the way, where it holds.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import lwcs
from tests.statistical.paths import LIGHTWEIGHT, SENSITIVITY, STRATIFIED, UNIFORM, build, data
from tests.statistical.verdicts import CORESETS, FALSE_ALARM, SIZE, assert_unbiased, center_sets


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("name", [*LIGHTWEIGHT, *STRATIFIED])
def test_lightweight_costs_are_unbiased_and_satisfy_the_identity(name):
    assert_unbiased({**LIGHTWEIGHT, **STRATIFIED}[name], identity=True)


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_costs_are_unbiased(name):
    assert_unbiased(UNIFORM[name], identity=False)


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("name", SENSITIVITY)
def test_costs_by_sensitivity_are_unbiased(name):
    """The initial solution differs from seed to seed; given it, and so overall, they are."""
    assert_unbiased(SENSITIVITY[name], identity=False)


def halves(seed: int) -> lwcs.Coreset:
    X = data()
    return build(X[:90], seed, 40) + build(X[90:], seed + 10_000, 40)


def test_costs_of_unions_are_unbiased():
    assert_unbiased((lambda seed, _: halves(seed), None), identity=False)


def test_costs_of_reduced_unions_are_unbiased():
    path = (lambda seed, size: halves(seed).reduce(size, random_state=seed), None)
    assert_unbiased(path, identity=False)


def test_costs_in_standard_deviations_are_unbiased():
    sets, variance = center_sets(), data().var(axis=0)
    truth = [((data()[:, None, :] - c) ** 2 / variance).sum(axis=2).min(axis=1).sum() for c in sets]
    estimates = np.empty((CORESETS, len(sets)))
    for seed in range(CORESETS):
        coreset = build(lwcs.scan(data(), scale="standard"), seed, SIZE)
        estimates[seed] = [coreset.cost(centers) for centers in sets]
    z = (estimates.mean(axis=0) - truth) / (estimates.std(axis=0, ddof=1) / np.sqrt(CORESETS))
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / 2 / len(sets)), z


def test_the_variance_of_stratified_draws_is_smaller():
    """At most half, for one set of centers, over 500 coresets each way.

    Two samples of this size from one normal law differ so much with probability 1e-14; the
    stratified variance is about a seventh, so that a correct sampler fails with less than 1e-9.
    """
    centers = center_sets()[1]
    spread = {}
    for draws in ("iid", "stratified"):
        method = lwcs.Lightweight(draws=draws)
        costs = [build(data(), s, 100, method=method).cost(centers) for s in range(500)]
        spread[draws] = np.var(costs, ddof=1)
    assert spread["stratified"] < 0.5 * spread["iid"]
