"""The two kernels compute the same, and both what the formulas say."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp

from lwcs import kernels
from lwcs.kernels import Pivot, named
from lwcs.kernels.numpy.scans import moments_dense, scan_dense

ROWS = (0, 1, 7, 8, 9, 200)
COLUMNS = (1, 3, 17, 74, 784)
KERNELS = ("numpy", "native")


def rows_of(shape: tuple[int, int], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(3.0, 2.0, shape)
    return (values * 10).astype(dtype) if dtype.startswith("int") else values.astype(dtype)


def naive_scan(X, w, pivot, precision):
    offset = X.astype(np.float64) - pivot
    distances = (precision * offset**2).sum(axis=1)
    return distances, (w[:, None] * offset).sum(axis=0), float((w * distances).sum())


def naive_moments(X, w):
    X = X.astype(np.float64)
    if not w.sum():
        return 0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    mean = (w[:, None] * X).sum(axis=0) / w.sum()
    return w.sum(), mean, (w[:, None] * (X - mean) ** 2).sum(axis=0)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int64"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", ROWS)
def test_both_kernels_compute_the_formulas(rows, columns, dtype, name):
    X = rows_of((rows, columns), dtype)
    rng = np.random.default_rng(1)
    w, pivot, precision = rng.random(rows), rng.normal(size=columns), rng.random(columns) + 0.5
    out = np.empty(rows)
    scan = named(name).scan(X, w, Pivot(pivot, precision), out)
    distances, shift, cost = naive_scan(X, w, pivot, precision)
    np.testing.assert_allclose(out, distances, rtol=1e-12)
    np.testing.assert_allclose(scan.shift, shift, rtol=1e-10, atol=1e-10)
    assert scan.cost == pytest.approx(cost, rel=1e-12)
    weight, mean, scatter = naive_moments(X, w)
    moments = named(name).moments(X, w)
    assert moments.weight == pytest.approx(weight, rel=1e-12)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(moments.scatter, scatter, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_sparse_rows_cost_what_dense_rows_cost(rows, columns, dtype, name):
    X = rows_of((rows, columns), dtype)
    X[np.random.default_rng(2).random(X.shape) < 0.7] = 0
    rng = np.random.default_rng(3)
    w, pivot, precision = rng.random(rows), rng.normal(size=columns), rng.random(columns) + 0.5
    dense, sparse = np.empty(rows), np.empty(rows)
    a = named("numpy").scan(X, w, Pivot(pivot, precision), dense)
    b = named(name).scan(sp.csr_array(X), w, Pivot(pivot, precision), sparse)
    np.testing.assert_allclose(sparse, dense, rtol=1e-12)
    np.testing.assert_allclose(b.shift, a.shift, rtol=1e-10, atol=1e-10)
    assert b.cost == pytest.approx(a.cost, rel=1e-12)
    alone = np.empty(rows)
    named(name).distances(sp.csr_array(X), Pivot(pivot, precision), alone)
    np.testing.assert_array_equal(alone, sparse)
    for one, other in zip(
        named(name).moments(sp.csr_array(X), w), named("numpy").moments(X, w), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize(
    "layout",
    [
        lambda X: np.asfortranarray(X),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X[::-1].copy()[::-1],
        lambda X: np.concatenate([X, X])[: len(X)],
    ],
    ids=["fortran", "every other column", "reversed", "view"],
)
def test_the_memory_layout_changes_no_bit(layout, name):
    X = rows_of((200, 17), "float32")
    pivot, precision = np.full(17, 2.5), np.ones(17)
    results = []
    for points in (X, layout(X)):
        out = np.empty(200)
        scan = named(name).scan(points, None, Pivot(pivot, precision), out)
        moments = named(name).moments(points, None)
        results.append([out, scan.shift, scan.cost, moments.mean, moments.scatter])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_neither_byte_order_nor_addresses_change_a_bit(dtype, name):
    X, pivot = rows_of((200, 17), dtype), Pivot(np.full(17, 2.5))
    swapped = X.astype(X.dtype.newbyteorder())
    askew = np.ndarray(X.shape, X.dtype, bytearray(b"\0" + X.tobytes()), offset=1)
    expected, out = np.empty((2, 200))
    named(name).scan(X, None, pivot, expected)
    for points in (swapped, askew):
        named(name).scan(points, None, pivot, out)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["numpy", "native"])
def test_the_memory_layout_of_csr_arrays_changes_no_bit(name):
    X, pivot = sp.csr_array(rows_of((200, 17), "float32")), Pivot(np.full(17, 2.5))
    parts = (np.repeat(each, 2)[::2] for each in (X.data, X.indices, X.indptr))
    expected, out = np.empty((2, 200))
    named(name).scan(X, None, pivot, expected)
    strided = sp.csr_array(tuple(parts), shape=X.shape)
    short = X.copy()
    short.indices = short.indices.astype(np.uint16)
    for points in (strided, short):
        named(name).scan(points, None, pivot, out)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("columns", [5, 74])
def test_no_weights_and_no_precision_mean_ones(columns, name):
    X, pivot = rows_of((203, columns), "float32"), np.full(columns, 2.5)
    plain, ones = np.empty(203), np.empty(203)
    a = named(name).scan(X, None, Pivot(pivot, None), plain)
    b = named(name).scan(X, np.ones(203), Pivot(pivot, np.ones(columns)), ones)
    np.testing.assert_allclose(plain, ones, rtol=1e-13)
    np.testing.assert_allclose(a.shift, b.shift, rtol=1e-10)
    assert a.cost == pytest.approx(b.cost, rel=1e-13)


def test_portable_kernels_run_on_any_array_library():
    X, w = rows_of((50, 7), "float32"), np.random.default_rng(0).random(50)
    pivot, precision = X.mean(axis=0, dtype=np.float64), np.full(7, 2.0)
    xp = array_api_strict
    out = xp.zeros(50, dtype=xp.float64)
    shift, cost = scan_dense(*map(xp.asarray, (X, w, pivot, precision)), out)
    distances, expected_shift, expected_cost = naive_scan(X, w, pivot, precision)
    np.testing.assert_allclose(np.asarray(out), distances, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(shift), expected_shift, rtol=1e-10, atol=1e-10)
    assert cost == pytest.approx(expected_cost)
    weight, mean, scatter = moments_dense(xp.asarray(X), xp.asarray(w))
    for one, other in zip((weight, mean, scatter), naive_moments(X, w), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-11)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_equal_rows_have_exactly_no_scatter(make, name):
    X = np.full((1000, 5), 0.1, dtype=np.float32)
    X[:, 2] = 0.0
    w = np.random.default_rng(0).random(1000)
    moments = named(name).moments(make(X), w)
    assert not moments.scatter.any()
    np.testing.assert_array_equal(moments.mean, X[0].astype(np.float64))


@pytest.mark.parametrize("name", ["numpy", "native"])
def test_a_sparse_row_near_a_large_pivot_keeps_its_digits(name):
    # One column at 1e6 in every row: the cost of the zeros must not drown in 1e12 − 1e12.
    rng = np.random.default_rng(0)
    X = sp.random_array((500, 40), density=0.1, rng=rng, format="csr").toarray()
    X[:, 0] = 1e6 + rng.normal(size=500)
    pivot, precision = X.mean(axis=0), np.ones(40)
    out = np.empty(500)
    named(name).scan(sp.csr_array(X), None, Pivot(pivot, precision), out)
    np.testing.assert_allclose(out, ((X - pivot) ** 2).sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_value_that_is_not_finite_shows_in_the_sums_even_without_weight(make, bad, name):
    X = rows_of((100, 5), "float64")
    X[70, 3] = bad
    w = np.ones(100)
    w[64:] = 0.0
    scan = named(name).scan(make(X), w, Pivot(np.zeros(5), np.ones(5)), np.empty(100))
    moments = named(name).moments(make(X), w)
    alone = named(name).moments(make(X[64:]), w[64:])
    assert not np.isfinite(scan.cost + scan.shift.sum())
    assert not np.isfinite(moments.mean.sum() + moments.scatter.sum())
    assert not np.isfinite(alone.mean.sum() + alone.scatter.sum())


def test_kernels_of_numpy_serve_where_no_library_was_built(monkeypatch):
    named.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "lwcs.kernels.native", None)
    monkeypatch.delattr(kernels, "native")
    monkeypatch.setenv("LWCS_KERNEL", "native")
    try:
        assert kernels.choose() == "numpy"
    finally:
        named.cache_clear()


def test_a_mistyped_kernel_is_named(monkeypatch):
    monkeypatch.setenv("LWCS_KERNEL", "nativ")
    with pytest.raises(ValueError, match="did you mean 'native'"):
        kernels.choose()


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("scaled", [False, True])
def test_distances_to_the_nearest_center_so_far(make, weighted, scaled, name):
    X, rng = rows_of((300, 5), "float32"), np.random.default_rng(4)
    w = rng.random(300) if weighted else None
    precision = rng.random(5) + 0.5 if scaled else np.ones(5)
    closest, labels = np.full(300, np.inf), np.zeros(300, dtype=np.int32)
    centers = X[:12].astype(np.float64)
    spared = 0
    for j, center in enumerate(centers):
        reach = 0.25 * ((centers[: j + 1] - center) ** 2) @ precision if j else None
        pivot = Pivot(center, precision if scaled else None)
        cost, some = named(name).closer(make(X), w, pivot, j, reach, closest, labels)
        spared += some
        distances = (((X[:, None] - centers[: j + 1]) ** 2) * precision).sum(axis=2)
        np.testing.assert_allclose(closest, distances.min(axis=1), rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(labels, distances.argmin(axis=1))
        assert cost == pytest.approx(
            float((1.0 if w is None else w) @ closest) if weighted else closest.sum()
        )
    assert spared > 0 or name == "numpy" or make is sp.csr_array


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("centers", [1, 2, 3, 40])
def test_the_second_best_score_is_found(centers, dtype):
    rng = np.random.default_rng(5)
    # Rounded, so that many rows have their best score twice.
    scores = rng.normal(size=(300, centers)).round(1).astype(dtype)
    scores[:3], best = -np.inf, np.argmax(scores, axis=1)
    expected = np.sort(scores, axis=1)[:, -2] if centers > 1 else np.full(300, -np.inf)
    before = scores.copy()
    for at in (np.arange(300), np.flatnonzero(rng.random(300) < 0.4), np.arange(0)):
        found = kernels.second_best(scores, best, at)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected[at])
    np.testing.assert_array_equal(scores, before)


def naive_cluster_sums(X, w, labels, wanted, around):
    totals, sums = np.zeros(len(wanted)), np.zeros((len(wanted), X.shape[1]))
    for j in np.flatnonzero(wanted):
        own = labels == j
        totals[j] = w[own].sum()
        sums[j] = w[own] @ (X[own].astype(np.float64) - around[j])
    return totals, sums


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_both_kernels_add_up_clusters_around_a_point(rows, weighted, dtype, make, name):
    X, rng = rows_of((rows, 7), dtype), np.random.default_rng(6)
    X[rng.random(X.shape) < 0.5] = 0
    # Cluster 4 has no rows, cluster 2 is not wanted.
    labels, wanted = rng.choice([0, 1, 2, 3, 5], rows), np.arange(6) != 2
    w, around = rng.random(rows) if weighted else None, rng.normal(3.0, 2.0, (6, 7))
    totals, sums = named(name).cluster_sums(make(X), w, labels, wanted, around)
    expected = naive_cluster_sums(X, np.ones(rows) if w is None else w, labels, wanted, around)
    np.testing.assert_allclose(totals, expected[0], rtol=1e-12)
    np.testing.assert_allclose(sums, expected[1], rtol=1e-10, atol=1e-10)
    assert not totals[[2, 4]].any()
    assert not sums[[2, 4]].any()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_means_around_a_point_nearby_keep_their_digits_at_any_offset(make, name):
    rng = np.random.default_rng(7)
    X, w = rng.integers(-50, 51, (400, 3)) / 64.0, rng.random(400)
    labels, wanted, offset = rng.integers(0, 4, 400), np.ones(4, dtype=bool), 2.0**40
    around = np.tile([0.0, 0.5, -0.25], (4, 1))
    near = named(name).cluster_sums(make(X), w, labels, wanted, around)
    far = named(name).cluster_sums(make(X + offset), w, labels, wanted, around + offset)
    np.testing.assert_array_equal(far[0], near[0])
    np.testing.assert_allclose(far[1], near[1], rtol=1e-12, atol=1e-12)
    equal = np.full((400, 3), 0.1)
    _, sums = named(name).cluster_sums(make(equal), w, labels, wanted, equal[:4])
    assert not sums.any()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("columns", COLUMNS)
def test_both_kernels_measure_every_row_from_its_own_center(columns, scaled, dtype, name):
    X, rng = rows_of((200, columns), dtype), np.random.default_rng(8)
    centers, labels = rng.normal(3.0, 2.0, (9, columns)), rng.integers(0, 9, 200)
    precision = rng.random(columns) + 0.5 if scaled else None
    found = named(name).own_distances(X, centers, labels, precision)
    squares = (X.astype(np.float64) - centers[labels]) ** 2
    np.testing.assert_allclose(
        found, (squares if precision is None else precision * squares).sum(axis=1), rtol=1e-12
    )
