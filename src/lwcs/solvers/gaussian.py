"""Gaussian components of a mixture: spherical, diagonal, tied or full covariances.

Only spherical ones of a fixed variance are within the theory of section 6; the others are
a heuristic on a coreset, and a good one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from lwcs.divergences import SquaredEuclidean
from lwcs.solvers.families import Family, weighted_means

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Rows

COVARIANCES = ("full", "tied", "diag", "spherical")


class Gaussian(Family):
    """Gaussians; `covariances` has scikit-learn's shape for each type."""

    name = "gaussian"
    divergence = start = SquaredEuclidean()

    def __init__(self, covariance_type: str, reg_covar: float) -> None:
        self.covariance_type, self._reg = covariance_type, reg_covar

    def fit(self, rows: Rows, shares: FloatArray) -> None:
        """Means and covariances, with `reg_covar` on the diagonal."""
        totals = shares.sum(axis=0) + 10.0 * np.finfo(np.float64).eps
        self.means = weighted_means(rows, shares)
        if self.covariance_type in ("diag", "spherical"):
            spreads = [
                share @ (rows - mean) ** 2 for share, mean in zip(shares.T, self.means, strict=True)
            ]
            variances = np.array(spreads) / totals[:, None] + self._reg
            self.covariances = (
                variances if self.covariance_type == "diag" else variances.mean(axis=1)
            )
            return
        scatters = [_scatter(rows - m, s) for m, s in zip(self.means, shares.T, strict=True)]
        ridge = self._reg * np.eye(rows.shape[1])
        if self.covariance_type == "tied":
            self.covariances = sum(scatters) / totals.sum() + ridge
        else:
            self.covariances = np.array(scatters) / totals[:, None, None] + ridge

    @property
    def precisions_cholesky(self) -> FloatArray:
        """Cholesky factors of the inverse covariances, as scikit-learn has them."""
        kind = self.covariance_type
        if kind in ("diag", "spherical"):
            if (self.covariances <= 0.0).any():
                raise ValueError(_SINGULAR)
            return 1.0 / np.sqrt(self.covariances)
        matrices = self.covariances[None] if kind == "tied" else self.covariances
        try:
            factors = [
                solve_triangular(cholesky(each, lower=True), np.eye(len(each)), lower=True).T
                for each in matrices
            ]
        except np.linalg.LinAlgError:
            raise ValueError(_SINGULAR) from None
        return factors[0] if kind == "tied" else np.array(factors)

    def log_density(self, rows: Rows) -> FloatArray:
        """−(d·ln 2π + ln |Σ| + (x − m)ᵀ Σ⁻¹ (x − m))/2."""
        n_features, factors = rows.shape[1], self.precisions_cholesky
        found = np.empty((rows.shape[0], len(self.means)))
        for j, mean in enumerate(self.means):
            if self.covariance_type in ("diag", "spherical"):
                scaled = (rows - mean) * factors[j]
                logs = np.log(factors[j]).sum() * (1 if factors.ndim == 2 else n_features)
            else:
                factor = factors if self.covariance_type == "tied" else factors[j]
                scaled = (rows - mean) @ factor
                logs = np.log(np.diag(factor)).sum()
            found[:, j] = logs - 0.5 * np.einsum("ij,ij->i", scaled, scaled)
        return found - 0.5 * n_features * np.log(2.0 * np.pi)

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows."""
        mean, kind = self.means[component], self.covariance_type
        if kind in ("diag", "spherical"):
            return mean + rng.standard_normal((n, len(mean))) * np.sqrt(self.covariances[component])
        covariance = self.covariances if kind == "tied" else self.covariances[component]
        return rng.multivariate_normal(mean, covariance, n)

    def n_parameters(self) -> int:
        """Means and what is free in the covariances."""
        k, d = self.means.shape
        free = {
            "full": k * d * (d + 1) // 2,
            "tied": d * (d + 1) // 2,
            "diag": k * d,
            "spherical": k,
        }
        return k * d + free[self.covariance_type]


_SINGULAR = (
    "a component has collapsed onto so few rows that its covariance is singular; pass fewer "
    "components, a larger reg_covar, or scale the data up"
)


def _scatter(offsets: FloatArray, share: FloatArray) -> FloatArray:
    return (share * offsets.T) @ offsets
