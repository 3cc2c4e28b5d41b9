"""Scores of many centers by one matrix product: which center is nearest, and how certain that is.

A product is only a sum of terms, and rounds by a part of their size. `sizes` bounds the terms of
a score; two scores that differ by no more than `rounding · size` cannot be told apart by products,
and differences decide (`nearest`). A distance above `CLEAR` of its size is too far from zero for
rounding to matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask
    from lwcs.geometry import Geometry
    from lwcs.geometry.centers import Centers, Frame
    from lwcs.geometry.measured import Measured
    from lwcs.kernels import TiledKernels
    from lwcs.runtime.parallel import Map

    Memory = Callable[..., DenseRows]

# A row whose distance is above this part of the terms of its score is certain of its label.
CLEAR = 1e-3
# Above this part of its terms, a distance from tangents keeps eleven digits or more.
ACCURATE = 1e-4
# Distances at or below this have lost digits to underflow, by the size of a number.
TINY = {4: 1e-33, 8: 1e-306}
# Terms above this may have overflowed.
_LARGE = {4: 1e30, 8: 1e300}
# Values of one piece of the rows × centers product: a few MB, shorter ones cost more in calls.
PIECE_VALUES = 2**19


def rounding_of(dtype: npt.DTypeLike, n_features: int) -> float:
    """A score errs by at most this part of the size of its terms."""
    return float(4.0 * np.finfo(np.dtype(dtype)).eps * (4.0 + np.sqrt(n_features)))


class CenterMatrix(NamedTuple):
    """Centers in the coordinates of a product, one column each."""

    matrix: Any
    """Slopes, one column per center; for dense rows with the offsets as one more row."""
    offsets: FloatArray
    sizes: FloatArray
    """Size of the terms of every offset."""


class Best(NamedTuple):
    """The nearest center of every row, by its score."""

    labels: IntArray
    scores: DenseRows
    others: DenseRows
    """No less than the score of any other center."""

    @classmethod
    def unknown(cls, n_rows: int, dtype: npt.DTypeLike) -> Best:
        """Before any comparison."""
        scores = np.full((2, n_rows), -np.inf, dtype=dtype)
        return cls(np.full(n_rows, -1, dtype=np.int64), scores[0], scores[1])

    def of_rows(self, at: slice | IntArray) -> Best:
        """The entries of some rows; a view if `at` is a slice."""
        return Best(*(each[at] for each in self))


class Watch(NamedTuple):
    """Heights of some rows, and memory for what an assignment changes (`Products.assign`)."""

    heights: DenseRows
    least: DenseRows
    """A row whose distance comes out below this is unknown: its score cannot tell the nearest."""
    old: IntArray
    """The labels before."""
    changed: Mask
    """Which clusters have gained or lost a row."""
    unknown: IntArray
    """Numbers of the rows that are unknown, at the beginning."""


class Moved(NamedTuple):
    """The centers that have moved since rows were last assigned to all of them."""

    at: IntArray
    place: IntArray
    """Position of every center in `at`, or −1."""
    prepared: CenterMatrix

    @classmethod
    def of(cls, at: IntArray, products: Products, prepared: CenterMatrix) -> Moved:
        """Some of the centers of a product."""
        place = np.full(len(prepared.offsets), -1)
        place[at] = np.arange(len(at))
        return cls(at, place, products.take(prepared, at))


class Products(ABC):
    """How rows are multiplied with centers, in the coordinates of a frame."""

    def __init__(self, frame: Frame, geometry: Geometry, n_features: int) -> None:
        self.frame, self.geometry = frame, geometry
        self.dtype = np.dtype(frame.dtype)
        self._origin = frame.origin.astype(self.dtype)
        self.cost_unit = 1.0 / frame.unit**2
        """Distances are (heights − scores)·cost_unit."""
        self.tiny, self.large = TINY[self.dtype.itemsize], _LARGE[self.dtype.itemsize]
        self.rounding = rounding_of(self.dtype, n_features)

    @abstractmethod
    def rows(self, values: Any, memory: Memory = np.empty) -> Any:
        """Measured values in the coordinates of the product; `memory` makes an empty array."""

    def ready(self, rows: Measured, run: Map) -> tuple[Any, FloatArray, FloatArray]:
        """All rows in these coordinates, their heights, and the sizes of those."""
        del run
        product = self.rows(rows.values)
        return product, *self.heights(rows.values, product)

    @abstractmethod
    def center_matrix(self, centers: Centers) -> CenterMatrix:
        """Centers in the same coordinates."""

    def take(self, prepared: CenterMatrix, at: IntArray) -> CenterMatrix:
        """Some of the centers."""
        return CenterMatrix(prepared.matrix.T[at].T, prepared.offsets[at], prepared.sizes[at])

    @abstractmethod
    def scores(self, rows: Any, prepared: CenterMatrix, memory: Memory = np.empty) -> DenseRows:
        """rows·slopes + offsets, one column per center: larger is nearer."""

    @property
    def native(self) -> TiledKernels | None:
        """The loops over tiles, if the kernels of the geometry have some."""
        return self.geometry.kernels.tiled

    def step(self, n_rows: int, n_centers: int) -> int:
        """Number of rows to compare with the centers at a time, whatever the number of threads."""
        del n_rows
        return max(64, PIECE_VALUES // n_centers)

    def search(
        self,
        rows: Measured,
        centers: Centers,
        labels: npt.NDArray[np.int32],
        distances: FloatArray | None,
    ) -> IntArray | None:
        """Label rows, and measure them if wanted, all at once; return those not certain.

        None if there are no native loops for that: rows are then compared piece by piece.
        """
        del rows, centers, labels, distances
        return None

    def best(self, rows: Any, prepared: CenterMatrix, found: Best) -> None:
        """Find the nearest center of every row of a piece."""
        scores = self.scores(rows, prepared)
        np.argmax(scores, axis=1, out=found.labels)
        found.scores[:] = scores[np.arange(len(scores)), found.labels]
        # No other is above the best; to search for the second best would take as long again.
        found.others[:] = found.scores

    def best_of_moved(self, rows: Any, prepared: CenterMatrix, moved: Moved, found: Best) -> None:
        """Update `found` where only some of the centers have moved, which are compared.

        The others have not moved, and are no nearer than `found.others`: they are compared as well
        only for rows whose best known score is below that.
        """
        labels, each = found.labels, np.arange(len(found.labels))
        scores = self.scores(rows, moved.prepared)
        best = np.argmax(scores, axis=1)
        top, own = scores[each, best], moved.place[labels]
        present = np.where(own >= 0, scores[each, own], found.scores)
        labels[:] = np.where(top > present, moved.at[best], labels)
        np.maximum(top, present, out=found.scores)
        unsure = np.flatnonzero(~(found.scores >= found.others))
        np.maximum(found.others, found.scores, out=found.others)
        if len(unsure):
            again = found.of_rows(unsure)
            self.best(rows[unsure], prepared, again)
            for known, new in zip(found, again, strict=True):
                known[unsure] = new

    def assign(
        self, rows: Any, prepared: CenterMatrix, moved: Moved, found: Best, watch: Watch
    ) -> int:
        """Update `found`, with all centers or with those that moved; write changes into `watch`.

        Returns how many rows are unknown.
        """
        watch.old[:] = found.labels
        if 2 * len(moved.at) > len(prepared.offsets):
            self.best(rows, prepared, found)
        else:
            self.best_of_moved(rows, prepared, moved, found)
        differ = np.flatnonzero(found.labels != watch.old)
        before = watch.old[differ]
        watch.changed[:] = False
        watch.changed[found.labels[differ]] = True
        watch.changed[before[before >= 0]] = True
        unknown = np.flatnonzero(~(watch.heights - found.scores > watch.least))
        watch.unknown[: len(unknown)] = unknown
        return len(unknown)

    @abstractmethod
    def sizes(self, rows: Any, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """Σ|terms| of the scores of rows and their own centers."""

    @abstractmethod
    def bounds(self, rows: Any, prepared: CenterMatrix, labels: Labels) -> FloatArray:
        """No less than `sizes`, by the Cauchy–Schwarz inequality: cheap, for all rows."""

    def suspects(
        self, rows: Any, prepared: CenterMatrix, labels: IntArray, top: DenseRows
    ) -> tuple[IntArray, FloatArray]:
        """Rows that are not certain of their label by the best score alone, and their bounds."""
        del top
        return np.arange(len(labels)), self.bounds(rows, prepared, labels)

    @staticmethod
    def bounds_from(heights: Any, apart: Any, offsets: Any) -> FloatArray:
        """No less than `sizes`, from the distances to the origin and to the center.

        Column by column |(x − o)·Δ| ≤ d(x, o) + d(o, c) + d(x, c), by the three-point identity.
        """
        return np.asarray(np.abs(heights) + np.abs(apart) + 2.0 * offsets, dtype=np.float64)

    @abstractmethod
    def heights(self, values: Any, rows: Any) -> tuple[FloatArray, FloatArray]:
        """Distance plus score of every row, and the size of the terms of that."""
