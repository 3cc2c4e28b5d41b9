"""Bregman divergences, which may take the place of the squared Euclidean distance (section 6)."""

from __future__ import annotations

from lwcs.divergences.divergence import Divergence, Domain, available
from lwcs.divergences.divergence import as_divergence as as_divergence
from lwcs.divergences.divergence import from_saved as from_saved
from lwcs.divergences.separable import KL, Exponential, ItakuraSaito, Logistic, SquaredEuclidean
from lwcs.divergences.transformed import Cosine, Mahalanobis, SimplexKL

__all__ = [
    "KL",
    "Cosine",
    "Divergence",
    "Domain",
    "Exponential",
    "ItakuraSaito",
    "Logistic",
    "Mahalanobis",
    "SimplexKL",
    "SquaredEuclidean",
    "available",
]
