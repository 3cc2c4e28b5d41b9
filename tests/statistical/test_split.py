"""Prefix and rest of a split are direct coresets, independent of each other: fixed seeds.

Each test fails a correct split with probability 1e-4; there are 9 of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

import lwcs
from lwcs.geometry import Geometry
from lwcs.samplers.around_centers import assign, draw_by_sensitivity
from lwcs.samplers.sampler import Run
from tests.statistical.paths import LIGHTWEIGHT, UNIFORM, N, data, lightweight_q, uniform_q
from tests.statistical.test_sensitivity_law import CENTERS, law
from tests.statistical.verdicts import FALSE_ALARM, assert_follows, center_sets

CORESETS, FIRST, SECOND = 1_000, 30, 70


def by_sensitivity(seed: int, size: int) -> lwcs.Coreset:
    """Around fixed centers, so that all coresets have one law."""
    geometry, source = Geometry(), lwcs.scan(data())
    run = Run(seed, geometry, 1)
    around = assign(source, geometry.centers(CENTERS), run)
    draws = draw_by_sensitivity(source, around, 4, size, None, run)
    return lwcs.Coreset.drawn(draws, method="sensitivity", divergence=geometry.divergence)


PATHS: dict[str, tuple[Callable[[int, int], lwcs.Coreset], np.ndarray]] = {
    "lightweight": (LIGHTWEIGHT["two passes"][0], lightweight_q(None)),
    "uniform": (UNIFORM["uniform"][0], uniform_q(None)),
    "sensitivity": (by_sensitivity, law(None)),
}


@pytest.fixture(scope="module", params=PATHS)
def split(request: pytest.FixtureRequest) -> tuple[np.ndarray, list[tuple[lwcs.Coreset, ...]]]:
    """The law of the draws, and the two parts of many coresets."""
    make, q = PATHS[request.param]
    whole = FIRST + SECOND
    return q, [make(s, whole).split(FIRST, random_state=s) for s in range(CORESETS)]


def errors(parts: list[tuple[lwcs.Coreset, ...]]) -> np.ndarray:
    """φ_part(Q)/φ_X(Q) − 1 of every pair, for some sets of centers, and that of the weight."""
    squares = [((data()[:, None, :] - each) ** 2).sum(axis=2).min(axis=1) for each in center_sets()]
    costs = np.stack([*squares, np.ones(N)], axis=1)
    found = [[part.weights @ costs[part.indices] for part in pair] for pair in parts]
    return np.array(found) / costs.sum(axis=0) - 1.0


@pytest.mark.parametrize(("which", "size"), [(0, FIRST), (1, SECOND)], ids=["first", "second"])
def test_each_part_follows_the_law(split, which, size):
    q, counts = split[0], np.zeros(N, dtype=np.int64)
    for pair in split[1]:
        part = pair[which]
        counts[part.indices] += part.counts
        expected = part.counts / (size * q[part.indices])
        np.testing.assert_allclose(part.weights, expected, rtol=1e-9)
    assert counts.sum() == CORESETS * size
    assert_follows(counts, q)


def test_costs_and_weights_of_both_parts_are_unbiased_and_their_errors_independent(split):
    """z-tests of 12 means and of 6 correlations, of which each is about N(0, 1/n)."""
    found = errors(split[1])
    spread = found.std(axis=0, ddof=1)
    # For uniform draws, the weight is known without error.
    there = spread[0] > 1e-9
    limit = norm.isf(FALSE_ALARM / 2 / 18)
    z = found.mean(axis=0)[:, there] / spread[:, there] * np.sqrt(CORESETS)
    assert np.abs(z).max() < limit, z
    for j in np.flatnonzero(there):
        correlation = np.corrcoef(found[:, 0, j], found[:, 1, j])[0, 1]
        assert abs(correlation) * np.sqrt(CORESETS) < limit, (j, correlation)
