"""The largest value of a draw: a bound on y = m·w·d(x, Q) for any row x of the data, drawn or not.

Intervals of a cost need it (`certificate`). Rows are drawn with probabilities that grow with their
distance to the mean μ, so that m·w = 1/(d(x, μ)/A + 1/B). For squared distances, the triangle
inequality bounds d(x, q) by d(x, μ) and the distance of the center q to μ. For any divergence,
Fenchel's inequality does, without a box around the data: for every t > 0 and s = (∇φ(μ) − ∇φ(q))/t,

    d(x, q) ≤ (1 + t)·d(x, μ) + d(μ, q) + t·max over x of (⟨x − μ, s⟩ − d(x, μ)),

so that y is at most the larger of A·(1 + t) and B times the other terms. The t where both are equal
gives the least bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from lwcs.divergences import KL, Exponential, ItakuraSaito, Logistic

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, Mask
    from lwcs.coreset.coreset import Coreset
    from lwcs.divergences import Divergence
    from lwcs.geometry import Centers, Geometry

    Inverse = Callable[[FloatArray, FloatArray], FloatArray]

# Bisection for how far u is from the mean, over all powers of two, to the last digit.
_LEAST_POWER, _LARGEST_POWER, _STEPS = -1074.0, 1023.0, 64
# Covers the rounding of distances and weights, and the end of the search for t.
_SLACK = 1.0 + 1e-6
# Bisection for t, on a scale of powers of two from 2⁻⁵⁰ to 2⁵⁰.
_POWERS, _HALVINGS = 50.0, 40
NOT_BUILT = (
    "the coreset is a reduced union or was made by hand, and how far that is off the data is not "
    "known; pass the data, or a coreset that was built from it"
)
"""Why a coreset that was not built from data has no interval."""


class NoBoundError(ValueError):
    """Nothing bounds the value of a draw; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Law:
    """The sampling probabilities around the mean: m·w = 1/(d(x, mean)/by_cost + 1/by_weight)."""

    by_cost: float
    by_weight: float
    offset: float = 0.0
    """Euclidean distance between the mean and the point that rows were drawn around."""
    share: float = 1.0
    """Share of this law in all draws; in a union of coresets, the smallest share of a part."""

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
    """Whether all draws are rows of the data, and not of another coreset."""
    return coreset.depth <= 1 and coreset.method != "given"


def law_of(coreset: Coreset) -> Law:
    """The sampling probabilities of a coreset, from its details."""
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
    """A number in the details of a coreset, which may come from a file; NaN if it is missing."""
    value = coreset.details.get(name)
    return float(value) if isinstance(value, int | float) else nan


def _law_of_union(coreset: Coreset, cost: float, weight: float) -> Law:
    """The law of a union: 2φ_i(q) ≤ 2φ(q), and a part of m_i draws has m/m_i times the values."""
    least = _noted(coreset, "least_draws")
    if not 0.0 < least <= coreset.size or not coreset.geometry().squared:
        raise NoBoundError(
            "it is not known how the parts of this union were drawn; certify each of them, and "
            "add up the costs"
        )
    return Law(2.0 * cost, 2.0 * weight, share=least / coreset.size)


def _law_of_weights(coreset: Coreset) -> Law:
    """The law of a coreset that was drawn in one pass, from its weights.

    The share of the draws by weight is random there, but 1/(m·w) is linear in the distance to the
    mean.
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
    """The largest ratio of squared distances in one scale to those in another."""
    if drawn.scale is None and priced.scale is None:
        return 1.0
    one, other = (1.0 if each.scale is None else each.scale for each in (drawn, priced))
    return float(np.max((np.asarray(one) / other) ** 2))


def _check_smoothing(drawn: Geometry, priced: Geometry) -> None:
    """Refuse centers of rows that were smoothed towards another mean."""
    if not drawn.needs_mean or priced.mean is None or drawn.mean is None:
        return
    if not np.allclose(drawn.mean, priced.mean, rtol=1e-9, atol=0.0):
        raise NoBoundError(
            "the model smooths rows towards the mean of other data; fit it with smoothing=0, or "
            "compare models by their scores on all rows"
        )


def _largest_divergence(law: Law, own: Geometry, center: FloatArray, apart: float) -> float:
    """The least bound over t, where its two sides are equal."""
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


def fenchel(divergence: Divergence, mean: FloatArray, center: FloatArray, t: float) -> float:
    """The largest ⟨x − mean, s⟩ − d(x, mean) for any x, where s = (∇φ(mean) − ∇φ(center))/t.

    It is d(mean, u) at the u with ∇φ(u) = ∇φ(mean) + s, and infinite where there is no such u.
    """
    with np.errstate(all="ignore"):
        slope = divergence.gradient_difference(mean, center)
        if slope is None:
            slope = divergence.gradient(mean) - divergence.gradient(center)
        slope = slope / t
        # Compared by their gradient, which a subclass might have changed.
        gradient = type(divergence).gradient
        known = [inverse for kind, inverse in _INVERSES if gradient is kind.gradient]
        if known:
            u = known[0](mean, slope)
            found = np.where(slope == 0.0, 0.0, divergence.between(mean, u))
            found = np.where(np.isfinite(u), found, inf)
        else:
            found = _searched(divergence, mean, slope)
    return float(np.where(np.isnan(found), inf, found).sum())


_INVERSES: tuple[tuple[type[Divergence], Inverse], ...] = (
    # ln u = ln mean + s
    (KL, lambda mean, s: mean * np.exp(s)),
    # −1/u = −1/mean + s
    (ItakuraSaito, lambda mean, s: np.where(s * mean < 1.0, mean / (1.0 - s * mean), inf)),
    # e to the u = e to the mean + s
    (Exponential, lambda mean, s: mean + np.log1p(s * np.exp(-mean))),
    # ln u/(1 − u) = ln mean/(1 − mean) + s
    (Logistic, lambda mean, s: 1.0 / (1.0 + (1.0 - mean) / mean * np.exp(-s))),
)
"""Solutions u of ∇φ(u) = ∇φ(mean) + s, where there is a formula."""


def _searched(divergence: Divergence, mean: FloatArray, slope: FloatArray) -> FloatArray:
    """The terms of `fenchel` by bisection, for a divergence of which only φ and φ' are known.

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
