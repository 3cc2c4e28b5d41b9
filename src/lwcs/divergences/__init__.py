"""Bregman divergences: what may take the place of the squared distance (section 6)."""

from __future__ import annotations

from lwcs.divergences.base import Divergence, Domain
from lwcs.divergences.separable import (
    KL,
    Exponential,
    ItakuraSaito,
    Logistic,
    SquaredEuclidean,
)

__all__ = [
    "KL",
    "Divergence",
    "Domain",
    "Exponential",
    "ItakuraSaito",
    "Logistic",
    "SquaredEuclidean",
    "available",
]

_ALL: tuple[type[Divergence], ...] = (SquaredEuclidean, KL, ItakuraSaito, Exponential, Logistic)


def available() -> dict[str, type[Divergence]]:
    """The divergences by their names.

    Examples
    --------
    >>> from lwcs import divergences
    >>> list(divergences.available())
    ['squared_euclidean', 'kl', 'itakura_saito', 'exponential', 'logistic']
    """
    return {each.name: each for each in _ALL}
