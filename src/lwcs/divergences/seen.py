"""Divergences that look at rows in another way first: in coordinates, by direction, as shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.divergences.separable import KL, SquaredEuclidean
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.divergences.base import Divergence
    from lwcs.foundation.types import FloatArray, Rows

# A precision matrix this near to a singular one leaves no digits in its coordinates.
_SINGULAR = 1e-13
# Squares of lengths outside of these lose digits.
_SIZES = (1e-140, 1e140)


class Mahalanobis(SquaredEuclidean):
    """(x − y)ᵀM(x − y): squared distances in the coordinates x·L, M = L·Lᵀ.

    Parameters
    ----------
    precision : array of shape (d, d)
        M, symmetric and positive definite: the inverse of a covariance.
    """

    name = "mahalanobis"

    def __init__(self, precision: Any) -> None:
        matrix = np.array(precision, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(
                f"precision has shape {matrix.shape}; pass a square matrix, a row and a column "
                "for each column of the data"
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

    def forward(self, rows: Rows) -> Rows:
        """Coordinates x·L; these are dense."""
        self._check_width(rows.shape[1])
        wide = rows.astype(np.float64, copy=False)
        # A value that is not finite shows in the sums that are taken of these.
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(wide @ self._factor)

    def inward(self, points: FloatArray) -> FloatArray:
        """C·L."""
        self._check_width(points.shape[-1])
        return points @ self._factor

    def backward(self, points: FloatArray) -> FloatArray:
        """Solve c·L = point."""
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
    """2·(1 − cos) of the angle: spherical k-means, on rows and centers of unit length."""

    name = "cosine"
    constrained = True

    def forward(self, rows: Rows) -> Rows:
        """Rows of unit length."""
        return normalised(rows, _lengths)

    def settled(self, centers: FloatArray) -> FloatArray:
        """Centers of unit length; one at the origin has no direction, and stays there."""
        lengths = np.linalg.norm(centers, axis=1)
        return centers / np.where(lengths > 0.0, lengths, 1.0)[:, None]

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse rows without a direction."""
        refuse_empty(rows, first_row, "has no direction (all its values are zero)")


class Quadratic(SquaredEuclidean, listed=False):
    """d_A of another divergence, A = a·I: squared distances of rows as that one sees them."""

    def __init__(self, of: Divergence) -> None:
        self._of = of

    @property
    def zero(self) -> float:  # type: ignore[override]
        """As of the other one."""
        return self._of.zero

    def forward(self, rows: Rows) -> Rows:
        """As the other one."""
        return self._of.forward(rows)

    def check(self, rows: Rows, first_row: int) -> None:
        """As the other one."""
        self._of.check(rows, first_row)


class SimplexKL(KL):
    """KL of the shares that the values have in their row: documents, whatever their length.

    Parameters
    ----------
    smoothing : float, default=0.1
        As of KL.
    """

    name = "kl_simplex"

    def forward(self, rows: Rows) -> Rows:
        """Rows that sum to one."""
        return normalised(rows, _sums)

    def settled(self, centers: FloatArray) -> FloatArray:
        """Centers that sum to one."""
        sums = centers.sum(axis=1)
        return centers / np.where(sums > 0.0, sums, 1.0)[:, None]

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse rows that have no shares, and negative numbers."""
        refuse_empty(rows, first_row, "has no shares (its values sum to zero)")
        super().check(rows, first_row)


def divided(rows: Rows, by: FloatArray) -> Rows:
    """Rows divided by a number each; a row of zeros stays as it is."""
    each = np.where(by == 0.0, 1.0, by)
    # What is not finite shows in the sums that are taken of these.
    with np.errstate(invalid="ignore", over="ignore"):
        if not is_sparse(rows):
            return rows / each[:, None]
        scaled = rows.astype(np.float64)
        scaled.data /= np.repeat(each, np.diff(rows.indptr))
    return scaled


def normalised(rows: Rows, size: Callable[[Rows], FloatArray]) -> Rows:
    """Rows of size one, in float64."""
    wide = rows.astype(np.float64, copy=False)
    # What is not finite shows in the sums that are taken of these.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        sizes = size(wide)
        odd = np.flatnonzero(~((sizes > _SIZES[0]) & (sizes < _SIZES[1])))
        if len(odd):
            # Divided by their largest value first: that changes no direction, and no share.
            part = abs(wide[odd])
            most = part.max(axis=1).toarray() if is_sparse(part) else part.max(axis=1)
            largest = np.ones(wide.shape[0])
            largest[odd] = np.ravel(most)
            wide = divided(wide, largest)
            sizes[odd] = size(wide[odd])
        return divided(wide, sizes)


def _lengths(rows: Rows) -> FloatArray:
    if is_sparse(rows):
        return np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel())
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _sums(rows: Rows) -> FloatArray:
    return np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()


def refuse_empty(rows: Rows, first_row: int, what: str) -> None:
    """Refuse the first row that has no value other than zero."""
    if is_sparse(rows):
        row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        there = np.bincount(row_of[rows.data != 0], minlength=rows.shape[0]) > 0
    else:
        there = (rows != 0).any(axis=1)
    empty = np.flatnonzero(~there)
    if len(empty):
        wants = f"{what}; leave such rows out, or choose another divergence"
        raise BadValueError(0, first_row + int(empty[0]), None, 0.0, wants)
