"""Coresets of coresets: the union of two data sets, and samples of weighted rows.

The mean and Φ of a union are exact, since both parts know theirs. Every reduction of a union adds
an error of its own, which `Coreset.depth` counts (`reduced_epsilon`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.arrays.rows import container, stack
from lwcs.coreset.coreset import DROPPED
from lwcs.coreset.inspection import same
from lwcs.geometry import Geometry
from lwcs.runtime.journal import without_timings
from lwcs.runtime.randomness import Stage
from lwcs.samplers import Lightweight, Run
from lwcs.sources import scan

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.coreset.coreset import Coreset


def united(one: Coreset, other: Coreset) -> Coreset:
    """Coreset of the union of two disjoint data sets; rows of `other` come after those of `one`."""
    _check_alike(one, other)
    mean, cost = _merged(one, other)
    return replace(
        one,
        points=one.like_points(stack([one.host_points, other.host_points])),
        weights=np.concatenate([one.host_weights, other.host_weights]),
        indices=np.concatenate([one.indices, other.indices + one._scanned_rows]),
        counts=np.concatenate([one.counts, other.counts]),
        n_samples=one.n_samples + other.n_samples,
        total_weight=one.total_weight + other.total_weight,
        mean=mean,
        total_cost=cost,
        method=one.method if one.method == other.method else "mixed",
        seed=None,
        depth=0 if one.exact and other.exact else max(one.depth, other.depth, 1),
        details={**_least_draws(one, other), **_dropped(one, other)},
    )


def _least_draws(*parts: Coreset) -> dict[str, int]:
    """Draws of the smallest part, if all parts follow the distribution of a direct build."""
    draws = []
    for part in parts:
        least = part.size if part.depth == 0 else part.details.get("least_draws")
        differs = part.exact or "weights" in part.details or part.total_cost is None
        draws.append(0 if differs else least or 0)
    return {"least_draws": min(draws)} if min(draws) else {}


def _dropped(*parts: Coreset) -> dict[str, int]:
    """The number of rows that were dropped, if there are any: indices count them, too."""
    dropped = sum(part._n_dropped for part in parts)
    return {DROPPED: dropped} if dropped else {}


def _check_alike(one: Coreset, other: Coreset) -> None:
    """Refuse coresets of different columns, and coresets that are measured differently."""
    if one.n_features != other.n_features:
        raise ValueError(
            f"a coreset with {one.n_features} columns and one with {other.n_features} "
            "cannot be united; build both from the same columns"
        )
    for name in ("feature_names", "divergence"):
        if getattr(one, name) != getattr(other, name):
            raise ValueError(
                f"the coresets differ in {name}: {getattr(one, name)!r} and "
                f"{getattr(other, name)!r}; build both alike"
            )
    if not same(one.scale, other.scale):
        raise ValueError(
            "the coresets measure distances in different scales; scale the data beforehand by "
            "the same factors, and build both without scale="
        )
    if container(one.host_points) != container(other.host_points):
        raise ValueError("one coreset is sparse and the other dense; build both alike")


def _merged(one: Coreset, other: Coreset) -> tuple[FloatArray | None, float | None]:
    """Mean and Φ of the union, as far as they are known of both parts."""
    if one.mean is None or other.mean is None:
        return None, None
    divergence, (first, second) = one.divergence, (one.total_weight, other.total_weight)
    mean = one.mean + (other.mean - one.mean) * (second / (first + second))
    # Rows are now smoothed towards another mean, which changes their costs.
    if one.total_cost is None or other.total_cost is None or divergence.smoothing:
        return mean, None
    geometry, center = Geometry(divergence, one.scale), divergence.to_coordinates(mean)
    apart = [
        geometry.apart(divergence.to_coordinates(each), center) for each in (one.mean, other.mean)
    ]
    cost = one.total_cost + other.total_cost + first * apart[0] + second * apart[1]
    return mean, float(cost)


def sampled(coreset: Coreset, size: int, seed: int) -> Coreset:
    """Importance sampling of the weighted rows, by Algorithm 1 around their own mean."""
    scale = coreset.scale
    rows = coreset.host_points if scale is None else coreset.host_points * (1.0 / scale)
    source = scan(rows, weight=coreset.host_weights)
    geometry = Geometry(coreset.divergence, kernel=kernels.choose())
    draws = Lightweight().draw(source, size, 2, Run(seed, geometry, stage=Stage.REDUCE))
    return replace(
        coreset,
        points=coreset.like_points(coreset.host_points[draws.indices]),
        weights=draws.weights,
        indices=coreset.indices[draws.indices],
        counts=draws.counts,
        method=Lightweight.name,
        seed=seed,
        details=without_timings(coreset.details),
    )


def sampled_again(coreset: Coreset, size: int, seed: int) -> Coreset:
    """Sample rows that are a sample already, which adds an error and one to the depth."""
    depth = coreset.depth + 1
    growth = round(reduced_epsilon(0.1, depth) / 0.1, 3)
    details = {"error_growth": growth} if np.isfinite(growth) else {}
    return replace(
        sampled(coreset, size, seed), depth=depth, details={**details, **_dropped(coreset)}
    )


def reduced_epsilon(epsilon: float, depth: int) -> float:
    """ε of a union (depth 1) that was reduced to a depth by steps of ε each.

    A step of ε₂ on a coreset of ε₁ gives ε₁ + ε₂(1 + 1.5ε₁).
    """
    # ε + 2/3 grows by the factor 1 + 1.5ε in every step.
    with np.errstate(over="ignore"):
        growth = np.expm1((depth - 1) * np.log1p(1.5 * epsilon))
        return float(epsilon + growth * (epsilon + 2.0 / 3.0))
