"""Families for counts and for zeros and ones: Poisson, multinomial, Bernoulli."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import gammaln

from lwcs.divergences import KL, Logistic
from lwcs.divergences.transformed import normalized
from lwcs.foundation.rows import divide_rows, empty_rows, row_sums, stored_values, with_values
from lwcs.solvers.families.base import Family, weighted_means, weighted_sums

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Rows

# Means keep this distance from the boundary of their domain, where some rows have density 0.
_MARGIN = 1e-10


class Poisson(Family):
    """Counts, independent by column."""

    name, sparse = "poisson", True
    divergence, start = KL(smoothing=0.0), KL()

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Set the rates to the means of the rows."""
        self.means = self.as_means(weighted_means(rows, weights))

    def as_means(self, given: FloatArray) -> FloatArray:
        """Rates > 0."""
        return np.maximum(given, _MARGIN)

    def log_density(self, rows: Rows) -> FloatArray:
        """Σ x·ln λ − λ − ln x!."""
        found = rows @ np.log(self.means).T - self.means.sum(axis=1)
        return np.asarray(found) - _sums_of_log_factorials(rows)[:, None]

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows of counts from one component."""
        return rng.poisson(self.means[component], (n, self.means.shape[1])).astype(np.float64)

    def n_parameters(self) -> int:
        """One rate per column and component."""
        return self.means.size


class Multinomial(Family):
    """Counts of a row given their sum, such as the words of a document.

    `means` are the probabilities of the columns; `trials` is the mean of the row sums.
    """

    name, sparse = "multinomial", True
    divergence, start = KL(smoothing=0.0), KL()
    fitted: ClassVar = {"trials": "trials"}

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Set the probabilities to the relative frequencies of the columns."""
        sums = weighted_sums(rows, weights)
        self.trials = float(sums.sum() / weights.sum())
        self.means = _probabilities(sums)

    def as_means(self, given: FloatArray) -> FloatArray:
        """Probabilities > 0 that sum to one."""
        empty = empty_rows(given)
        if len(empty):
            raise ValueError(
                f"means_init[{empty[0]}] sums to 0; for family={self.name!r}, pass the "
                "probabilities of the columns, or counts in proportion to them"
            )
        return _probabilities(np.asarray(normalized(given, row_sums)))

    def log_density(self, rows: Rows) -> FloatArray:
        """ln N! − Σ ln x! + Σ x·ln θ."""
        constant = gammaln(row_sums(rows) + 1.0) - _sums_of_log_factorials(rows)
        return np.asarray(rows @ np.log(self.means).T) + constant[:, None]

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

    def start_rows(self, rows: Rows) -> Rows:
        """Rows divided by their sums, so that long documents do not form their own cluster."""
        return divide_rows(rows, row_sums(rows))


class Bernoulli(Family):
    """Zeros and ones, or probabilities, independent by column."""

    name, sparse = "bernoulli", True
    divergence, start = Logistic(smoothing=0.0), Logistic()

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Set the probabilities to the means of the rows."""
        self.means = self.as_means(weighted_means(rows, weights))

    def as_means(self, given: FloatArray) -> FloatArray:
        """Probabilities > 0 and < 1."""
        return np.clip(given, _MARGIN, 1.0 - _MARGIN)

    def log_density(self, rows: Rows) -> FloatArray:
        """Σ x·ln p + (1 − x)·ln(1 − p)."""
        of_zeros = np.log1p(-self.means)
        return np.asarray(rows @ (np.log(self.means) - of_zeros).T) + of_zeros.sum(axis=1)

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows of zeros and ones from one component."""
        return rng.binomial(1, self.means[component], (n, self.means.shape[1])).astype(np.float64)

    def n_parameters(self) -> int:
        """One probability per column and component."""
        return self.means.size


def _probabilities(counts: FloatArray) -> FloatArray:
    """Counts of the columns divided by their sum for each component, none of them zero."""
    positive = np.maximum(counts, _MARGIN * (counts.sum() or 1.0) / counts.shape[1])
    return positive / positive.sum(axis=1, keepdims=True)


def _sums_of_log_factorials(rows: Rows) -> FloatArray:
    """Σ ln x! of every row; zeros that are not stored add nothing."""
    return row_sums(with_values(rows, gammaln(stored_values(rows) + 1.0)))
