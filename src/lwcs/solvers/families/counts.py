"""Families for counts and for zeros and ones: Poisson, multinomial, Bernoulli."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import gammaln

from lwcs.arrays.device import library_of
from lwcs.arrays.rows import divide_rows, empty_rows, row_sums, stored_values, with_values
from lwcs.divergences import KL, Logistic
from lwcs.divergences.transformed import normalized
from lwcs.solvers.families.family import Natural, NaturalFamily

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray

# Means keep this distance from the boundary of their domain, where some rows have density 0.
_MARGIN = 1e-10


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


def _probabilities(counts: FloatArray) -> FloatArray:
    """Counts of the columns divided by their sum for each component, none of them zero."""
    positive = np.maximum(counts, _MARGIN * (counts.sum() or 1.0) / counts.shape[1])
    return positive / positive.sum(axis=1, keepdims=True)


def _sums_of_log_factorials(rows: Any) -> Any:
    """Σ ln x! of every row; zeros that are not stored add nothing."""
    if library_of(rows) == "torch":
        return (rows + 1.0).lgamma().sum(1)
    return row_sums(with_values(rows, gammaln(stored_values(rows) + 1.0)))
