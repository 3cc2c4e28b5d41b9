"""Samplers, which draw and weight the rows of a coreset: by name, or as objects."""

from __future__ import annotations

from lwcs.arrays.checks import check_choice
from lwcs.samplers.first_pass import Moments
from lwcs.samplers.lightweight import Lightweight
from lwcs.samplers.refined import Refined
from lwcs.samplers.sampler import Draws, Run, Sampler, Summary
from lwcs.samplers.sensitivity import Sensitivity
from lwcs.samplers.uniform import Uniform

__all__ = [
    "Draws",
    "Lightweight",
    "Moments",
    "Refined",
    "Run",
    "Sampler",
    "Sensitivity",
    "Summary",
    "Uniform",
    "as_sampler",
    "available",
]


def available() -> dict[str, type[Sampler]]:
    """The registered samplers by name: those of this library, and yours once defined.

    Examples
    --------
    >>> from lwcs import samplers
    >>> "lightweight" in samplers.available()
    True
    """
    return dict(Sampler._known)


def as_sampler(method: str | Sampler, n_clusters: int | None = None) -> Sampler:
    """The sampler of this name, or the given object, with its `n_clusters` filled in."""
    if isinstance(method, str):
        if method == "auto":
            raise ValueError(
                "method='auto' is for CoresetKMeans, which chooses the method by its first "
                f"solution; here, pass one of {', '.join(map(repr, available()))}"
            )
        check_choice(method, "method", tuple(available()))
        method = available()[method]()
    elif not isinstance(method, Sampler):
        raise TypeError(
            f"method={method!r} is not a sampler; pass one of "
            f"{', '.join(map(repr, available()))}, or an object such as "
            "lwcs.Lightweight(draws='stratified')"
        )
    return method.for_clusters(n_clusters)
