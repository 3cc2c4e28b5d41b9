"""Coreset sizes and error bounds from the paper's theorems, and a size calibrated on data.

The theorems hold for an absolute constant c whose value is not known. Here it is the parameter
`constant`, 1 by default, so that sizes from theorems are orders of magnitude: they tell how the
size grows with its arguments, not which size is needed. `calibrated_size` gives the size that was
sufficient in experiments.
"""

from __future__ import annotations

import warnings
from math import ceil, isfinite, log, sqrt
from numbers import Real
from typing import Any

from lwcs.arrays.checks import check_count
from lwcs.statistics.data_bounds import kurtosis, similarity

__all__ = [
    "bregman_size",
    "calibrated_size",
    "coreset_size",
    "epsilon_for",
    "kurtosis",
    "reduced_epsilon",
    "similarity",
    "solution_bound",
    "statistical_sample_size",
]

# From `make calibrate` (docs/results/calibration.md): in nine of ten of its experiments,
# error ≤ (CALIBRATED_AT·k/m)^CALIBRATED_POWER.
CALIBRATED_AT, CALIBRATED_POWER = 1.29, 0.748
CALIBRATED_RANGE = (0.01, 0.5)
# A bound of more draws than this is of no use.
_LARGEST_USEFUL_SIZE = 10**12
_LARGEST_COUNT = 2**63 - 1


def coreset_size(
    n_clusters: int, n_features: int, epsilon: float, delta: float = 0.1, *, constant: float = 1.0
) -> int:
    """Number of draws for an (ε, k)-lightweight coreset, by Theorem 2.

    m = c·(dk ln k + ln 1/δ)/ε². The size is an order of magnitude, since c is not known. For
    k = 1, ln 2 is used in place of ln 1.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    n_features : int
        Number of features d.
    epsilon : float
        Error ε > 0 of Definition 1, which allows an error of ε/2·φ(Q) + ε/2·Φ.
    delta : float, default=0.1
        Probability of failure δ, above 0 and below 1.
    constant : float, default=1.0
        The absolute constant c.

    Examples
    --------
    >>> from lwcs import theory
    >>> theory.coreset_size(n_clusters=10, n_features=5, epsilon=0.1)
    11744
    """
    epsilon = _positive(epsilon, "epsilon", "0.1")
    return _size(_complexity(n_clusters, n_features, delta, constant), epsilon * epsilon)


def epsilon_for(
    size: int, n_clusters: int, n_features: int, delta: float = 0.1, *, constant: float = 1.0
) -> float:
    """Error ε of a lightweight coreset of `size` draws, by Theorem 2.

    This is the inverse of `coreset_size`.

    Parameters
    ----------
    size : int
        Number of draws m.
    n_clusters, n_features, delta, constant
        As for `coreset_size`.

    Examples
    --------
    >>> from lwcs import theory
    >>> round(theory.epsilon_for(11_744, n_clusters=10, n_features=5), 3)
    0.1
    """
    size = _count(size, "size")
    return sqrt(_complexity(n_clusters, n_features, delta, constant) / size)


def bregman_size(
    n_clusters: int,
    n_features: int,
    epsilon: float,
    similarity: float,
    delta: float = 0.1,
    *,
    soft: bool = False,
    constant: float = 1.0,
) -> int:
    """Number of draws for a coreset of a Bregman divergence, by section 6 of the paper.

    The divergence must be μ-similar to a squared distance. Hard clustering takes
    c·(dk ln k + ln 1/δ)/(με)² draws, soft clustering c·(d²k² + ln 1/δ)/(με)². The size is an order
    of magnitude.

    Parameters
    ----------
    n_clusters, n_features, epsilon, delta, constant
        As for `coreset_size`.
    similarity : float
        μ, above 0 and at most 1, as computed by `similarity`.
    soft : bool, default=False
        Whether the clustering is soft, as in a mixture model.

    Examples
    --------
    >>> from lwcs import theory
    >>> theory.bregman_size(n_clusters=10, n_features=5, epsilon=0.1, similarity=0.5)
    46973
    """
    epsilon, given = _positive(epsilon, "epsilon", "0.1"), similarity
    similarity = _number(given)
    if similarity >= 0.0 and (similarity * epsilon) * (similarity * epsilon) == 0.0:
        raise ValueError(
            f"similarity={similarity:g} makes the bound infinite: on this range of values no "
            "squared distance is close to the divergence, as for Itakura–Saito over many decades; "
            "keep the values away from the edge of their domain, or use the measured errors in "
            "docs/guide/divergences.md instead"
        )
    if not 0.0 < similarity <= 1.0:
        raise ValueError(
            f"similarity={_shown(given)} is not allowed; pass a number above 0 and at most 1, as "
            "returned by lwcs.theory.similarity(data, divergence)"
        )
    needed = _complexity(n_clusters, n_features, delta, constant)
    if soft:
        needed = float(constant) * (float(n_features * n_clusters) ** 2 + log(1.0 / float(delta)))
    size = _size(needed, (similarity * epsilon) * (similarity * epsilon))
    if size > _LARGEST_USEFUL_SIZE:
        warnings.warn(
            f"similarity={similarity:g} gives a size of {size:.1e} draws, which is too large to be "
            "useful: the bound says nothing about smaller coresets; use the measured errors in "
            "docs/guide/divergences.md instead",
            UserWarning,
            stacklevel=2,
        )
    return size


def statistical_sample_size(
    kurtosis: float,
    n_clusters: int,
    n_features: int,
    epsilon: float,
    delta: float = 0.1,
    *,
    constant: float = 1.0,
) -> int:
    """Number of rows that represent their distribution P, by equation 7 and Theorem 4.

    n = c·K/(ε²δ)·(dk ln k + ln 1/δ) rows drawn from P represent it within ε. So does a lightweight
    coreset of these rows with `coreset_size` draws, which is smaller by a factor of K/δ. The size
    is an order of magnitude.

    Parameters
    ----------
    kurtosis : float
        Kurtosis K(P) ≥ 1, as estimated by `kurtosis`.
    n_clusters, n_features, delta, constant
        As for `coreset_size`.
    epsilon : float
        Error ε, above 0 and at most 1.

    Examples
    --------
    >>> from lwcs import theory
    >>> rows = theory.statistical_sample_size(35.7, n_clusters=10, n_features=5, epsilon=0.1)
    >>> rows > 100 * theory.coreset_size(n_clusters=10, n_features=5, epsilon=0.1)
    True
    """
    given, kurtosis = kurtosis, _number(kurtosis)
    if not 1.0 <= kurtosis < float("inf"):
        raise ValueError(
            f"kurtosis={_shown(given)} is not allowed; pass a finite number >= 1, as returned by "
            "lwcs.theory.kurtosis(data) (E‖x−μ‖⁴ is never below (E‖x−μ‖²)²)"
        )
    epsilon = _at_most_one(epsilon)
    needed = _complexity(n_clusters, n_features, delta, constant)
    return _size(kurtosis * needed, epsilon * epsilon * float(delta))


def solution_bound(
    epsilon: float, optimal_cost: float, total_cost: float, *, approximation: float = 1.0
) -> float:
    """Upper bound on the full-data cost of a solution found on a coreset, by Theorem 1.

    The bound is α(1 + 2ε)·φ* + (1 + α)ε·Φ for an (ε, k)-lightweight coreset and a solver whose cost
    on the coreset is at most α times the optimum. For α = 1 it is at most the paper's φ* + 4εΦ.

    Parameters
    ----------
    epsilon : float
        Error ε of the coreset, above 0 and at most 1.
    optimal_cost : float
        φ*, the cost of the best k centers on all rows.
    total_cost : float
        Φ, the cost of the mean as the only center (`Coreset.total_cost`).
    approximation : float, default=1.0
        Approximation factor α ≥ 1 of the solver.

    Examples
    --------
    >>> from lwcs import theory
    >>> theory.solution_bound(0.05, optimal_cost=100.0, total_cost=1_000.0)
    210.0
    """
    epsilon = _at_most_one(epsilon)
    least, most, factor = _number(optimal_cost), _number(total_cost), _number(approximation)
    if not 0.0 <= least <= most < float("inf"):
        raise ValueError(
            f"optimal_cost={_shown(optimal_cost)} and total_cost={_shown(total_cost)} are not "
            "allowed; pass finite numbers with 0 <= optimal_cost <= total_cost"
        )
    if not 1.0 <= factor < float("inf"):
        raise ValueError(
            f"approximation={_shown(approximation)} is not allowed; pass a finite number >= 1, "
            "where 1 is an optimal solver"
        )
    # Costs come last: a factor that overflows times a cost of zero would not be a number.
    return factor * ((1.0 + 2.0 * epsilon) * least) + (1.0 + factor) * (epsilon * most)


def reduced_epsilon(epsilon: float, depth: int) -> float:
    """Error ε of a coreset that was reduced several times, if every step has this ε.

    A step with error ε₂ on a coreset with error ε₁ gives ε₁ + ε₂(1 + 1.5ε₁).

    Parameters
    ----------
    epsilon : float
        Error ε > 0 of each step.
    depth : int
        Number of steps (`Coreset.depth`).

    Examples
    --------
    >>> from lwcs import theory
    >>> round(theory.reduced_epsilon(0.1, depth=2), 3)
    0.215
    """
    from lwcs.coreset import combine

    epsilon = _positive(epsilon, "epsilon", "0.1")
    return combine.reduced_epsilon(epsilon, _count(depth, "depth"))


def calibrated_size(n_clusters: int, error: float) -> int:
    """Size of a lightweight coreset for a given relative error, calibrated by experiments.

    This size does not come from a theorem. With it, the mean error relative to the solution on all
    rows was at most `error` in nine of ten experiments of ``make calibrate`` (data sets, d, k).
    Data where lightweight coresets fail (a small cluster at the mean) needs a larger size; measure
    it with `lwcs.compare`.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    error : float
        Relative error φ(Q)/φ(Q_full) − 1, from 0.01 to 0.5, the range that was measured.

    Examples
    --------
    >>> from lwcs import theory
    >>> theory.calibrated_size(100, 0.05) > theory.calibrated_size(100, 0.1) > 1_000
    True
    """
    k, (least, most) = _count(n_clusters, "n_clusters"), CALIBRATED_RANGE
    if not least <= _number(error) <= most:
        raise ValueError(
            f"error={_shown(error)} is outside the measured range; pass a number from {least} to "
            f"{most}"
        )
    return ceil(k * CALIBRATED_AT * float(error) ** (-1.0 / CALIBRATED_POWER))


def _complexity(n_clusters: int, n_features: int, delta: float, constant: float) -> float:
    """c·(dk ln k + ln 1/δ), the factor that all sizes share."""
    k, d = _count(n_clusters, "n_clusters"), _count(n_features, "n_features")
    c, failure = _positive(constant, "constant", "1"), _number(delta)
    if not 0.0 < failure < 1.0:
        raise ValueError(
            f"delta={_shown(delta)} is not a probability of failure; pass a number above 0 and "
            "below 1, such as 0.1"
        )
    # ln 1/δ, where 1/δ may overflow.
    return c * (d * k * log(max(k, 2)) - log(failure))


def _size(needed: float, error: float) -> int:
    """needed/error, rounded up."""
    found = needed / error if error > 0.0 else float("inf")
    if not isfinite(found):
        raise ValueError(
            "these arguments give an infinite size; pass a larger epsilon, or smaller numbers of "
            "clusters and features"
        )
    return max(1, ceil(found))


def _count(value: int, name: str) -> int:
    """An integer of at least 1 that any data set could have."""
    if check_count(value, name) > _LARGEST_COUNT:
        raise ValueError(f"{name}={_shown(value)} is too large; pass {name} < 2**63")
    return int(value)


def _number(value: Any) -> float:
    """A real number as a float, infinite if it is too large; anything else is NaN."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        return float(value) if number else float("nan")
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _positive(value: float, name: str, example: str) -> float:
    number = _number(value)
    if not (number > 1e-50 and isfinite(number)):
        raise ValueError(
            f"{name}={_shown(value)} is not allowed; pass a number > 0, such as {example}"
        )
    return number


def _at_most_one(epsilon: float) -> float:
    number = _positive(epsilon, "epsilon", "0.1")
    if number > 1.0:
        raise ValueError(
            f"epsilon={_shown(epsilon)} is outside the theorem; pass a number above 0 and at most 1"
        )
    return number


def _shown(value: object) -> str:
    """A value for a message; Python refuses to write integers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"{'-' if value < 0 else ''}2**{value.bit_length() - 1} or more"
    return repr(value)
