"""The union of two coresets: whether they go together, and the mean and cost of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs.coreset_difference import same
from lwcs.foundation.rows import container, stack
from lwcs.geometry import Geometry

if TYPE_CHECKING:
    from lwcs.coreset import Coreset
    from lwcs.foundation.types import FloatArray


def united(one: Coreset, other: Coreset) -> Coreset:
    """Coreset of the union of two disjoint data sets; rows of `other` come after those of `one`."""
    check_alike(one, other)
    mean, cost = merged(one, other)
    return replace(
        one,
        points=one.like_points(stack([one.rows, other.rows])),
        weights=np.concatenate([one.omega, other.omega]),
        indices=np.concatenate([one.indices, other.indices + one.n_samples]),
        counts=np.concatenate([one.counts, other.counts]),
        n_samples=one.n_samples + other.n_samples,
        total_weight=one.total_weight + other.total_weight,
        mean=mean,
        total_cost=cost,
        method=one.method if one.method == other.method else "mixed",
        seed=None,
        depth=0 if one.exact and other.exact else max(one.depth, other.depth, 1),
        details=_least_draws(one, other),
    )


def _least_draws(*parts: Coreset) -> dict[str, int]:
    """How many draws the smallest part has, if all were drawn by the same law as a direct build."""
    found = []
    for part in parts:
        least = part.size if part.depth == 0 else part.details.get("least_draws")
        other_law = part.exact or "weights" in part.details or part.total_cost is None
        found.append(0 if other_law else least or 0)
    return {"least_draws": min(found)} if min(found) else {}


def check_alike(one: Coreset, other: Coreset) -> None:
    """Refuse coresets that are of different columns, or measured differently."""
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
    if container(one.rows) != container(other.rows):
        raise ValueError("one coreset is sparse and the other dense; build both alike")


def merged(one: Coreset, other: Coreset) -> tuple[FloatArray | None, float | None]:
    """Mean and Φ of the union, exact, since both are known of both parts."""
    if one.mean is None or other.mean is None:
        return None, None
    own, (first, second) = one.divergence, (one.total_weight, other.total_weight)
    mean = one.mean + (other.mean - one.mean) * (second / (first + second))
    # Smoothed rows are smoothed towards another mean than before, so that their costs change.
    if one.total_cost is None or other.total_cost is None or own.smoothing:
        return mean, None
    geometry, center = Geometry(own, one.scale), own.to_coordinates(mean)
    apart = [geometry.apart(own.to_coordinates(each), center) for each in (one.mean, other.mean)]
    cost = one.total_cost + other.total_cost + first * apart[0] + second * apart[1]
    return mean, float(cost)
