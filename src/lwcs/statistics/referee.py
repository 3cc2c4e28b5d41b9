"""The referee: by how much an answer is off because it was fitted on a sample.

Centers Q that were fitted on a coreset C cost less on C than on the data. At a regular optimum,
what they gain on their own sample and what they lose on the data are equal to first order (the
argument of AIC), so the gap between the two costs is twice the loss:

    sampling error ≈ ½·(φ_R(Q)/φ_C(Q) − 1),

where R is anything that knows nothing of Q: draws that were not used, or all rows. In practice
the whole gap is an upper bound. It says nothing of a poor local optimum, which restarts are for.

For mixtures the same holds of the mean log-likelihood per row, whose gap is not a ratio but a
difference: what a mixture has on its own sample, less what it has on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray


def deviations(level: float, degrees: float = inf) -> float:
    """How many standard errors chance exceeds with this probability, in either direction.

    By Student's distribution, if the degrees of freedom of the errors are known.
    """
    if degrees == inf:
        return -NormalDist().inv_cdf(0.5 * level)
    from scipy.special import stdtrit

    return -float(stdtrit(max(degrees, 1.0), 0.5 * level))


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of some centers, and how certain that is as an estimate for all rows."""

    cost: float
    variance: float = 0.0
    """Relative variance of the cost; 0 for the cost on all rows."""

    @classmethod
    def on_draws(cls, weights: FloatArray, counts: IntArray, distances: FloatArray) -> Price:
        """Σw·d over rows that stand for independent draws, `counts` of them each.

        With y = m·w·d of a draw, the cost is their mean, and its variance that of y over m.
        """
        m = int(counts.sum())
        cost = float(weights @ distances)
        if not 0.0 < cost < inf:
            return cls(cost)
        shares = weights * (distances / cost)
        squares = m * float((shares / counts) @ shares)
        return cls(cost, max(squares - 1.0, 0.0) / max(m - 1, 1))


@dataclass(frozen=True, slots=True)
class Mean:
    """A weighted mean of some values, and its variance as an estimate for all rows."""

    value: float
    variance: float = 0.0
    """0 for the mean of all rows."""

    @classmethod
    def on_draws(cls, weights: FloatArray, counts: IntArray, values: FloatArray) -> Mean:
        """Σw·v/Σw over rows that stand for independent draws, `counts` of them each.

        Both sums are random. To first order, the error of their ratio is the mean of
        y = m·w·(v − mean)/Σw over the draws, and its variance that of y over m.
        """
        m, total = int(counts.sum()), float(weights.sum())
        value = float(weights @ values) / total
        errors = weights * (values - value) / total
        squares = float((errors / counts) @ errors) * m
        return cls(value, squares / max(m - 1, 1))


@dataclass(frozen=True, slots=True)
class SamplingError:
    """How far an answer is off one on all rows, and at most.

    For clusters: how much more it costs, as a part of the cost. For mixtures: how much the mean
    log-likelihood per row is lower.
    """

    estimate: float
    gap: float
    """By how much the answer is worse elsewhere than on its own sample; may be negative."""
    noise: float
    """Standard error of the gap."""

    @classmethod
    def of(cls, own: Price, other: Price) -> SamplingError:
        """Compare the cost on the sample that was fitted with that on another one."""
        if not own.cost:
            return NONE if not other.cost else cls(inf, inf, 0.0)
        ratio = other.cost / own.cost
        spread = sqrt(own.variance + other.variance)
        noise = ratio * spread if spread else 0.0
        return cls(max(0.5 * (ratio - 1.0), 0.0), ratio - 1.0, noise)

    @classmethod
    def of_means(cls, own: Mean, other: Mean) -> SamplingError:
        """Compare a mean log-likelihood on the sample that was fitted with that on another one."""
        gap = own.value - other.value
        return cls(max(0.5 * gap, 0.0), gap, sqrt(own.variance + other.variance))

    @property
    def bound(self) -> float:
        """The whole gap, and its standard error."""
        return max(self.gap, 0.0) + self.noise

    def scaled(self, factor: float) -> SamplingError:
        """The error of a sample of another size: it is in proportion to 1/m."""
        return SamplingError(self.estimate * factor, self.gap * factor, self.noise * factor)

    def unfinished(self, remaining: float) -> SamplingError:
        """Add what further iterations would lower the cost by, as a part of it."""
        return SamplingError(self.estimate + remaining, self.gap + 2.0 * remaining, self.noise)

    def less(self, drop: float) -> SamplingError:
        """After steps on all rows that lowered the cost there by a part of it."""
        return SamplingError(max(self.estimate - drop, 0.0), self.gap - drop, self.noise)

    @property
    def known(self) -> bool:
        """Whether there was anything to compare with."""
        return isfinite(self.estimate)


NONE = SamplingError(0.0, 0.0, 0.0)
"""Where nothing was sampled."""
UNKNOWN = SamplingError(nan, nan, nan)
"""Where there is nothing to compare with."""
