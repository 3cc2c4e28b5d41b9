"""Distances of all rows to some of them, by one matrix product per choice, for seeding.

float32 distances may overflow: callers expect that, and continue in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lwcs.arrays.rows import sparse_part, sparse_pieces
from lwcs.geometry.dense_rows import DenseProducts

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.geometry.measured import Measured
    from lwcs.runtime.parallel import Map

# Below this part of their terms, distances from products have too few digits to draw by.
_CLEAR = 1e-11
# Stored values of sparse rows that one task compares with a few others: some 0.2 ms.
_LOT_VALUES = 2**16


class Pairwise(Protocol):
    """d(x, row) of all rows to some of them."""

    unit: float
    """Distances are this many times as large as those of the data."""
    fast: bool
    """Whether they are in float32, and accurate only while they are large."""

    def __call__(self, chosen: IntArray) -> npt.NDArray[Any]:
        """One row per choice; it may be overwritten by the next call."""


def pairwise(rows: Measured, dtype: npt.DTypeLike, run: Map = map) -> Pairwise:
    """Distances by products in a precision; sparse rows and other divergences use float64.

    `run` shares the work of sparse rows among threads.
    """
    products = rows.products(dtype)
    if not isinstance(products, DenseProducts):
        return _SparseDistances(rows, products, run)
    if rows.geometry.squared and products.native is not None:
        return Tiled(rows, products)
    return _DenseDistances(rows, products)


class _DenseDistances:
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


class Tiled:
    """Dense rows in the tiles of the native kernels, which choose all points in one call."""

    def __init__(self, rows: Measured, products: DenseProducts) -> None:
        self.unit, self.fast = 1.0 / products.cost_unit, products.dtype == np.float32
        values = None if self.fast else rows.values
        assert products.native is not None
        self.native = products.native
        self.seeding = products.native.TiledSeeding(
            products.tiles(rows), values, rows.geometry.precision, self.unit
        )

    def __call__(self, chosen: IntArray) -> npt.NDArray[Any]:
        """In float32, rounding may leave some a little below zero."""
        found: npt.NDArray[Any] = self.seeding.distances(chosen)
        return found


class _SparseDistances:
    """At the cost of the stored values, once per choice; threads share the rows."""

    fast = False

    def __init__(self, rows: Measured, products: Any, run: Map) -> None:
        self._rows, self._products, self.unit = rows, products, 1.0 / products.cost_unit
        values = products.rows(rows.values)
        self._heights, self._sizes = products.heights(rows.values, values)
        lots = sparse_pieces(values.indptr, _LOT_VALUES)
        self._lots = [(at, sparse_part(values, at)) for at in lots]
        # To pass a single lot to another thread takes longer than to run it.
        self._run = run if len(self._lots) > 1 else map

    def __call__(self, chosen: IntArray) -> npt.NDArray[Any]:
        """Heights less scores."""
        prepared = self._products.center_matrix(self._rows.as_centers(chosen))
        found = np.empty((len(chosen), len(self._rows)))

        def fill(lot: tuple[slice, Any]) -> None:
            at, values = lot
            # The settings of errstate of the caller do not hold in other threads.
            with np.errstate(over="ignore", invalid="ignore"):
                scores = self._products.scores(values, prepared)
                np.subtract(self._heights[at], scores.T, out=found[:, at])

        for _ in self._run(fill, self._lots):
            pass
        _mend(found, self._rows, chosen, self._sizes, self.unit)
        return found


def _mend(
    found: FloatArray, rows: Measured, chosen: IntArray, sizes: FloatArray, unit: float
) -> None:
    """Compute distances that products have lost from differences."""
    lost, own = ~(found > _CLEAR * sizes), (np.arange(len(chosen)), chosen)
    found[own], lost[own] = 0.0, False
    for j in np.flatnonzero(lost.any(axis=1)):
        at = np.flatnonzero(lost[j])
        exact = unit * rows[at].distances_to(rows.as_centers(chosen[j : j + 1]))
        # An infinite distance would be drawn with certainty, so the product's value is kept.
        found[j, at] = np.where(np.isfinite(exact), exact, np.maximum(found[j, at], 0.0))
