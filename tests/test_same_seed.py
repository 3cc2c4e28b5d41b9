"""Same seed, same coreset: whatever the threads and the container, for one pass and for two."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs

N, D = 150_000, 5  # three partitions, the last one short
NAMES = [f"c{j}" for j in range(D)]


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(N, D)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0.0
    return X


@pytest.fixture(scope="module")
def w() -> np.ndarray:
    return np.random.default_rng(1).random(N)


def content(c: lwcs.Coreset) -> tuple[np.ndarray, ...]:
    points = c.points.toarray() if sp.issparse(c.points) else c.points
    return points, c.weights, c.indices, c.counts, c.mean, np.array(c.total_cost)


def assert_identical(one: lwcs.Coreset, other: lwcs.Coreset) -> None:
    for a, b in zip(content(one), content(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("threads", [2, 7])
def test_threads_change_nothing(X, w, threads, passes, kernel):
    one, many = (
        lwcs.build(X, 3000, sample_weight=w, passes=passes, random_state=3, n_jobs=jobs)
        for jobs in (1, threads)
    )
    assert one == many


def memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


CONTAINERS = {
    "Fortran order": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "memory map": memory_map,
    "pandas": lambda X, _: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X, _: pl.DataFrame(X, schema=NAMES),
    "polars in chunks": lambda X, _: pl.concat(
        [pl.DataFrame(X[:70_001], schema=NAMES), pl.DataFrame(X[70_001:], schema=NAMES)],
        rechunk=False,
    ),
    "pyarrow": lambda X, _: pa.table({n: X[:, j] for j, n in enumerate(NAMES)}),
    "pyarrow in chunks": lambda X, _: pa.concat_tables(
        [
            pa.table({n: X[a:b, j] for j, n in enumerate(NAMES)})
            for a, b in ((0, 10), (10, 99_999), (99_999, N))
        ]
    ),
}


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_agree_bit_for_bit(X, container, passes, tmp_path, kernel):
    expected = lwcs.build(X, 3000, passes=passes, random_state=5)
    made = lwcs.build(CONTAINERS[container](X, tmp_path), 3000, passes=passes, random_state=5)
    assert_identical(made, expected)


@pytest.mark.parametrize("passes", [1, 2])
def test_a_weight_column_is_sample_weight(X, w, passes):
    table = pa.table({"w": w, **{n: X[:, j] for j, n in enumerate(NAMES)}})
    made = lwcs.build(lwcs.scan(table, weight="w"), 3000, passes=passes, random_state=5)
    expected = lwcs.build(X, 3000, sample_weight=w, passes=passes, random_state=5)
    assert_identical(made, expected)
    assert made.feature_names == tuple(NAMES)


def assert_equal_to_rounding(one: lwcs.Coreset, other: lwcs.Coreset) -> None:
    """Equal rows and weights to 1e-12, but for ties at rounding: at most 1 row in 1,000."""
    a, b = (dict(zip(c.indices, c.weights / c.counts, strict=True)) for c in (one, other))
    common = a.keys() & b.keys()
    assert len(common) >= 0.999 * max(len(a), len(b))
    np.testing.assert_allclose([a[i] for i in common], [b[i] for i in common], rtol=1e-12)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_and_dense_agree_to_rounding(X, w, passes, weighted, kernel):
    options = {"passes": passes, "random_state": 2, "sample_weight": w if weighted else None}
    assert_equal_to_rounding(
        lwcs.build(X, 3000, **options), lwcs.build(sp.csr_array(X), 3000, **options)
    )


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_kernels_agree_to_rounding(X, w, make, passes, monkeypatch):
    made = []
    for name in ("numpy", "native"):
        monkeypatch.setenv("LWCS_KERNEL", name)
        made.append(lwcs.build(make(X), 3000, sample_weight=w, passes=passes, random_state=2))
    assert_equal_to_rounding(*made)


def test_local_rows_are_partitioned_every_65536_rows(X, kernel):
    cuts = range(0, N, 65_536)
    parts = lwcs.PartitionedSource([X[a : a + 65_536] for a in cuts])
    assert_identical(
        lwcs.build(parts, 3000, random_state=5), lwcs.build(X, 3000, passes=2, random_state=5)
    )


@pytest.mark.parametrize("passes", [1, 2])
def test_another_seed_draws_other_rows(X, passes):
    one, other = (lwcs.build(X, 100, passes=passes, random_state=s).indices for s in (0, 1))
    assert not np.array_equal(one, other)


def test_an_unseeded_build_can_be_repeated_from_its_stored_seed(X):
    once = lwcs.build(X, 100)
    assert lwcs.build(X, 100, random_state=once.seed) == once
    assert not np.array_equal(lwcs.build(X, 100).indices, once.indices)


@pytest.mark.parametrize(
    "make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"]
)
def test_numpy_generators_seed_a_build(X, make):
    a, b, other = (lwcs.build(X, 100, random_state=make(seed)) for seed in (3, 3, 4))
    assert a == b
    assert not np.array_equal(a.indices, other.indices)
