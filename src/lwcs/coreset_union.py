"""What unites two coresets: whether they go together, and the mean and cost of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwcs.foundation.rows import container, same_rows
from lwcs.geometry import Geometry

if TYPE_CHECKING:
    from lwcs.coreset import Coreset
    from lwcs.foundation.types import FloatArray


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same: arrays in dtype and to the last bit, others by ==."""
    if hasattr(one, "dtype") and hasattr(other, "dtype"):
        return same_rows(one, other)
    return type(one) is type(other) and bool(one == other)


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
    if container(one.points) != container(other.points):
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
