"""Sizes and bounds of the paper's theorems, and a size that was calibrated on data.

The theorems hold for an absolute constant c that nobody has stated. Here it is the argument
`constant`, 1 by default, so that sizes from theorems are orders of magnitude: they tell how a
size grows, not what it has to be. `calibrated_size` tells what sufficed in practice.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import reduce
from math import ceil, isfinite, log, sqrt
from numbers import Real
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import coreset, kernels
from lwcs.coreset import Coreset
from lwcs.divergences import Measure, as_divergence
from lwcs.foundation.checks import BadValueError, check_count
from lwcs.foundation.parallel import as_threads
from lwcs.foundation.types import is_sparse
from lwcs.kernels import Pivot
from lwcs.samplers.base import FirstRound, check_total, standard_scale
from lwcs.sources import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources import Block

# From `make calibrate` (docs/results/calibration.md): error ≈ (CALIBRATED_AT·k/m)^CALIBRATED_POWER
# for nine in ten of its data sets.
CALIBRATED_AT, CALIBRATED_POWER = 1.29, 0.748
CALIBRATED_RANGE = (0.01, 0.5)
# More draws than this are no coreset of anything.
_EMPTY = 10**12


def coreset_size(
    n_clusters: int, n_features: int, epsilon: float, delta: float = 0.1, *, constant: float = 1.0
) -> int:
    """Theorem 2: m = c·(dk ln k + ln 1/δ)/ε² draws make an (ε, k)-lightweight coreset.

    An order of magnitude, since c is not known; ln 2 stands in for ln 1 where k = 1.

    Parameters
    ----------
    n_clusters, n_features : int
        k and d.
    epsilon : float
        Error ε > 0 of Definition 1: half of it multiplies φ(Q), half of it Φ.
    delta : float
        Probability δ of failure, between 0 and 1.
    constant : float
        The absolute constant c.

    Examples
    --------
    >>> from lwcs import theory
    >>> theory.coreset_size(n_clusters=10, n_features=5, epsilon=0.1)
    11744
    """
    _positive(epsilon, "epsilon", "0.1")
    return ceil(_complexity(n_clusters, n_features, delta, constant) / epsilon**2)


def epsilon_for(
    size: int, n_clusters: int, n_features: int, delta: float = 0.1, *, constant: float = 1.0
) -> float:
    """Theorem 2 the other way: the ε of a lightweight coreset of `size` draws."""
    check_count(size, "size")
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
    """Section 6: draws for a Bregman divergence that is μ-similar to a squared distance.

    Hard clustering takes c·(dk ln k + ln 1/δ)/(με)², soft clustering c·(d²k² + ln 1/δ)/(με)². An
    order of magnitude.

    Parameters
    ----------
    n_clusters, n_features, epsilon, delta, constant
        As for `coreset_size`.
    similarity : float
        μ, above 0 and at most 1, as `similarity` finds it for data.
    soft : bool
        Whether the rows are shared out, as in a mixture, rather than assigned.

    Examples
    --------
    >>> from lwcs import theory
    >>> theory.bregman_size(n_clusters=10, n_features=5, epsilon=0.1, similarity=0.5)
    46973
    """
    _positive(epsilon, "epsilon", "0.1")
    if _is_number(similarity) and similarity >= 0.0 and (similarity * epsilon) ** 2 == 0.0:
        raise ValueError(
            f"similarity={similarity:g} makes the bound empty: on this range of values no squared "
            "distance is near the divergence, as with Itakura–Saito over many decades; bound the "
            "values away from the edge of their domain, or look at what is measured instead of it"
        )
    if not _is_number(similarity) or not 0.0 < similarity <= 1.0:
        raise ValueError(
            f"similarity={similarity!r} is not possible; pass a number above 0 and at most 1, as "
            "lwcs.theory.similarity(data, divergence) gives it"
        )
    needed = _complexity(n_clusters, n_features, delta, constant)
    if soft:
        needed = constant * ((n_features * n_clusters) ** 2 + log(1.0 / delta))
    size = ceil(needed / (similarity * epsilon) ** 2)
    if size > _EMPTY:
        warnings.warn(
            f"similarity={similarity:g} asks for {size:.1e} draws, more than anybody has rows: the "
            "bound is empty here, and says nothing about coresets of a useful size; look at what "
            "is measured instead (docs/divergences.md)",
            UserWarning,
            stacklevel=2,
        )
    return size


def similarity(data: Any, divergence: Divergence | str, *, n_jobs: int | None = None) -> float:
    """μ of section 6 for a divergence on the box that the data lies in.

    μ·d_A ≤ d ≤ d_A there, for a squared distance d_A. Near 1 the divergence is as good as one;
    near 0 the sizes of section 6 say nothing. Rows count as they are measured: lifted to a floor,
    smoothed towards their mean.

    Parameters
    ----------
    data : whatever `lwcs.scan` takes
        Read once, or twice for a smoothed divergence.
    divergence : str or Divergence
        One of `lwcs.divergences.available()`, or one of your own.
    n_jobs : int, optional
        Threads; all cores by default.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs import theory
    >>> from lwcs.divergences import KL
    >>> theory.similarity(np.array([[1.0, 2.0], [4.0, 2.0]]), KL(smoothing=0))
    0.25
    """
    own = as_divergence(divergence)
    if own.squared:
        return 1.0
    source, measure, threads = scan(data), Measure(own), as_threads(n_jobs)
    with source.explaining():
        if own.smoothing:
            first = FirstRound(kernels.choose(source.n_values), source.n_features, measure)
            mean = reduce(add, source.gather(first, n_jobs=threads)).mean
            measure = Measure(own, mean=mean)
        ends = list(source.gather(_Extent(measure), n_jobs=threads))
    return own.similarity(min(end[0] for end in ends), max(end[1] for end in ends))


@dataclass(frozen=True, slots=True)
class _Extent:
    """The smallest and the largest value of a partition, as they are measured."""

    measure: Measure

    def __call__(self, blocks: Iterator[Block], partition: int) -> tuple[float, float]:
        low, high = np.inf, -np.inf
        for block in blocks:
            with BadValueError.in_partition(partition):
                rows = self.measure.rows(block.points, block.first_row)
            values = self._values(rows)
            if not np.isfinite(values).all():
                raise BadValueError.found_in(block.points, block.first_row, partition)
            low = min(low, values.min(initial=np.inf))
            high = max(high, values.max(initial=-np.inf))
        return float(low), float(high)

    def _values(self, rows: Rows) -> FloatArray:
        own, d = self.measure, rows.shape[1]
        counts = np.ones(d, dtype=bool)
        if own.mean is not None:
            # A column whose mean is at the edge of the domain never leaves it, and costs nothing.
            counts = own.divergence.domain.interior(own.mean)
        if not is_sparse(rows):
            return rows[:, counts]
        zeros = own.zeros(d)
        there = counts[rows.indices]
        values = rows.data[there] + zeros[rows.indices[there]]
        # A column without any zero in this block has none to count.
        absent = np.bincount(rows.indices, minlength=d) < rows.shape[0]
        return np.concatenate([values, zeros[absent & counts]])


def statistical_sample_size(
    kurtosis: float,
    n_clusters: int,
    n_features: int,
    epsilon: float,
    delta: float = 0.1,
    *,
    constant: float = 1.0,
) -> int:
    """Equation 7 and Theorem 4: n = c·K/(ε²δ)·(dk ln k + ln 1/δ) rows drawn from P.

    So many rows stand for their distribution, within ε; a lightweight coreset of them of
    `coreset_size` then does too, which is smaller by K/δ. An order of magnitude.

    Parameters
    ----------
    kurtosis : float
        K(P) ≥ 1, as `kurtosis` estimates it.
    n_clusters, n_features, delta, constant
        As for `coreset_size`.
    epsilon : float
        Error ε, above 0 and at most 1.
    """
    if not _is_number(kurtosis) or not 1.0 <= kurtosis < float("inf"):
        raise ValueError(
            f"kurtosis={kurtosis!r} is not possible: E‖x−μ‖⁴ ≥ (E‖x−μ‖²)², so that it is at least "
            "1; estimate it with lwcs.theory.kurtosis(data)"
        )
    _at_most_one(epsilon)
    needed = _complexity(n_clusters, n_features, delta, constant)
    return ceil(kurtosis / (epsilon**2 * delta) * needed)


def solution_bound(
    epsilon: float, optimal_cost: float, total_cost: float, *, approximation: float = 1.0
) -> float:
    """Theorem 1: what a solution on an (ε, k)-lightweight coreset costs on all rows, at most.

    α(1 + 2ε)·φ* + (1 + α)ε·Φ for a solver whose cost on the coreset is at most α times the
    best; for α = 1 this is at most the paper's φ* + 4εΦ.

    Parameters
    ----------
    epsilon : float
        Error of the coreset, above 0 and at most 1.
    optimal_cost : float
        φ*, the cost of the best k centers on all rows.
    total_cost : float
        Φ, the cost of the mean alone (`Coreset.total_cost`).
    approximation : float
        α ≥ 1.
    """
    _at_most_one(epsilon)
    costs = _is_number(optimal_cost) and _is_number(total_cost)
    if not costs or not 0.0 <= optimal_cost <= total_cost < float("inf"):
        raise ValueError(
            f"optimal_cost={optimal_cost!r} and total_cost={total_cost!r} do not go together; the "
            "best centers cost no less than 0 and no more than the mean does"
        )
    if not _is_number(approximation) or not 1.0 <= approximation < float("inf"):
        raise ValueError(
            f"approximation={approximation!r} is not possible; no solver is better than the best: "
            "pass a number >= 1"
        )
    multiplied = approximation * (1.0 + 2.0 * epsilon) * optimal_cost
    return multiplied + (1.0 + approximation) * epsilon * total_cost


def reduced_epsilon(epsilon: float, depth: int) -> float:
    """ε of coresets that were merged and reduced (`Coreset.depth`), if every step has this ε.

    A step of ε₂ on a coreset of ε₁ gives ε₁ + ε₂(1 + 1.5ε₁).
    """
    _positive(epsilon, "epsilon", "0.1")
    return coreset.reduced_epsilon(epsilon, check_count(depth, "depth"))


def calibrated_size(n_clusters: int, error: float) -> int:
    """A lightweight coreset's size for a relative error of its solution, as measured.

    Not from a theorem: at this size the mean error against the solution on all rows was at most
    `error` in nine of ten of the experiments of ``make calibrate`` (data sets, d, k). Data where
    lightweight coresets fail (a small cluster at the mean) needs more; `lwcs.compare` tells.

    Parameters
    ----------
    n_clusters : int
        k.
    error : float
        φ(Q)/φ(Q_full) − 1, between 0.01 and 0.5, where there were measurements.

    Examples
    --------
    >>> from lwcs import theory
    >>> theory.calibrated_size(100, 0.05) > theory.calibrated_size(100, 0.1) > 1_000
    True
    """
    k, (least, most) = check_count(n_clusters, "n_clusters"), CALIBRATED_RANGE
    if not _is_number(error) or not least <= error <= most:
        raise ValueError(
            f"error={error!r} is outside of what was measured; pass a number from {least} to {most}"
        )
    return ceil(k * CALIBRATED_AT * float(error) ** (-1.0 / CALIBRATED_POWER))


def kurtosis(data: Any, *, sample_weight: Any = None, n_jobs: int | None = None) -> float:
    """K = E‖x−μ‖⁴/(E‖x−μ‖²)² of data, in two passes, or of a coreset by its weights.

    1 for rows at one distance from the mean; 1 + 2/d for a d-dimensional standard Gaussian;
    hundreds for heavy tails. A coreset's is an estimate.

    Parameters
    ----------
    data : whatever `lwcs.scan` takes, or a Coreset
    sample_weight : array, optional
        Weights of the rows; a coreset has its own.
    n_jobs : int, optional
        Threads.
    """
    scale = None
    if isinstance(data, Coreset):
        if sample_weight is not None:
            raise ValueError("a Coreset has weights of its own; pass no sample_weight with it")
        source, scale = scan(data.points, sample_weight=data.weights), data.scale
    else:
        source = scan(data, sample_weight=sample_weight)
    kernel, threads = kernels.choose(source.n_values), as_threads(n_jobs)
    with source.explaining():
        first = FirstRound(kernel, source.n_features)
        total = reduce(add, source.gather(first, n_jobs=threads))
        check_total(total.weight)
        if source.scale == "standard":
            scale = standard_scale(total)
        mean = Pivot(total.mean, None if scale is None else scale**-2.0)
        second, fourth = np.sum(list(source.gather(_Moments(kernel, mean), n_jobs=threads)), axis=0)
    if second <= 0.0:
        raise ValueError("all rows are equal, and have no kurtosis")
    return float(fourth * total.weight / second**2)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Σω·d and Σω·d² of a partition, d the squared distance to the mean."""

    kernel: KernelName
    mean: Pivot

    def __call__(self, blocks: Iterator[Block], _: int) -> tuple[float, float]:
        second, fourth = 0.0, 0.0
        for block in blocks:
            distances = np.empty(block.points.shape[0])
            kernels.scan(block.points, block.weights, self.mean, distances, self.kernel)
            omega = kernels.unit_weights(block.weights, len(distances))
            second += float(omega @ distances)
            fourth += float(omega @ distances**2)
        return second, fourth


def _complexity(n_clusters: int, n_features: int, delta: float, constant: float) -> float:
    """c·(dk ln k + ln 1/δ), which all sizes share."""
    k, d = check_count(n_clusters, "n_clusters"), check_count(n_features, "n_features")
    _positive(constant, "constant", "1")
    if not _is_number(delta) or not 0.0 < delta < 1.0:
        raise ValueError(
            f"delta={delta!r} is no probability of failure; pass a number above 0 and below 1, "
            "such as 0.1"
        )
    return constant * (d * k * log(max(k, 2)) + log(1.0 / delta))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _positive(value: float, name: str, example: str) -> None:
    if not _is_number(value) or not (value > 1e-50 and isfinite(value)):
        raise ValueError(f"{name}={value!r} is not allowed; pass a number > 0, such as {example}")


def _at_most_one(epsilon: float) -> None:
    _positive(epsilon, "epsilon", "0.1")
    if epsilon > 1.0:
        raise ValueError(
            f"epsilon={epsilon!r} is beyond the theorem; pass a number above 0 and at most 1"
        )
