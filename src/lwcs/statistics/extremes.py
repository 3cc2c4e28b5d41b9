"""Fenchel's inequality for a Bregman divergence: how far a slope can outrun the divergence."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from lwcs.divergences import KL, Exponential, ItakuraSaito, Logistic

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.geometry import Centers, Geometry


if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, Mask
    from lwcs.divergences import Divergence

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


# What distances, weights and a search for t are off by.
_SLACK = 1.0 + 1e-6
# Bisection for t, on a scale of powers of two from 2⁻⁵⁰ to 2⁵⁰.
_POWERS, _HALVINGS = 50.0, 40


NOT_BUILT = (
    "the coreset is a reduced union or was made by hand, and how far that is off the data is not "
    "known; pass the data, or a coreset that was built from it"
)
"""Why such a coreset has no interval of any kind."""


class NoBoundError(ValueError):
    """Nothing bounds the values of draws; says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Law:
    """How rows were drawn around their mean: m·w = 1/(d(x, mean)/by_cost + 1/by_weight)."""

    by_cost: float
    by_weight: float
    offset: float = 0.0
    """Euclidean distance between the mean and the point that rows were drawn around."""
    share: float = 1.0
    """The least part of all draws that were drawn by this law; of several coresets in a union."""

    def largest_squared(self, apart: float) -> float:
        """The largest y, for a center whose squared distance to the mean is `apart`."""
        near = sqrt(apart) + self.offset
        return (self.by_cost + self.by_weight * near * near) / self.share


def largest_value(coreset: Coreset, centers: Centers) -> float:
    """The largest y = m·w·d(x, Q) that any row of the data could have as a draw."""
    own, geometry = coreset.geometry(), centers.geometry
    law = law_of(coreset)
    if own.divergence != geometry.divergence:
        raise NoBoundError(
            f"the rows were drawn by {own.divergence!r} and are measured by "
            f"{geometry.divergence!r}; pass the data instead of the coreset"
        )
    assert own.mean is not None
    with np.errstate(over="ignore", invalid="ignore"):
        apart = own.metric.between(own.mean, centers.points).sum(axis=1)
        nearest = int(np.argmin(np.where(np.isnan(apart), inf, apart)))
        if own.squared:
            found = law.largest_squared(float(apart[nearest])) * _stretch(own, geometry)
        else:
            _check_smoothing(own, geometry)
            found = _largest_divergence(law, own, centers.points[nearest], float(apart[nearest]))
    if not found < inf:
        raise NoBoundError(
            "a row could be so far from the centers that its cost has no bound; "
            "move centers away from the ends of the domain of the divergence, or scale the data"
        )
    return found * _SLACK


def was_built(coreset: Coreset) -> bool:
    """Whether all draws are of the rows of the data themselves."""
    return coreset.depth <= 1 and coreset.method != "given"


def law_of(coreset: Coreset) -> Law:
    """How the rows of a coreset were drawn, by what it says of itself."""
    method, details = coreset.method, coreset.details
    if not was_built(coreset):
        raise NoBoundError(NOT_BUILT)
    if method.partition(",")[0] != "lightweight":
        raise NoBoundError(
            f"a coreset by method={method!r} does not bound what rows cost that were not drawn; "
            "pass the data, or a coreset by method='lightweight'"
        )
    cost, weight = coreset.total_cost, coreset.total_weight
    if cost is None or coreset.mean is None:
        raise NoBoundError(
            "the rows were drawn by squared distances, and not by the divergence that they are "
            "measured by; pass data that can be read more than once"
        )
    if coreset.depth == 1:
        return _law_of_union(coreset, cost, weight)
    weights, rho = details.get("weights"), _noted(coreset, "rho")
    if weights == "pivot" and rho >= 0.0:
        return Law(2.0 * cost * (1.0 + rho), 2.0 * weight, sqrt(rho * (cost / weight)))
    return Law(2.0 * cost, 2.0 * weight) if weights is None else _law_of_weights(coreset)


def _noted(coreset: Coreset, name: str) -> float:
    """A number in the details of a coreset, which may come from a file; NaN if it is not there."""
    value = coreset.details.get(name)
    return float(value) if isinstance(value, int | float) else nan


def _law_of_union(coreset: Coreset, cost: float, weight: float) -> Law:
    """2φ_i(q) of a part is at most 2φ(q); a part of m_i draws has m/m_i times the pooled values."""
    least = _noted(coreset, "least_draws")
    if not 0.0 < least <= coreset.size or not coreset.geometry().squared:
        raise NoBoundError(
            "it is not known how the parts of this union were drawn; certify each of them, and "
            "add up the costs"
        )
    return Law(2.0 * cost, 2.0 * weight, share=least / coreset.size)


def _law_of_weights(coreset: Coreset) -> Law:
    """After one pass, the part of the draws by weight is random: read it off the weights.

    1/(m·w) is linear in the distance to the mean.
    """
    geometry = coreset.geometry()
    assert geometry.mean is not None
    rows = geometry.measured(coreset.host_points)
    distances = rows.distances_to(geometry.own_centers(coreset.mean[None, :]))  # type: ignore[index]
    inverse = coreset.counts / (coreset.size * coreset.host_weights)
    near, far = int(np.argmin(distances)), int(np.argmax(distances))
    between = distances[far] - distances[near]
    slope = (inverse[far] - inverse[near]) / between if between > 0.0 else 0.0
    floor = inverse[near] - slope * distances[near]
    if not (slope > 0.0 and floor > 0.0):
        raise NoBoundError(
            "its draws, made in one pass, do not tell by which law they were drawn; pass the "
            "data, or build the coreset in two passes"
        )
    return Law(float(1.0 / slope), float(1.0 / floor))


def _stretch(drawn: Geometry, priced: Geometry) -> float:
    """By how much squared distances in one scale may exceed those in another one."""
    if drawn.scale is None and priced.scale is None:
        return 1.0
    one, other = (1.0 if each.scale is None else each.scale for each in (drawn, priced))
    return float(np.max((np.asarray(one) / other) ** 2))


def _check_smoothing(drawn: Geometry, priced: Geometry) -> None:
    """Rows that are smoothed towards another mean are other rows."""
    if not drawn.needs_mean or priced.mean is None or drawn.mean is None:
        return
    if not np.allclose(drawn.mean, priced.mean, rtol=1e-9, atol=0.0):
        raise NoBoundError(
            "the model smooths rows towards the mean of other data; fit it with smoothing=0, or "
            "compare models by their scores on all rows"
        )


def _largest_divergence(law: Law, own: Geometry, center: FloatArray, apart: float) -> float:
    """The least over t of the module's bound, where both of its sides meet."""
    assert own.mean is not None
    # In other columns all rows are at the mean.
    at = own.varying(len(center))
    mean, q = own.mean[at], center[at]

    def sides(power: float) -> tuple[float, float]:
        t = 2.0**power
        far = t * fenchel(own.divergence, mean, q, t)
        return law.by_cost * (1.0 + t), law.by_weight * (apart + far)

    low, high = -_POWERS, _POWERS
    if max(sides(high)) == inf:
        return inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        by_cost, by_weight = sides(middle)
        low, high = (low, middle) if by_cost >= by_weight else (middle, high)
    return max(sides(high)) / law.share
