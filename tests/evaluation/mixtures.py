"""Mixtures whose number of clusters is known."""

from __future__ import annotations

import numpy as np

from lwcs.arrays.types import FloatArray


def separated(
    rows: int, columns: int, k: int, seed: int, *, apart: float = 8.0, ratio: float = 1.0
) -> FloatArray:
    """k spherical Gaussians of variance 1, at least `apart` from each other.

    The largest has `ratio` times as many rows as the smallest, those between are in geometric
    progression.
    """
    rng = np.random.default_rng(seed)
    box, centers = apart * max(1.5, (2.0 * k) ** (1.0 / columns)), np.empty((0, columns))
    while len(centers) < k:
        center = rng.uniform(0.0, box, columns)
        if (np.linalg.norm(centers - center, axis=1) >= apart).all():
            centers = np.vstack([centers, center])
        box *= 1.01
    shares = ratio ** -(np.arange(k) / max(k - 1, 1))
    labels = rng.choice(k, rows, p=shares / shares.sum())
    return centers[labels] + rng.standard_normal((rows, columns))
