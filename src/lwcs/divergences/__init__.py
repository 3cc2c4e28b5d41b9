"""Bregman divergences: what may take the place of the squared distance (section 6)."""

from __future__ import annotations

from typing import Any

from lwcs.divergences.base import Divergence, Domain
from lwcs.divergences.measure import Measure
from lwcs.divergences.seen import Cosine, Mahalanobis, SimplexKL
from lwcs.divergences.separable import (
    KL,
    Exponential,
    ItakuraSaito,
    Logistic,
    SquaredEuclidean,
)
from lwcs.foundation.checks import check_choice

__all__ = [
    "KL",
    "Cosine",
    "Divergence",
    "Domain",
    "Exponential",
    "ItakuraSaito",
    "Logistic",
    "Mahalanobis",
    "Measure",
    "SimplexKL",
    "SquaredEuclidean",
    "as_divergence",
    "available",
    "recalled",
]


def available() -> dict[str, type[Divergence]]:
    """The divergences by their names: those of this library, and yours once they are defined.

    Examples
    --------
    >>> from lwcs import divergences
    >>> [name for name in divergences.available() if name.startswith("k")]
    ['kl', 'kl_simplex']
    """
    return dict(Divergence._known)


def as_divergence(divergence: Any) -> Divergence:
    """Give the divergence that a name stands for; one stands for itself."""
    if isinstance(divergence, Divergence):
        return divergence
    if isinstance(divergence, type) and issubclass(divergence, Divergence):
        raise TypeError(f"divergence={divergence.__name__} is a class; pass one of it, with ()")
    if not isinstance(divergence, str):
        raise TypeError(
            f"divergence={divergence!r} is none; pass one of {', '.join(map(repr, available()))}, "
            "or an object such as lwcs.divergences.KL(smoothing=0.2)"
        )
    check_choice(divergence, "divergence", tuple(available()))
    kind = available()[divergence]
    if kind is Mahalanobis:
        raise ValueError(
            "divergence='mahalanobis' needs a matrix; pass lwcs.divergences.Mahalanobis(precision)"
        )
    return kind()


def recalled(name: str, parameters: dict[str, Any]) -> Divergence:
    """The divergence that a file names, with the parameters that it had."""
    if name not in available():
        raise ValueError(
            f"it was measured by divergence={name!r}, which is not defined here; import the class "
            "that has this name first"
        )
    return available()[name](**parameters)
