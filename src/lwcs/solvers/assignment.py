"""The nearest center of every row: one matrix product a block, then the distance itself.

The product finds the nearest center; the distance to it is then taken from the
difference, so that it is accurate also where norms are large against distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Rows
    from lwcs.sources import Block, Source

# Values of one piece of the rows × centers product: it stays in a core's cache.
_PIECE_VALUES = 2**17
_SAMPLE_ROWS = 16


def nearest(
    points: Rows, centers: FloatArray, scale: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Nearest center of every row, and d = ‖(x − center)/scale‖² to it.

    Works on pieces of the rows; no temporary has rows × centers × columns values, nor
    rows × centers for all rows.
    """
    find = _nearest_sparse if is_sparse(points) else _nearest_dense
    # A center so far away that its square overflows is nobody's nearest.
    with np.errstate(over="ignore"):
        return find(points, centers, np.ones(centers.shape[1]) if scale is None else scale)


def _pieces(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, _PIECE_VALUES // width)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _middle(points: Rows) -> FloatArray:
    """A point in the midst of the rows: the median of a few of them, by column.

    Around it, rows and the centers near them are small, so that products keep the digits of
    the distances. (The mean of the centers is no such point if one of them is far away.)
    """
    if not points.shape[0]:
        return np.zeros(points.shape[1])
    rows = points[:: -(-points.shape[0] // _SAMPLE_ROWS)]
    dense = rows.toarray() if is_sparse(rows) else rows
    return np.median(dense.astype(np.float64), axis=0)


def _nearest_dense(
    points: DenseRows, centers: FloatArray, scale: FloatArray
) -> tuple[IntArray, FloatArray]:
    labels, distances = np.empty(len(points), dtype=np.int64), np.empty(len(points))
    origin = _middle(points)
    around = (centers - origin) / scale
    half_norms = 0.5 * np.einsum("ij,ij->i", around, around)
    for piece in _pieces(len(points), max(centers.shape)):
        rows = (points[piece] - origin) / scale
        best = np.argmax(rows @ around.T - half_norms, axis=1)
        rows -= around[best]
        labels[piece] = best
        distances[piece] = np.einsum("ij,ij->i", rows, rows)
    return labels, distances


def _nearest_sparse(
    points: Any, centers: FloatArray, scale: FloatArray
) -> tuple[IntArray, FloatArray]:
    n_rows = points.shape[0]
    labels, distances = np.empty(n_rows, dtype=np.int64), np.empty(n_rows)
    precision = scale**-2.0
    # Scores relative to a point in the midst, since a shift of the rows would make them dense:
    # x·c − ‖c‖²/2 less x·o − ‖o‖²/2 is x·(c − o) − (c − o)·(c + o)/2.
    origin = _middle(points)
    products = ((centers - origin) * precision).T
    halves = 0.5 * np.einsum("ij,ji->i", centers + origin, products)
    parts = tuple(zip(*map(kernels.split_exactly, precision * centers * centers), strict=True))
    # What a row's zeros cost: all columns less its non-zeros, in two exactly summed parts.
    shares = [(np.array(part), np.array(part).sum(axis=1)) for part in parts]
    for piece in _pieces(n_rows, len(centers)):
        rows = points[piece]
        best = np.argmax(rows @ products - halves, axis=1)
        row_of = np.repeat(np.arange(len(best)), np.diff(rows.indptr))
        own = (best[row_of], rows.indices)
        offset = rows.data - centers[own]
        own_distances = np.zeros(len(best))
        own_distances += np.bincount(row_of, precision[rows.indices] * offset**2, len(best))
        for part, total in shares:
            own_distances += total[best] - np.bincount(row_of, part[own], len(best))
        labels[piece] = best
        distances[piece] = np.maximum(own_distances, 0.0)
    return labels, distances


@dataclass(frozen=True, slots=True)
class CostTask:
    """φ of one partition: Σω·d(x, nearest center)."""

    centers: FloatArray
    scale: FloatArray | None = None

    def __call__(self, blocks: Iterator[Block], _: int) -> float:
        """Add up the blocks' costs."""
        return fsum(
            quantization_error(block.points, block.weights, self.centers, self.scale)
            for block in blocks
        )


def quantization_error(
    points: Rows, weights: FloatArray | None, centers: FloatArray, scale: FloatArray | None = None
) -> float:
    """φ_C(Q) = Σ w·d(x, Q) (section 2 of the paper)."""
    distances = nearest(points, centers, scale)[1]
    return float(distances.sum() if weights is None else weights @ distances)


def full_cost(
    source: Source,
    centers: FloatArray,
    scale: FloatArray | None = None,
    n_jobs: int | None = None,
) -> float:
    """φ_X(Q) over all rows of a source, partition by partition."""
    return fsum(source.gather(CostTask(centers, scale), n_jobs=n_jobs))
