"""Expectation–maximisation for a mixture on weighted rows; its log-likelihood never falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.solvers.families import Family

# A component with less of the weight than this keeps so much of all rows, and stays finite.
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Mixture:
    """Components, their weights, and how they were reached."""

    family: Any
    weights: FloatArray
    lower_bound: float
    """Weighted mean log-likelihood of a row, before the last step."""
    bounds: tuple[float, ...]
    """The same, round by round."""
    n_iter: int
    converged: bool


def log_joint(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """Ln π_j + ln p(row | j)."""
    with np.errstate(divide="ignore"):
        return np.asarray(family.log_density(rows) + np.log(weights))


def fit_mixture(
    rows: Rows,
    weights: FloatArray,
    family: Family,
    shares: FloatArray,
    *,
    max_iter: int,
    tol: float,
) -> Mixture:
    """Alternate between sharing out rows and fitting components, from given shares of the rows.

    `shares` sum to one in every row. It ends once the mean log-likelihood gains less than `tol`.
    """
    # On average 1, as rows count without weights: no constant of a family depends on their scale.
    weights = weights * (len(weights) / weights.sum())
    mixing = _maximise(rows, weights, family, shares)
    bounds: list[float] = []
    converged = False
    for _ in range(max_iter):
        joint = log_joint(family, mixing, rows)
        evidence = logsumexp(joint, axis=1)
        mixing = _maximise(rows, weights, family, np.exp(joint - evidence[:, None]))
        bounds.append(float(weights @ evidence / weights.sum()))
        if len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < tol:
            converged = True
            break
    return Mixture(family, mixing, bounds[-1], tuple(bounds), len(bounds), converged)


def _maximise(rows: Rows, weights: FloatArray, family: Family, shares: FloatArray) -> FloatArray:
    owned = weights[:, None] * shares
    totals = owned.sum(axis=0)
    dead = totals <= _NOTHING * weights.sum()
    if dead.any():
        owned[:, dead] = _NOTHING * weights[:, None]
        totals = owned.sum(axis=0)
    family.fit(rows, owned)
    return totals / totals.sum()
