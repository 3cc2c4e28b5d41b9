"""Expectation–maximization for mixtures on weighted rows; the log-likelihood never decreases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.device import copied
from lwcs.foundation.journal import Journal
from lwcs.foundation.rows import container

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.solvers.families import Family

# A component with less than this part of the weight gets this part of every row: it stays finite.
_SMALLEST_PART = 1e-12
_FAR = (
    "is so far from every component that its likelihood is 0; pass other means_init or "
    "precisions_init, or scale the data down, for example to unit variance"
)


@dataclass(frozen=True, slots=True)
class Mixture:
    """A fitted mixture: components, their weights, and how EM ended."""

    family: Family
    weights: FloatArray
    lower_bound: float
    """Weighted mean log-likelihood per row, before the last M step."""
    bounds: tuple[float, ...]
    """The same for each iteration; the first one is that of the mixture at the start."""
    n_iter: int
    converged: bool


def prepared(points: Rows, family: Family, first_row: int = 0) -> Rows:
    """Rows in float64, on the host, checked against what the family accepts."""
    points = copied(points)
    if container(points) == "sparse" and not family.sparse:
        raise TypeError(
            f"family={family.name!r} does not accept sparse rows; pass dense rows, X.toarray()"
        )
    family.divergence.check(points, first_row)
    return points.astype(np.float64, copy=False)


def log_joint(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln π_j + ln p(row | j), of shape (n_rows, n_components)."""
    # Where a square overflows, the density is 0.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.asarray(family.log_density(rows) + np.log(weights))


def log_likelihoods(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln p(row) of every row."""
    return np.asarray(logsumexp(log_joint(family, weights, rows), axis=1))


def responsibilities(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """p(j | row), of shape (n_rows, n_components)."""
    joint = log_joint(family, weights, rows)
    found: FloatArray = np.exp(joint - logsumexp(joint, axis=1)[:, None])
    return found


def fit_mixture(
    rows: Rows,
    weights: FloatArray,
    family: Family,
    mixing: FloatArray,
    *,
    max_iter: int,
    tol: float,
    journal: Journal | None = None,
) -> Mixture:
    """Run EM from the components of `family` with the weights `mixing`.

    It has converged once the mean log-likelihood gains less than `tol` in one iteration.
    """
    own = _of_mean_one(weights)
    bounds: list[float] = []
    converged = False
    with (journal or Journal()).stage("EM") as stage:
        for _ in range(max_iter):
            joint = log_joint(family, mixing, rows)
            log_likelihood = logsumexp(joint, axis=1)
            lost = np.flatnonzero(~np.isfinite(log_likelihood))
            if len(lost):
                raise BadValueError(0, int(lost[0]), None, np.inf, _FAR)
            mixing = maximize(rows, weights, family, np.exp(joint - log_likelihood[:, None]))
            bounds.append(float(own @ log_likelihood / own.sum()))
            stage.step()
            if len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < tol:
                converged = True
                break
    return Mixture(family, mixing, bounds[-1], tuple(bounds), len(bounds), converged)


def maximize(rows: Rows, weights: FloatArray, family: Family, shared: FloatArray) -> FloatArray:
    """The M step: fit the family to the responsibilities `shared`; return the mixing weights."""
    owned = _owned(weights, shared)
    family.fit(rows, owned)
    return _mixing(owned)


def mixing_weights(weights: FloatArray, shared: FloatArray) -> FloatArray:
    """The part of the M step that leaves the components as they are: their weights."""
    return _mixing(_owned(weights, shared))


def _owned(weights: FloatArray, shared: FloatArray) -> FloatArray:
    """The weight of every row in every component; every component has some."""
    weights = _of_mean_one(weights)
    owned = weights[:, None] * shared
    empty = owned.sum(axis=0) <= _SMALLEST_PART * weights.sum()
    if empty.any():
        owned[:, empty] = _SMALLEST_PART * weights[:, None]
    return owned


def _mixing(owned: FloatArray) -> FloatArray:
    totals = owned.sum(axis=0)
    return np.asarray(totals / totals.sum())


def _of_mean_one(weights: FloatArray) -> FloatArray:
    """Constants of a family must not depend on the scale of the weights."""
    return np.asarray(weights * (len(weights) / weights.sum()))
