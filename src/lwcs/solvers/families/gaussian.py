"""Gaussian components with spherical, diagonal, tied or full covariances.

The theory of section 6 covers spherical covariances with a fixed variance only; for all others
a coreset is a heuristic.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from lwcs.divergences import SquaredEuclidean
from lwcs.foundation.checks import check_choice
from lwcs.solvers.families.base import Family, weighted_means

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.foundation.types import FloatArray, Rows

COVARIANCES = ("full", "tied", "diag", "spherical")


class Gaussian(Family):
    """Normal distributions; `covariances` has the shape that it has in scikit-learn.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}
    reg_covar : float
        Added to the diagonal of the covariances.
    """

    name, divergence = "gaussian", SquaredEuclidean()
    options = ("covariance_type", "reg_covar")
    fitted: ClassVar = {"covariance": "covariances"}
    derived = ("precisions_cholesky",)

    def __init__(self, covariance_type: str, reg_covar: float) -> None:
        check_choice(covariance_type, "covariance_type", COVARIANCES)
        given: Any = reg_covar
        number = isinstance(given, Real) and not isinstance(given, bool)
        if not number or not 0.0 <= float(given) < np.inf:
            raise ValueError(f"reg_covar={given!r} is not allowed; pass a finite number >= 0")
        self.covariance_type, self.reg_covar = covariance_type, reg_covar

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Set the means and the covariances of the rows, with `reg_covar` on the diagonal."""
        totals = weights.sum(axis=0) + 10.0 * np.finfo(np.float64).eps
        self.means = weighted_means(rows, weights)
        if self.covariance_type in ("diag", "spherical"):
            spreads = [
                own @ (rows - mean) ** 2 for own, mean in zip(weights.T, self.means, strict=True)
            ]
            variances = np.array(spreads) / totals[:, None] + self.reg_covar
            self.covariances = (
                variances if self.covariance_type == "diag" else variances.mean(axis=1)
            )
            return
        scatters = [_scatter(rows - m, w) for m, w in zip(self.means, weights.T, strict=True)]
        ridge = self.reg_covar * np.eye(rows.shape[1])
        if self.covariance_type == "tied":
            self.covariances = sum(scatters) / totals.sum() + ridge
        else:
            self.covariances = np.array(scatters) / totals[:, None, None] + ridge

    @property
    def precisions_cholesky(self) -> FloatArray:
        """Cholesky factors of the inverse covariances, in the shapes of scikit-learn."""
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
        """Draw rows from one component."""
        mean, kind = self.means[component], self.covariance_type
        if kind in ("diag", "spherical"):
            return mean + rng.standard_normal((n, len(mean))) * np.sqrt(self.covariances[component])
        covariance = self.covariances if kind == "tied" else self.covariances[component]
        return rng.multivariate_normal(mean, covariance, n)

    def n_parameters(self) -> int:
        """Means, and the free parameters of the covariances."""
        k, d = self.means.shape
        free = {
            "full": k * d * (d + 1) // 2,
            "tied": d * (d + 1) // 2,
            "diag": k * d,
            "spherical": k,
        }
        return k * d + free[self.covariance_type]

    def state(self) -> dict[str, Any]:
        """Covariances with one entry per component; a tied one is repeated."""
        k, d = self.means.shape
        tied = self.covariance_type == "tied"
        return {
            "covariance": np.broadcast_to(self.covariances, (k, d, d)) if tied else self.covariances
        }

    def restore(self, means: FloatArray, state: Mapping[str, Any]) -> None:
        """Undo `state`; the values of each covariance may be flattened."""
        k, d = means.shape
        shape = {"full": (k, d, d), "tied": (k, d, d), "diag": (k, d), "spherical": (k,)}
        covariances = np.reshape(state["covariance"], shape[self.covariance_type])
        self.means = means
        self.covariances = covariances[0] if self.covariance_type == "tied" else covariances

    def check(self) -> None:
        """Refuse covariances that are not symmetric and positive definite."""
        super().check()
        if self.covariance_type in ("full", "tied"):
            turned = np.swapaxes(self.covariances, -1, -2)
            if np.abs(self.covariances - turned).max() > 1e-6 * np.abs(self.covariances).max():
                raise ValueError("a covariance is not symmetric")
        _ = self.precisions_cholesky


_SINGULAR = (
    "the covariance of a component is singular, since the component has too few distinct rows; "
    "pass fewer components or a larger reg_covar, or scale the data up"
)


def _scatter(offsets: FloatArray, weights: FloatArray) -> FloatArray:
    return (weights * offsets.T) @ offsets
