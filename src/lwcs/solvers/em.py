"""Expectation–maximization (EM) for mixtures on weighted rows.

Rows of the host are computed with by `host_em`, rows on a device by `device_em`, if the family is
one of those that have device code. The log-likelihood never decreases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.device import DeviceArray
from lwcs.arrays.rows import container
from lwcs.runtime.journal import Journal
from lwcs.solvers import device_em, host_em

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from lwcs.arrays.types import FloatArray, Rows
    from lwcs.solvers.device_em import Shared
    from lwcs.solvers.families import Family


@dataclass(frozen=True, slots=True)
class Mixture:
    """A fitted mixture: components, their weights, and how EM ended."""

    family: Family
    weights: FloatArray
    lower_bound: float
    """Weighted mean log-likelihood per row, before the last M step."""
    bounds: tuple[float, ...]
    """`lower_bound` for each iteration; the first is that of the starting mixture."""
    n_iter: int
    converged: bool


def prepared(points: Rows, family: Family, first_row: int = 0) -> Rows:
    """Rows in float64, refused if they are not in the domain of the family.

    Rows on a device stay there as they are, if the family has device code.
    """
    if isinstance(points, DeviceArray):
        if family.on_device:
            device_em.check_domain(points, family, first_row)
            return points
        points = np.asarray(points)
    if container(points) == "sparse" and not family.sparse:
        raise TypeError(
            f"family={family.name!r} does not accept sparse rows; pass dense rows, X.toarray()"
        )
    family.divergence.check(points, first_row)
    return points.astype(np.float64, copy=False)


def loops(rows: Rows) -> ModuleType:
    """The functions for these rows: rows on a device have device code (`prepared`)."""
    return device_em if isinstance(rows, DeviceArray) else host_em


def log_joint(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln π_j + ln p(row | j), of shape (n_rows, n_components)."""
    return np.asarray(loops(rows).evaluate(family, weights, rows, "joint"))


def log_likelihoods(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln p(row) of every row."""
    return np.asarray(loops(rows).evaluate(family, weights, rows, "log-likelihood"))


def responsibilities(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """p(j | row), of shape (n_rows, n_components)."""
    return np.asarray(loops(rows).evaluate(family, weights, rows, "responsibilities"))


def fit_mixture(
    rows: Rows,
    weights: FloatArray,
    family: Family,
    mixing: FloatArray,
    *,
    max_iter: int,
    tol: float,
    journal: Journal | None = None,
    bounds: Sequence[float] = (),
) -> Mixture:
    """Run EM from the components of `family` with the weights `mixing`.

    It has converged once an iteration raises the mean log-likelihood by less than `tol`. `bounds`
    are the log-likelihoods of iterations before, the last of which counts as one of these.
    """
    step = _steps(rows, weights).step
    known, own = list(bounds), list(bounds[-1:])
    with (journal or Journal()).stage("EM") as stage:
        while not (converged := _has_converged(known, tol)) and len(own) < max_iter:
            bound, mixing = step(family, mixing)
            known.append(bound)
            own.append(bound)
            stage.step()
    return Mixture(family, mixing, own[-1], tuple(own), len(own), converged)


def _has_converged(bounds: list[float], tol: float) -> bool:
    return len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < tol


def mean_log_likelihood(
    family: Family, mixing: FloatArray, rows: Rows, weights: FloatArray
) -> float:
    """Weighted mean log-likelihood per row."""
    weights = _of_mean_one(weights)
    return float(weights @ log_likelihoods(family, mixing, rows) / weights.sum())


def maximize(
    rows: Rows, weights: FloatArray, family: Family, shared: FloatArray | Shared
) -> FloatArray:
    """The M step: fit the family to the responsibilities `shared`; return the mixing weights."""
    return _steps(rows, weights).maximize(family, shared)


def mixing_weights(
    rows: Rows, weights: FloatArray, family: Family, shared: FloatArray | Shared
) -> FloatArray:
    """The part of the M step that leaves the components as they are: the mixing weights."""
    return _steps(rows, weights).mixing(family, shared)


def _steps(rows: Rows, weights: FloatArray) -> Any:
    return loops(rows).Steps(rows, _of_mean_one(weights))


def _of_mean_one(weights: FloatArray) -> FloatArray:
    """Weights with the mean one: constants of a family must not depend on their scale."""
    return np.asarray(weights * (len(weights) / weights.sum()))
