"""The nearest center of every row: one matrix product a block, then the distance itself.

The product finds the nearest center; the distance to it is then taken from the
difference, so that it is accurate also where norms are large against distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.divergences.measure import EUCLIDEAN
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.divergences import Measure
    from lwcs.divergences.ready_centers import SparseCenters
    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Labels, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources import Block

# Values of one piece of the rows × centers product: a few MB, shorter ones cost more in calls.
_PIECE_VALUES = 2**19
_SAMPLE_ROWS = 16
# A distance below this part of ‖x‖² has no digit left in a float32 product.
_FLOAT32_CLEAR = 1e-4


def nearest(
    points: Rows,
    centers: FloatArray,
    measure: Measure = EUCLIDEAN,
    *,
    dtype: npt.DTypeLike = np.float64,
    kernel: KernelName = "portable",
    first_row: int = 0,
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Nearest center of every row, and the distance to it: ‖(x − center)/scale‖², or d_φ.

    Works on pieces of the rows; no temporary has rows × centers × columns values, nor
    rows × centers for all rows. Products are float32 for `dtype` float32, where that can tell the
    centers apart; distances are float64.
    """
    seen = measure.rows(points, first_row)
    if len(centers) == 1 and not measure.squared:
        # One center is everybody's nearest: no product.
        labels = np.zeros(points.shape[0], dtype=np.int32)
        distances = measure.distances(seen, centers[0])
    else:
        labels, distances = np.empty(points.shape[0], dtype=np.int32), np.empty(points.shape[0])
        for piece, find, rows, found in _labelled(points, seen, centers, measure, dtype, first_row):
            labels[piece] = found
            distances[piece] = find.distances(rows, found, kernel)
    if not measure.squared and not np.isfinite(distances.sum()):
        _look_again(seen, centers, measure, labels, distances)
        refuse_infinite(points, distances, measure, first_row)
    return labels, distances


def nearest_in(
    block: Block, centers: FloatArray, measure: Measure, kernel: KernelName
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """The same for the rows of a block, in the precision that they are in."""
    return nearest(
        block.points,
        centers,
        measure,
        dtype=working_dtype(block.points),
        kernel=kernel,
        first_row=block.first_row,
    )


def nearest_labels(
    points: Rows,
    centers: FloatArray,
    measure: Measure = EUCLIDEAN,
    *,
    dtype: npt.DTypeLike = np.float64,
    first_row: int = 0,
) -> npt.NDArray[np.int32]:
    """The labels alone, as `nearest` gives them."""
    return label_rows(points, centers, measure, dtype=dtype, first_row=first_row)[0]


def label_rows(
    points: Rows,
    centers: FloatArray,
    measure: Measure,
    *,
    dtype: npt.DTypeLike,
    first_row: int,
) -> tuple[npt.NDArray[np.int32], Rows]:
    """The labels, and the rows as they were measured for them."""
    seen = measure.rows(points, first_row)
    labels = np.empty(points.shape[0], dtype=np.int32)
    at_an_edge = not measure.squared and not measure.divergence.domain.interior(centers).all()
    for piece, find, rows, found in _labelled(points, seen, centers, measure, dtype, first_row):
        labels[piece] = found
        if at_an_edge:
            distances = find.distances(rows, found, "portable")
            _look_again(rows, centers, measure, labels[piece], distances)
    return labels, seen


def _labelled(
    points: Rows,
    rows: Rows,
    centers: FloatArray,
    measure: Measure,
    dtype: npt.DTypeLike,
    first_row: int,
) -> Iterator[tuple[slice, _DenseNearest | _SparseNearest, Rows, IntArray]]:
    """Label piece after piece of points that are measured as `rows`.

    Gives the piece, what found its labels, its rows, and the labels.
    """
    ready = _SparseNearest if is_sparse(rows) else _DenseNearest
    # A center so far away that its square overflows is nobody's nearest.
    with np.errstate(over="ignore", invalid="ignore"):
        find = ready(rows, centers, measure, dtype)
    for piece in _pieces(rows.shape[0], len(centers)):
        part = rows[piece]
        with np.errstate(over="ignore", invalid="ignore"):
            labels, scores = find.best(part)
            # NaN and infinity go through every product, so the best score shows them.
            if not np.isfinite(scores.sum()):
                raise BadValueError.found_in(points[piece], first_row + piece.start, 0)
        yield piece, find, part, labels


def _look_again(
    rows: Rows,
    centers: FloatArray,
    measure: Measure,
    labels: npt.NDArray[np.int32],
    distances: FloatArray,
) -> None:
    """Find a nearer center for rows that are infinitely far from theirs, in place.

    Where a center is at the edge of the domain its slope has no end, and a finite one stands in
    for it, which may be outdone by a center that is only very far.
    """
    far = np.flatnonzero(np.isinf(distances))
    if len(far) and len(centers) > 1:
        each = np.stack([measure.distances(rows[far], center) for center in centers])
        labels[far], distances[far] = np.argmin(each, axis=0), each.min(axis=0)


def refuse_infinite(points: Rows, distances: FloatArray, measure: Measure, first_row: int) -> None:
    """Name the first row that no center can be measured from."""
    bad = np.flatnonzero(~np.isfinite(distances))
    if not len(bad):
        return
    row = int(bad[0])
    values = points[[row]].data if is_sparse(points) else points[row]
    if not np.isfinite(values).all():
        raise BadValueError.found_in(points, first_row, 0)
    own = measure.divergence
    remedy = "pass smoothing=0.1 or more" if "smoothing" in vars(own) else own.remedy
    wants = f"is infinitely far from every center by {own!r}: {remedy}"
    raise BadValueError(0, first_row + row, None, np.inf, wants)


def _pieces(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, _PIECE_VALUES // width)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _middle(points: Rows) -> FloatArray:
    """A point in the midst of the rows: the median of a few of them, by column.

    Around it, rows and the centers near them are small, so that products keep the digits of
    the distances. (The mean of the centers is no such point if one of them is far away.)
    """
    return np.median(_some(points), axis=0) if points.shape[0] else np.zeros(points.shape[1])


def _some(points: Rows) -> FloatArray:
    """A few of the rows, dense."""
    rows = points[:: max(1, -(-points.shape[0] // _SAMPLE_ROWS))]
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


class _DenseNearest:
    """Centers, ready for products with dense rows.

    A row gets a 1 and a center its offset as one more column, so that the product is the score
    x·slope + offset, around a point in the midst of the rows: of squared distances 2x·c − ‖c‖².
    """

    def __init__(
        self, rows: DenseRows, centers: FloatArray, measure: Measure, dtype: npt.DTypeLike
    ) -> None:
        self._centers, self._measure, self._dtype = centers, measure, np.dtype(dtype)
        self._factor: DenseRows | None = None
        if measure.squared:
            self._origin = _middle(rows).astype(dtype)
            unit = _unit(rows, self._origin) if dtype == np.float32 else 1.0
            scale = measure.scale
            factor = np.asarray(unit if scale is None else unit / scale, dtype=np.float64)
            self._factor = None if scale is None and unit == 1.0 else factor.astype(dtype)
            slopes, offsets = measure.tangents((centers - self._origin) * factor, sparse=False)
        else:
            self._dtype, self._origin = np.dtype(np.float64), _middle(rows)
            slopes, offsets = measure.divergence.tangents_around(centers, self._origin)
        self._products = np.ascontiguousarray(np.vstack([slopes.T, offsets]), dtype=self._dtype)
        self._rows = np.ones((0, len(self._products)), dtype=self._dtype)

    def best(self, piece: DenseRows) -> tuple[IntArray, DenseRows]:
        """The nearest center by its score (larger is nearer)."""
        if len(piece) > len(self._rows):
            self._rows = np.ones((len(piece), len(self._products)), dtype=self._dtype)
        rows = self._rows[: len(piece)]
        np.subtract(piece, self._origin, out=rows[:, :-1], casting="unsafe")
        if self._factor is not None:
            rows[:, :-1] *= self._factor
        scores = rows @ self._products
        labels = np.argmax(scores, axis=1)
        top = scores[np.arange(len(labels)), labels]
        if self._dtype == np.float32:
            # ‖x‖² − score is the distance; where it is a small difference of large numbers,
            # float32 cannot tell the centers apart, and float64 is asked instead.
            norms = np.einsum("ij,ij->i", rows, rows) - 1.0
            unclear = np.flatnonzero(norms - top < _FLOAT32_CLEAR * norms)
            if len(unclear):
                wide = _DenseNearest(piece[unclear], self._centers, self._measure, np.float64)
                labels[unclear] = wide.best(piece[unclear])[0]
        return labels, top

    def distances(self, piece: DenseRows, labels: Labels, kernel: KernelName) -> FloatArray:
        """From the differences, so that small ones keep their digits."""
        if not self._measure.squared:
            return self._measure.own_distances(piece, self._centers, labels)
        precision = self._measure.precision
        return kernels.own_distances(piece, self._centers, labels, precision, kernel)


def _unit(points: DenseRows, origin: DenseRows) -> float:
    """A power of two that keeps squares of float32 numbers within their range."""
    largest = float(np.abs(_some(points) - origin).max(initial=0.0))
    if largest == 0.0 or 1e-9 < largest < 1e9 or not np.isfinite(largest):
        return 1.0
    return 2.0 ** -np.floor(np.log2(largest))


class _SparseNearest:
    """Centers, ready for products with CSR rows."""

    def __init__(self, rows: Any, centers: FloatArray, measure: Measure, _: npt.DTypeLike) -> None:
        if measure.squared:
            # Scores relative to a point in the midst, since a shift of the rows would make them
            # dense: 2x·c − ‖c‖² less 2x·o − ‖o‖² is 2x·(c − o) − (c − o)·(c + o).
            origin, precision = _middle(rows), measure.precision
            apart = centers - origin if precision is None else (centers - origin) * precision
            self._slopes: FloatArray = 2.0 * apart
            self._offsets: FloatArray = -np.einsum("ij,ij->i", centers + origin, apart)
        else:
            self._slopes, self._offsets = measure.tangents(centers, sparse=True)
        self._measure, self._centers = measure, centers
        self._own: SparseCenters | None = None

    def best(self, piece: Any) -> tuple[IntArray, DenseRows]:
        """As `_DenseNearest.best`."""
        scores = piece @ self._slopes.T + self._offsets
        labels = np.argmax(scores, axis=1)
        return labels, scores[np.arange(len(labels)), labels]

    def distances(self, piece: Any, labels: Labels, _: KernelName) -> FloatArray:
        """At the cost of the non-zeros; centers are made ready where labels alone do not do."""
        if self._own is None:
            self._own = self._measure.ready(self._centers)
        return self._own.distances(piece, labels)


def quantization_error(
    points: Rows, weights: FloatArray, centers: FloatArray, measure: Measure = EUCLIDEAN
) -> float:
    """φ_C(Q) = Σ w·d(x, Q) (section 2 of the paper), with labels to float64."""
    return float(weights @ nearest(points, centers, measure)[1])


def working_dtype(points: Rows) -> npt.DTypeLike:
    """What products with these rows are computed in: float32 only for float32."""
    return np.float32 if points.dtype == np.float32 else np.float64
