"""Families for positive numbers: exponential and gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from scipy.special import digamma, gammaln, polygamma, xlogy

from lwcs.divergences import ItakuraSaito
from lwcs.solvers.families.family import Natural, NaturalFamily, means_of_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray

_SMALLEST_MEAN = np.finfo(np.float64).tiny
# ln mean(x) − mean(ln x) is 0 for constant rows, whose shape would be infinite.
_SMALLEST_GAP = 1e-10
_NEWTON_STEPS = 25


class ExponentialDistribution(NaturalFamily):
    """Positive numbers such as times between events, independent by column."""

    name, divergence = "exponential", ItakuraSaito()
    on_device = True

    def as_means(self, given: FloatArray) -> FloatArray:
        """Means > 0."""
        return np.maximum(given, _SMALLEST_MEAN)

    def natural(self) -> Natural:
        """Σ −ln m − x/m."""
        return Natural((-1.0 / self.means,), -np.log(self.means).sum(axis=1))

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows from one component."""
        return rng.exponential(self.means[component], (n, self.means.shape[1]))


class Gamma(NaturalFamily):
    """Positive numbers with a mean and a shape, independent by column."""

    name, divergence = "gamma", ItakuraSaito()
    on_device = True
    fitted: ClassVar = {"shape": "shapes"}

    def statistics(self, rows: Any) -> tuple[Any, ...]:
        """ln x and x."""
        return array_namespace(rows).log(rows), rows

    def fit_sums(self, sums: Sequence[FloatArray], weights: FloatArray) -> None:
        """Set the means, and solve ln α − ψ(α) = ln mean(x) − mean(ln x) for the shapes."""
        logs, means = (means_of_sums(each, weights) for each in sums)
        self.means = self.as_means(means)
        gap = np.maximum(np.log(self.means) - logs, _SMALLEST_GAP)
        # Minka's approximation is within 1.5 %; Newton's method does the rest.
        shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
        for _ in range(_NEWTON_STEPS):
            slope = 1.0 / shape - polygamma(1, shape)
            step = (np.log(shape) - digamma(shape) - gap) / slope
            shape = np.maximum(shape - step, 0.5 * shape)
        self.shapes = shape

    def as_means(self, given: FloatArray) -> FloatArray:
        """Means > 0."""
        return np.maximum(given, _SMALLEST_MEAN)

    def natural(self) -> Natural:
        """Σ α·ln(α/m) + (α − 1)·ln x − α·x/m − ln Γ(α)."""
        rate = self.shapes / self.means
        constant = (xlogy(self.shapes, rate) - gammaln(self.shapes)).sum(axis=1)
        return Natural((self.shapes - 1.0, -rate), constant)

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows from one component."""
        shape = self.shapes[component]
        return rng.gamma(shape, self.means[component] / shape, (n, len(shape)))

    def n_parameters(self) -> int:
        """One mean and one shape per column and component."""
        return 2 * self.means.size

    def check(self) -> None:
        """Refuse shapes that are not positive."""
        super().check()
        if self.shapes.shape != self.means.shape or not (self.shapes > 0.0).all():
            raise ValueError("the shapes of a gamma mixture must be numbers > 0, one per mean")
