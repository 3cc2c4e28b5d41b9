"""Distributions of the components of a mixture; each family is a registered class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwcs.arrays.checks import check_choice
from lwcs.solvers.families.counts import Bernoulli, Multinomial, Poisson
from lwcs.solvers.families.family import Family, weighted_means, weighted_sums
from lwcs.solvers.families.gaussian import Gaussian
from lwcs.solvers.families.positive import ExponentialDistribution, Gamma

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Bernoulli",
    "ExponentialDistribution",
    "Family",
    "Gamma",
    "Gaussian",
    "Multinomial",
    "Poisson",
    "available",
    "new_family",
    "weighted_means",
    "weighted_sums",
]


def available() -> dict[str, type[Family]]:
    """Registered families by name: those of this library, and your own once they are defined.

    Examples
    --------
    >>> from lwcs.solvers import families
    >>> [name for name in families.available() if name.startswith("p")]
    ['poisson']
    """
    return dict(Family._registered)


def new_family(name: str, parameters: Mapping[str, Any]) -> Family:
    """Create an unfitted family from its name and the parameters of the estimator."""
    check_choice(name, "family", tuple(available()))
    return available()[name].create(parameters)
