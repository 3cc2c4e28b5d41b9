"""Families whose log-density is linear in statistics of a row, such as the row itself.

    ln p(x | j) = base(x) + offset_j + Σ_t ⟨t(x), parameters_tj⟩,

for statistics t. Sums of the statistics are all that a fit needs of the rows. So it is said once
what the formulas are, and rows may be dense, sparse, or on a device (`on_device`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.solvers.families.base import Family, weighted_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.foundation.types import FloatArray, Rows


class Natural(NamedTuple):
    """The components as their log-densities see them."""

    parameters: tuple[FloatArray, ...]
    """One array of shape (n_components, n_features) per statistic."""
    offsets: FloatArray
    """One number per component."""


class NaturalFamily(Family):
    """The k components of a mixture, from a family that is linear in statistics of a row."""

    @abstractmethod
    def natural(self) -> Natural:
        """The parameters in the order of `statistics`, and the offsets."""

    @abstractmethod
    def fit_sums(self, sums: Sequence[FloatArray], weights: FloatArray) -> None:
        """Fit the components to sums of the statistics, of shape (n_components, n_features) each.

        `weights` are those of the rows, or their sums: an array of shape (1, n_components).
        """

    def statistics(self, rows: Any) -> tuple[Any, ...]:
        """The statistics of every row, for NumPy arrays, sparse rows or tensors."""
        return (rows,)

    def base(self, rows: Any) -> Any:
        """What does not depend on the component, one number per row; None for zero."""
        del rows

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Fit the components to the sums of the statistics."""
        self.fit_sums([weighted_sums(each, weights) for each in self.statistics(rows)], weights)

    def log_density(self, rows: Rows) -> FloatArray:
        """Add up the products of statistics and parameters."""
        parameters, found = self.natural()
        for values, each in zip(self.statistics(rows), parameters, strict=True):
            found = found + np.asarray(values @ each.T)
        base = self.base(rows)
        return found if base is None else found + base[:, None]
