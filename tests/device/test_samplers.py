"""Rows on a device are drawn by the same law and the same random numbers as on the host."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lwcs
from lwcs.arrays.device import DeviceArray
from lwcs.divergences import KL
from lwcs.sources.base import PARTITION_ROWS
from lwcs.sources.memory.tensors import DeviceSource

torch = pytest.importorskip("torch", reason="needs torch: make test-gpu")

pytestmark = pytest.mark.filterwarnings("ignore:.*non-writable.*:UserWarning")


@pytest.fixture(autouse=True)
def _on_device(monkeypatch):
    """Treat tensors in host memory like those on a GPU."""
    monkeypatch.setenv("LWCS_KERNEL", "device")


def table(dtype=np.float64, n=150_000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * rng.lognormal(0, 1, (n, 1))
    return (rows + rng.integers(0, 4, (n, 1)) * 7.0).astype(dtype)


def on_host(monkeypatch, *args, **options):
    monkeypatch.delenv("LWCS_KERNEL")
    built = lwcs.build(*args, **options)
    monkeypatch.setenv("LWCS_KERNEL", "device")
    return built


METHODS = ["lightweight", "uniform", "refined", "sensitivity", lwcs.Lightweight(draws="stratified")]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_same_rows_in_float64(monkeypatch, method, weighted):
    X = table()
    weights = np.random.default_rng(1).gamma(1.0, size=len(X)) if weighted else None
    how = {"method": method, "n_clusters": 7, "random_state": 3}
    host = on_host(monkeypatch, X, 2_000, sample_weight=weights, **how)
    given = None if weights is None else torch.from_numpy(weights)
    found = lwcs.build(torch.from_numpy(X), 2_000, sample_weight=given, **how)
    assert isinstance(found.points, torch.Tensor)
    assert isinstance(found.weights, torch.Tensor)
    assert isinstance(found.host_points, DeviceArray)
    assert np.array_equal(found.indices, host.indices)
    assert np.array_equal(found.counts, host.counts)
    assert np.array_equal(np.asarray(found.host_points), host.points)
    np.testing.assert_allclose(found.host_weights, host.weights, rtol=1e-9)
    if host.total_cost is not None:
        assert found.total_cost == pytest.approx(host.total_cost, rel=1e-12)
        np.testing.assert_allclose(found.mean, host.mean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_nearly_all_rows_in_float32(monkeypatch, offset):
    X = table(n=400_000)
    X = (np.round(X * 8) / 8 + offset).astype(np.float32)
    host = on_host(monkeypatch, X, 20_000, random_state=0)
    found = lwcs.build(torch.from_numpy(X), 20_000, random_state=0)
    both = np.intersect1d(host.indices, found.indices)
    assert len(both) >= 0.999 * len(host.indices)
    assert found.total_cost == pytest.approx(host.total_cost, rel=1e-5)
    centers = X[::50_000]
    assert found.cost(centers) == pytest.approx(host.cost(centers), rel=1e-2)


def test_weights_sum_up():
    """Σw/Ω + φ(mean)/Φ = 2, for any draws: the identity of the paper's weights."""
    X = torch.from_numpy(table(np.float32))
    found = lwcs.build(X, 3_000, random_state=1)
    phi = found.cost(found.mean[None, :])
    total = float(found.weights.sum()) / found.total_weight + phi / found.total_cost
    assert total == pytest.approx(2.0, rel=1e-5)


def test_law_of_the_draws():
    """Chi-squared over 40 rows and 200,000 draws; a false alarm has probability 1e-3."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 3)) * rng.lognormal(0, 1, (40, 1))
    found = lwcs.build(torch.from_numpy(X), 200_000, random_state=2)
    d = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    q = 0.5 / len(X) + 0.5 * d / d.sum()
    counts = np.zeros(len(X))
    counts[found.indices] = found.counts
    assert stats.chisquare(counts, q * counts.sum()).pvalue > 1e-3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_value_is_named(bad):
    X = table(np.float32)
    X[123_456, 3] = bad
    with pytest.raises(ValueError, match="row 123456, column 3") as error:
        lwcs.build(torch.from_numpy(X), 100, random_state=0)
    assert ("drop such rows with X[~X.isnan()" in str(error.value)) == np.isnan(bad)


def test_partitions_on_devices(monkeypatch):
    X = table()
    parts = [X[:50_000], X[50_000:90_000], X[90_000:]]
    host = on_host(monkeypatch, lwcs.PartitionedSource(parts), 1_000, random_state=0)
    tensors = lwcs.PartitionedSource([torch.from_numpy(part) for part in parts])
    found = lwcs.build(tensors, 1_000, random_state=0)
    assert isinstance(found.points, torch.Tensor)
    assert np.array_equal(found.indices, host.indices)


@pytest.mark.parametrize("divergence", ["cosine", "kl", "kl_simplex", "exponential"])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("method", [*METHODS, lwcs.Lightweight(distance="sqeuclidean")], ids=str)
def test_rows_of_a_divergence_stay_there(monkeypatch, divergence, parts, method):
    X = np.abs(table(n=70_001)) / 9 + 0.1
    how = {"method": method, "divergence": divergence, "n_clusters": 5, "random_state": 0}
    host = [X] if parts == 1 else np.array_split(X, parts)
    there = [torch.from_numpy(part) for part in host]
    if parts > 1:
        host, there = [lwcs.PartitionedSource(host)], [lwcs.PartitionedSource(there)]
    want = on_host(monkeypatch, *host, 500, **how)
    monkeypatch.setattr(DeviceSource, "on_host", lambda _: pytest.fail("rows left the device"))
    found = lwcs.build(*there, 500, **how)
    assert isinstance(found.points, torch.Tensor)
    assert np.array_equal(found.indices, want.indices)
    np.testing.assert_allclose(found.host_weights, want.weights, rtol=1e-11)


def test_transformed_rows_in_blocks(monkeypatch):
    """Sums over several blocks, and a last cell that is not full."""
    X = table(n=4 * PARTITION_ROWS + 7)
    weights = np.random.default_rng(1).gamma(1.0, size=len(X))
    how = {"divergence": "cosine", "random_state": 0}
    want = on_host(monkeypatch, X, 3_000, sample_weight=weights, **how)
    monkeypatch.setattr(DeviceSource, "block_rows", PARTITION_ROWS)
    given = torch.from_numpy(weights)
    found = lwcs.build(torch.from_numpy(X), 3_000, sample_weight=given, **how)
    assert np.array_equal(found.indices, want.indices)
    assert found.total_cost == pytest.approx(want.total_cost, rel=1e-12)


BAD = [("kl", -1.0), ("cosine", 0.0), ("cosine", np.nan), ("kl_simplex", 0.0), ("logistic", 2.0)]


@pytest.mark.parametrize(("divergence", "value"), BAD)
@pytest.mark.parametrize("distance", ["divergence", "sqeuclidean"])
@pytest.mark.parametrize("n", [500, 150_000], ids=["pivot", "scan"])
def test_bad_value_of_a_divergence_is_named(monkeypatch, divergence, value, distance, n):
    X = np.random.default_rng(0).random((n, 4)) / 2 + 0.1
    X[n // 2] = value
    how = {"method": lwcs.Lightweight(distance=distance), "random_state": 0}
    how["divergence"] = divergence
    with pytest.raises(ValueError, match=f"row {n // 2}") as want:
        on_host(monkeypatch, X, 100, **how)
    monkeypatch.setenv("LWCS_KERNEL", "device")
    with pytest.raises(ValueError, match=f"row {n // 2}") as found:
        lwcs.build(torch.from_numpy(X), 100, **how)
    dropping = lwcs.Source.dropping, DeviceSource.dropping
    assert str(found.value) == str(want.value).replace(*dropping)


def test_divergence_of_a_user_is_measured_on_the_host(monkeypatch):
    class Own(KL):
        name = "kl_of_a_user"

    X = np.abs(table()) + 0.1
    try:
        host = on_host(monkeypatch, X, 500, divergence=Own(), random_state=0)
        found = lwcs.build(torch.from_numpy(X), 500, divergence=Own(), random_state=0)
    finally:
        del KL._known["kl_of_a_user"]
    assert isinstance(found.points, torch.Tensor)
    assert found == host


def test_scale_is_known_after_a_pass(monkeypatch):
    X = table() * np.array([1.0, 10.0, 100.0, 1e3, 1e-3])
    host = on_host(monkeypatch, lwcs.scan(X, scale="standard"), 500, random_state=0)
    found = lwcs.build(lwcs.scan(torch.from_numpy(X), scale="standard"), 500, random_state=0)
    assert np.array_equal(found.indices, host.indices)
    np.testing.assert_allclose(found.scale, host.scale, rtol=1e-12)


def test_dropping_rows_is_refused_with_words():
    with pytest.raises(ValueError, match="drop them beforehand"):
        lwcs.scan(torch.ones(4, 2), missing="drop")
