"""D² sampling and the draws by sensitivity follow their laws: chi-squared, fixed seeds.

Each test fails a correct sampler with probability 1e-4; there are 14 of them.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.geometry import Geometry
from lwcs.samplers.around_centers import Assignment, assign, draw_by_sensitivity
from lwcs.samplers.sampler import Run
from lwcs.samplers.sensitivity import d2_sampling, d2_sampling_in_rounds
from tests.statistical.paths import N, data, partitioned, skewed_weights, weights
from tests.statistical.verdicts import assert_follows

CENTERS = data()[[3, 50, 90, 140]] + 0.1
SOURCES = {
    "dense": (lambda: lwcs.scan(data()), None),
    "sparse": (lambda: lwcs.scan(sp.csr_array(data())), None),
    "weighted": (lambda: lwcs.scan(data(), weight=weights()), weights()),
    "skewed weights": (
        lambda: lwcs.scan(data(), weight=skewed_weights()),
        skewed_weights(),
    ),
    "partitioned": (partitioned, None),
    "partitioned, weighted": (lambda: partitioned(weights()), weights()),
}


def law(w: np.ndarray | None) -> np.ndarray:
    """p ∝ ω·s with s written out."""
    omega = np.ones(N) if w is None else w
    distances = ((data()[:, None, :] - CENTERS) ** 2).sum(axis=2)
    own, d = distances.argmin(axis=1), distances.min(axis=1)
    alpha, c = 16.0 * (np.log(4) + 2.0), omega @ d / omega.sum()
    s = alpha * d / c
    for i in range(4):
        weight, cost = omega[own == i].sum(), (omega * d)[own == i].sum()
        if weight > 0.0:  # under `weights` the cluster of row 140 has none
            s[own == i] += 2 * alpha * cost / (weight * c) + 4 * omega.sum() / weight
    return omega * s / (omega @ s)


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("name", SOURCES)
def test_draws_follow_the_sensitivities(name):
    make, w = SOURCES[name]
    source, p = make(), law(w)
    geometry = Geometry()
    centers = geometry.centers(CENTERS)
    counts = np.zeros(N, dtype=np.int64)
    for seed in range(400):
        run = Run(seed, geometry, 1)
        kept = isinstance(source, lwcs.sources.LocalSource)
        initial = assign(source, centers, run) if kept else Assignment(centers)
        draws = draw_by_sensitivity(source, initial, 4, 50, None, run)
        counts[draws.indices] += draws.counts
        omega = np.ones(N) if w is None else w
        expected = draws.counts * omega[draws.indices] / (50 * p[draws.indices])
        np.testing.assert_allclose(draws.weights, expected, rtol=1e-9)
    assert_follows(counts, p)


FEW = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [3.0, 1.5], [9.0, 9.0], [9.5, 9.0]])
OMEGA = np.array([1.0, 2.0, 0.5, 0.0, 1.5, 3.0])


def pairs_law(omega: np.ndarray) -> np.ndarray:
    """P(first = i, second = j) = ω_i/Ω · ω_j·d_ij/Σ_j ω_j·d_ij."""
    d = ((FEW[:, None] - FEW) ** 2).sum(axis=2) * omega
    return (omega / omega.sum())[:, None] * d / d.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "native", "in rounds"])
def test_two_centers_follow_d2_sampling(kind, weighted):
    omega = OMEGA if weighted else np.ones(6)
    if kind == "in rounds":
        parts = [lwcs.scan(FEW[a:b], weight=omega[a:b]) for a, b in ((0, 2), (2, 3), (3, 6))]
        source = lwcs.PartitionedSource(parts)
    else:
        source = lwcs.scan(sp.csr_array(FEW) if kind == "sparse" else FEW, weight=omega)
    counts = np.zeros((6, 6), dtype=np.int64)
    geometry = Geometry(kernel="native" if kind == "native" else "numpy")
    for seed in range(3_000):
        run = Run(seed, geometry, 1)
        if kind == "in rounds":
            centers = d2_sampling_in_rounds(source, 2, geometry, run)
        else:
            centers = d2_sampling(source, 2, geometry, run).centers
        first, second = (int(np.flatnonzero((c == FEW).all(axis=1))[0]) for c in centers.points)
        counts[first, second] += 1
    assert_follows(counts.ravel(), pairs_law(omega).ravel())
