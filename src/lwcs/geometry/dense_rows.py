"""Dense rows, measured: differences in float64 for distances, one matrix product for scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.arrays.rows import pieces
from lwcs.geometry.measured import Measured
from lwcs.geometry.products import ACCURATE, DenseProducts
from lwcs.kernels import BlockMoments, Pivot

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, IntArray, Labels, Mask
    from lwcs.geometry.centers import Centers
    from lwcs.kernels import Scan

# Smaller numbers have too few digits for their sign to mean anything.
_UNDERFLOW = 1e-300
# Rows × columns of a temporary that stays in cache.
_PIECE_VALUES = 2**15


@dataclass(frozen=True, slots=True, eq=False)
class DenseRows(Measured):
    """Rows of a NumPy array."""

    def full(self, at: slice | IntArray) -> FloatArray:
        """Some of the rows, in float64."""
        return np.array(self.values[at], dtype=np.float64)

    def moments(self, weights: FloatArray | None) -> BlockMoments:
        """By the kernels for squared distances; else the mean alone."""
        own = self.geometry
        if own.squared:
            return kernels.moments(self.values, weights, own.kernel)
        return mean_alone(self.values, weights)

    def cluster_sums(
        self, weights: FloatArray | None, labels: Labels, wanted: Mask, around: Centers
    ) -> tuple[FloatArray, FloatArray]:
        """By the kernels."""
        return kernels.cluster_sums(
            self.values, weights, labels, wanted, around.references, self.geometry.kernel
        )

    def extent(self) -> tuple[float, float]:
        """Over all values but those of columns at an end of the domain."""
        values = self.values[:, self.geometry.varying(self.n_features)]
        return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))

    def products(self, dtype: npt.DTypeLike | None = None, *, again: bool = False) -> DenseProducts:
        """Products in a frame around the median of some rows."""
        dtype = np.float64 if again else dtype
        frame = self.geometry.metric.frame(self.sample(), self.dtype if dtype is None else dtype)
        return DenseProducts(frame, self.geometry, self.n_features)

    def pivot(self, point: FloatArray) -> Pivot:
        """The point itself, with the precision of every column."""
        return Pivot(point, self.geometry.precision)

    def scan(self, weights: FloatArray | None, around: Pivot, out: FloatArray) -> Scan:
        """By the kernels."""
        return kernels.scan(self.values, weights, around, out, self.geometry.kernel)

    def distances_and_doubt(
        self, centers: Centers, labels: Labels
    ) -> tuple[FloatArray, Mask | None]:
        """From differences; for other divergences from tangents where these have the digits."""
        own = self.geometry
        if own.squared:
            with np.errstate(over="ignore", invalid="ignore"):
                found = kernels.own_distances(
                    self.values, centers.points, labels, own.precision, own.kernel
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


def mean_alone(rows: FloatArray, weights: FloatArray | None) -> BlockMoments:
    """Weight and mean, with a scatter of zero: Φ of a divergence does not follow from moments."""
    omega = kernels.unit_weights(weights, rows.shape[0])
    weight = float(omega.sum())
    # NaN times zero is NaN, so that a bad row without weight is seen too.
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.asarray(rows.T @ omega)
    return BlockMoments(weight, sums / weight if weight else sums, np.zeros(rows.shape[1]))
