"""Fewer draws of a coreset: some of those that it has, or draws of its weighted rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.foundation.randomness import Stage
from lwcs.foundation.splits import part_of
from lwcs.foundation.timings import without_timings
from lwcs.geometry import Geometry
from lwcs.samplers import Lightweight, Run
from lwcs.sources import scan

if TYPE_CHECKING:
    from lwcs.coreset import Coreset
    from lwcs.foundation.types import IntArray


def some_draws(coreset: Coreset, kept: IntArray, seed: int) -> Coreset:
    """So many of the draws of every row, as a coreset by themselves."""
    part = part_of(coreset.omega, coreset.counts, kept)
    # Parts of one seed, unlike other coresets, may be independent of each other.
    details = {**without_timings(coreset.details), "part_of": coreset.size}
    least = details.get("least_draws")
    if isinstance(least, int | float):
        # A draw stands for the same value as in the whole, so that it is the same part of all.
        details["least_draws"] = least * int(part.counts.sum()) / coreset.size
    return replace(
        coreset,
        points=coreset.like_points(coreset.rows[part.at]),
        weights=part.weights,
        indices=coreset.indices[part.at],
        counts=part.counts,
        seed=seed,
        details=details,
    )


def sampled(coreset: Coreset, size: int, seed: int) -> Coreset:
    """Importance sampling of the weighted rows, by Algorithm 1 around their own mean."""
    scale = coreset.scale
    rows = coreset.rows if scale is None else coreset.rows * (1.0 / scale)
    source = scan(rows, weight=coreset.omega)
    geometry = Geometry(coreset.divergence, kernel=kernels.choose(source.estimate_values()))
    draws = Lightweight().draw(source, size, 2, Run(seed, geometry, stage=Stage.REDUCE))
    at = draws.indices
    return replace(
        coreset,
        points=coreset.like_points(coreset.rows[at]),
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
