"""Families that are linear in statistics of a row: for counts, zeros and ones, positive numbers.

ln p(row | component) = Σ statistics(row)·parameters + offset + base(row) in all of them. So the
densities of all components are matrix products, also for sparse rows and tensors, and a fit needs
nothing but the weighted sums of the statistics.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.special import digamma, gammaln, polygamma, xlogy

from lwcs.arrays.device import library_of
from lwcs.arrays.rows import divide_rows, empty_rows, row_sums, stored_values, with_values
from lwcs.divergences import KL, ItakuraSaito, Logistic
from lwcs.divergences.transformed import normalized
from lwcs.solvers.families.family import Family, means_of_sums, weighted_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray, Rows

# Means keep this distance from the boundary of their domain, where some rows have density 0.
_MARGIN = 1e-10
_SMALLEST_MEAN = np.finfo(np.float64).tiny
# ln mean(x) − mean(ln x) is 0 for constant rows, whose shape would be infinite.
_SMALLEST_GAP = 1e-10
_NEWTON_STEPS = 25


class Natural(NamedTuple):
    """The parameters of the log-densities of all components."""

    parameters: tuple[FloatArray, ...]
    """One array of shape (n_components, n_features) per statistic."""
    offsets: FloatArray
    """One number per component."""


class NaturalFamily(Family):
    """The contract of these families; a subclass has `natural`, and `statistics` if not the row."""

    @abstractmethod
    def natural(self) -> Natural:
        """The parameters in the order of `statistics`, and the offsets."""

    def fit_sums(self, sums: Sequence[FloatArray], weights: FloatArray) -> None:
        """Fit the components to sums of the statistics, of shape (n_components, n_features) each.

        `weights` are those of the rows, or their sums: an array of shape (1, n_components). By
        default, the only statistic is the row, and the only parameter its mean.
        """
        self.means = self.as_means(means_of_sums(sums[0], weights))

    def n_parameters(self) -> int:
        """Number of parameters; by default one per column and component."""
        return self.means.size

    def statistics(self, rows: Any) -> tuple[Any, ...]:
        """The statistics of every row, for NumPy arrays, sparse rows or tensors."""
        return (rows,)

    def base(self, rows: Any) -> Any:
        """The term that does not depend on the component, one number per row; None for zero."""
        del rows

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Fit the components to the sums of the statistics."""
        self.fit_sums([weighted_sums(each, weights) for each in self.statistics(rows)], weights)

    def log_density(self, rows: Rows) -> FloatArray:
        """Add up the products of statistics and parameters, the offsets and the base."""
        parameters, total = self.natural()
        for values, each in zip(self.statistics(rows), parameters, strict=True):
            total = total + np.asarray(values @ each.T)
        base = self.base(rows)
        return total if base is None else total + base[:, None]


class Poisson(NaturalFamily):
    """Counts, independent by column."""

    name, sparse, on_device = "poisson", True, True
    divergence, start = KL(smoothing=0.0), KL()

    def as_means(self, given: FloatArray) -> FloatArray:
        """Rates > 0."""
        return np.maximum(given, _MARGIN)

    def natural(self) -> Natural:
        """Σ x·ln λ − λ."""
        return Natural((np.log(self.means),), -self.means.sum(axis=1))

    def base(self, rows: Any) -> Any:
        """−Σ ln x!."""
        return -_sums_of_log_factorials(rows)

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows of counts from one component."""
        return rng.poisson(self.means[component], (n, self.means.shape[1])).astype(np.float64)


class Multinomial(NaturalFamily):
    """Counts of a row given their sum, such as the words of a document.

    `means` are the probabilities of the columns; `trials` is the mean of the row sums.
    """

    name, sparse, on_device = "multinomial", True, True
    divergence, start = KL(smoothing=0.0), KL()
    fitted: ClassVar = {"trials": "trials"}

    def fit_sums(self, sums: Sequence[FloatArray], weights: FloatArray) -> None:
        """Set the probabilities to the relative frequencies of the columns."""
        self.trials = float(sums[0].sum() / weights.sum())
        self.means = _probabilities(sums[0])

    def as_means(self, given: FloatArray) -> FloatArray:
        """Probabilities > 0 that sum to one."""
        empty = empty_rows(given)
        if len(empty):
            raise ValueError(
                f"means_init[{empty[0]}] sums to 0; for family={self.name!r}, pass the "
                "probabilities of the columns, or counts in proportion to them"
            )
        return _probabilities(np.asarray(normalized(given, row_sums)))

    def natural(self) -> Natural:
        """Σ x·ln θ."""
        return Natural((np.log(self.means),), np.zeros(len(self.means)))

    def base(self, rows: Any) -> Any:
        """ln N! − Σ ln x!."""
        if library_of(rows) == "torch":
            return (rows.sum(1) + 1.0).lgamma() - _sums_of_log_factorials(rows)
        return gammaln(row_sums(rows) + 1.0) - _sums_of_log_factorials(rows)

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows from one component; each sums to the rounded mean of the row sums."""
        trials = max(1, round(self.trials))
        return rng.multinomial(trials, self.means[component], n).astype(np.float64)

    def n_parameters(self) -> int:
        """One probability per column and component, less one per component."""
        return len(self.means) * (self.means.shape[1] - 1)

    def check(self) -> None:
        """Refuse probabilities that do not sum to 1."""
        super().check()
        sums = self.means.sum(axis=1)
        if np.abs(sums - 1.0).max() > 1e-6 or self.trials < 0.0:
            raise ValueError(
                f"the probabilities of a component sum to {sums[np.argmax(np.abs(sums - 1.0))]:g} "
                f"and rows to {self.trials:g}, must be 1 and a number >= 0"
            )

    def start_rows(self, rows: Any) -> Any:
        """Rows divided by their sums, so that long documents do not form their own cluster."""
        if library_of(rows) == "torch":
            sums = rows.sum(1, keepdim=True)
            return rows / sums.where(sums != 0.0, 1.0)
        return divide_rows(rows, row_sums(rows))


class Bernoulli(NaturalFamily):
    """Zeros and ones, or probabilities, independent by column."""

    name, sparse, on_device = "bernoulli", True, True
    divergence, start = Logistic(smoothing=0.0), Logistic()

    def as_means(self, given: FloatArray) -> FloatArray:
        """Probabilities > 0 and < 1."""
        return np.clip(given, _MARGIN, 1.0 - _MARGIN)

    def natural(self) -> Natural:
        """Σ x·ln p + (1 − x)·ln(1 − p)."""
        of_zeros = np.log1p(-self.means)
        return Natural((np.log(self.means) - of_zeros,), of_zeros.sum(axis=1))

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows of zeros and ones from one component."""
        return rng.binomial(1, self.means[component], (n, self.means.shape[1])).astype(np.float64)


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


def _probabilities(counts: FloatArray) -> FloatArray:
    """Counts of the columns divided by their sum for each component, none of them zero."""
    positive = np.maximum(counts, _MARGIN * (counts.sum() or 1.0) / counts.shape[1])
    return positive / positive.sum(axis=1, keepdims=True)


def _sums_of_log_factorials(rows: Any) -> Any:
    """Σ ln x! of every row; zeros that are not stored add nothing."""
    if library_of(rows) == "torch":
        return (rows + 1.0).lgamma().sum(1)
    return row_sums(with_values(rows, gammaln(stored_values(rows) + 1.0)))
