"""Rows and models that the tests of drift share."""

from __future__ import annotations

import numpy as np

from lwcs import CoresetKMeans

PLACES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def rows(seed: int, n: int = 4_000, places: np.ndarray = PLACES, sizes=None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return places[rng.choice(len(places), n, p=sizes)] + rng.normal(size=(n, 2))


def fitted(n: int = 4_000, **how) -> CoresetKMeans:
    return CoresetKMeans(4, random_state=0, **how).fit(rows(1, n))


def at(model: CoresetKMeans, place: np.ndarray) -> int:
    """The cluster at a place."""
    return int(np.argmin(np.sum((model.cluster_centers_ - place) ** 2, axis=1)))
