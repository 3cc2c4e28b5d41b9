"""The nearest center of every row of the host: products first, differences where they cannot tell.

A score rounds by a part of the terms that it is made of. A row whose distance is above a small part
of these terms is certain of its label. For the others the second best score is looked at, and only
where that is within rounding of the best are rows tried again, in float64 around their own median,
and decided by differences in the end. On ordinary data this costs one comparison per row; to find
the second best score of all rows would take as long as the product where there are few columns.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.arrays.rows import pieces
from lwcs.geometry.products import CLEAR, PIECE_VALUES, TINY, rounding_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Mask
    from lwcs.geometry.centers import Centers
    from lwcs.geometry.measured import Measured
    from lwcs.geometry.products import CenterMatrix, Products


# Larger arrays are not kept.
_LARGEST = 2**25


class Workspace(threading.local):
    """Two arrays per thread that are used for every block; each use overwrites the last one.

    The page faults of fresh memory cost a large part of what the product itself does.
    """

    def rows(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DenseRows:
        """Memory for rows, with arbitrary content."""
        return self._take("_rows", shape, dtype)

    def scores(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DenseRows:
        """Memory for scores, with arbitrary content."""
        return self._take("_scores", shape, dtype)

    def _take(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DenseRows:
        size, kept = prod(shape), self.__dict__.get(name)
        if kept is None or kept.size < size or kept.dtype != dtype:
            kept = np.empty(size, dtype=dtype)
            if kept.nbytes <= _LARGEST:
                self.__dict__[name] = kept
        return kept[:size].reshape(shape)


# Another one for rows that are tried again, while the first product is still in use.
_WORKSPACE = (Workspace(), Workspace())
# Pairs of rows and centers that are measured at a time.
_PAIRS = 2**18
# Fewer rows than this are decided by differences without another product.
_WORTH_PRODUCTS = 64
# Products of so many multiplications are computed by BLAS without starting threads.
_UNTHREADED = 2**18


def nearest(rows: Measured, centers: Centers) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """The nearest center of every row, and the distance to it, in float64.

    No temporary has rows × centers × columns values, nor rows × centers for all rows.
    """
    if len(centers) == 1:
        labels, distances = np.zeros(len(rows), dtype=np.int32), rows.distances_to(centers)
    else:
        labels, distances = np.empty(len(rows), dtype=np.int32), np.empty(len(rows))
        _search(rows, centers, labels, distances)
    if not np.isfinite(distances.sum()):
        lost = np.flatnonzero(~np.isfinite(distances))
        if len(lost):
            rows.refuse(lost)
    return labels, distances


def nearest_labels(rows: Measured, centers: Centers) -> npt.NDArray[np.int32]:
    """The nearest center of every row."""
    labels = np.empty(len(rows), dtype=np.int32)
    _search(rows, centers, labels)
    if len(labels) and labels.min() < 0:
        rows.refuse(np.flatnonzero(labels < 0))
    return labels


def _search(
    rows: Measured,
    centers: Centers,
    labels: npt.NDArray[np.int32],
    distances: FloatArray | None = None,
) -> None:
    """Write labels, and distances if wanted; a row infinitely far from all has the label −1."""
    at = rows.products().search(rows, centers, labels, distances)
    if at is None:
        _search_by_pieces(rows, centers, labels, distances)
    elif len(at):
        own = labels[at]
        found = None if distances is None else distances[at]
        _search_by_pieces(rows[at], centers, own, found, again=True)
        labels[at] = own
        if distances is not None:
            distances[at] = found


def _search_by_pieces(
    rows: Measured,
    centers: Centers,
    labels: npt.NDArray[np.int32],
    distances: FloatArray | None = None,
    *,
    again: bool = False,
) -> None:
    """One product per piece of the rows."""
    products, memory = rows.products(again=again), _WORKSPACE[again]
    prepared = products.center_matrix(centers)
    # With centers in columns, float64 products are a little faster.
    prepared = prepared._replace(matrix=np.ascontiguousarray(prepared.matrix))
    for part in pieces(len(rows), PIECE_VALUES // len(centers)):
        piece = rows[part]
        # The search finds NaN and infinity: the label of such a row is not certain.
        with np.errstate(over="ignore", invalid="ignore"):
            product = products.rows(piece.values, memory.rows)
            scores = products.scores(product, prepared, memory.scores)
            best = np.argmax(scores, axis=1)
            top = scores[np.arange(len(best)), best]
            if distances is None:
                suspects, bounds = products.suspects(product, prepared, best, top)
            else:
                found, doubt = piece.distances_and_doubt(centers, best)
                # d + score is the distance to the origin.
                apart = found / products.cost_unit
                bounds = products.bounds_from(apart + top, apart, prepared.sizes[best])
                clear = (apart > CLEAR * bounds + products.tiny) & (bounds < products.large)
                suspects = np.flatnonzero(~clear if doubt is None else ~clear | doubt)
                bounds = bounds[suspects]
            changed = np.empty(0, dtype=np.int64)
            if len(suspects):
                changed, candidates = _unclear(
                    products, product, prepared, scores, best, suspects, bounds
                )
                if len(changed):
                    best[changed] = _decide(piece[changed], centers, candidates, again=again)
            if centers.edges is not None:
                # A finite slope was used for an infinite one: the center may be infinitely far.
                changed = np.arange(len(best))
                best = _leave_infinite(piece, centers, best)
            if distances is not None:
                if len(changed):
                    found[changed] = piece[changed].distances(centers, best[changed])
                found[best < 0] = np.inf
                distances[part] = found
        labels[part] = best


def settle(
    products: Products, rows: Measured, product: DenseRows, centers: Centers, prepared: CenterMatrix
) -> IntArray:
    """Labels of rows close to their center relative to the origin, which scores may not tell.

    `product` and `prepared` are the rows and centers in the coordinates of the products.
    """
    scores = products.scores(product, prepared)
    best = np.argmax(scores, axis=1)
    every, bounds = np.arange(len(best)), products.bounds(product, prepared, best)
    at, candidates = _unclear(products, product, prepared, scores, best, every, bounds)
    if len(at):
        decided = _decide(rows[at], centers, candidates, again=False)
        best[at] = np.where(decided < 0, best[at], decided)
    return best


def _unclear(
    products: Products,
    product: DenseRows,
    prepared: CenterMatrix,
    scores: DenseRows,
    best: IntArray,
    suspects: IntArray,
    bounds: FloatArray,
) -> tuple[IntArray, Mask]:
    """Find the suspects with a second center whose score is within rounding of the best one.

    Returns them, and which centers may be the nearest of each. `bounds` are those of the suspects'
    terms; where they are too large to tell, the terms themselves are added up.
    """
    top = scores[suspects, best[suspects]]
    gaps = top - kernels.second_best(scores, best, suspects)
    overflown = ~(bounds < products.large)
    close = np.flatnonzero(~(gaps > products.rounding * bounds + products.tiny) | overflown)
    at = suspects[close]
    if not len(at):
        return at, np.empty((0, scores.shape[1]), dtype=bool)
    margins = products.rounding * products.sizes(product[at], prepared, best[at]) + products.tiny
    candidates = ~(scores[at] < (top[close] - 2.0 * margins)[:, None])
    candidates[overflown[close]] = True
    kept = np.flatnonzero(~(gaps[close] > margins) | overflown[close])
    return at[kept], candidates[kept]


def _decide(
    rows: Measured, centers: Centers, candidates: Mask, *, again: bool
) -> npt.NDArray[np.int32]:
    """Label rows whose nearest center a product could not tell."""
    if again or len(rows) < _WORTH_PRODUCTS:
        return _by_differences(rows, centers, candidates)
    labels = np.empty(len(rows), dtype=np.int32)
    _search_by_pieces(rows, centers, labels, again=True)
    return labels


def _leave_infinite(rows: Measured, centers: Centers, labels: IntArray) -> IntArray:
    """Labels of the nearest center for rows that are infinitely far from theirs."""
    far = np.flatnonzero(~np.isfinite(rows.distances(centers, labels)) | (labels < 0))
    if len(far):
        every = np.ones((len(far), len(centers)), dtype=bool)
        labels[far] = _by_differences(rows[far], centers, every)
    return labels


def _by_differences(rows: Measured, centers: Centers, candidates: Mask) -> npt.NDArray[np.int32]:
    """The nearest of some centers by the distances themselves; −1 where none is finite.

    Every row has a candidate.
    """
    labels = np.full(len(rows), -1, dtype=np.int32)
    for part in pieces(len(rows), _PAIRS // len(centers)):
        row, center = np.nonzero(candidates[part])
        found = rows[row + part.start].distances(centers, center)
        found[np.isnan(found)] = np.inf
        least = np.minimum.reduceat(found, np.flatnonzero(np.diff(row, prepend=-1)))
        hits = np.flatnonzero(found == least[row])
        # The first one of equally near centers.
        first = hits[np.unique(row[hits], return_index=True)[1]]
        labels[part] = np.where(np.isfinite(least), center[first], -1)
    return labels


def all_distances(rows: Measured, centers: Centers) -> DenseRows:
    """Distances of every row to every center: not squared, but a divergence as it is."""
    products, squared = rows.products(np.float64), rows.geometry.squared
    prepared, product = products.center_matrix(centers), products.rows(rows.values)
    with np.errstate(over="ignore", invalid="ignore"):
        heights, sizes = products.heights(rows.values, product)
        distances = heights[:, None] - products.scores(product, prepared)
        distances *= products.cost_unit
        unclear = ~(distances >= CLEAR * (sizes[:, None] + prepared.sizes))
        if centers.edges is not None:
            unclear[:, centers.edges.any(axis=1)] = True
        for j in np.flatnonzero(unclear.any(axis=0)):
            at = np.flatnonzero(unclear[:, j])
            distances[at, j] = rows[at].distances(centers, np.full(len(at), j))
    lost = ~np.isfinite(distances) if squared else np.isnan(distances)
    if lost.any():
        rows.refuse(np.flatnonzero(lost.any(axis=1)))
    return np.asarray(np.sqrt(distances) if squared else distances)


@dataclass(frozen=True, slots=True, eq=False)
class FewRowsSearch:
    """Labels of few rows by squared distances: whatever depends on the centers alone is kept.

    To choose a frame and a precision, and to prepare the centers, takes many times as long as the
    product itself.
    """

    origin: FloatArray
    factor: FloatArray | None
    slopes: FloatArray
    offsets: FloatArray
    rounding_per_length: FloatArray
    """A score of a row x errs by at most ‖x − o‖ times this, and `rounding`."""
    rounding: FloatArray
    part: float
    """A pass, whose products have another origin, errs by this part of ‖x − o‖² as well."""

    @classmethod
    def of(cls, centers: Centers) -> FewRowsSearch:
        """Prepare centers, in a frame around their own median."""
        metric, part = centers.geometry.metric, rounding_of(np.float64, centers.points.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            frame = metric.frame(centers.points, np.float64)
            slopes, offsets, sizes = metric.tangents(centers.points, frame)
            lengths = part * np.linalg.norm(slopes, axis=1)
        rounding = part * sizes + TINY[8]
        return cls(frame.origin, frame.factor, slopes, offsets, lengths, rounding, part)

    def labels(self, values: DenseRows) -> npt.NDArray[np.int32] | None:
        """The nearest center of every row; None if one of them needs `nearest_labels`.

        That is a row with a center within rounding of its best one, or with a bad value.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            rows = values - self.origin
            if self.factor is not None:
                rows *= self.factor
            scores = self._products(rows)
            scores += self.offsets
            squares = np.vecdot(rows, rows)
            errors = np.sqrt(squares)[:, None] * self.rounding_per_length
            errors += self.rounding
            best = scores.argmax(axis=1)
            at = best + np.arange(0, scores.size, scores.shape[1])
            least = scores.take(at) - errors.take(at) - 2.0 * self.part * squares
            errors += scores
            # Each row counts its own best center. NaN and infinity leave no finite bound.
            alone = np.count_nonzero(errors >= least[:, None]) == len(best)
        return best.astype(np.int32) if alone and np.isfinite(least).all() else None

    def _products(self, rows: FloatArray) -> FloatArray:
        """rows·slopes, in parts that BLAS starts no threads for."""
        if len(rows) == 1:
            return np.asarray(np.vecdot(self.slopes, rows))[None]
        products = np.empty((len(rows), len(self.slopes)))
        for part in pieces(len(rows), _UNTHREADED // self.slopes.size):
            np.matmul(rows[part], self.slopes.T, out=products[part])
        return products
