"""Models and coresets that several figures are drawn of."""

from __future__ import annotations

from functools import cache

import numpy as np

import lwcs

ODD = ("$a$ and $b$", "<script>alert(1)</script>", "\N{FOX FACE} fur", "עברית", "a\nb_{c}")
"""Names that matplotlib or a browser could take for something else."""


def blobs(d: int, k: int = 3, n: int = 300) -> np.ndarray:
    """k groups in d columns, of n, 2n, 3n, … rows; each next one is further out."""
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(10.0 * j, 1.0, ((j + 1) * n, d)) for j in range(k)])


def model(d: int, k: int = 3, **options: object) -> lwcs.CoresetKMeans:
    return lwcs.CoresetKMeans(k, random_state=0, **options).fit(blobs(d, k))


@cache
def many() -> lwcs.CoresetKMeans:
    """500 clusters of 2,000 rows in three columns."""
    X = np.random.default_rng(0).normal(size=(2_000, 3))
    return lwcs.CoresetKMeans(500, random_state=0, n_init=1).fit(X)
