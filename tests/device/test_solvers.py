"""Solvers on a device do what they do with NumPy rows; host tensors stand in for a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from lwcs.arrays.device import DeviceArray
from lwcs.divergences import KL, Cosine, ItakuraSaito, Mahalanobis
from lwcs.geometry import Geometry
from lwcs.geometry.device_rows import DeviceRows
from lwcs.runtime.journal import Journal
from lwcs.solvers.lloyd import cluster, lloyd, solve
from lwcs.solvers.local_search import local_search
from lwcs.solvers.points import Points
from lwcs.solvers.seeding import kmeans_plusplus
from tests.solvers.test_lloyd import data
from tests.solvers.test_seeding import clustered

torch = pytest.importorskip("torch", reason="torch is not installed")

DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64])
OFFSET = pytest.mark.parametrize("offset", [0.0, 1e5])
SCALED = pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])


def on_cpu(array):
    return DeviceArray(torch.tensor(array))


def both(X, w, scaled=False, **options):
    """The same points on the host and on a device."""
    scale = np.linspace(0.5, 2.0, X.shape[1]) if scaled else None
    geometry = Geometry(scale=scale, **options)
    host, device = Points.of(X, w, geometry), Points.of(on_cpu(X), w, geometry)
    assert isinstance(device.rows, DeviceRows)
    return host, device


@DTYPE
@OFFSET
@SCALED
def test_points_cost_on_average_what_they_cost_on_the_host(dtype, offset, scaled):
    X, w = data()
    host, device = both((X + offset).astype(dtype), w, scaled)
    assert device.average == pytest.approx(host.average, rel=1e-9)
    np.testing.assert_array_equal(device.weights, w)
    given = Points.of(on_cpu(X.astype(dtype)), on_cpu(w))
    np.testing.assert_array_equal(given.weights, w)
    assert Points.of(on_cpu(X), None).weights.sum() == len(X)


@pytest.mark.parametrize("make", [data, clustered], ids=["float32 rounds", "both precisions"])
@DTYPE
@OFFSET
@SCALED
@pytest.mark.parametrize("candidates", [None, 1], ids=["greedy", "plain"])
def test_the_same_points_are_chosen(make, dtype, offset, scaled, candidates):
    X, w = make(1_500)
    w[::5] = 0.0
    host, device = both((X + offset).astype(dtype), w, scaled)
    for seed in range(3):
        expected = kmeans_plusplus(host, 50, np.random.default_rng(seed), candidates)
        found = kmeans_plusplus(device, 50, np.random.default_rng(seed), candidates)
        np.testing.assert_array_equal(found, expected)


def test_the_rounds_go_on_in_float64_when_the_cost_has_fallen(monkeypatch):
    from lwcs.kernels.torch import seeding_rounds as seeding

    X, w = clustered()
    calls = []
    choose = seeding.choose

    def watched(own, chosen, closest=None, how=None):
        found = choose(own, chosen, closest, how)
        calls.append((own.origin is None, len(chosen), len(found)))
        return found

    monkeypatch.setattr(seeding, "choose", watched)
    kmeans_plusplus(both(X, w)[1], 60, np.random.default_rng(0))
    (first, one, reached), (second, start, all_of_them) = calls
    assert (first, one, second, all_of_them) == (False, 1, True, 60)
    assert reached == start < 60


@pytest.mark.parametrize("factor", [1e31, 1e-31])
def test_numbers_that_overflow_in_float32_are_chosen_by_float64(factor):
    X, w = data(500)
    host, device = both(factor * X, w)
    rng = np.random.default_rng(0)
    expected = kmeans_plusplus(host, 20, np.random.default_rng(0))
    np.testing.assert_array_equal(kmeans_plusplus(device, 20, rng), expected)


@DTYPE
def test_fewer_distinct_points_than_centers(dtype):
    X = np.repeat(np.arange(4.0)[:, None], 10, axis=0).astype(dtype)
    host, device = both(X, np.ones(40))
    for k in (3, 9):
        found = kmeans_plusplus(device, k, np.random.default_rng(0))
        np.testing.assert_array_equal(found, kmeans_plusplus(host, k, np.random.default_rng(0)))
    assert set(X[found, 0]) == {0.0, 1.0, 2.0, 3.0}


@DTYPE
@OFFSET
@pytest.mark.parametrize("make", [data, clustered], ids=["float32", "float64"])
@SCALED
def test_local_search_takes_the_same_swaps(make, dtype, offset, scaled):
    X, w = make(1_000)
    host, device = both((X + offset).astype(dtype), w, scaled)
    start = host.rows.as_centers(np.arange(20))
    expected = local_search(host, start, np.random.default_rng(0))
    found = local_search(device, start, np.random.default_rng(0))
    assert host.rows.cost(expected, w) < 0.9 * host.rows.cost(start, w)
    assert host.rows.cost(found, w) == pytest.approx(host.rows.cost(expected, w), rel=1e-2)
    if dtype == np.float64:
        np.testing.assert_array_equal(found.points, expected.points)


@DTYPE
@OFFSET
@SCALED
@pytest.mark.parametrize(
    "options",
    [
        {"max_iter": 1, "tol": 0.0},
        {"max_iter": 5, "tol": 0.0},
        {"max_iter": 100, "tol": 0.0},
        {"max_iter": 100, "tol": 1e-2},
        {"max_iter": 100, "tol": 0.0, "stride": 1.7},
        {"max_iter": 4, "tol": 0.0, "stride": 1.7},
        {"max_iter": 100, "tol": 0.0, "least_gain": 1e-3},
    ],
    ids=str,
)
def test_lloyd_is_the_same(dtype, offset, scaled, options):
    X, w = data(1_200)
    host, device = both((X + offset).astype(dtype), w, scaled)
    start = host.rows.as_centers(np.arange(30))
    expected, found = lloyd(host, start, **options), lloyd(device, start, **options)
    assert (found.n_iter, found.converged) == (expected.n_iter, expected.converged)
    assert found.cost == pytest.approx(expected.cost, rel=1e-5 if dtype == np.float32 else 1e-12)
    assert found.remaining == pytest.approx(expected.remaining, rel=1e-2, abs=1e-9)
    assert found.labels.dtype == expected.labels.dtype
    assert found.centers.points.dtype == np.float64
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.centers.points, expected.centers.points, rtol=1e-6, atol=1e-9)


@DTYPE
def test_empty_clusters_are_relocated(dtype):
    X, w = data(600)
    host, device = both(X.astype(dtype), w)
    given = np.concatenate([X[:10], X[:3] + 1e4]).astype(dtype)
    start = host.rows.geometry.centers(given)
    found = lloyd(device, start, max_iter=100, tol=0.0)
    expected = lloyd(host, start, max_iter=100, tol=0.0)
    assert len(np.unique(found.labels)) == 13
    assert found.cost == pytest.approx(expected.cost, rel=1e-5)
    np.testing.assert_array_equal(found.labels, expected.labels)


def test_labels_belong_to_the_final_centers():
    X, w = data(800)
    _, device = both(X, w)
    found = lloyd(device, device.rows.as_centers(np.arange(25)), max_iter=3, tol=0.0)
    labels, distances = device.rows.nearest(found.centers)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-12)
    assert found.cost == pytest.approx(w @ distances)


@DTYPE
@pytest.mark.parametrize("init", ["k-means++", "local-search", "plain-k-means++", "random"])
def test_a_whole_fit_is_the_same(dtype, init):
    X, w = data(1_000)
    X = X.astype(dtype)
    options = {"init": init, "n_init": 2, "seed": 1}
    expected = cluster(X, w, Geometry(), 15, **options)
    found = cluster(on_cpu(X), w, Geometry(), 15, **options)
    there = cluster(X, w, Geometry(device="cpu"), 15, **options)
    assert found.cost == pytest.approx(expected.cost, rel=1e-2 if dtype == np.float32 else 1e-9)
    assert there.cost == found.cost


@pytest.mark.parametrize(
    "divergence", [KL(), ItakuraSaito(), Cosine(), Mahalanobis(np.diag([1.0, 2.0, 3.0]))], ids=repr
)
@pytest.mark.parametrize("init", ["k-means++", "local-search"])
def test_other_divergences_are_clustered_as_on_the_host(divergence, init):
    rng = np.random.default_rng(0)
    X, w = rng.gamma(1.0, size=(300, 3)) + 0.05, rng.random(300)
    geometry = Geometry(divergence, mean=w @ X / w.sum() if divergence.smoothing else None)
    host, device = Points.of(X, w, geometry), Points.of(on_cpu(X), w, geometry)
    assert device.average == pytest.approx(host.average, rel=1e-9)
    found, expected = solve(device, 6, init=init), solve(host, 6, init=init)
    assert found.cost == pytest.approx(expected.cost, rel=1e-9)


def test_initial_centers_by_a_function_see_numpy_rows():
    X, w = data(200)
    _, device = both(X, w)

    def init(rows, k, random_state):
        np.testing.assert_array_equal(rows, X)
        assert isinstance(rows, np.ndarray)
        return rows[:k]

    assert solve(device, 5, init=init).cost > 0.0


def test_a_clustering_without_digits_is_done_again_in_float64():
    X, w = clustered()
    X = (X * 1e-4 + 1.0).astype(np.float32)
    expected = cluster(X, w, Geometry(), 15)
    assert cluster(on_cpu(X), w, Geometry(), 15).cost == pytest.approx(expected.cost, rel=1e-2)


def test_stages_are_told():
    X, w = data(300)
    journal = Journal()
    solve(both(X, w)[1], 8, init="local-search", journal=journal)
    assert set(journal.timings()) >= {"seeding", "local search", "Lloyd"}


def test_an_interrupt_ends_the_rounds(monkeypatch):
    from lwcs.kernels.torch import seeding_rounds as seeding

    X, w = data(300)
    _, device = both(X, w)
    step, calls = seeding._TorchRounds.step, []

    def interrupted(self):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        step(self)

    monkeypatch.setattr(seeding._TorchRounds, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kmeans_plusplus(device, 20, np.random.default_rng(0))
    assert len(calls) == 5


FUSED = """
import numpy as np, torch
from lwcs.kernels.torch import seeding_rounds as seeding

# The interpreter goes from number to number.
seeding.TILE, seeding._CHUNK = 32, 4
rng = np.random.default_rng(0)
for n, d, k, many in ((100, 5, 5, 4), (70, 70, 4, 3), (90, 2, 5, 1)):
    X = torch.tensor(rng.standard_t(3, size=(n, d)) + 100.0)
    w = rng.random(n)
    w[::7] = 0.0
    w = torch.tensor(w / w.sum())
    uniforms = torch.tensor(rng.random((k, many)))
    origin = X.median(dim=0).values.float()
    factor = torch.tensor(rng.random(d) + 0.5).float()
    precision = torch.tensor(rng.random(d) + 0.5)
    closest = ((X[:2, None] - X) ** 2).sum(dim=2).amin(dim=0)
    for rows in (X.float(), X)[: 1 + (d == 5)]:
        some = seeding.Seeding(rows, w, uniforms, 0.0, origin)
        scaled = seeding.Seeding(rows, w, uniforms, 0.0, origin, factor)
        wide = seeding.Seeding(rows, w, uniforms, 0.0)
        wide_scaled = seeding.Seeding(rows, w, uniforms, 0.0, precision=precision)
        most = float((w * ((X - X[3]) ** 2).sum(dim=1)).sum()) * 0.9
        short = seeding.Seeding(rows, w, uniforms, most, origin)
        for own in (some, scaled, wide, wide_scaled, short):
            for tiles in (4, 2):
                seeding._TILES = tiles
                fused, plain = (
                    seeding.choose(own, torch.tensor([3]), how=how) for how in ("fused", "plain")
                )
                assert torch.equal(fused, plain), (n, d, fused, plain)
                assert (len(fused) < k) == (own is short), (n, d, fused)
        seeding._TILES = 4
        fused, plain = (
            seeding.choose(wide, torch.arange(3), closest, how) for how in ("fused", "plain")
        )
        assert torch.equal(fused, plain), (n, d, fused, plain)
huge = seeding.Seeding(1e30 * X.float(), w, uniforms, 0.0, torch.zeros(d))
assert len(seeding.choose(huge, torch.tensor([3]), how="fused")) == 1
print("equal")
"""


def test_rounds_in_triton_choose_the_same_points():
    """In a process of its own, since Triton decides on import whether it interprets."""
    pytest.importorskip("triton", reason="triton is not installed")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FUSED], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "equal\n", done.stderr
