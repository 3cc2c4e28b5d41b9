"""Fenchel's inequality for a Bregman divergence: how far a slope can outrun the divergence."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from lwcs.divergences import KL, Exponential, ItakuraSaito, Logistic

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray, Mask

    Inverse = Callable[[FloatArray, FloatArray], FloatArray]

# Bisection for how far u is from the mean, over all powers of two, to the last digit.
_LEAST_POWER, _LARGEST_POWER, _STEPS = -1074.0, 1023.0, 64


def fenchel(divergence: Divergence, mean: FloatArray, center: FloatArray, t: float) -> float:
    """The largest ⟨x − mean, s⟩ − d(x, mean) of any x, s = (∇φ(mean) − ∇φ(center))/t.

    It is d(mean, u) at the u with ∇φ(u) = ∇φ(mean) + s, and infinite where there is no such u.
    """
    with np.errstate(all="ignore"):
        slope = divergence.gradient_difference(mean, center)
        if slope is None:
            slope = divergence.gradient(mean) - divergence.gradient(center)
        slope = slope / t
        known = [inverse for kind, inverse in _INVERSES if _is_of(divergence, kind)]
        if known:
            u = known[0](mean, slope)
            found = np.where(slope == 0.0, 0.0, divergence.between(mean, u))
            found = np.where(np.isfinite(u), found, inf)
        else:
            found = _searched(divergence, mean, slope)
    return float(np.where(np.isnan(found), inf, found).sum())


def _is_of(divergence: Divergence, kind: type[Divergence]) -> bool:
    """Whether φ is that of a class here, which a subclass might have changed."""
    return type(divergence).gradient is kind.gradient


def _inverse_of_kl(mean: FloatArray, slope: FloatArray) -> FloatArray:
    """Solve ln u = ln mean + s."""
    return mean * np.exp(slope)


def _inverse_of_itakura_saito(mean: FloatArray, slope: FloatArray) -> FloatArray:
    """Solve −1/u = −1/mean + s."""
    left = 1.0 - slope * mean
    return np.where(left > 0.0, mean / left, inf)


def _inverse_of_exponential(mean: FloatArray, slope: FloatArray) -> FloatArray:
    """Solve e to the u = e to the mean + s."""
    return mean + np.log1p(slope * np.exp(-mean))


def _inverse_of_logistic(mean: FloatArray, slope: FloatArray) -> FloatArray:
    """Solve ln u/(1 − u) = ln mean/(1 − mean) + s."""
    return 1.0 / (1.0 + (1.0 - mean) / mean * np.exp(-slope))


_INVERSES: tuple[tuple[type[Divergence], Inverse], ...] = (
    (KL, _inverse_of_kl),
    (ItakuraSaito, _inverse_of_itakura_saito),
    (Exponential, _inverse_of_exponential),
    (Logistic, _inverse_of_logistic),
)


def _searched(divergence: Divergence, mean: FloatArray, slope: FloatArray) -> FloatArray:
    """The same by bisection, for a divergence of which only φ and φ' are known.

    The u that is taken is beyond the exact one, so that the result is not too small. At an end of
    the domain that belongs to it, the largest value may be there.
    """
    domain, up = divergence.domain, slope > 0.0
    end = np.where(up, domain.high, domain.low)
    sign, target = np.where(up, 1.0, -1.0), divergence.gradient(mean) + slope

    def at(power: FloatArray) -> FloatArray:
        moved = mean + sign * 2.0**power
        return np.where(sign * (moved - end) >= 0.0, end, moved)

    def beyond(u: FloatArray) -> Mask:
        excess = sign * (divergence.gradient(u) - target)
        return (excess >= 0.0) | np.isnan(excess)

    low, high = np.full(len(mean), _LEAST_POWER), np.full(len(mean), _LARGEST_POWER)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        past = beyond(at(middle))
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    u = at(high)
    inside = divergence.between(mean, u)
    if domain.closed:
        at_end = slope * (end - mean) - divergence.between(end, mean)
    else:
        at_end = np.full(len(mean), inf)
    found = np.where(u == end, at_end, np.where(beyond(u), inside, inf))
    return np.where(slope == 0.0, 0.0, found)
