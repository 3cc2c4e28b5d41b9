"""Scores of dense rows."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.foundation.rows import pieces
from lwcs.geometry.products import CLEAR, CenterMatrix, Products

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.foundation.parallel import Map
    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Labels
    from lwcs.geometry.base import Measured
    from lwcs.geometry.centers import Centers
    from lwcs.geometry.products import Best, Memory, Moved, Watch

# Squares below this lose digits next to a one.
_NEXT_TO_ONE = 1e-3
# Products that a thread takes some 0.4 ms for: several times what it costs to call one.
_WORTH_A_THREAD = 2**24
# Values of rows that are made ready at a time.
_READY_VALUES = 2**19


class DenseProducts(Products):
    """Dense rows: a row gets a 1 and a center its offset as one more column."""

    def rows(self, values: DenseRows, memory: Memory = np.empty) -> DenseRows:
        """(x − origin)·factor and a one."""
        frame, (n, d) = self.frame, values.shape
        rows: DenseRows = memory((n, d + 1), self.dtype)
        rows[:, -1] = 1.0
        np.subtract(values, self._origin, out=rows[:, :-1], casting="unsafe")
        if frame.factor is not None:
            rows[:, :-1] *= frame.factor
        return rows

    def ready(self, rows: Measured, run: Map) -> tuple[DenseRows, FloatArray, FloatArray]:
        """Piece by piece, so that threads share the work."""
        n, width = rows.values.shape
        product: DenseRows = np.empty((n, width + 1), dtype=self.dtype)
        heights, sizes = np.empty((2, n), dtype=self.dtype)

        def make(part: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                own = self.rows(rows.values[part], lambda *_: product[part])
                heights[part], sizes[part] = self.heights(rows.values[part], own)

        for _ in run(make, pieces(n, max(64, _READY_VALUES // width))):
            pass
        return product, heights, sizes

    def center_matrix(self, centers: Centers) -> CenterMatrix:
        """Slopes and offset of every center in one column."""
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, offsets, sizes = self.geometry.metric.tangents(centers.points, self.frame)
            matrix: DenseRows = np.empty((len(slopes), slopes.shape[1] + 1), dtype=self.dtype)
            matrix[:, :-1], matrix[:, -1] = slopes, offsets
        return CenterMatrix(matrix.T, offsets, sizes)

    def tangents_of_rows(
        self, rows: Measured, values: DenseRows, heights: DenseRows
    ) -> tuple[DenseRows, DenseRows]:
        """Slopes and offsets for the rows themselves as centers.

        `values` are the rows in the coordinates of the product; for squared distances, x and
        ‖x‖² are there already.
        """
        if self.geometry.squared:
            return 2.0 * values[:, :-1], -heights
        prepared = self.center_matrix(rows.as_centers())
        return prepared.matrix[:-1].T, prepared.offsets

    def scores(
        self, rows: DenseRows, prepared: CenterMatrix, memory: Memory = np.empty
    ) -> DenseRows:
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
        """Squared distances by compiled loops."""
        if not (self.geometry.squared and self._compiled):
            return None
        prepared = self.center_matrix(centers)
        return kernels.nearest(
            rows.values,
            self._origin,
            self.frame.factor,
            prepared.matrix.T,
            prepared.sizes,
            (CLEAR, self.tiny, self.large, self.rounding),
            centers.points,
            self.geometry.precision,
            labels,
            distances,
        )

    def step(self, n_rows: int, n_centers: int, n_compared: int, threads: int) -> int:
        """Compiled loops need no memory for scores: one long piece for every thread.

        Where there is little to do, fewer threads do it.
        """
        if not self._compiled:
            return super().step(n_rows, n_centers, n_compared, threads)
        work = n_rows * n_compared * len(self._origin)
        # By powers of two, so that there are few ways to cut.
        used = min(2 ** int(log2(max(1, work // _WORTH_A_THREAD))), threads)
        return kernels.TILE * -(-n_rows // (kernels.TILE * used))

    def assign(
        self, rows: DenseRows, prepared: CenterMatrix, moved: Moved, found: Best, watch: Watch
    ) -> int:
        """By compiled loops, where these are used."""
        if not self._compiled:
            return super().assign(rows, prepared, moved, found, watch)
        matrix, some = prepared.matrix.T, moved.prepared.matrix.T
        return kernels.assign(rows, matrix, moved.at, moved.place, some, found, watch)

    def sizes(self, rows: DenseRows, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """Column by column."""
        own = np.abs(prepared.matrix.T[labels].astype(np.float64))
        own[:, -1] = prepared.sizes[labels]
        return np.einsum("ij,ij->i", np.abs(rows.astype(np.float64)), own)

    def bounds(self, rows: DenseRows, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """‖x‖·‖slope‖ and the terms of the offset."""
        slopes = np.linalg.norm(prepared.matrix[:-1], axis=0)
        return np.asarray(np.sqrt(_squares(rows)) * slopes[labels] + prepared.sizes[labels])

    def suspects(
        self, rows: Any, prepared: CenterMatrix, labels: IntArray, top: DenseRows
    ) -> tuple[IntArray, FloatArray]:
        """For squared distances, rows that are close to their center relative to the origin."""
        if not self.geometry.squared:
            return super().suspects(rows, prepared, labels, top)
        norms = _squares(rows)
        clear = (norms - top > CLEAR * norms + self.tiny) & (norms < self.large)
        at = np.flatnonzero(~(clear & np.isfinite(top)))
        return at, self.bounds_from(norms[at], norms[at] - top[at], prepared.sizes[labels[at]])

    def heights(self, values: DenseRows, rows: DenseRows) -> tuple[FloatArray, FloatArray]:
        """‖x − o‖², or from the divergence."""
        if self.geometry.squared:
            norms = _squares(rows)
            return norms, norms
        each = self.geometry.metric.heights(values, self.frame)
        return each.sum(axis=1), np.abs(each).sum(axis=1)


def _squares(rows: DenseRows) -> DenseRows:
    """Σx² of every row, without its one."""
    squares = np.asarray(np.vecdot(rows, rows) - rows.dtype.type(1.0))
    # Next to the one, small squares have lost their digits.
    small = np.flatnonzero(squares < _NEXT_TO_ONE)
    if len(small):
        values = rows[small, :-1]
        squares[small] = np.vecdot(values, values)
    return squares
