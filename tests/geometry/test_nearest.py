"""The nearest center and its distance, wherever the rows and the centers are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import kl_div

import lwcs
from lwcs.divergences import KL, ItakuraSaito
from lwcs.geometry import Centers, Geometry, Measured
from lwcs.passes import euclidean_cost

MAKE = pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def nearest(rows, centers, geometry=None):
    own = Geometry() if geometry is None else geometry
    return own.measured(rows).nearest(own.centers(centers))


def naive(X, centers):
    d = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    return d.argmin(axis=1), d.min(axis=1)


def itakura_saito(x, y):
    return x / y - np.log(x / y) - 1.0


@dataclass(frozen=True)
class Case:
    """Rows, how they are measured, and what every value costs, by scipy's functions."""

    X: np.ndarray
    between: Callable[[np.ndarray, np.ndarray], np.ndarray]
    geometry: Callable[[np.ndarray], Geometry]
    measured: Callable[[np.ndarray], np.ndarray] = lambda X: X

    def brute_force(self, X: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """d of every row to every center."""
        rows = self.measured(X.astype(np.float64))
        return self.between(rows[:, None, :], centers).sum(axis=2)


def rows(n=2_000, d=6, seed=0) -> np.ndarray:
    """Rows > 0, exact in float32, a third of the values zero."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.5, 2.0, (n, d)).astype(np.float32).astype(np.float64)
    X[rng.random(X.shape) < 0.3] = 0.0
    return X


def close_together() -> np.ndarray:
    """Rows far from zero, relative to what they differ by."""
    return (100.0 + 3.0 * rows(d=5)).astype(np.float32).astype(np.float64)


def smoothed(X):
    return 0.9 * X + 0.1 * X.mean(axis=0)


SCALE = np.array([0.5, 1.0, 2.0, 3.0, 0.1, 7.0])


def by(*options, **more):
    return lambda _: Geometry(*options, **more)


def kl(X):
    return Geometry(KL(), mean=X.astype(np.float64).mean(axis=0))


CASES = {
    "squared": Case(rows() - 3.0 * (rows(seed=1) > 4.0), lambda x, y: (x - y) ** 2, by()),
    "squared, close together": Case(close_together(), lambda x, y: (x - y) ** 2, by()),
    "scaled": Case(
        rows(),
        lambda x, y: ((x - y) / SCALE) ** 2,
        by(scale=SCALE),
    ),
    "scaled, close together": Case(
        close_together(),
        lambda x, y: ((x - y) / SCALE[1:]) ** 2,
        by(scale=SCALE[1:]),
    ),
    "kl": Case(rows(), kl_div, kl, smoothed),
    "kl, close together": Case(close_together(), kl_div, kl, smoothed),
    "kl, unsmoothed": Case(rows(), kl_div, by(KL(smoothing=0.0))),
    "itakura_saito": Case(rows() + 0.125, itakura_saito, by(ItakuraSaito())),
    "itakura_saito, close together": Case(close_together(), itakura_saito, by(ItakuraSaito())),
    "itakura_saito, floor": Case(
        rows(), itakura_saito, by(ItakuraSaito(floor=0.5)), lambda X: np.maximum(X, 0.5)
    ),
}
CASE = pytest.mark.parametrize("name", CASES)


def measured(name, make, dtype, kernel) -> tuple[Measured, Centers, np.ndarray]:
    """Rows, 30 centers (means of a few rows, and some rows), and all distances by brute force."""
    case, rng = CASES[name], np.random.default_rng(2)
    X = case.X.astype(dtype)
    own = case.measured(X.astype(np.float64))
    groups = [own[rng.choice(len(X), 20)].mean(axis=0) for _ in range(25)]
    inner = own[(own > 0.0).all(axis=1)][:5]
    centers = np.vstack([groups, inner])
    geometry = case.geometry(X).with_kernel(kernel)
    return (
        geometry.measured(make(X)),
        geometry.centers(centers),
        case.brute_force(X, centers),
    )


@MAKE
@DTYPE
@CASE
def test_labels_and_distances_are_those_of_brute_force(name, make, dtype, kernel):
    found, centers, truth = measured(name, make, dtype, kernel)
    labels, distances = found.nearest(centers)
    np.testing.assert_array_equal(labels, truth.argmin(axis=1))
    np.testing.assert_allclose(distances, truth.min(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.labels(centers), labels)
    np.testing.assert_allclose(found.distances(centers, labels), distances, rtol=1e-12)


@MAKE
@DTYPE
@CASE
def test_all_distances_are_those_of_brute_force(name, make, dtype, kernel):
    found, centers, truth = measured(name, make, dtype, kernel)
    expected = np.sqrt(truth) if found.geometry.squared else truth
    np.testing.assert_allclose(found.all_distances(centers), expected, rtol=1e-9, atol=1e-10)


@MAKE
@DTYPE
@CASE
def test_some_of_the_rows_are_measured_as_all_of_them_are(name, make, dtype, kernel):
    found, centers, truth = measured(name, make, dtype, kernel)
    at = np.random.default_rng(4).permutation(len(found))[:70]
    labels, distances = found[at].nearest(centers)
    np.testing.assert_array_equal(labels, truth[at].argmin(axis=1))
    np.testing.assert_allclose(distances, truth[at].min(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.distances_to(centers[3:4]), truth[:, 3], rtol=1e-9, atol=1e-12)


@MAKE
@DTYPE
@CASE
def test_of_two_equal_centers_a_row_has_one_and_on_a_center_the_lower(name, make, dtype, kernel):
    found, centers, truth = measured(name, make, dtype, kernel)
    twice = Centers(np.vstack([centers.points, centers.points]), centers.geometry)
    expected, on_center = truth.argmin(axis=1), truth.min(axis=1) == 0.0
    assert on_center.sum() >= 5
    for labels in (found.nearest(twice)[0], found.labels(twice)):
        np.testing.assert_array_equal(labels % len(centers), expected)
        # On a center, differences decide: there the lower of two labels wins.
        np.testing.assert_array_equal(labels[on_center], expected[on_center])


def exact_kl(x, y):
    r = (x - y) / y
    return y * ((1.0 + r) * np.log1p(r) - r)


def exact_itakura_saito(x, y):
    r = (x - y) / y
    return r - np.log1p(r)


IN_TWO_GROUPS = {
    "squared": (by(), lambda x, y: (x - y) ** 2),
    "scaled": (by(scale=SCALE[:4]), lambda x, y: ((x - y) / SCALE[:4]) ** 2),
    "kl": (kl, exact_kl),
    "itakura_saito": (by(ItakuraSaito(floor=0.5)), exact_itakura_saito),
}


@MAKE
@DTYPE
@pytest.mark.parametrize("name", IN_TWO_GROUPS)
def test_rows_that_products_cannot_tell_apart_are_told_apart_by_differences(
    name, make, dtype, kernel
):
    """Two groups of rows, 1,024 and 3,072 from zero, of a few steps of rounding each."""
    rng, (make_geometry, between) = np.random.default_rng(0), IN_TWO_GROUPS[name]
    step = 2.0**-12 if dtype == np.float32 else 2.0**-18
    group = rng.integers(0, 2, 500)
    X = 1024.0 + 2048.0 * group[:, None] + step * rng.integers(0, 16, (500, 4))
    X[group == 0, 3] = 0.0
    X = X.astype(dtype)
    geometry = make_geometry(X).with_kernel(kernel)
    own = geometry.measured(X).full(slice(None))
    # Means of four rows of one group each.
    members = [rng.choice(np.flatnonzero(group == j % 2), 4) for j in range(10)]
    centers = np.stack([own[at].mean(axis=0) for at in members])
    truth = between(own[:, None, :], centers).sum(axis=2)
    found, given = geometry.measured(make(X)), geometry.centers(centers)
    labels, distances = found.nearest(given)
    for each in (labels, found.labels(given)):
        assert (truth[np.arange(500), each] <= truth.min(axis=1) * (1.0 + 1e-5)).all()
    np.testing.assert_allclose(distances, truth.min(axis=1), rtol=1e-5)


@MAKE
@DTYPE
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_rows_halfway_between_two_centers_have_one_of_the_two(make, dtype, offset, kernel):
    """Small integers: distances are exact, and equal to the last bit."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (1_000, 3)).astype(np.float64)
    X[:, 0] = 0.0
    centers = np.vstack([[[-4.0, y, 0.0], [4.0, y, 0.0]] for y in (-5.0, 0.0, 6.0)])
    own = Geometry(kernel=kernel)
    found = own.measured(make((X + offset).astype(dtype)))
    truth = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    for labels in (
        found.nearest(own.centers(centers + offset))[0],
        found.labels(own.centers(centers + offset)),
    ):
        np.testing.assert_array_equal(truth[np.arange(1_000), labels], truth.min(axis=1))


@MAKE
@pytest.mark.parametrize("scaled", [False, True])
def test_nearest_is_the_nearest(make, scaled):
    rng = np.random.default_rng(0)
    X, centers = rng.normal(size=(3000, 7)), rng.normal(size=(40, 7))
    X[rng.random(X.shape) < 0.5] = 0.0
    scale = rng.random(7) + 0.5 if scaled else None
    labels, distances = nearest(make(X), centers, Geometry(scale=scale))
    expected = naive(*(each / (1.0 if scale is None else scale) for each in (X, centers)))
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-12)


@MAKE
@pytest.mark.parametrize("far", [1e6, 1e8, 1e10, 1e200])
def test_a_center_far_away_changes_nothing(make, far):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    centers = np.vstack([X[:9], np.full((1, 4), far)])
    labels, distances = nearest(make(X), centers)
    expected = naive(X, centers[:9])
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-9, atol=1e-15)


@MAKE
@pytest.mark.parametrize("offset", [1e6, 1e8, 1e9])
def test_a_large_column_costs_no_digits(make, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[:, 1] += offset
    X[:, 2] = 0.0
    centers = X[:20] + 0.01
    labels, distances = nearest(make(X), centers)
    expected = naive(X, centers)
    assert (labels == expected[0]).mean() > 0.99
    assert distances.sum() == pytest.approx(expected[1].sum(), rel=1e-6)


@MAKE
def test_rows_of_zeros_have_a_nearest_center(make):
    X = np.zeros((10, 3))
    assert nearest(make(X), np.ones((2, 3)))[1].tolist() == [3.0] * 10
    assert nearest(make(X[:0]), np.ones((2, 3)))[1].tolist() == []


def test_the_full_cost_is_that_of_all_rows():
    rng = np.random.default_rng(0)
    X, centers, w = rng.normal(size=(70_000, 3)), rng.normal(size=(5, 3)), rng.random(70_000)
    expected = naive(X, centers)[1]
    assert euclidean_cost(lwcs.scan(X), centers) == pytest.approx(expected.sum())
    weighted = lwcs.scan(X, weight=w)
    assert euclidean_cost(weighted, centers) == pytest.approx(w @ expected)
