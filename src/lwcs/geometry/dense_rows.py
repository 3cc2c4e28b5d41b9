"""Dense rows: products with centers for their scores, differences in float64 for distances.

Norms are one more column of the product: ones in the rows and −‖c‖² in the centers make the product
the score, and save a pass over rows × centers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry.measured import Measured
from lwcs.geometry.products import ACCURATE, CLEAR, CenterMatrix, Products

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows as DenseValues
    from lwcs.arrays.types import FloatArray, IntArray, Labels, Mask
    from lwcs.geometry.centers import Centers
    from lwcs.geometry.products import Best, Memory, Moved, Watch
    from lwcs.runtime.parallel import Map

# Squares below this lose digits next to a one.
_NEXT_TO_ONE = 1e-3
# Values of rows that are made ready at a time.
_READY_VALUES = 2**19


class DenseProducts(Products):
    """Products of dense rows: a row gets a 1 and a center its offset as one more column."""

    def rows(self, values: DenseValues, memory: Memory = np.empty) -> DenseValues:
        """(x − origin)·factor and a one."""
        frame, (n, d) = self.frame, values.shape
        rows: DenseValues = memory((n, d + 1), self.dtype)
        rows[:, -1] = 1.0
        np.subtract(values, self._origin, out=rows[:, :-1], casting="unsafe")
        if frame.factor is not None:
            rows[:, :-1] *= frame.factor
        return rows

    def ready(self, rows: Measured, run: Map) -> tuple[Any, FloatArray, FloatArray]:
        """In tiles for the native loops; else piece by piece, so that threads share the work."""
        n, width = rows.values.shape
        if self.native is not None:
            tiles = self.tiles(rows)
            if self.geometry.squared:
                return tiles, tiles.norms, tiles.norms
            with np.errstate(over="ignore", invalid="ignore"):
                return tiles, *self.heights(rows.values, tiles)
        product: DenseValues = np.empty((n, width + 1), dtype=self.dtype)
        heights, sizes = np.empty((2, n), dtype=self.dtype)

        def make(part: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                own = self.rows(rows.values[part], lambda *_: product[part])
                heights[part], sizes[part] = self.heights(rows.values[part], own)

        for _ in run(make, pieces(n, max(64, _READY_VALUES // width))):
            pass
        return product, heights, sizes

    def tiles(self, rows: Measured) -> Any:
        """All rows in these coordinates, as the native loops compare them with centers."""
        assert self.native is not None
        return self.native.Tiles(rows.values, self.dtype, self._origin, self.frame.factor)

    def center_matrix(self, centers: Centers) -> CenterMatrix:
        """Slopes and offset of every center in one column."""
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, offsets, sizes = self.geometry.metric.tangents(centers.points, self.frame)
            matrix: DenseValues = np.empty((len(slopes), slopes.shape[1] + 1), dtype=self.dtype)
            matrix[:, :-1], matrix[:, -1] = slopes, offsets
        return CenterMatrix(matrix.T, offsets, sizes)

    def tangents_of_rows(
        self, rows: Measured, values: DenseValues, heights: DenseValues
    ) -> tuple[DenseValues, DenseValues]:
        """Slopes and offsets for the rows themselves as centers.

        `values` are the rows in the coordinates of the product; for squared distances, x and
        ‖x‖² are there already.
        """
        if self.geometry.squared:
            return 2.0 * values[:, :-1], -heights
        prepared = self.center_matrix(rows.as_centers())
        return prepared.matrix[:-1].T, prepared.offsets

    def scores(
        self, rows: DenseValues, prepared: CenterMatrix, memory: Memory = np.empty
    ) -> DenseValues:
        """One product."""
        out = memory((len(rows), len(prepared.offsets)), self.dtype)
        return np.matmul(rows, prepared.matrix, out=out)

    def search(
        self,
        rows: Measured,
        centers: Centers,
        labels: npt.NDArray[np.int32],
        distances: FloatArray | None,
    ) -> IntArray | None:
        """By native loops for squared distances; there are none for other divergences."""
        native = self.native
        if native is None or not self.geometry.squared:
            return None
        prepared = self.center_matrix(centers)
        frame = self._origin, self.frame.factor
        matrix = np.ascontiguousarray(prepared.matrix.T), prepared.sizes
        limits = CLEAR, self.tiny, self.large, self.rounding
        exact = centers.points, self.geometry.precision
        return native.nearest(rows.values, *frame, *matrix, limits, *exact, labels, distances)

    def step(self, n_rows: int, n_centers: int) -> int:
        """Native loops need no memory for scores, and share the work themselves: one piece."""
        if self.native is None:
            return super().step(n_rows, n_centers)
        return n_rows

    def assign(
        self, rows: Any, prepared: CenterMatrix, moved: Moved, found: Best, watch: Watch
    ) -> int:
        """By native loops, if the geometry names them."""
        if self.native is None:
            return super().assign(rows, prepared, moved, found, watch)
        return int(rows.assign(prepared.matrix.T, moved, found, watch))

    def sizes(self, rows: DenseValues, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """Column by column."""
        own = np.abs(prepared.matrix.T[labels].astype(np.float64))
        own[:, -1] = prepared.sizes[labels]
        return np.einsum("ij,ij->i", np.abs(rows.astype(np.float64)), own)

    def bounds(self, rows: DenseValues, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """‖x‖·‖slope‖ and the terms of the offset."""
        slopes = np.linalg.norm(prepared.matrix[:-1], axis=0)
        return np.asarray(np.sqrt(_squares(rows)) * slopes[labels] + prepared.sizes[labels])

    def suspects(
        self, rows: Any, prepared: CenterMatrix, labels: IntArray, top: DenseValues
    ) -> tuple[IntArray, FloatArray]:
        """For squared distances, rows that are close to their center relative to the origin."""
        if not self.geometry.squared:
            return super().suspects(rows, prepared, labels, top)
        norms = _squares(rows)
        clear = (norms - top > CLEAR * norms + self.tiny) & (norms < self.large)
        at = np.flatnonzero(~(clear & np.isfinite(top)))
        return at, self.bounds_from(norms[at], norms[at] - top[at], prepared.sizes[labels[at]])

    def heights(self, values: DenseValues, rows: Any) -> tuple[FloatArray, FloatArray]:
        """‖x − o‖², or from the divergence."""
        if self.geometry.squared:
            norms = _squares(rows)
            return norms, norms
        each = self.geometry.metric.heights(values, self.frame)
        return each.sum(axis=1), np.abs(each).sum(axis=1)


def _squares(rows: DenseValues) -> DenseValues:
    """Σx² of every row, without its one."""
    squares = np.asarray(np.vecdot(rows, rows) - rows.dtype.type(1.0))
    # Next to the one, small squares have lost their digits.
    small = np.flatnonzero(squares < _NEXT_TO_ONE)
    if len(small):
        values = rows[small, :-1]
        squares[small] = np.vecdot(values, values)
    return squares


def dense_products(
    rows: Measured, dtype: npt.DTypeLike | None = None, *, again: bool = False
) -> DenseProducts:
    """Products in a frame around the median of some rows, which is computed on the host."""
    dtype = np.float64 if again else dtype
    frame = rows.geometry.metric.frame(rows.sample(), rows.dtype if dtype is None else dtype)
    return DenseProducts(frame, rows.geometry, rows.n_features)


# Smaller numbers have too few digits for their sign to mean anything.
_UNDERFLOW = 1e-300
# Rows × columns of a temporary that stays in cache.
_PIECE_VALUES = 2**15


@dataclass(frozen=True, slots=True, eq=False)
class DenseRows(Measured):
    """Rows of a NumPy array."""

    def extent(self) -> tuple[float, float]:
        """Over all values except in columns at an end of the domain."""
        values = self.values[:, self.geometry.varying(self.n_features)]
        return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))

    def products(self, dtype: npt.DTypeLike | None = None, *, again: bool = False) -> DenseProducts:
        """Products in a frame around the median of some rows."""
        return dense_products(self, dtype, again=again)

    def distances_and_doubt(
        self, centers: Centers, labels: Labels
    ) -> tuple[FloatArray, Mask | None]:
        """From differences; for other divergences from tangents where these have the digits."""
        own = self.geometry
        if own.squared:
            with np.errstate(over="ignore", invalid="ignore"):
                found = self.kernels.own_distances(
                    self.values, centers.points, labels, own.precision
                )
            return found, None
        distances, doubt = np.empty(len(self)), np.zeros(len(self), dtype=bool)
        for part in pieces(len(self), _PIECE_VALUES // max(1, self.n_features)):
            _bregman(self.values[part], centers, labels[part], distances[part], doubt[part])
        return distances, doubt


def _bregman(
    rows: FloatArray, centers: Centers, labels: Labels, distances: FloatArray, doubt: Mask
) -> None:
    """φ(x) − (x·slope + offset), and value by value where that is small against its parts."""
    own, tangents = centers.geometry.divergence, centers.tangents
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        heights = own.phi(rows)
        scores = np.einsum("ij,ij->i", rows, tangents.slopes[labels]) + tangents.offsets[labels]
        np.subtract(heights.sum(axis=1), scores, out=distances)
        # |x·slope| is at most |φ(x)| + |offset| + d, column by column.
        sizes = np.abs(heights).sum(axis=1) + tangents.sizes[labels]
        np.logical_not(distances >= ACCURATE * sizes, out=doubt)
    if centers.edges is not None:
        doubt |= (centers.edges[labels] & (rows != centers.points[labels])).any(axis=1)
    at = np.flatnonzero(doubt)
    if len(at):
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            parts = own.between(rows[at], centers.points[labels[at]]).sum(axis=1)
            if (parts < -ACCURATE * sizes[at] - _UNDERFLOW).any():
                raise ValueError(f"{own!r} is negative, so its φ is not convex; φ'' must be >= 0")
            distances[at] = np.maximum(parts, 0.0)
