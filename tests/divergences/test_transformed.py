"""Divergences that transform rows first, and divergences of a data set: `Geometry`."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import mahalanobis
from scipy.special import kl_div

from lwcs.divergences import (
    KL,
    Cosine,
    Divergence,
    Exponential,
    ItakuraSaito,
    Logistic,
    Mahalanobis,
    SimplexKL,
    SquaredEuclidean,
    as_divergence,
    available,
    from_saved,
)
from lwcs.geometry import Centers, Geometry

SEEDS = st.integers(0, 2**32 - 1)


def precision(d: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(d, d))
    return A @ A.T + 0.1 * np.eye(d)


@given(seed=SEEDS)
def test_mahalanobis_agrees_with_scipy_and_with_sixty_digits(seed):
    rng = np.random.default_rng(seed)
    M, x, y = precision(4, seed), *rng.normal(size=(2, 4))
    got = Mahalanobis(M)(x, y)
    assert got == pytest.approx(mahalanobis(x, y, M) ** 2, rel=1e-10)
    exact, offset = mpmath.matrix(M), mpmath.matrix(list(map(mpmath.mpf, x - y)))
    assert got == pytest.approx(float((offset.T * exact * offset)[0]), rel=1e-10)


@given(seed=SEEDS)
def test_cosine_is_two_less_twice_the_cosine(seed):
    x, y = np.random.default_rng(seed).normal(size=(2, 6))
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert Cosine()(x, y) == pytest.approx(2.0 * (1.0 - cosine), rel=1e-9, abs=1e-12)
    assert Cosine()(7.0 * x, y) == pytest.approx(Cosine()(x, y), rel=1e-12, abs=1e-14)


@given(seed=SEEDS)
def test_kl_of_shares_agrees_with_scipy(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.poisson(2.0, size=5) + np.eye(5)[0], rng.uniform(0.1, 3.0, size=5)
    want = kl_div(x / x.sum(), y / y.sum()).sum()
    assert SimplexKL()(x, y) == pytest.approx(want, rel=1e-9, abs=1e-15)


@given(seed=SEEDS)
def test_coordinates_are_inverted(seed):
    own = Mahalanobis(precision(5, seed))
    X = np.random.default_rng(seed).normal(size=(7, 5))
    np.testing.assert_allclose(own.from_coordinates(own.to_coordinates(X)), X, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(own.to_coordinates(X), own.transform(X))


COUNTS = np.random.default_rng(0).poisson(0.6, size=(60, 9)).astype(float)
COUNTS[:, 0] += 1.0
MEASURED = [
    (KL(), COUNTS),
    (KL(smoothing=0.0), COUNTS),
    (SimplexKL(smoothing=0.3), COUNTS),
    (Logistic(), np.minimum(COUNTS, 1.0)),
    (ItakuraSaito(floor=0.25), COUNTS),
    (Exponential(), COUNTS - 1.0),
    (SquaredEuclidean(), COUNTS),
    (Cosine(), COUNTS),
]


@pytest.mark.parametrize(("divergence", "X"), MEASURED, ids=lambda v: getattr(v, "name", ""))
def test_sparse_rows_are_measured_as_dense_ones(divergence, X):
    S = sp.csr_array(X)
    own = Geometry(divergence, mean=Geometry(divergence).measured(X).moments(None).mean)
    dense, sparse = own.measured(X), own.measured(S)
    everything = slice(None)
    centers = Centers(np.stack([dense.full(slice(30)).mean(axis=0), own.mean]), own)
    labels = np.arange(60) % 2
    want = [own.apart(row, centers.points[j]) for row, j in zip(dense.values, labels, strict=True)]
    np.testing.assert_allclose(dense.distances(centers, labels), want, rtol=1e-12)
    assert sparse.values.nnz == S.nnz
    np.testing.assert_allclose(sparse.distances(centers, labels), want, rtol=1e-12)
    np.testing.assert_allclose(sparse.full(everything), dense.values, rtol=1e-14, atol=1e-16)
    for rows in (dense, sparse):
        products = rows.products()
        product, ready = products.rows(rows.values), products.center_matrix(centers)
        heights = products.heights(rows.values, product)[0]
        distances = (heights[:, None] - products.scores(product, ready)) * products.cost_unit
        np.testing.assert_allclose(distances[np.arange(60), labels], want, rtol=1e-9, atol=1e-12)


def test_smoothing_is_a_step_towards_the_mean_and_keeps_it():
    own = Geometry(KL(smoothing=0.25), mean=COUNTS.mean(axis=0))
    smoothed = 0.75 * COUNTS + 0.25 * COUNTS.mean(axis=0)
    np.testing.assert_allclose(own.measured(COUNTS).values, smoothed)
    np.testing.assert_allclose(own.smoothed(COUNTS), smoothed)
    np.testing.assert_allclose(own.measured(COUNTS).moments(None).mean, COUNTS.mean(axis=0))


@given(seed=SEEDS)
def test_smoothing_lowers_the_divergence_from_the_mean(seed):
    """d((1 − τ)x + τ·mean, mean) ≤ (1 − τ)·d(x, mean), since d is convex in x."""
    X = np.random.default_rng(seed).poisson(1.0, size=(30, 4)) + 0.0
    X[0] += 1.0
    mean = X.mean(axis=0)
    raw, smoothed = (
        own.measured(X).distances_to(Centers(mean[None, :], own))
        for own in (Geometry(KL(smoothing), mean=mean) for smoothing in (0.0, 0.4))
    )
    assert (smoothed <= 0.6 * raw * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mahalanobis(np.ones((2, 2))), "not positive definite.*eigenvalues"),
        (lambda: Mahalanobis(np.diag([1.0, -1.0])), "not positive definite"),
        (lambda: Mahalanobis(np.ones(3)), r"shape \(3,\)"),
        (lambda: Mahalanobis([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (lambda: Mahalanobis([[np.nan]]), "not finite"),
        (
            lambda: Mahalanobis(np.eye(2))(np.ones(3), np.ones(3)),
            "for 2 columns but the data has 3",
        ),
        (lambda: KL(smoothing=1.0), "smoothing=1.0 is not allowed"),
        (lambda: KL(smoothing=-0.1), "smoothing=-0.1 is not allowed"),
        (lambda: ItakuraSaito(floor=-1.0), "floor=-1.0 is not allowed"),
        (lambda: as_divergence("kld"), "did you mean 'kl'"),
        (lambda: as_divergence("mahalanobis"), r"pass lwcs.divergences.Mahalanobis\(precision\)"),
        (lambda: from_saved("nowhere", {}), "not registered here; import the module"),
    ],
)
def test_what_is_not_a_divergence_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(TypeError, match="is not a divergence; pass one of"):
        as_divergence(3)


@pytest.mark.parametrize(
    "divergence", [KL(0.2), ItakuraSaito(1e-3), Mahalanobis(precision(3, 0)), Cosine(), Logistic()]
)
def test_a_divergence_is_its_name_and_parameters(divergence):
    again = from_saved(divergence.name, divergence.parameters())
    assert again == divergence
    assert hash(again) == hash(divergence)
    assert again != SquaredEuclidean()
    assert type(divergence).__name__ in repr(divergence)
    assert type(divergence) is available()[divergence.name]


def test_a_class_can_be_passed_by_name_once_it_is_defined():
    class Cubic(Divergence):
        name = "cubic_of_a_test"

        def phi(self, x):
            return np.abs(x) ** 3

        def gradient(self, y):
            return 3.0 * y * np.abs(y)

    try:
        assert isinstance(as_divergence("cubic_of_a_test"), Cubic)
    finally:
        del Divergence._known["cubic_of_a_test"]
