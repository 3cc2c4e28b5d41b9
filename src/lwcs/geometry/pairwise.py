"""Distances of all rows to some of them, one matrix product per choice: what seeding asks for.

float32 distances may overflow: callers expect that, and go on in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lwcs.geometry.products import DenseProducts

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.types import FloatArray, IntArray
    from lwcs.geometry.base import Measured

# Below this part of their terms, distances from products have too few digits to draw by.
_CLEAR = 1e-11


class Pairwise(Protocol):
    """d(x, row) of all rows to some of them."""

    unit: float
    """Distances are this many times as large as those of the data."""
    fast: bool
    """Whether they are in float32, and accurate only while they are large."""

    def __call__(self, chosen: IntArray) -> npt.NDArray[Any]:
        """One row per choice; it may be overwritten by the next call."""


def pairwise(rows: Measured, dtype: npt.DTypeLike) -> Pairwise:
    """Distances by products in a precision; sparse rows and other divergences use float64."""
    products = rows.products(dtype)
    if not isinstance(products, DenseProducts):
        return _Plain(rows, products)
    return _Fused(rows, products)


class _Fused:
    """Height − (x·slope + offset) as one product: heights and offsets are two more columns."""

    def __init__(self, rows: Measured, products: DenseProducts) -> None:
        self._rows, self._wide = rows, products.dtype == np.float64
        self.unit, self.fast = 1.0 / products.cost_unit, not self._wide
        values = products.rows(rows.values)
        heights, self._sizes = products.heights(rows.values, values)
        n, d = rows.values.shape
        # One column after the other in memory: this way round the product is twice as fast.
        self._all: npt.NDArray[Any] = np.empty((d + 2, n), dtype=products.dtype)
        self._all[:d], self._all[d], self._all[d + 1] = values[:, :-1].T, heights, 1.0
        self._each: npt.NDArray[Any] = np.empty((n, d + 2), dtype=products.dtype)
        self._each[:, d] = 1.0
        self._each[:, :d], self._each[:, d + 1] = products.tangents_of_rows(rows, values, heights)
        self._each[:, :d] *= -1.0
        self._each[:, d + 1] *= -1.0
        self._out: npt.NDArray[Any] = np.empty((0, len(values)), dtype=products.dtype)

    def __call__(self, chosen: IntArray) -> npt.NDArray[Any]:
        """In float32, rounding may leave some a little below zero."""
        if len(self._out) != len(chosen):
            self._out = np.empty((len(chosen), self._all.shape[1]), dtype=self._all.dtype)
        found = np.matmul(self._each[chosen], self._all, out=self._out)
        if self._wide:
            _mend(found, self._rows, chosen, self._sizes, self.unit)
        return found


class _Plain:
    """At the cost of the stored values, once per choice."""

    fast = False

    def __init__(self, rows: Measured, products: Any) -> None:
        self._rows, self._products, self.unit = rows, products, 1.0 / products.cost_unit
        self._values = products.rows(rows.values)
        self._heights, self._sizes = products.heights(rows.values, self._values)

    def __call__(self, chosen: IntArray) -> npt.NDArray[Any]:
        """Heights less scores."""
        prepared = self._products.center_matrix(self._rows.as_centers(chosen))
        found = self._heights - self._products.scores(self._values, prepared).T
        _mend(found, self._rows, chosen, self._sizes, self.unit)
        return found


def _mend(
    found: FloatArray, rows: Measured, chosen: IntArray, sizes: FloatArray, unit: float
) -> None:
    """Take distances that products have lost from the differences."""
    lost, own = ~(found > _CLEAR * sizes), (np.arange(len(chosen)), chosen)
    found[own], lost[own] = 0.0, False
    for j in np.flatnonzero(lost.any(axis=1)):
        at = np.flatnonzero(lost[j])
        exact = unit * rows[at].distances_to(rows.as_centers(chosen[j : j + 1]))
        # An infinite distance would be drawn for certain: what stands in for it is large enough.
        found[j, at] = np.where(np.isfinite(exact), exact, np.maximum(found[j, at], 0.0))
