"""The steps of EM for rows of the host, by the methods of the families: the oracle of `device_em`.

The two have the same functions, and `em` takes those for the rows that it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from lwcs.arrays.checks import BadValueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import FloatArray, Labels, Rows
    from lwcs.solvers.families import Family

SMALLEST_PART = 1e-12
"""A component with less than this part of the weight gets it of every row, and stays finite."""
FAR = (
    "is so far from every component that its likelihood is 0; pass other means_init or "
    "precisions_init, or scale the data down, for example to unit variance"
)


def evaluate(family: Family, mixing: FloatArray, rows: Rows, what: str) -> FloatArray:
    """Compute one of `_EVALUATIONS` for every row."""
    # Where a square overflows, the density is 0.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        joint = np.asarray(family.log_density(rows) + np.log(mixing))
    return np.asarray(_EVALUATIONS[what](joint))


_EVALUATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "joint": lambda joint: joint,
    "labels": lambda joint: joint.argmax(axis=1),
    "log-likelihood": lambda joint: logsumexp(joint, axis=1),
    "responsibilities": lambda joint: np.exp(joint - logsumexp(joint, axis=1)[:, None]),
}


def expected(family: Family, mixing: FloatArray, rows: Rows) -> FloatArray:
    """Responsibilities for `Steps.maximize`."""
    return evaluate(family, mixing, rows, "responsibilities")


def labelled(labels: Labels, k: int, rows: Rows) -> FloatArray:
    """Responsibilities of rows that belong to one component each."""
    del rows
    return np.eye(k)[labels]


def even(k: int, rows: Rows) -> FloatArray:
    """Responsibilities of rows that belong to all components alike."""
    return np.full((rows.shape[0], k), 1.0 / k)


def start_rows(family: Family, rows: Rows) -> Rows:
    """The rows that starting clusters are computed from, in float64."""
    return family.start_rows(rows)


def weighted_sum(points: Rows, weights: FloatArray) -> FloatArray:
    """The weighted sum of rows, on the host."""
    return np.asarray(weights @ points)


class HostSteps:
    """Rows of the host, and their weights, which have the mean one."""

    def __init__(self, rows: Rows, weights: FloatArray) -> None:
        self._rows, self._weights = rows, weights

    def step(self, family: Family, mixing: FloatArray) -> tuple[float, FloatArray]:
        """One iteration: the mean log-likelihood before it, and the mixing weights after it."""
        joint = evaluate(family, mixing, self._rows, "joint")
        log_likelihood = logsumexp(joint, axis=1)
        lost = np.flatnonzero(~np.isfinite(log_likelihood))
        if len(lost):
            raise BadValueError(0, int(lost[0]), None, np.inf, FAR)
        mixing = self.maximize(family, np.exp(joint - log_likelihood[:, None]))
        return float(self._weights @ log_likelihood / self._weights.sum()), mixing

    def maximize(self, family: Family, shared: FloatArray) -> FloatArray:
        """The M step: fit the family; return the mixing weights."""
        owned = self._owned(shared)
        family.fit(self._rows, owned)
        return _mixing(owned)

    def mixing(self, family: Family, shared: FloatArray) -> FloatArray:
        """The mixing weights alone, with the components as they are."""
        del family
        return _mixing(self._owned(shared))

    def _owned(self, shared: FloatArray) -> FloatArray:
        """The weight of every row in every component; no component is left without any."""
        owned = self._weights[:, None] * shared
        empty = owned.sum(axis=0) <= SMALLEST_PART * self._weights.sum()
        if empty.any():
            owned[:, empty] = SMALLEST_PART * self._weights[:, None]
        return owned


def _mixing(owned: FloatArray) -> FloatArray:
    totals = owned.sum(axis=0)
    return np.asarray(totals / totals.sum())


Steps = HostSteps
