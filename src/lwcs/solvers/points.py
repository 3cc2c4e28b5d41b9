"""Points as the solvers want them: around their mean, in units of their spread, weighted.

k-means does not mind a shift, and all columns may share one factor. Around the mean and
of size one, products of float32 numbers neither overflow nor drown the distances in norms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.kernels import KernelName


@dataclass(frozen=True, slots=True)
class Points:
    """Weighted rows in solver units: (data − origin)/unit, column by column."""

    rows: Rows
    weights: FloatArray
    origin: FloatArray
    unit: FloatArray
    spread: float
    """Square root of the weighted variance, all columns together; 1 in solver units."""
    kernel: KernelName

    @classmethod
    def of(
        cls,
        data: Rows,
        weights: FloatArray | None,
        scale: FloatArray | None = None,
        kernel: KernelName = "portable",
    ) -> Points:
        """Bring data into solver units; float32 stays float32, sparse data stays sparse."""
        omega = kernels.unit_weights(weights, data.shape[0])
        moments = kernels.moments(data, omega, kernel)
        each = np.ones(data.shape[1]) if scale is None else scale
        variances = np.maximum(moments.scatter, 0.0) / moments.weight / each**2
        spread = float(np.sqrt(variances.sum())) or 1.0
        unit = each * spread
        if is_sparse(data):
            # A shift would make zeros into numbers.
            rows, origin = data.astype(np.float64) * (1.0 / unit), np.zeros(data.shape[1])
            return cls(rows.tocsr(), omega, origin, unit, spread, kernel)
        rows = kernels.as_floats(data)
        origin = moments.mean.astype(rows.dtype)
        rows = (rows - origin) * (1.0 / unit).astype(rows.dtype)
        return cls(rows, omega, origin.astype(np.float64), unit, spread, kernel)

    @property
    def cost_unit(self) -> float:
        """What a cost of 1 in solver units is in the data's, or in its scaled ones."""
        return self.spread**2

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def variance(self) -> float:
        """Weighted variance of a column, on average over the columns, in solver units."""
        return 1.0 / self.rows.shape[1]

    def to_units(self, centers: FloatArray) -> FloatArray:
        """Bring centers from the data's units into the solver's."""
        return (centers - self.origin) / self.unit

    def to_data(self, centers: FloatArray) -> FloatArray:
        """Bring centers from the solver's units into the data's."""
        return centers * self.unit + self.origin

    def to_data_rows(self) -> Rows:
        """The rows in the data's units, for whoever is to see them."""
        if is_sparse(self.rows):
            return (self.rows * self.unit).tocsr()
        return self.to_data(self.rows).astype(self.rows.dtype)

    def dense(self, at: IntArray) -> FloatArray:
        """Some rows as float64, dense."""
        rows = self.rows[at]
        return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)

    def pieces(self, n_centers: int) -> Iterator[slice]:
        """Cut the rows so that a piece times the centers stays in cache, always the same way."""
        step = max(64, _PIECE_VALUES // max(1, n_centers))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)))


_PIECE_VALUES = 2**19
