"""Which rows matter: samplers by name or as objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lwcs.foundation.checks import check_choice
from lwcs.samplers.base import Draws, Moments, Run, Sampler, Summary
from lwcs.samplers.lightweight import Lightweight
from lwcs.samplers.refined import Refined
from lwcs.samplers.sensitivity import Sensitivity
from lwcs.samplers.uniform import Uniform

__all__ = [
    "METHODS",
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
]

_BY_NAME: dict[str, type[Any]] = {
    "lightweight": Lightweight,
    "uniform": Uniform,
    "sensitivity": Sensitivity,
    "refined": Refined,
}
METHODS = tuple(_BY_NAME)


def as_sampler(method: str | Sampler, n_clusters: int | None = None) -> Sampler:
    """Give the sampler that a name stands for; a sampler stands for itself.

    One that wants a number of clusters and was not told any gets `n_clusters`.
    """
    if isinstance(method, str):
        check_choice(method, "method", METHODS)
        sampler: Any = _BY_NAME[method]()
    elif isinstance(method, type) or not hasattr(method, "draw"):
        raise TypeError(
            f"method={method!r} is not a sampler; pass one of {', '.join(map(repr, METHODS))}, "
            "or an object such as lwcs.Lightweight(draws='stratified')"
        )
    else:
        sampler = method
    if isinstance(sampler, (Sensitivity, Refined)) and sampler.n_clusters is None:
        return replace(sampler, n_clusters=n_clusters)
    return sampler
