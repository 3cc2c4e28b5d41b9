"""Rows with known clusters for the divergences, and a divergence as a user writes it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lwcs.divergences import Divergence, Domain


class Burg(Divergence):
    """Itakura–Saito as a user writes it: φ, its gradient, a domain."""

    name = "burg"
    domain = Domain(low=0.0, closed=False)

    def phi(self, x):
        return -np.log(x)

    def gradient(self, y):
        return -1.0 / y


def blobs(n: int = 3_000, d: int = 5, k: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, d))[rng.integers(k, size=n)] * 6.0 + rng.normal(size=(n, d))


def topics(n: int = 4_000, d: int = 60, k: int = 5, seed: int = 0) -> tuple:
    """Counts of k topics, sparse, and which topic each row is of."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(d, 0.1), size=k)
    label = rng.integers(k, size=n)
    lengths = rng.integers(20, 60, size=n)
    counts = np.stack([rng.multinomial(m, chances[j]) for m, j in zip(lengths, label, strict=True)])
    return sp.csr_array(counts.astype(float)), label


def spectra(n: int = 4_000, d: int = 12, k: int = 4, seed: int = 0) -> tuple:
    """Gamma noise of shape 6 around k spectra, whose powers differ by decades."""
    rng = np.random.default_rng(seed)
    shapes = 10.0 ** rng.uniform(-3, 3, size=(k, d))
    label = rng.integers(k, size=n)
    return shapes[label] * rng.gamma(6.0, 1.0 / 6.0, size=(n, d)), label


COUNTS = topics()[0].toarray()
