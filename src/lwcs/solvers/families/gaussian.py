"""Gaussian components with spherical, diagonal, tied or full covariances.

The theory of section 6 covers spherical covariances with a fixed variance only; for all others
a coreset is a heuristic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from lwcs.arrays.checks import check_choice, check_number, check_numbers
from lwcs.divergences import SquaredEuclidean
from lwcs.solvers.families.family import Family, weighted_means

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lwcs.arrays.types import FloatArray, Rows

COVARIANCES = ("full", "tied", "diag", "spherical")
_DIAGONAL = ("diag", "spherical")
# Precisions whose halves differ by no more than this part of the largest value are symmetric.
_ROUNDING = 1e-6


class Gaussian(Family):
    """Normal distributions; all arrays have the shapes that they have in scikit-learn.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}
    reg_covar : float
        Added to the diagonal of the covariances.
    """

    name, divergence, on_device = "gaussian", SquaredEuclidean(), True
    options = ("covariance_type", "reg_covar")
    fitted: ClassVar = {"covariance": "covariances"}
    derived = ("precisions", "precisions_cholesky")

    covariances: FloatArray
    precisions_cholesky: FloatArray
    """Upper triangular factors U of the inverse covariances, UUᵀ."""

    def __init__(self, covariance_type: str, reg_covar: float) -> None:
        check_choice(covariance_type, "covariance_type", COVARIANCES)
        check_number(reg_covar, "reg_covar")
        self.covariance_type, self.reg_covar = covariance_type, reg_covar

    @property
    def diagonal(self) -> bool:
        """Whether columns are independent."""
        return self.covariance_type in _DIAGONAL

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Set the means and the covariances of the rows, with `reg_covar` on the diagonal."""
        self.means = weighted_means(rows, weights)
        spread = _squares if self.diagonal else _scatter
        spreads = [spread(rows - m, w) for m, w in zip(self.means, weights.T, strict=True)]
        self.fit_spreads(np.array(spreads), weights.sum(axis=0))

    def fit_spreads(self, spreads: FloatArray, totals: FloatArray) -> None:
        """Set the covariances from Σw·(x − m)², or Σw·(x − m)(x − m)ᵀ, of every component."""
        totals = totals + 10.0 * np.finfo(np.float64).eps
        if self.diagonal:
            variances = spreads / totals[:, None] + self.reg_covar
            self._set(variances if self.covariance_type == "diag" else variances.mean(axis=1))
            return
        ridge = self.reg_covar * np.eye(spreads.shape[1])
        if self.covariance_type == "tied":
            self._set(sum(spreads) / totals.sum() + ridge)
        else:
            self._set(spreads / totals[:, None, None] + ridge)

    def _set(self, covariances: FloatArray) -> None:
        """Set the covariances, and the factors of their inverses."""
        if self.diagonal:
            if (covariances <= 0.0).any():
                raise ValueError(_SINGULAR)
            factors = 1.0 / np.sqrt(covariances)
        else:
            try:
                factors = self._each(_inverse_factor, covariances)
            except np.linalg.LinAlgError:
                raise ValueError(_SINGULAR) from None
        self.covariances, self.precisions_cholesky = covariances, factors

    def _each(self, change: Callable[[FloatArray], FloatArray], matrices: FloatArray) -> FloatArray:
        """Change the matrix of every component, or the one that they share."""
        if self.covariance_type == "tied":
            return change(matrices)
        return np.array([change(each) for each in matrices])

    @property
    def precisions(self) -> FloatArray:
        """The inverse covariances."""
        if self.diagonal:
            return self.precisions_cholesky**2
        return self._each(lambda factor: factor @ factor.T, self.precisions_cholesky)

    def as_precisions(self, given: Any, n_components: int, n_features: int) -> FloatArray:
        """Check that given precisions have the right shape and are positive definite."""
        kind = self.covariance_type
        shape = _shapes(n_components, n_features)[kind]
        why = f"covariance_type={kind!r}"
        precisions = check_numbers(given, "precisions_init", shape, why)
        if kind in _DIAGONAL:
            bad = np.argwhere(precisions <= 0.0)
            if len(bad):
                place, value = ", ".join(map(str, bad[0])), precisions[tuple(bad[0])]
                raise ValueError(
                    f"precisions_init[{place}]={value} is not allowed; precisions are inverse "
                    "variances, pass numbers > 0"
                )
            return precisions
        for j, matrix in enumerate(precisions[None] if kind == "tied" else precisions):
            if not _is_positive_definite(matrix):
                name = "precisions_init" if kind == "tied" else f"precisions_init[{j}]"
                raise ValueError(
                    f"{name} is not symmetric and positive definite; pass the inverse of a "
                    "covariance matrix"
                )
        return precisions

    def start_at(self, means: FloatArray | None, precisions: FloatArray | None) -> None:
        """Replace the means, or the covariances by inverse precisions; both need no `fit`."""
        if means is not None:
            self.means = means
        if precisions is None:
            return
        if self.diagonal:
            self.covariances, self.precisions_cholesky = 1.0 / precisions, np.sqrt(precisions)
        else:
            self.precisions_cholesky = self._each(_upper_factor, precisions)
            self.covariances = self._each(_inverse_of_square, self.precisions_cholesky)

    def log_density(self, rows: Rows) -> FloatArray:
        """−(d·ln 2π + ln |Σ| + (x − m)ᵀ Σ⁻¹ (x − m))/2."""
        factors, logs = self.precisions_cholesky, self.log_determinants()
        densities = np.empty((rows.shape[0], len(self.means)))
        for j, mean in enumerate(self.means):
            if self.diagonal:
                scaled = (rows - mean) * factors[j]
            else:
                scaled = (rows - mean) @ (factors if self.covariance_type == "tied" else factors[j])
            densities[:, j] = logs[j] - 0.5 * np.einsum("ij,ij->i", scaled, scaled)
        return densities - 0.5 * rows.shape[1] * np.log(2.0 * np.pi)

    def log_determinants(self) -> FloatArray:
        """−½·ln |Σ| of every component."""
        (k, d), factors = self.means.shape, self.precisions_cholesky
        if self.covariance_type == "spherical":
            return np.log(factors) * d
        if self.covariance_type == "diag":
            return np.array([np.log(each).sum() for each in factors])
        each = factors[None] if self.covariance_type == "tied" else factors
        return np.broadcast_to([np.log(np.diag(one)).sum() for one in each], k)

    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows from one component."""
        mean, kind = self.means[component], self.covariance_type
        if kind in _DIAGONAL:
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
        tied = self.covariance_type == "tied"
        # A tied covariance is saved once per component.
        shape = _shapes(*means.shape)["full" if tied else self.covariance_type]
        covariances = np.reshape(state["covariance"], shape)
        self.means = means
        self._set(covariances[0] if tied else covariances)

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


def _shapes(k: int, d: int) -> dict[str, tuple[int, ...]]:
    """Shapes of covariances and precisions by their type."""
    return {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}


def _inverse_factor(covariance: FloatArray) -> FloatArray:
    """The upper triangular U with UUᵀ = Σ⁻¹."""
    lower = cholesky(covariance, lower=True)
    return np.asarray(solve_triangular(lower, np.eye(len(lower)), lower=True).T)


def _upper_factor(precision: FloatArray) -> FloatArray:
    """The upper triangular U with UUᵀ = P: the lower one of P with rows and columns reversed."""
    return np.asarray(cholesky(precision[::-1, ::-1], lower=True)[::-1, ::-1])


def _is_positive_definite(matrix: FloatArray) -> bool:
    """Whether a matrix is symmetric, and can be factored."""
    try:
        _upper_factor(matrix)
    except np.linalg.LinAlgError:
        return False
    return bool(np.abs(matrix - matrix.T).max() <= _ROUNDING * np.abs(matrix).max())


def _inverse_of_square(factor: FloatArray) -> FloatArray:
    """(UUᵀ)⁻¹ of an upper triangular U."""
    inverse = solve_triangular(factor, np.eye(len(factor)))
    return np.asarray(inverse.T @ inverse)


def _squares(offsets: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(weights @ offsets**2)


def _scatter(offsets: FloatArray, weights: FloatArray) -> FloatArray:
    return (weights * offsets.T) @ offsets
