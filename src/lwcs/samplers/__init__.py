"""Which rows matter: samplers by name or as objects."""

from __future__ import annotations

from lwcs.foundation.checks import check_choice
from lwcs.samplers.base import Draws, Moments, Run, Sampler, Summary
from lwcs.samplers.lightweight import Lightweight
from lwcs.samplers.uniform import Uniform

__all__ = ["Draws", "Lightweight", "Moments", "Run", "Sampler", "Summary", "Uniform", "as_sampler"]

_BY_NAME: dict[str, type[Lightweight | Uniform]] = {
    "lightweight": Lightweight,
    "uniform": Uniform,
}


def as_sampler(method: str | Sampler) -> Sampler:
    """Give the sampler that a name stands for; a sampler stands for itself."""
    if isinstance(method, str):
        check_choice(method, "method", tuple(_BY_NAME))
        return _BY_NAME[method]()
    if isinstance(method, type) or not hasattr(method, "draw"):
        raise TypeError(
            f"method={method!r} is not a sampler; pass one of {', '.join(map(repr, _BY_NAME))}, "
            "or an object such as lwcs.Lightweight(draws='stratified')"
        )
    return method
