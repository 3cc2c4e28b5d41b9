"""One test for every wrong answer that a range once gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs import divergences

from . import cases, oracle

EACH = pytest.mark.parametrize("container", cases.CONTAINERS)
SEEDS = pytest.mark.parametrize("seed", range(3))
FLOORED = divergences.ItakuraSaito(floor=1e-9)


def spectra(loud: float, quiet: float = 0.0) -> np.ndarray:
    """2,000 × 8: 40 % of the rows loud, the rest quiet."""
    rng = np.random.default_rng(0)
    return rng.gamma(2.0, size=(2_000, 8)) * np.where(rng.random((2_000, 1)) < 0.4, loud, quiet)


def fitted(X: Any, k: int, **options: Any) -> lwcs.CoresetKMeans:
    return lwcs.CoresetKMeans(k, **options).fit(X)


# 1. Itakura–Saito on dense rows over more than about 14 decades.


@SEEDS
@pytest.mark.parametrize("loud", [1.0, 1e6, 1e8])
def test_spectra_over_many_decades_cost_dense_what_they_cost_sparse(loud: float, seed: int) -> None:
    X, options = spectra(loud), {"divergence": FLOORED, "n_init": 3, "random_state": seed}
    dense, sparse = (fitted(data, 4, **options) for data in (X, sp.csr_array(X)))
    assert dense.inertia_ <= 1.05 * sparse.inertia_


@SEEDS
@EACH
def test_spectra_over_many_decades_are_with_their_nearest_center(container: str, seed: int) -> None:
    X = spectra(1e6)
    data = cases.contained(X, container)
    model = fitted(data, 4, divergence=FLOORED, random_state=seed)
    some = np.maximum(X[::10], 1e-9)
    exact = oracle.divergence("itakura_saito", some, model.cluster_centers_)
    exact.assert_nearest(model.labels_[::10], 1e-9)


@SEEDS
@pytest.mark.parametrize("quiet", [1.0, 1e-9])
@pytest.mark.parametrize("family", ["exponential", "gamma"])
def test_mixture_of_loud_and_quiet_rows_is_as_likely_as_the_obvious_one(
    family: str, quiet: float, seed: int
) -> None:
    X = spectra(1e6, quiet)
    loud = X[:, 0] > 1e3
    obvious = 0.0
    for rows in (X[loud], X[~loud]):
        share, mean = len(rows) / len(X), rows.mean(axis=0)
        obvious += share * (np.log(share) - np.log(mean).sum() - X.shape[1])
    # Exponentials, which are gammas of shape 1.
    model = lwcs.CoresetMixture(2, family=family, random_state=seed).fit(X)
    assert model.score(X) >= obvious - 1e-2
    assert np.sort(model.weights_) == pytest.approx(np.sort([loud.mean(), 1 - loud.mean()]))


# 2. Labels of float64 rows beside a sentinel.


def with_sentinel(value: float) -> np.ndarray:
    rng = np.random.default_rng(1)
    rows = 10.0 * rng.integers(0, 4, (300, 1)) + rng.normal(size=(300, 4))
    rows[:, 3] = np.where(rng.random(300) < 0.3, value, 0.0)
    return rows


@EACH
@pytest.mark.parametrize("value", [1e8, 1e9, 1e10, 1e12])
def test_cost_beside_a_sentinel_is_the_sum_by_hand(value: float, container: str) -> None:
    X = with_sentinel(value)
    coreset = lwcs.build(cases.contained(X, container), 4_000, random_state=0)
    Q = np.array([[10.0 * j] * 3 + [level] for j in range(4) for level in (0.0, value)])
    rows = np.asarray(coreset.points.todense() if container == "csr" else coreset.points)
    own = np.stack([((rows - q) ** 2).sum(axis=1) for q in Q]).min(axis=0)
    assert coreset.cost(Q) == pytest.approx(coreset.weights @ own, rel=1e-12)


@EACH
@pytest.mark.parametrize("value", [1e7, 1e8, 1e10, 1e12])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("init", ["k-means++", "near"])
def test_inertia_beside_a_sentinel_is_the_cost_of_the_centers(
    init: str, value: float, container: str
) -> None:
    X = with_sentinel(value)
    start = np.array([[10.0 * j + 1.0] * 3 + [level] for j in range(4) for level in (0.0, value)])
    options = {"init": start} if init == "near" else {"n_init": 2, "max_iter": 20, "tol": 0.1}
    model = fitted(cases.contained(X, container), 8, random_state=0, **options)
    exact = oracle.squared(X, model.cluster_centers_)
    exact.assert_nearest(model.labels_, 1e-9)
    oracle.assert_cost(model.inertia_, exact.cost(), 1e-12)


# 3. Labels of float32 rows that looked at some rows for their unit.


@EACH
@pytest.mark.parametrize("row", [0, 1, 150])
@pytest.mark.parametrize("value", [1e20, 9.97e36])
def test_one_large_value_does_not_change_the_labels_of_other_rows(
    value: float, row: int, container: str
) -> None:
    rng = np.random.default_rng(2)
    X = (10.0 * rng.integers(0, 3, (300, 1)) + rng.normal(size=(300, 3))).astype(np.float32)
    centers = np.array([[0.0] * 3, [10.0] * 3, [20.0] * 3, [10.0, value, 10.0]])
    model = cases.model_with(cases.contained(X, container), centers)
    before = model.predict(cases.contained(X, container))
    X[row, 1] = value
    after = model.predict(cases.contained(X, container))
    rest = np.arange(300) != row
    assert np.array_equal(before[rest], after[rest])
    assert after[row] == 3


@EACH
@pytest.mark.parametrize("spread", [3e22, 1e30])
def test_standard_deviations_of_a_wide_float32_column(spread: float, container: str) -> None:
    rng = np.random.default_rng(3)
    X = 6.0 * rng.integers(0, 2, (300, 4)) + rng.normal(size=(300, 4))
    X[:, 0] *= spread
    X = X.astype(np.float32)
    data = lwcs.scan(cases.contained(X, container), scale="standard")
    costs = []
    for steps in (0, 1):
        model = fitted(data, 4, coreset_size=40, random_state=0, polish=steps)
        exact = oracle.squared(X, model.cluster_centers_, model.scale_)
        exact.assert_nearest(model.labels_, 1e-4)
        costs.append(exact.cost())
    assert costs[1] <= costs[0] * oracle.Fraction(1 + 1e-6)


# 4. Sparse rows far from zero.


def test_transform_of_sparse_rows_at_an_offset() -> None:
    X = 1e8 + np.random.default_rng(4).normal(size=(200, 3))
    model = cases.model_with(sp.csr_array(X), X[:6] + 0.1)
    found = model.transform(sp.csr_array(X))
    oracle.squared(X, model.cluster_centers_).assert_distances(found, 1e-9, roots=True)
    assert np.array_equal(np.argmin(found, axis=1), model.predict(sp.csr_array(X)))


@SEEDS
@pytest.mark.parametrize("middle", [-45.0, -100.0, -600.0])
def test_exponential_of_sparse_rows_is_that_of_dense_ones(middle: float, seed: int) -> None:
    rng = np.random.default_rng(5)
    X = middle + 2.0 * rng.integers(0, 3, (300, 1)) + 0.2 * rng.normal(size=(300, 4))
    options = {"divergence": "exponential", "n_init": 3, "random_state": seed}
    dense, sparse = (fitted(data, 3, **options) for data in (X, sp.csr_array(X)))
    assert sparse.inertia_ == pytest.approx(dense.inertia_, rel=1e-3)
    assert np.allclose(sparse.transform(sp.csr_array(X)), sparse.transform(X), rtol=1e-9, atol=0)


@SEEDS
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kl_of_large_counts_is_sparse_what_it_is_dense(seed: int) -> None:
    X = np.round(1e9 + 3.0 * np.random.default_rng(6).normal(size=(300, 4)))
    options = {"divergence": cases.KL, "n_init": 5, "random_state": seed}
    dense, sparse = (fitted(data, 4, **options) for data in (X, sp.csr_array(X)))
    assert sparse.inertia_ <= 1.05 * dense.inertia_


# 5. Squares that underflow.

UNDERFLOW = r"(?s)underflow.*scale the data up"


@EACH
@pytest.mark.parametrize("size", [1e-160, 1e-163, 1e-200, 1e-300])
@pytest.mark.parametrize("how", ["build", "fit", "standard", "one column in standard deviations"])
def test_squares_that_underflow_are_refused(how: str, size: float, container: str) -> None:
    X = np.random.default_rng(7).normal(size=(300, 3))
    X[:, : 1 if how.startswith("one") else 3] *= size
    data = cases.contained(X, container)
    if how in ("build", "fit"):
        with pytest.raises(ValueError, match=UNDERFLOW):
            lwcs.build(data, 50) if how == "build" else fitted(data, 3)
        return
    try:
        coreset = lwcs.build(lwcs.scan(data, scale="standard"), 50, random_state=0)
    except ValueError as refused:
        assert "underflow" in str(refused) and "scale the data up" in str(refused)  # noqa: PT017, PT018
    else:
        unit = np.where(np.abs(X).max(axis=0) < 1e-100, size, 1.0)
        assert coreset.scale == pytest.approx((X / unit).std(axis=0) * unit, rel=1e-12)


@EACH
def test_squares_near_underflow_are_right_or_refused(container: str) -> None:
    rows, centers = cases.magnitude(1e-150)
    data = cases.contained(rows, container)
    try:
        model = cases.model_with(data, centers)
        found = -model.score(data)
    except ValueError as refused:
        assert "underflow" in str(refused) and "scale the data up" in str(refused)  # noqa: PT017, PT018
    else:
        exact = oracle.squared(rows, centers)
        exact.assert_nearest(model.predict(data), 1e-9)
        oracle.assert_cost(found, exact.cost(), 1e-12)


# 6. A floor below the range of the rows' dtype.


@EACH
@pytest.mark.parametrize("floor", [1e-9, 1e-60])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floor_below_the_range_of_the_dtype(dtype: str, floor: float, container: str) -> None:
    X = np.random.default_rng(8).gamma(2.0, size=(200, 3)).astype(np.float16)
    X[::3] = 0.0
    if container == "csr" and dtype == "float16":
        pytest.skip("SciPy has no sparse float16")
    by = divergences.ItakuraSaito(floor=floor)
    model = fitted(cases.contained(X.astype(dtype), container), 2, divergence=by, random_state=0)
    seen = np.maximum(X.astype(np.float64), floor)
    exact = oracle.divergence("itakura_saito", seen, model.cluster_centers_)
    obvious = np.stack([np.full(3, floor), oracle.mean(seen[seen[:, 0] > floor])])
    oracle.assert_cost(model.inertia_, exact.cost(), 1e-9)
    oracle.assert_cost(
        model.inertia_, oracle.divergence("itakura_saito", seen, obvious).cost(), 1e-9
    )


# 7. Means that are representable.


@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mean_that_is_representable_is_the_center(dtype: str, container: str) -> None:
    """As scikit-learn's test_kmeans_results."""
    X = np.array([[0, 0], [0.5, 0], [0.5, 1], [1, 1]], dtype=dtype)
    start = np.array([[0, 0], [1, 1]], dtype=dtype)
    model = lwcs.CoresetKMeans(2, init=start)
    model.fit(cases.contained(X, container), sample_weight=[3, 1, 1, 3])
    assert model.cluster_centers_.tolist() == [[0.125, 0.0], [0.875, 1.0]]
    assert model.cluster_centers_.dtype == dtype
    assert model.inertia_ == 0.375


@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [0.1, 1e15, 9.97e36])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_mean_of_equal_values_is_that_value(value: float, dtype: str, container: str) -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(300, 2)) + 20.0 * rng.integers(0, 2, (300, 1))
    X[:, 1] = value
    model = fitted(cases.contained(X.astype(dtype), container), 2, random_state=0, polish=1)
    assert model.cluster_centers_[:, 1].tolist() == [float(np.dtype(dtype).type(value))] * 2
