"""Distances of rows from centers without rounding, and what labels and costs must be.

Squared distances of floats are rational: they are computed in whole numbers of one common power
of two. The other divergences are taken from φ to 100 digits, of which cancellation in the cases
here leaves more than 30.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any

import mpmath
import numpy as np

DIGITS = 100
LABELS = {"float32": 1e-4, "float64": 1e-9}
COSTS = {"float32": 1e-6, "float64": 1e-12}
DISTANCES = {"float32": 1e-6, "float64": 1e-9}


def _x_log_x(x: mpmath.mpf) -> mpmath.mpf:
    return x * mpmath.log(x) if x else mpmath.mpf(0)


PHI: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "kl": (lambda x: _x_log_x(x) - x, mpmath.log),
    "itakura_saito": (lambda x: -mpmath.log(x), lambda y: -1 / y),
    "exponential": (mpmath.exp, mpmath.exp),
    "logistic": (
        lambda x: _x_log_x(x) + _x_log_x(1 - x),
        lambda y: mpmath.log(y / (1 - y)),
    ),
}


@dataclass(frozen=True)
class Exact:
    """The distance of every row from every center, of shape (rows, centers), as fractions."""

    distances: np.ndarray

    @cached_property
    def least(self) -> np.ndarray:
        """Distance of every row from its nearest center."""
        return self.distances.min(axis=1)

    def cost(self, weights: np.ndarray | None = None) -> Fraction:
        """Σ w·d(x, nearest center)."""
        if weights is None:
            return sum(self.least, Fraction(0))
        shares = (Fraction(float(w)) * d for w, d in zip(weights, self.least, strict=True))
        return sum(shares, Fraction(0))

    def of_labels(self, labels: np.ndarray) -> np.ndarray:
        """Distance of every row from the center that it was given."""
        return self.distances[np.arange(len(labels)), labels]

    def assert_nearest(self, labels: np.ndarray, tol: float) -> None:
        """Check d(x, label) ≤ (1 + tol)·least for every row; no slack at a distance of 0."""
        given, bound = self.of_labels(np.asarray(labels)), 1 + Fraction(tol)
        wrong = [i for i, d in enumerate(given) if d > bound * self.least[i]]
        if wrong:
            row = wrong[0]
            raise AssertionError(
                f"{len(wrong)} of {len(given)} rows are not with their nearest center; row {row} "
                f"is {show(given[row])} from its own and {show(self.least[row])} from the nearest"
            )

    def assert_distances(self, found: np.ndarray, tol: float, *, roots: bool) -> None:
        """Check found distances (their roots, if `roots`) to a relative error."""
        assert found.shape == self.distances.shape
        for place, exact in np.ndenumerate(self.distances):
            want = root(exact) if roots else exact
            got = as_fraction(found[place])
            if abs(got - want) > Fraction(tol) * want:
                raise AssertionError(f"{place}: {show(got)}, exactly {show(want)}")


def assert_cost(found: float, exact: Fraction, tol: float) -> None:
    """Check a cost to a relative error."""
    assert np.isfinite(found), f"{found}, exactly {show(exact)}"
    got = as_fraction(found)
    if abs(got - exact) > Fraction(tol) * exact:
        error = show(abs(got - exact) / exact) if exact else "infinite"
        raise AssertionError(f"{show(got)}, exactly {show(exact)}: relative error {error}")


def as_fraction(value: Any) -> Fraction:
    """A float, as it is."""
    assert np.isfinite(value), f"{value} is not finite"
    return Fraction(float(value))


def show(value: Fraction) -> str:
    """A fraction of any size, to six digits."""
    with mpmath.workdps(15):
        return mpmath.nstr(mpmath.mpf(value.numerator) / value.denominator, 6)


def root(value: Fraction) -> Fraction:
    """Square root, to 60 digits."""
    shift = max(0, 400 + value.denominator.bit_length() - value.numerator.bit_length()) // 2 * 2
    return Fraction(isqrt((value.numerator << shift) // value.denominator), 1 << (shift // 2))


def squared(rows: Any, centers: Any, scale: np.ndarray | None = None) -> Exact:
    """Σ ((x − c)/scale)², exactly."""
    rows, centers = (np.asarray(each, dtype=np.float64) for each in (rows, centers))
    both, shift = _whole(np.concatenate([rows, centers]))
    x, c = both[: len(rows)], both[len(rows) :]
    parts = (x[:, None, :] - c[None, :, :]) ** 2
    if scale is not None:
        parts = parts * np.array([1 / Fraction(float(s)) ** 2 for s in scale], dtype=object)
    total = parts.sum(axis=2)
    return Exact(np.vectorize(lambda v: Fraction(v) / (1 << 2 * shift), otypes=[object])(total))


def divergence(name: str, rows: Any, centers: Any) -> Exact:
    """Σ φ(x) − φ(c) − φ'(c)·(x − c), to many digits; rows may be floats or mpf."""
    phi, gradient = PHI[name]
    with mpmath.workdps(DIGITS):
        number = np.vectorize(mpmath.mpf, otypes=[object])
        x, c = (number(np.asarray(each, dtype=object)) for each in (rows, centers))
        each_phi = np.vectorize(phi, otypes=[object])
        slopes = np.vectorize(gradient, otypes=[object])(c)
        # Column by column, so that equal values are exactly 0 apart.
        apart = each_phi(x)[:, None, :] - each_phi(c) - slopes * (x[:, None, :] - c)
        total = apart.sum(axis=2)
        return Exact(np.vectorize(_fraction, otypes=[object])(total))


def smoothed(rows: np.ndarray, mean: np.ndarray, part: float) -> np.ndarray:
    """(1 − τ)·x + τ·mean, to many digits."""
    with mpmath.workdps(DIGITS):
        number = np.vectorize(mpmath.mpf, otypes=[object])
        tau = mpmath.mpf(part)
        return (1 - tau) * number(rows.astype(object)) + tau * number(mean.astype(object))


def directions(rows: np.ndarray, centers: np.ndarray) -> Exact:
    """Squared distance of x/‖x‖ from centers as they are, to many digits."""
    with mpmath.workdps(DIGITS):
        number = np.vectorize(mpmath.mpf, otypes=[object])
        x, c = (number(np.asarray(each, np.float64).astype(object)) for each in (rows, centers))
        lengths = np.vectorize(mpmath.sqrt, otypes=[object])((x * x).sum(axis=1))
        x = x / lengths[:, None]
        total = ((x[:, None, :] - c[None, :, :]) ** 2).sum(axis=2)
        return Exact(np.vectorize(_fraction, otypes=[object])(total))


def mean(rows: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The weighted mean, rounded once."""
    own = np.ones(len(rows)) if weights is None else weights
    parts = [Fraction(float(w)) for w in own]
    total = sum(parts)
    columns = np.asarray(rows, dtype=np.float64).T
    return np.array(
        [
            float(sum(w * Fraction(float(v)) for w, v in zip(parts, column, strict=True)) / total)
            for column in columns
        ]
    )


def means(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The mean of every cluster, rounded once."""
    return np.stack(
        [
            mean(rows[labels == j], None if weights is None else weights[labels == j])
            for j in np.unique(labels)
        ]
    )


def _whole(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Floats as whole multiples of 2 to the −shift, and that shift."""
    ratios = [float(v).as_integer_ratio() for v in values.ravel()]
    shift = max(below.bit_length() - 1 for _, below in ratios)
    whole = np.empty(len(ratios), dtype=object)
    whole[:] = [above << (shift - below.bit_length() + 1) for above, below in ratios]
    return whole.reshape(values.shape), shift


def _fraction(value: mpmath.mpf) -> Fraction:
    sign, man, exponent, _ = mpmath.mpf(value)._mpf_
    whole = -int(man) if sign else int(man)
    return Fraction(whole) * Fraction(2) ** exponent
