"""Divergences against arithmetic with 60 digits, and the identities that all of them satisfy."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwcs.divergences import Divergence, Domain, available

mpmath.mp.dps = 60

PHI = {
    "sqeuclidean": (lambda x: x**2, lambda y: 2 * y),
    "kl": (lambda x: x * mpmath.log(x) - x if x else mpmath.mpf(0), mpmath.log),
    "itakura_saito": (lambda x: -mpmath.log(x), lambda y: -1 / y),
    "exponential": (mpmath.exp, mpmath.exp),
    "logistic": (
        lambda x: (x * mpmath.log(x) if x else 0) + ((1 - x) * mpmath.log(1 - x) if x != 1 else 0),
        lambda y: mpmath.log(y / (1 - y)),
    ),
}
# Points that each is tried on, far from its edges and near them.
INSIDE = {
    "sqeuclidean": [-1e8, -3.0, 1e-9, 0.5, 7.0, 1e12],
    "kl": [1e-300, 1e-12, 0.3, 1.0, 42.0, 1e15],
    "itakura_saito": [1e-150, 1e-12, 0.3, 1.0, 42.0, 1e15],
    "exponential": [-600.0, -5.0, 0.0, 0.7, 30.0, 600.0],
    "logistic": [1e-300, 1e-9, 0.2, 0.5, 0.75, 1.0 - 2.0**-30],
}
STEPS = [0.0, 1e-15, 1e-12, 1e-8, 1e-5, 1e-3, 0.0199, 0.0201, 0.3, 0.499, 0.501, 0.999]
NAMES = pytest.mark.parametrize("name", list(PHI))


def truth(name: str, x: float, y: float) -> mpmath.mpf:
    phi, gradient = PHI[name]
    x, y = mpmath.mpf(x), mpmath.mpf(y)
    return phi(x) - phi(y) - gradient(y) * (x - y)


def pairs(name: str):
    domain = available()[name].domain
    for y in INSIDE[name]:
        near = [y * (1 + sign * step) for step in STEPS for sign in (1, -1)]
        for x in [*near, *INSIDE[name]]:
            if not domain.outside(x):
                yield x, y


@NAMES
def test_values_agree_with_sixty_digits_to_1e_12(name):
    divergence = available()[name]()
    for x, y in pairs(name):
        want = truth(name, x, y)
        if abs(want) > 1e300 or 0 < abs(want) < 1e-290:
            continue
        got = divergence(np.array([x]), np.array([y]))
        assert abs(got - want) <= 1e-12 * abs(want), (x, y, got, want)


@pytest.mark.parametrize("x", [0.0, 1e-320])
def test_kl_at_the_edge(x):
    kl = available()["kl"]()
    assert kl([x], [0.7]) == pytest.approx(0.7, rel=1e-12)
    assert kl([0.0], [0.0]) == 0.0
    assert kl([1.0], [0.0]) == np.inf


def test_logistic_at_the_edges():
    logistic = available()["logistic"]()
    assert logistic([0.0], [0.25]) == pytest.approx(-np.log(0.75), rel=1e-12)
    assert logistic([1.0], [0.25]) == pytest.approx(-np.log(0.25), rel=1e-12)
    assert logistic([0.0, 1.0], [0.0, 1.0]) == 0.0


@NAMES
def test_the_gradient_is_the_derivative(name):
    divergence, (phi, gradient) = available()[name](), PHI[name]
    for y in INSIDE[name]:
        assert float(divergence.gradient(np.float64(y))) == pytest.approx(
            float(gradient(mpmath.mpf(y)))
        )
        assert float(divergence.phi(np.float64(y))) == pytest.approx(float(phi(mpmath.mpf(y))))


BOX = {
    "sqeuclidean": (-5.0, 5.0),
    "kl": (0.01, 20.0),
    "itakura_saito": (0.1, 20.0),
    "exponential": (-3.0, 3.0),
    "logistic": (0.01, 0.9),
}
SEEDS = st.integers(0, 2**32 - 1)


def some(name: str, seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).uniform(*BOX[name], size=shape)


@NAMES
@given(seed=SEEDS)
def test_the_mean_is_the_best_center_and_the_gap_of_another_is_its_divergence(name, seed):
    divergence = available()[name]()
    X, q = some(name, seed, (20, 3)), some(name, seed + 1, (3,))
    w = np.random.default_rng(seed + 2).random(20)
    mean = w @ X / w.sum()
    gap = w @ divergence(X, q) - w @ divergence(X, mean)
    assert gap == pytest.approx(w.sum() * divergence(mean, q), rel=1e-9, abs=1e-9)
    assert gap >= -1e-9


@NAMES
@given(seed=SEEDS)
def test_three_points(name, seed):
    """d(x, z) = d(x, y) + d(y, z) + ⟨∇φ(y) − ∇φ(z), x − y⟩."""
    divergence = available()[name]()
    x, y, z = some(name, seed, (3, 4))
    turn = (divergence.gradient(y) - divergence.gradient(z)) @ (x - y)
    total = divergence(x, y) + divergence(y, z) + turn
    assert divergence(x, z) == pytest.approx(total, rel=1e-9, abs=1e-9)


@NAMES
@given(seed=SEEDS)
def test_similarity_bounds_it_by_a_squared_distance(name, seed):
    divergence = available()[name]()
    x, y = some(name, seed, (2, 5))
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    above = divergence.curvature(low, high)[1] / 2.0 * np.sum((x - y) ** 2)
    d = divergence(x, y)
    assert divergence.similarity(low, high) * above <= d * (1 + 1e-12)
    assert d <= above * (1 + 1e-12)


@NAMES
def test_similarity_of_the_known_ones(name):
    want = {
        "sqeuclidean": 1.0,
        "kl": 0.01 / 20.0,
        "itakura_saito": (0.1 / 20.0) ** 2,
        "exponential": np.exp(-6.0),
        "logistic": 4.0 * 0.01 * 0.99,
    }
    assert available()[name]().similarity(*BOX[name]) == pytest.approx(want[name])


def test_a_box_that_reaches_an_edge_has_no_similarity():
    for name in ("kl", "itakura_saito"):
        assert available()[name]().similarity(0.0, 1.0) == 0.0
    assert available()["logistic"]().similarity(0.5, 1.0) == 0.0


class Quartic(Divergence):
    name = "quartic"

    def phi(self, x):
        return x**4

    def gradient(self, y):
        return 4 * y**3


def test_a_divergence_of_ones_own_needs_phi_and_its_gradient():
    quartic = Quartic()
    assert quartic([2.0, 1.0], [1.0, 1.0]) == 11.0
    assert quartic.similarity(1.0, 2.0) == pytest.approx(0.25, rel=1e-3)
    assert repr(quartic) == "Quartic()"


@pytest.mark.parametrize(
    ("domain", "text", "inside", "outside"),
    [
        (Domain(), "any number", [-1e300, 0.0], [np.nan]),
        (Domain(low=0.0), "x >= 0", [0.0, 5.0], [-1e-300, np.nan]),
        (Domain(low=0.0, closed=False), "x > 0", [1e-300], [0.0, -1.0, np.nan]),
        (Domain(low=0.0, high=1.0), "0 <= x <= 1", [0.0, 0.5, 1.0], [1.0 + 1e-15, -1.0, np.nan]),
    ],
)
def test_domains(domain, text, inside, outside):
    assert str(domain) == text
    assert not domain.outside(inside).any()
    assert domain.outside(outside).all()
