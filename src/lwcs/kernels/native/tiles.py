"""What seeding, local search, Lloyd's algorithm and labels take instead of products of matrices.

Labels and tiles are those of `core/labels.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.kernels.native.arguments import (
    CORE,
    doubles,
    in_precision,
    integers,
    readable,
    require,
    type_of,
)
from lwcs.kernels.native.csr import best_scores
from lwcs.kernels.native.seeding_rounds import TiledSeeding, first_swap
from lwcs.kernels.native.teams import CURRENT

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray


def nearest(
    points: DenseRows,
    origin: DenseRows,
    factor: DenseRows | None,
    matrix: DenseRows,
    sizes: FloatArray,
    limits: tuple[float, float, float, float],
    centers: FloatArray,
    precision: FloatArray | None,
    labels: npt.NDArray[np.int32],
    distances: FloatArray | None,
) -> IntArray:
    """By the scores of the processor, without a matrix of them."""
    points = readable(points)
    n, d = points.shape
    unclear, count = np.empty(n, dtype=np.bool_), np.zeros(1, dtype=np.int64)
    wide, scale = in_precision(matrix.dtype, factor)
    CORE.nearest(
        type_of(points), wide, points, n, d, np.ascontiguousarray(origin, matrix.dtype), scale,
        np.ascontiguousarray(matrix), doubles(sizes), len(matrix), *limits, doubles(centers),
        doubles(precision), labels, unclear, distances, count, CURRENT.team,
    )  # fmt: skip
    return np.flatnonzero(unclear) if count[0] else np.empty(0, dtype=np.int64)


TILE = 32
"""Rows of a tile."""


class Tiles:
    """Dense rows in the coordinates of products, in tiles: 32 rows, column after column.

    They are what seeding and Lloyd's algorithm compute with; the last tile is filled up with zeros.
    """

    def __init__(
        self, points: DenseRows, dtype: np.dtype[Any], origin: DenseRows, factor: DenseRows | None
    ) -> None:
        points = readable(points)
        self.n_rows, self._wide = len(points), dtype == np.float64
        n_tiles = -(-self.n_rows // TILE)
        self.columns: DenseRows = np.empty((n_tiles, points.shape[1], TILE), dtype)
        self._norms: DenseRows = np.zeros(n_tiles * TILE, dtype)
        wide, scale = in_precision(dtype, factor)
        CORE.pack(
            type_of(points), wide, points, *points.shape, np.ascontiguousarray(origin, dtype),
            scale, self.columns, self._norms, CURRENT.team,
        )  # fmt: skip

    @property
    def norms(self) -> DenseRows:
        """Squared norms of the rows."""
        return self._norms[: self.n_rows]

    def __getitem__(self, at: slice | IntArray) -> Any:
        """Some rows, one after the other, each with a one as its last column."""
        if isinstance(at, slice):
            require(at.indices(self.n_rows)[:2] == (0, self.n_rows), at)
            return self
        rows = np.ones((len(at), self.columns.shape[1] + 1), self.columns.dtype)
        rows[:, :-1] = self.columns[at // TILE, :, at % TILE]
        return rows

    def assign(self, matrix: DenseRows, moved: Any, found: Any, watch: Any) -> int:
        """One iteration's assignment of all rows (`products.Products.assign`)."""
        count, k, unknown = np.zeros(1, dtype=np.int64), len(matrix), np.empty(self.n_rows, bool)
        watch.changed[:] = False
        at, place = integers(moved.at), integers(moved.place)
        CORE.assign(
            self._wide, self.columns, self.n_rows, self.columns.shape[1],
            np.ascontiguousarray(matrix), k, at, len(at), place,
            found.labels, found.scores, found.others, watch.old,
            np.ascontiguousarray(watch.heights, matrix.dtype),
            np.ascontiguousarray(watch.least, matrix.dtype),
            watch.changed, unknown, count, CURRENT.team,
        )  # fmt: skip
        watch.unknown[: count[0]] = np.flatnonzero(unknown)
        return int(count[0])


__all__ = ["TILE", "TiledSeeding", "Tiles", "best_scores", "first_swap", "nearest"]
