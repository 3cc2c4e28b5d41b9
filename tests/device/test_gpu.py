"""On a GPU: parity with NumPy, everything stays there, and what happens when its memory is full."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import lwcs
from lwcs import CoresetKMeans

torch = pytest.importorskip("torch", reason="needs torch: make test-gpu")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

METHODS = ["lightweight", "uniform", "refined", "sensitivity", lwcs.Lightweight(draws="stratified")]


def table(dtype=np.float64, n=300_000, d=16, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(0.0, 8.0, (40, d))
    rows = centers[rng.integers(0, 40, n)] + rng.standard_t(3, (n, d))
    # Sixteenths: a row is the same number in both precisions, also at an offset.
    return (np.round(rows * 16) / 16 + offset).astype(dtype)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_same_rows_in_float64(method, weighted):
    X = table()
    weights = np.random.default_rng(1).gamma(1.0, size=len(X)) if weighted else None
    how = {"method": method, "n_clusters": 7, "random_state": 3}
    host = lwcs.build(X, 5_000, sample_weight=weights, **how)
    given = None if weights is None else torch.from_numpy(weights).cuda()
    found = lwcs.build(torch.from_numpy(X).cuda(), 5_000, sample_weight=given, **how)
    assert found.points.is_cuda
    assert found.weights.is_cuda
    assert np.array_equal(found.indices, host.indices)
    assert np.array_equal(found.counts, host.counts)
    assert np.array_equal(found.points.cpu().numpy(), host.points)
    np.testing.assert_allclose(found.host_weights, host.weights, rtol=1e-9)
    if host.total_cost is not None:
        assert found.total_cost == pytest.approx(host.total_cost, rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("d", [1, 3, 16, 64, 100])
def test_nearly_all_rows_in_float32(offset, d):
    X = table(np.float32, d=d, offset=offset)
    host = lwcs.build(X, 20_000, random_state=0)
    found = lwcs.build(torch.from_numpy(X).cuda(), 20_000, random_state=0)
    both = np.intersect1d(host.indices, found.indices)
    assert len(both) >= 0.999 * len(host.indices)
    assert found.total_cost == pytest.approx(host.total_cost, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize(("d", "k"), [(1, 5), (3, 1), (16, 40), (64, 300), (200, 77)])
def test_labels_and_costs(dtype, offset, d, k):
    X = table(dtype, n=100_000, d=d, offset=offset)
    model = CoresetKMeans(k, coreset_size=max(1_000, 4 * k), random_state=0, max_iter=5, tol=1e9)
    with np.errstate(all="ignore"):
        model.fit(X)
    there = torch.from_numpy(X).cuda()
    labels = model.predict(there)
    assert labels.is_cuda
    assert labels.dtype == torch.int32
    own, host = labels.cpu().numpy(), model.predict(X)
    # Where labels differ, the center is as near as that of the host, or nearer.
    at = np.flatnonzero(own != host)
    wide, centers = X[at].astype(np.float64), np.asarray(model.cluster_centers_, dtype=np.float64)
    apart = [((wide - centers[which[at]]) ** 2).sum(axis=1) for which in (own, host)]
    assert (apart[0] <= apart[1] * (1.0 + (1e-6 if dtype == np.float32 else 1e-13))).all()
    assert len(at) <= 1e-3 * len(X)
    rel = 1e-5 if dtype == np.float32 else 1e-12
    assert model.score(there) == pytest.approx(model.score(X), rel=rel)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fit_is_as_good_as_on_the_host(dtype):
    X = table(dtype)
    for how in ({}, {"coreset_size": 10_000}, {"coreset_size": 10_000, "polish": 1}):
        host = CoresetKMeans(40, random_state=0, **how).fit(X)
        found = CoresetKMeans(40, random_state=0, **how).fit(torch.from_numpy(X).cuda())
        assert found.cluster_centers_.is_cuda
        assert found.labels_.is_cuda
        assert found.inertia_ == pytest.approx(host.inertia_, rel=0.02)


@pytest.mark.parametrize("factor", [1e-30, 1e-20, 1e25])
def test_any_range_of_float32(factor):
    X = (table(np.float64, n=50_000) * factor).astype(np.float32)
    host = lwcs.build(X, 2_000, random_state=0)
    found = lwcs.build(torch.from_numpy(X).cuda(), 2_000, random_state=0)
    assert found.total_cost == pytest.approx(host.total_cost, rel=1e-5)
    assert len(np.intersect1d(host.indices, found.indices)) >= 0.999 * len(host.indices)
    model = CoresetKMeans(8, coreset_size=2_000, random_state=0).fit(X)
    there = torch.from_numpy(X).cuda()
    assert (model.predict(there).cpu().numpy() == model.predict(X)).mean() >= 0.999
    fitted = CoresetKMeans(8, coreset_size=2_000, random_state=0).fit(there)
    assert fitted.inertia_ == pytest.approx(model.inertia_, rel=0.02)


def test_identity_of_the_weights():
    found = lwcs.build(torch.from_numpy(table(np.float32)).cuda(), 5_000, random_state=1)
    phi = found.cost(found.mean[None, :])
    total = float(found.weights.sum()) / found.total_weight + phi / found.total_cost
    assert total == pytest.approx(2.0, rel=1e-5)


def test_law_of_the_draws():
    """Chi-squared over 40 rows and 200,000 draws; a false alarm has probability 1e-3."""
    from scipy import stats

    rng = np.random.default_rng(5)
    X = (rng.standard_normal((40, 3)) * rng.lognormal(0, 1, (40, 1))).astype(np.float32)
    found = lwcs.build(torch.from_numpy(X).cuda(), 200_000, random_state=2)
    wide = X.astype(np.float64)
    d = ((wide - wide.mean(axis=0)) ** 2).sum(axis=1)
    q = 0.5 / len(X) + 0.5 * d / d.sum()
    counts = np.zeros(len(X))
    counts[found.indices] = found.counts
    assert stats.chisquare(counts, q * counts.sum()).pvalue > 1e-3


def test_host_rows_and_files_go_through_the_device(tmp_path):
    X = table(np.float32)
    np.save(tmp_path / "rows.npy", X)
    there = lwcs.build(X, 5_000, random_state=0)
    for data in (X, tmp_path / "rows.npy"):
        found = lwcs.build(data, 5_000, device="cuda", random_state=0)
        assert isinstance(found.points, np.ndarray)
        assert len(np.intersect1d(found.indices, there.indices)) >= 0.999 * len(there.indices)
        model = CoresetKMeans(40, coreset_size=5_000, device="cuda", random_state=0).fit(data)
        assert isinstance(model.cluster_centers_, np.ndarray)
        host = CoresetKMeans(40, coreset_size=5_000, random_state=0).fit(data)
        assert model.inertia_ == pytest.approx(host.inertia_, rel=0.02)


def test_partitions_run_on_streams_of_their_own():
    X = table()
    cuts = [X[:100_000], X[100_000:180_000], X[180_000:]]
    host = lwcs.build(lwcs.PartitionedSource(cuts), 3_000, random_state=0)
    parts = lwcs.PartitionedSource([torch.from_numpy(part).cuda() for part in cuts])
    found = lwcs.build(parts, 3_000, random_state=0, n_jobs=2)
    assert np.array_equal(found.indices, host.indices)
    model = CoresetKMeans(10, coreset_size=2_000, random_state=0).fit(parts)
    labels = model.predict(parts)
    assert [len(part) for part in labels] == [len(part) for part in cuts]
    assert all(part.is_cuda for part in labels)


def test_cupy_comes_and_goes_without_a_copy():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    X = cupy.asarray(table(np.float32))
    found = lwcs.build(X, 1_000, random_state=0)
    assert isinstance(found.points, cupy.ndarray)
    assert isinstance(found.weights, cupy.ndarray)
    labels = CoresetKMeans(5, coreset_size=1_000, random_state=0).fit(X).predict(X)
    assert isinstance(labels, cupy.ndarray)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_value_is_named(bad):
    X = table(np.float32)
    X[123_456, 3] = bad
    there = torch.from_numpy(X).cuda()
    with pytest.raises(ValueError, match="row 123456, column 3"):
        lwcs.build(there, 100, random_state=0)
    model = CoresetKMeans(3, random_state=0).fit(there[:1000])
    with pytest.raises(ValueError, match="row 123456, column 3"):
        model.predict(there)


def test_weights_on_the_host_are_brought_over():
    X, weights = table(np.float32), np.ones(300_000)
    host = lwcs.build(X, 1_000, sample_weight=weights, random_state=0)
    found = lwcs.build(torch.from_numpy(X).cuda(), 1_000, sample_weight=weights, random_state=0)
    assert len(np.intersect1d(host.indices, found.indices)) >= 0.999 * len(host.indices)


def test_out_of_memory_says_what_to_lower_and_leaves_nothing():
    X = torch.zeros(4_000_000, 16, device="cuda").normal_()
    lwcs.build(X, 1_000, random_state=0)
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    share = (before + 2**20) / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share)
    try:
        with pytest.raises((MemoryError, RuntimeError), match="memory"):
            CoresetKMeans(8, random_state=0).fit(X)
        gc.collect()
        assert torch.cuda.memory_allocated() <= before
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_nothing_per_row_comes_to_the_host(monkeypatch):
    """A copy of more than a few numbers per thousand rows would be seen here."""
    X = torch.from_numpy(table(np.float32, n=2_000_000)).cuda()
    copied = []

    def watch(name, plain):
        def counted(self, *args, **options):
            there = [one for one in (self, *args) if isinstance(one, torch.Tensor) and one.is_cuda]
            if there and not (self.is_cuda and name == "copy_"):
                copied.append(max(one.numel() * one.element_size() for one in there))
            return plain(self, *args, **options)

        monkeypatch.setattr(torch.Tensor, name, counted)

    for name in ("cpu", "copy_", "tolist", "numpy"):
        watch(name, getattr(torch.Tensor, name))
    model = CoresetKMeans(10, coreset_size=2_000, random_state=0).fit(X)
    model.predict(X)
    model.score(X)
    assert sum(copied) < 2_000_000
