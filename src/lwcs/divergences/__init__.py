"""Bregman divergences, which may take the place of the squared Euclidean distance (section 6)."""

from __future__ import annotations

from typing import Any

from lwcs.arrays.checks import check_choice
from lwcs.divergences.divergence import Divergence, Domain
from lwcs.divergences.separable import KL, Exponential, ItakuraSaito, Logistic, SquaredEuclidean
from lwcs.divergences.transformed import Cosine, Mahalanobis, SimplexKL
from lwcs.storage.fields import NotDefinedError

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


def available() -> dict[str, type[Divergence]]:
    """The registered divergences by name: those of this library, and yours once defined.

    Examples
    --------
    >>> from lwcs import divergences
    >>> [name for name in divergences.available() if name.startswith("k")]
    ['kl', 'kl_simplex']
    """
    return dict(Divergence._known)


def as_divergence(divergence: Any) -> Divergence:
    """The divergence with a name; a divergence is returned as it is."""
    if isinstance(divergence, Divergence):
        return divergence
    if isinstance(divergence, type) and issubclass(divergence, Divergence):
        raise TypeError(
            f"divergence={divergence.__name__} is a class; pass an instance, "
            f"{divergence.__name__}(…)"
        )
    if not isinstance(divergence, str):
        raise TypeError(
            f"divergence={divergence!r} is not a divergence; pass one of "
            f"{', '.join(map(repr, available()))}, or an object such as "
            "lwcs.divergences.KL(smoothing=0.2)"
        )
    check_choice(divergence, "divergence", tuple(available()))
    kind = available()[divergence]
    if kind is Mahalanobis:
        raise ValueError(
            "divergence='mahalanobis' needs a matrix; pass lwcs.divergences.Mahalanobis(precision)"
        )
    return kind()


def from_saved(name: str, parameters: dict[str, Any]) -> Divergence:
    """The divergence that a file names, with the parameters that were saved."""
    if name not in available():
        raise NotDefinedError(
            f"was saved with divergence={name!r}, which is not registered here; import the module "
            "that defines this class first"
        )
    return available()[name](**parameters)
