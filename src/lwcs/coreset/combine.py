"""Whether two coresets are the same, and why they differ: how they were made, or their rows."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.rows import container, same_rows, stack
from lwcs.geometry import Geometry
from lwcs.runtime.journal import TIMINGS, without_timings
from lwcs.runtime.randomness import Stage, part_of
from lwcs.samplers import Lightweight, Run
from lwcs.sources import scan
from lwcs.sources.engines.fingerprints import PARTITIONS, Fingerprints

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset


_OF_THE_RUN = (TIMINGS, PARTITIONS)
"""Details of the run that made a coreset, which do not matter for equality."""
_SHOWN = 5
_MADE_BY = ("method", "divergence", "seed", "size", "depth", "feature_names")


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same: arrays in dtype and to the last bit, others by ==."""
    if hasattr(one, "dtype") and hasattr(other, "dtype"):
        return same_rows(one, other)
    return type(one) is type(other) and bool(one == other)


def is_same(one: Coreset, other: Coreset) -> bool:
    """Whether two coresets are equal."""
    return all(same(_compared(one, f.name), _compared(other, f.name)) for f in fields(one))


def _compared(coreset: Coreset, name: str) -> Any:
    if name != "details":
        return getattr(
            coreset, {"points": "host_points", "weights": "host_weights"}.get(name, name)
        )
    return {key: value for key, value in coreset.details.items() if key not in _OF_THE_RUN}


def explain_difference(one: Coreset, other: Coreset) -> str:
    """Say in words what differs; "nothing differs" if nothing does."""
    made = [
        f"{name} is {own!r} and {given!r}"
        for name in _MADE_BY
        if (own := getattr(one, name)) != (given := getattr(other, name))
    ]
    if one.host_points.dtype != other.host_points.dtype:
        made.append(f"the dtype is {one.host_points.dtype} and {other.host_points.dtype}")
    if one == other:
        return "nothing differs"
    rows = _of_rows(one, other)
    if not made and not rows:
        return _ELSEWHERE
    return "; ".join(made + rows)


_ELSEWHERE = (
    "the same rows were drawn from in the same way, so that the versions or the processors differ "
    "(lwcs, NumPy, numba, LWCS_KERNEL)"
)


def _of_rows(one: Coreset, other: Coreset) -> list[str]:
    """What differs in the rows."""
    if PARTITIONS not in one.details or PARTITIONS not in other.details:
        return [
            "nothing is known of the rows: fingerprints are taken of the partitions of Dask, "
            "Spark and Ray, and both coresets must have them"
        ]
    own, given = (Fingerprints.read(each.details[PARTITIONS]) for each in (one, other))
    if own.fingerprints == given.fingerprints and own.partitions == given.partitions:
        return []
    found = _of_partitions(own, given)
    same = own.all_contents == given.all_contents and sum(own.rows) == sum(given.rows)
    return [*found, "all in all the rows are " + ("the same" if same else "others")]


def _of_partitions(own: Fingerprints, given: Fingerprints) -> list[str]:
    if own.partitions != given.partitions:
        return [f"there are {own.partitions:,} and {given.partitions:,} partitions"]
    found: dict[str, list[str]] = {}
    for i, fingerprint in enumerate(own.fingerprints):
        if fingerprint == given.fingerprints[i]:
            continue
        if own.rows[i] != given.rows[i]:
            what = "another number of rows"
        elif own.contents[i] != given.contents[i]:
            what = "other rows"
        else:
            what = "the same rows in another order"
        found.setdefault(what, []).append(_called(own, i))
    return [f"{_listed(names)} {what}" for what, names in found.items()]


def _called(prints: Fingerprints, i: int) -> str:
    """The partitions that share a fingerprint."""
    first = i * prints.each
    last = min(first + prints.each, prints.partitions) - 1
    return f"{first}" if first == last else f"{first}–{last}"


def _listed(names: list[str]) -> str:
    if len(names) == 1:
        return f"partition {names[0]} has"
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"partitions {', '.join(names[:_SHOWN])}{more} have"


def united(one: Coreset, other: Coreset) -> Coreset:
    """Coreset of the union of two disjoint data sets; rows of `other` come after those of `one`."""
    check_alike(one, other)
    mean, cost = merged(one, other)
    return replace(
        one,
        points=one.like_points(stack([one.host_points, other.host_points])),
        weights=np.concatenate([one.host_weights, other.host_weights]),
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
    if container(one.host_points) != container(other.host_points):
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


def some_draws(coreset: Coreset, kept: IntArray, seed: int) -> Coreset:
    """So many of the draws of every row, as a coreset by themselves."""
    part = part_of(coreset.host_weights, coreset.counts, kept)
    # Parts of one seed, unlike other coresets, may be independent of each other.
    details = {**without_timings(coreset.details), "part_of": coreset.size}
    least = details.get("least_draws")
    if isinstance(least, int | float):
        # A draw stands for the same value as in the whole, so that it is the same part of all.
        details["least_draws"] = least * int(part.counts.sum()) / coreset.size
    return replace(
        coreset,
        points=coreset.like_points(coreset.host_points[part.at]),
        weights=part.weights,
        indices=coreset.indices[part.at],
        counts=part.counts,
        seed=seed,
        details=details,
    )


def sampled(coreset: Coreset, size: int, seed: int) -> Coreset:
    """Importance sampling of the weighted rows, by Algorithm 1 around their own mean."""
    scale = coreset.scale
    rows = coreset.host_points if scale is None else coreset.host_points * (1.0 / scale)
    source = scan(rows, weight=coreset.host_weights)
    geometry = Geometry(coreset.divergence, kernel=kernels.choose(source.estimate_values()))
    draws = Lightweight().draw(source, size, 2, Run(seed, geometry, stage=Stage.REDUCE))
    at = draws.indices
    return replace(
        coreset,
        points=coreset.like_points(coreset.host_points[at]),
        weights=draws.weights,
        indices=coreset.indices[at],
        counts=draws.counts,
        method=Lightweight.name,
        seed=seed,
        details=without_timings(coreset.details),
    )


def sampled_again(coreset: Coreset, size: int, seed: int) -> Coreset:
    """The same of rows that are a sample already: that adds an error of its own."""
    depth = coreset.depth + 1
    growth = round(reduced_epsilon(0.1, depth) / 0.1, 3)
    # As long as it is a number.
    details = {"error_growth": growth} if np.isfinite(growth) else {}
    return replace(sampled(coreset, size, seed), depth=depth, details=details)


def reduced_epsilon(epsilon: float, depth: int) -> float:
    """ε of a union (depth 1) that was reduced until its depth, if every step has this ε.

    A step of ε₂ on a coreset of ε₁ gives ε₁ + ε₂(1 + 1.5ε₁).
    """
    # ε + 2/3 grows by the factor 1 + 1.5ε in every step.
    with np.errstate(over="ignore"):
        growth = np.expm1((depth - 1) * np.log1p(1.5 * epsilon))
        return float(epsilon + growth * (epsilon + 2.0 / 3.0))
