"""Divergences of untransformed values, each in a form that loses no digits by cancellation.

φ(x) − φ(y) − φ'(y)·(x − y) loses all digits once x is near y: at (x − y)/y = 1e-8, KL is 5e-17,
and nothing of it is left. There a series is used; where log1p has no digits left, a difference of
logarithms.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import BadValueError, check_number
from lwcs.arrays.rows import place_of, stored_values, with_values
from lwcs.divergences.divergence import Divergence, Domain, first_of, library_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray, Rows

# Below this, eight terms of a series are exact; above, the closed form loses at most 1e-13.
_NEAR = 0.02
_LEAST = 1e-300
_ROUNDED = 16 * np.finfo(np.float64).eps
_KL_SERIES = [1 / 2, -1 / 6, 1 / 12, -1 / 20, 1 / 30, -1 / 42, 1 / 56, -1 / 72]
_IS_SERIES = [1 / 2, -1 / 3, 1 / 4, -1 / 5, 1 / 6, -1 / 7, 1 / 8, -1 / 9]
_EXP_SERIES = [1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320, 1 / 362880]


def check_part(value: Any, name: str) -> float:
    """Check a number that is at least 0 and less than 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < 1.0:
        raise ValueError(f"{name}={value!r} is not allowed; pass 0 <= {name} < 1, such as 0.1")
    return float(value)


def _series(r: FloatArray, terms: Sequence[float]) -> FloatArray:
    """r²·(a₀ + a₁·r + a₂·r² + …), by Horner's rule."""
    total: FloatArray = library_for(r).full_like(r, terms[-1])
    for term in terms[-2::-1]:
        total = total * r + term
    return r * r * total


class SquaredEuclidean(Divergence):
    """Squared Euclidean distance ‖x − y‖², φ(x) = x²: k-means.

    Examples
    --------
    >>> from lwcs.divergences import SquaredEuclidean
    >>> SquaredEuclidean()([1.0, 2.0], [3.0, 2.0])
    4.0
    """

    name = "sqeuclidean"
    squared = True
    runs_on_device = True

    def phi(self, x: FloatArray) -> FloatArray:
        """x²."""
        return x * x

    def gradient(self, y: FloatArray) -> FloatArray:
        """2y."""
        return 2.0 * y

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """(x − y)²."""
        return (x - y) ** 2

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """φ'' = 2 everywhere."""
        del low, high
        return 2.0, 2.0


def _power(x: float, exponent: float) -> float:
    """A negative power, infinite at zero."""
    return float(x**exponent) if x > 0.0 else np.inf


class KL(Divergence):
    """Generalised Kullback–Leibler (I-)divergence Σ x·ln(x/y) − x + y, for x ≥ 0 (counts).

    Parameters
    ----------
    smoothing : float, default=0.1
        τ: a center must not be zero where a row is not, so rows are measured as
        (1 − τ)·x + τ·mean. Sparse rows stay sparse. Pass 0 if all values are > 0.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> from lwcs.divergences import KL
    >>> round(KL()([4.0, 1.0], [2.0, 3.0]), 3)
    1.674
    >>> counts = np.random.default_rng(0).poisson(3.0, (2_000, 5))
    >>> model = lwcs.CoresetKMeans(4, divergence=KL(smoothing=0.2), random_state=0).fit(counts)
    """

    name = "kl"
    domain = Domain(low=0.0)
    runs_on_device = True

    def __init__(self, smoothing: float = 0.1) -> None:
        self.smoothing = check_part(smoothing, "smoothing")

    def phi(self, x: FloatArray) -> FloatArray:
        """x·ln x − x, 0 at 0."""
        xp = library_for(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            height: FloatArray = xp.where(x > 0.0, x * xp.log(x), 0.0) - x
        return height

    def gradient(self, y: FloatArray) -> FloatArray:
        """ln y."""
        return np.log(y)

    def gradient_difference(self, y: FloatArray, origin: FloatArray) -> FloatArray:
        """ln(y/origin)."""
        with np.errstate(divide="ignore"):
            return np.log1p((y - origin) / origin)

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """y·((1 + r)·log1p(r) − r), r = (x − y)/y."""
        return i_divergence(x, y, x - y)

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """φ'' = 1/x."""
        return _power(high, -1.0), _power(low, -1.0)


def i_divergence(x: FloatArray, y: FloatArray, t: FloatArray) -> FloatArray:
    """I(x, y), where t = x − y is known more accurately than from x and y."""
    xp = library_for(t)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r = t / y
        closed = y * ((1.0 + r) * xp.log1p(r) - r)
        # For small x/y, 1 + r has fewer digits than x; for large x/y, r may be infinite.
        far = xp.where(x > 0.0, x * (xp.log(x) - xp.log(y)), 0.0) - t
        result = xp.where(xp.abs(r) < _NEAR, y * _series(r, _KL_SERIES), closed)
        result = xp.where((r < -0.5) | (r > 4.0), far, result)
    # I(0, 0) = 0, and I(x, 0) is infinite for x > 0.
    found: FloatArray = xp.where(y == 0.0, xp.where(x == 0.0, 0.0, np.inf), result)
    return found


class ItakuraSaito(Divergence):
    """Itakura–Saito: Σ x/y − ln(x/y) − 1, for x > 0 (power spectra). It is scale invariant.

    Parameters
    ----------
    floor : float, default=0
        Smaller values are measured as if they were this. With 0, values that are not > 0 are
        refused.

    Examples
    --------
    >>> from lwcs.divergences import ItakuraSaito
    >>> spectra = ItakuraSaito(floor=1e-6)
    >>> spectra([2.0, 1.0], [1.0, 1.0]) == spectra([200.0, 1.0], [100.0, 1.0])    # scale invariant
    True
    """

    name = "itakura_saito"
    domain = Domain(low=0.0, closed=False)
    runs_on_device = True
    remedy = "pass ItakuraSaito(floor=…), the smallest value that counts"

    def __init__(self, floor: Any = 0.0) -> None:
        self.floor = check_number(floor, "floor")

    @property
    def zero(self) -> float:
        """The floor."""
        return self.floor

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse values that are not > 0, unless there is a floor."""
        values = stored_values(rows)
        if not self.floor:
            super().check(rows, first_row)
            if values.size and values.min() < _LEAST:
                at = int(np.argmin(values))
                row, column = place_of(rows, at)
                wants = f"1/x overflows for values below {_LEAST:g}: {self.remedy}"
                raise BadValueError(0, first_row + row, column, float(values[at]), wants)
        elif values.size and not np.isfinite([values.min(), values.max()]).all():
            raise BadValueError.found_in(rows, first_row, 0)

    def first_refused(self, rows: Any) -> int | None:
        """The first row that is not finite or, without a floor, has a value that is not > 0."""
        if self.floor:
            return first_of(~rows.isfinite().all(dim=1))
        row = super().first_refused(rows)
        if row is None and rows.numel() and float(rows.amin()) < _LEAST:
            row = int(rows.amin(dim=1).argmin())
        return row

    def transform(self, rows: Rows) -> Rows:
        """Values below the floor become the floor; in float64, which can hold any floor."""
        if not self.floor:
            return rows
        xp = library_for(rows)
        # A NaN stays one: it is not below the floor.
        if xp is not np:
            return xp.where(rows < self.floor, self.floor, rows)
        values = stored_values(rows).astype(np.float64)
        return with_values(rows, np.where(values < self.floor, self.floor, values))

    def phi(self, x: FloatArray) -> FloatArray:
        """−ln x."""
        height: FloatArray = -library_for(x).log(x)
        return height

    def gradient(self, y: FloatArray) -> FloatArray:
        """−1/y."""
        return -1.0 / y

    def gradient_difference(self, y: FloatArray, origin: FloatArray) -> FloatArray:
        """(y − origin)/(y·origin)."""
        return (y - origin) / y / origin

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """r − log1p(r), r = (x − y)/y."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            r = (x - y) / y
            xp = library_for(r)
            far = r - (xp.log(x) - xp.log(y))
            result = xp.where(xp.abs(r) < _NEAR, _series(r, _IS_SERIES), r - xp.log1p(r))
            found: FloatArray = xp.where(r < -0.5, far, result)
        return found

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """φ'' = 1/x²."""
        return _power(high, -2.0), _power(low, -2.0)


class Exponential(Divergence):
    """Exponential divergence Σ eˣ − eʸ − (x − y)·eʸ.

    Examples
    --------
    >>> from lwcs.divergences import Exponential
    >>> round(Exponential()([1.0], [0.0]), 3)             # e − 1 − 1
    0.718
    """

    name = "exponential"
    runs_on_device = True

    def phi(self, x: FloatArray) -> FloatArray:
        """eˣ."""
        height: FloatArray = library_for(x).exp(x)
        return height

    def gradient(self, y: FloatArray) -> FloatArray:
        """eʸ."""
        return np.exp(y)

    def gradient_difference(self, y: FloatArray, origin: FloatArray) -> FloatArray:
        """e to the origin, times e to the (y − origin) − 1."""
        with np.errstate(over="ignore"):
            return np.exp(origin) * np.expm1(y - origin)

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """eʸ·(e to the t − 1 − t), t = x − y."""
        t = x - y
        xp = library_for(t)
        some = xp.clip(t, -1.0, 1.0)
        near = xp.where(xp.abs(t) < _NEAR, _series(some, _EXP_SERIES), xp.expm1(some) - some)
        # For |t| > 1 nothing cancels, and e to the t might be infinite where eˣ is not.
        with np.errstate(over="ignore", invalid="ignore"):
            far = xp.exp(x) - xp.exp(y) * (1.0 + t)
            found: FloatArray = xp.where(xp.abs(t) > 1.0, far, xp.exp(y) * near)
        return found

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """φ'' = eˣ."""
        with np.errstate(over="ignore"):
            return float(np.exp(low)), float(np.exp(high))


class Logistic(Divergence):
    """Logistic loss I(x, y) + I(1 − x, 1 − y), for 0 ≤ x ≤ 1 (probabilities, Booleans).

    Parameters
    ----------
    smoothing : float, default=0.1
        As for KL: a center must not be 0 or 1 where a row is not.

    Examples
    --------
    >>> from lwcs.divergences import Logistic
    >>> round(Logistic()([1.0], [0.5]), 3)                # ln 2
    0.693
    """

    name = "logistic"
    domain = Domain(low=0.0, high=1.0)
    runs_on_device = True

    def __init__(self, smoothing: float = 0.1) -> None:
        self.smoothing = check_part(smoothing, "smoothing")

    def round_to_domain(self, values: FloatArray) -> FloatArray:
        """A mean of ones may be rounded to slightly below or above 1: it is 1."""
        rounded: FloatArray = library_for(values).where(values > 1.0 - _ROUNDED, 1.0, values)
        return rounded

    def phi(self, x: FloatArray) -> FloatArray:
        """x·ln x + (1 − x)·ln(1 − x)."""
        x, xp = self.round_to_domain(x), library_for(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            one = xp.where(x > 0.0, x * xp.log(x), 0.0)
            height: FloatArray = one + xp.where(x < 1.0, (1.0 - x) * xp.log1p(-x), 0.0)
        return height

    def gradient(self, y: FloatArray) -> FloatArray:
        """ln(y/(1 − y))."""
        y = self.round_to_domain(y)
        return np.log(y) - np.log1p(-y)

    def gradient_difference(self, y: FloatArray, origin: FloatArray) -> FloatArray:
        """Two logarithms that share y − origin."""
        t = self.round_to_domain(y) - origin
        with np.errstate(divide="ignore"):
            return np.log1p(t / origin) - np.log1p(-t / (1.0 - origin))

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The sum of two I-divergences that share x − y."""
        x, y = self.round_to_domain(x), self.round_to_domain(y)
        t = x - y
        return i_divergence(x, y, t) + i_divergence(1.0 - x, 1.0 - y, -t)

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """φ'' = 1/(x·(1 − x)), least at ½."""
        nearest = min(max(0.5, low), high)
        ends = [np.inf if x in (0.0, 1.0) else 1.0 / (x * (1.0 - x)) for x in (low, high)]
        return 1.0 / (nearest * (1.0 - nearest)), float(max(ends))
