"""Where EM starts: the responsibilities of random draws, of clusters, or of given means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import check_centers, check_choice
from lwcs.foundation.randomness import Stage, generator
from lwcs.geometry import Geometry
from lwcs.solvers.kmeans import cluster

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Labels, Rows
    from lwcs.solvers.families import Family

INITS = ("k-means", "random")


def check_init(init: Any) -> None:
    """Check what can be checked without rows."""
    if isinstance(init, str):
        check_choice(init, "init", INITS)


def initial_responsibilities(
    rows: Rows,
    weights: FloatArray,
    family: Family,
    k: int,
    init: Any,
    *,
    seed: int,
    attempt: int,
    n_jobs: int,
) -> FloatArray:
    """Initial responsibilities of restart number `attempt`, of shape (n_rows, k)."""
    if isinstance(init, str) and init == "random":
        return generator(seed, Stage.SEEDING, attempt).dirichlet(np.ones(k), rows.shape[0])
    if isinstance(init, str):
        labels = _clusters(rows, weights, family, k, _restart_seed(seed, attempt), n_jobs)
    else:
        means = Geometry().centers(_given_means(init, family, k, rows.shape[1]))
        labels = Geometry().measured(rows).labels(means)
    return np.eye(k)[labels]


def _restart_seed(seed: int, attempt: int) -> int:
    """The seed of one k-means start; the first restart uses the seed itself."""
    if attempt == 0:
        return seed
    return int(generator(seed, Stage.RESTART, attempt).integers(2**63))


def _clusters(
    rows: Rows, weights: FloatArray, family: Family, k: int, seed: int, n_jobs: int
) -> Labels:
    points, divergence = family.start_rows(rows), family.start
    mean = np.asarray(weights @ points) / weights.sum() if divergence.smoothing else None
    return cluster(
        points,
        weights,
        Geometry(divergence, mean=mean, kernel=kernels.choose(rows.shape[0] * rows.shape[1])),
        k,
        seed=seed,
        n_jobs=n_jobs,
    ).labels


def _given_means(init: Any, family: Family, k: int, n_features: int) -> FloatArray:
    shape = (k, n_features)
    if np.shape(init) != shape:
        raise ValueError(
            f"init has shape {np.shape(init)}; pass means of shape {shape}, or one of "
            f"{', '.join(map(repr, INITS))}"
        )
    means, domain = check_centers(init, n_features), family.divergence.domain
    outside = np.argwhere(domain.outside(means))
    if len(outside):
        row, column = map(int, outside[0])
        raise ValueError(
            f"init[{row}, {column}]={means[row, column]} is not allowed: family={family.name!r} "
            f"requires {domain}; pass means in this range"
        )
    return means
