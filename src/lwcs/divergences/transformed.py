"""Divergences of transformed rows: in other coordinates, of unit length, as shares of their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import copied, on_device
from lwcs.arrays.rows import (
    divide_rows,
    empty_rows,
    in_float64,
    largest_of_rows,
    row_lengths,
    row_sums,
)
from lwcs.divergences.divergence import first_of, library_for
from lwcs.divergences.separable import KL, SquaredEuclidean

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, Rows
    from lwcs.divergences.divergence import Divergence

# A precision matrix that is closer to singular than this leaves no digits in its coordinates.
_SINGULAR = 1e-13
# Squares of lengths outside of this range lose digits.
_SIZES = (1e-140, 1e140)


class Mahalanobis(SquaredEuclidean):
    """Squared Mahalanobis distance (x − y)ᵀM(x − y): squared Euclidean in x·L, M = L·Lᵀ.

    Parameters
    ----------
    precision : array of shape (d, d)
        M, symmetric and positive definite: the inverse of a covariance.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> from lwcs.divergences import Mahalanobis
    >>> X = np.random.default_rng(0).multivariate_normal([0, 0], [[2, 1], [1, 2]], 1_000)
    >>> distance = Mahalanobis(np.linalg.inv(np.cov(X.T)))
    >>> model = lwcs.CoresetKMeans(3, divergence=distance, random_state=0).fit(X)
    """

    name = "mahalanobis"
    runs_on_device = True

    def __init__(self, precision: Any) -> None:
        matrix = np.array(precision, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(
                f"precision has shape {matrix.shape}; pass a square matrix with one row and one "
                "column per column of the data"
            )
        if not np.isfinite(matrix).all():
            raise ValueError("precision has values that are not finite; pass finite numbers")
        largest = float(np.abs(matrix).max())
        if np.abs(matrix - matrix.T).max() > 1e-10 * largest:
            raise ValueError("precision is not symmetric; pass (M + M.T) / 2")
        values = np.linalg.eigvalsh(matrix)
        if values[0] <= _SINGULAR * values[-1]:
            raise ValueError(
                f"precision is not positive definite (eigenvalues from {values[0]:g} to "
                f"{values[-1]:g}); pass the inverse of a covariance, or add a little to its "
                "diagonal"
            )
        matrix.flags.writeable = False
        self.precision = matrix
        self._factor = np.linalg.cholesky(matrix)

    def transform(self, rows: Rows) -> Rows:
        """Coordinates x·L, which are dense."""
        self._check_width(rows.shape[1])
        if library_for(rows) is not np:
            return rows @ on_device(self._factor, rows)
        wide = rows.astype(np.float64, copy=False)
        # Values that are not finite are found later, by the sums of the result.
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(wide @ self._factor)

    def to_coordinates(self, points: FloatArray) -> FloatArray:
        """points·L."""
        self._check_width(points.shape[-1])
        return points @ self._factor

    def from_coordinates(self, points: FloatArray) -> FloatArray:
        """Solve x·L = point."""
        return np.linalg.solve(self._factor.T, points.T).T

    def _check_width(self, d: int) -> None:
        if d != len(self.precision):
            raise ValueError(
                f"precision is for {len(self.precision)} columns but the data has {d}; pass shape "
                f"({d}, {d})"
            )

    def __repr__(self) -> str:
        return f"Mahalanobis(precision of shape {self.precision.shape})"


class Cosine(SquaredEuclidean):
    """Cosine distance 2·(1 − cos): spherical k-means, with rows and centers of unit length.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> vectors = np.random.default_rng(0).standard_normal((2_000, 8))
    >>> model = lwcs.CoresetKMeans(3, divergence="cosine", random_state=0).fit(vectors)
    >>> bool(np.allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0))
    True
    """

    name = "cosine"
    runs_on_device = True

    def transform(self, rows: Rows) -> Rows:
        """Rows of unit length."""
        if library_for(rows) is not np:
            return normalized_on_device(rows, lambda each: each.square().sum(dim=1).sqrt())
        return normalized(rows, row_lengths)

    def constrain(self, centers: FloatArray) -> FloatArray:
        """Centers of unit length; a center at the origin has no direction, and stays there."""
        lengths = np.linalg.norm(centers, axis=1)
        return centers / np.where(lengths > 0.0, lengths, 1.0)[:, None]

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse rows without a direction."""
        refuse_empty(rows, first_row, "has no direction (all its values are zero)")

    def first_refused(self, rows: Any) -> int | None:
        """The first row without a direction."""
        return first_of(~(rows != 0).any(dim=1))


class SquaredBound(SquaredEuclidean, listed=False):
    """d_A of another divergence, A = a·I: the squared distance of rows as it transforms them."""

    def __init__(self, of: Divergence) -> None:
        self._of, self.runs_on_device = of, of.runs_on_device

    @property
    def zero(self) -> float:
        """Value of a zero, by the other divergence."""
        return self._of.zero

    def transform(self, rows: Rows) -> Rows:
        """Transform rows by the other divergence."""
        return self._of.transform(rows)

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse rows outside of the domain of the other divergence."""
        self._of.check(rows, first_row)

    def first_refused(self, rows: Any) -> int | None:
        """First row outside of the domain of the other divergence, if any."""
        return self._of.first_refused(rows)


class SimplexKL(KL):
    """KL of the shares of the values in the sum of their row: documents of any length.

    Parameters
    ----------
    smoothing : float, default=0.1
        As for KL.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> counts = np.random.default_rng(0).poisson(3.0, (2_000, 5)) + 1
    >>> model = lwcs.CoresetKMeans(3, divergence="kl_simplex", random_state=0).fit(counts)
    >>> bool(np.allclose(model.cluster_centers_.sum(axis=1), 1.0))
    True
    """

    name = "kl_simplex"
    runs_on_device = True

    def transform(self, rows: Rows) -> Rows:
        """Rows that sum to one."""
        if library_for(rows) is not np:
            return normalized_on_device(rows, lambda each: each.sum(dim=1))
        return normalized(rows, row_sums)

    def constrain(self, centers: FloatArray) -> FloatArray:
        """Centers that sum to one."""
        sums = centers.sum(axis=1)
        return centers / np.where(sums > 0.0, sums, 1.0)[:, None]

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse rows that have no shares, and negative numbers."""
        refuse_empty(rows, first_row, "has no shares (its values sum to zero)")
        super().check(rows, first_row)

    def first_refused(self, rows: Any) -> int | None:
        """A row without shares, or one with a negative number."""
        empty = first_of(~(rows != 0).any(dim=1))
        return super().first_refused(rows) if empty is None else empty


def normalized(rows: Rows, size: Callable[[Rows], FloatArray]) -> Rows:
    """Rows divided by their size, in float64."""
    wide = in_float64(rows)
    # Values that are not finite are found later, by the sums of the result.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        sizes = size(wide)
        odd = np.flatnonzero(~((sizes > _SIZES[0]) & (sizes < _SIZES[1])))
        if len(odd):
            # Divided by their largest value first, which changes neither directions nor shares.
            largest = np.ones(wide.shape[0])
            largest[odd] = largest_of_rows(wide[odd])
            wide = divide_rows(wide, largest)
            sizes[odd] = size(wide[odd])
        return divide_rows(wide, sizes)


def normalized_on_device(rows: Any, size: Callable[[Any], Any]) -> Any:
    """The rows of a tensor divided by their size."""
    sizes = size(rows)
    odd = ~((sizes > _SIZES[0]) & (sizes < _SIZES[1]))
    if bool(odd.any()):
        largest = rows.abs().amax(dim=1)
        rows = rows / largest.where(odd & (largest != 0.0), 1.0)[:, None]
        sizes = size(rows).where(odd, sizes)
    return rows / sizes.where(sizes != 0.0, 1.0)[:, None]


def refuse_empty(rows: Rows, first_row: int, what: str) -> None:
    """Refuse the first row that has no value other than zero."""
    empty = empty_rows(copied(rows))
    if len(empty):
        wants = f"{what}; drop such rows, or choose another divergence"
        raise BadValueError(0, first_row + int(empty[0]), None, 0.0, wants)
