"""The distributions that a mixture is made of: how likely rows are, and what fits them best.

The mean of an exponential family's best fit is the weighted mean of the rows, as for the Bregman
divergence that belongs to it (Banerjee et al. 2005; section 6 of the paper).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import digamma, gammaln, polygamma, xlogy

from lwcs.divergences import KL, ItakuraSaito, Logistic
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray, Rows

# Means are kept this far from the edge of their domain, where a row would be impossible.
_TINY = 1e-10
_NEWTON = 25


class Family(ABC):
    """k distributions of one family; `fit` replaces them by what fits weighted rows best."""

    name: ClassVar[str]
    divergence: ClassVar[Divergence]
    """What belongs to it (Banerjee et al. 2005): its domain is that of the rows."""
    start: ClassVar[Divergence]
    """What clusters that components start from are measured by."""
    sparse: ClassVar[bool] = False
    """Whether rows may be sparse, and stay it."""

    means: FloatArray

    @abstractmethod
    def fit(self, rows: Rows, shares: FloatArray) -> None:
        """Fit component j to the rows with weights ``shares[:, j]``."""

    @abstractmethod
    def log_density(self, rows: Rows) -> FloatArray:
        """Ln p(row | component), of shape (rows, components)."""

    @abstractmethod
    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows of one component."""

    @abstractmethod
    def n_parameters(self) -> int:
        """Free parameters of all components, for BIC and AIC."""


def weighted_means(rows: Rows, shares: FloatArray) -> FloatArray:
    """Means of the rows by component."""
    totals = np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
    sums = np.asarray((rows.T @ shares).T if is_sparse(rows) else shares.T @ rows)
    return sums / totals[:, None]


class Poisson(Family):
    """Counts, each column by itself."""

    name, sparse = "poisson", True
    divergence, start = KL(smoothing=0.0).of_family("poisson"), KL()

    def fit(self, rows: Rows, shares: FloatArray) -> None:
        """Rates are the means."""
        self.means = np.maximum(weighted_means(rows, shares), _TINY)

    def log_density(self, rows: Rows) -> FloatArray:
        """Σ x·ln λ − λ − ln x!."""
        found = rows @ np.log(self.means).T - self.means.sum(axis=1)
        return np.asarray(found) - _over_rows(rows, _log_factorial)[:, None]

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw counts."""
        return rng.poisson(self.means[component], (n, self.means.shape[1])).astype(np.float64)

    def n_parameters(self) -> int:
        """A rate for each column."""
        return self.means.size


class Multinomial(Family):
    """Counts of a row together, given their number: words of a document."""

    name, sparse = "multinomial", True
    divergence, start = KL(smoothing=0.0).of_family("multinomial"), KL()

    def fit(self, rows: Rows, shares: FloatArray) -> None:
        """Probabilities of the columns; `trials` is the mean number of counts of a row."""
        sums = np.asarray((rows.T @ shares).T if is_sparse(rows) else shares.T @ rows)
        self.trials = float(sums.sum() / shares.sum())
        chances = np.maximum(sums, _TINY * (sums.sum() or 1.0) / sums.shape[1])
        self.means = chances / chances.sum(axis=1, keepdims=True)

    def log_density(self, rows: Rows) -> FloatArray:
        """Ln N! − Σ ln x! + Σ x·ln θ."""
        totals = np.asarray(rows.sum(axis=1)).ravel()
        constant = gammaln(totals + 1.0) - _over_rows(rows, _log_factorial)
        return np.asarray(rows @ np.log(self.means).T) + constant[:, None]

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows of as many counts as rows had on average."""
        trials = max(1, round(self.trials))
        return rng.multinomial(trials, self.means[component], n).astype(np.float64)

    def n_parameters(self) -> int:
        """A probability for each column but one."""
        return len(self.means) * (self.means.shape[1] - 1)


class Bernoulli(Family):
    """Zeros and ones, or chances of them, each column by itself."""

    name, sparse = "bernoulli", True
    divergence, start = Logistic(smoothing=0.0).of_family("bernoulli"), Logistic()

    def fit(self, rows: Rows, shares: FloatArray) -> None:
        """Chances are the means."""
        self.means = np.clip(weighted_means(rows, shares), _TINY, 1.0 - _TINY)

    def log_density(self, rows: Rows) -> FloatArray:
        """Σ x·ln p + (1 − x)·ln(1 − p)."""
        none = np.log1p(-self.means)
        return np.asarray(rows @ (np.log(self.means) - none).T) + none.sum(axis=1)

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw zeros and ones."""
        return rng.binomial(1, self.means[component], (n, self.means.shape[1])).astype(np.float64)

    def n_parameters(self) -> int:
        """A chance for each column."""
        return self.means.size


class Exponential(Family):
    """Positive numbers that are memoryless: times between events."""

    name = "exponential"
    divergence = start = ItakuraSaito().of_family("exponential")

    def fit(self, rows: Rows, shares: FloatArray) -> None:
        """Means are the means."""
        self.means = np.maximum(weighted_means(rows, shares), np.finfo(np.float64).tiny)

    def log_density(self, rows: Rows) -> FloatArray:
        """Σ −ln m − x/m."""
        return -np.log(self.means).sum(axis=1) - rows @ (1.0 / self.means).T

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw numbers."""
        return rng.exponential(self.means[component], (n, self.means.shape[1]))

    def n_parameters(self) -> int:
        """A mean for each column."""
        return self.means.size


class Gamma(Family):
    """Positive numbers with a mean and a shape, each column by itself."""

    name = "gamma"
    divergence = start = ItakuraSaito().of_family("gamma")

    def fit(self, rows: Rows, shares: FloatArray) -> None:
        """Means; and shapes that solve ln α − ψ(α) = ln mean(x) − mean(ln x), by Newton."""
        self.means = np.maximum(weighted_means(rows, shares), np.finfo(np.float64).tiny)
        gap = np.maximum(np.log(self.means) - weighted_means(np.log(rows), shares), _TINY)
        # Minka's start, good to a percent.
        shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
        for _ in range(_NEWTON):
            slope = 1.0 / shape - polygamma(1, shape)
            step = (np.log(shape) - digamma(shape) - gap) / slope
            shape = np.maximum(shape - step, 0.5 * shape)
        self.shapes = shape

    def log_density(self, rows: Rows) -> FloatArray:
        """Σ α·ln(α/m) + (α − 1)·ln x − α·x/m − ln Γ(α)."""
        rate = self.shapes / self.means
        constant = (xlogy(self.shapes, rate) - gammaln(self.shapes)).sum(axis=1)
        return constant + np.log(rows) @ (self.shapes - 1.0).T - rows @ rate.T

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw numbers."""
        shape = self.shapes[component]
        return rng.gamma(shape, self.means[component] / shape, (n, len(shape)))

    def n_parameters(self) -> int:
        """A mean and a shape for each column."""
        return 2 * self.means.size


def _log_factorial(values: FloatArray) -> FloatArray:
    return gammaln(values + 1.0)


def _over_rows(rows: Rows, function: Any) -> FloatArray:
    """Sum a function that is zero at zero over the columns of every row."""
    if not is_sparse(rows):
        return np.asarray(function(rows).sum(axis=1))
    row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    sums: FloatArray = np.bincount(row_of, function(rows.data), rows.shape[0]).astype(np.float64)
    return sums
