"""Rows of two components, and mixtures of Gaussians to start from that are far from theirs."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)
MEANS = np.array([[0.0, 1.0, -2.0], [5.0, -2.0, 1.0]])
MIX = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.7]])
X = MEANS[RNG.choice(2, 400, p=[0.3, 0.7])] + RNG.standard_normal((400, 3)) @ MIX
COUNTS = np.random.default_rng(3).poisson([[2.0, 9.0, 1.0], [8.0, 3.0, 2.0]] * 150).astype(float)
POSITIVE = np.random.default_rng(3).gamma(2.0, [[1.0, 9.0, 1.0], [5.0, 2.0, 4.0]] * 150)
ONES = np.random.default_rng(3).binomial(1, [[0.2, 0.7, 0.5], [0.8, 0.3, 0.6]] * 150).astype(float)


def some_precisions(kind: str) -> np.ndarray:
    """Different for every component, and far from the answer."""
    root = np.random.default_rng(1).normal(size=(2, 3, 3))
    full = root @ np.swapaxes(root, 1, 2) + np.eye(3)
    variances = np.array([[1.0, 2.0, 3.0], [0.5, 1.0, 4.0]])
    return {"full": full, "tied": full[0], "diag": variances, "spherical": variances[:, 0]}[kind]


def whole_start(kind: str) -> dict[str, np.ndarray]:
    return {
        "means_init": np.array([[1.0, 0.0, 0.0], [2.0, -1.0, 1.0]]),
        "weights_init": np.array([0.6, 0.4]),
        "precisions_init": some_precisions(kind),
    }
