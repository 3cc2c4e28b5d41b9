"""Expectation–maximization for mixtures on weighted rows; the log-likelihood never decreases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray
from lwcs.arrays.rows import container
from lwcs.runtime.journal import Journal
from lwcs.solvers.device_em import (
    FAR,
    SMALLEST_PART,
    Even,
    Expected,
    Known,
    Labelled,
    Shared,
    Weighted,
    answers,
    check_domain,
)

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, Labels, Rows
    from lwcs.solvers.families import Family


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
    """Rows in float64, checked against what the family accepts.

    Rows on a device stay there as they are, if the family can be computed there.
    """
    if isinstance(points, DeviceArray):
        if family.on_device:
            check_domain(points, family, first_row)
            return points
        points = np.asarray(points)
    if container(points) == "sparse" and not family.sparse:
        raise TypeError(
            f"family={family.name!r} does not accept sparse rows; pass dense rows, X.toarray()"
        )
    family.divergence.check(points, first_row)
    return points.astype(np.float64, copy=False)


def log_joint(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln π_j + ln p(row | j), of shape (n_rows, n_components)."""
    if isinstance(rows, DeviceArray):
        return np.asarray(answers(family, weights, rows, "joint").found[0])
    # Where a square overflows, the density is 0.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.asarray(family.log_density(rows) + np.log(weights))


def log_likelihoods(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln p(row) of every row."""
    if isinstance(rows, DeviceArray):
        return np.asarray(answers(family, weights, rows, "log-likelihood").found[0])
    return np.asarray(logsumexp(log_joint(family, weights, rows), axis=1))


def responsibilities(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """p(j | row), of shape (n_rows, n_components)."""
    if isinstance(rows, DeviceArray):
        return np.asarray(answers(family, weights, rows, "responsibilities").found[0])
    joint = log_joint(family, weights, rows)
    found: FloatArray = np.exp(joint - logsumexp(joint, axis=1)[:, None])
    return found


def expected(family: Family, weights: FloatArray, rows: Rows) -> FloatArray | Shared:
    """Responsibilities for `maximize`, which stay where the rows are."""
    if isinstance(rows, DeviceArray):
        return Expected(family, weights, rows)
    return responsibilities(family, weights, rows)


def belonging(labels: Labels | DeviceArray, k: int, rows: Rows) -> FloatArray | Shared:
    """Responsibilities for `maximize` of rows that belong to one of k components each."""
    return Labelled.of(labels, k, rows) if isinstance(rows, DeviceArray) else np.eye(k)[labels]


def evenly(k: int, rows: Rows) -> FloatArray | Shared:
    """Responsibilities for `maximize` of rows that belong to all of k components alike."""
    if isinstance(rows, DeviceArray):
        return Even(k, rows.tensor)
    return np.full((rows.shape[0], k), 1.0 / k)


def likeliest(family: Family, rows: Rows) -> Labels | DeviceArray:
    """The component with the largest density, of every row, where the rows are."""
    if isinstance(rows, DeviceArray):
        return answers(family, np.ones(len(family.means)), rows, "labels").found[0]
    return np.argmax(family.log_density(rows), axis=1)


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
    there = isinstance(rows, DeviceArray)
    step = _on_device(rows, weights).step if there else partial(_step, rows, weights)
    bounds: list[float] = []
    converged = False
    with (journal or Journal()).stage("EM") as stage:
        for _ in range(max_iter):
            bound, mixing = step(family, mixing)
            bounds.append(bound)
            stage.step()
            if len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < tol:
                converged = True
                break
    return Mixture(family, mixing, bounds[-1], tuple(bounds), len(bounds), converged)


def _step(
    rows: Rows, weights: FloatArray, family: Family, mixing: FloatArray
) -> tuple[float, FloatArray]:
    """One iteration: the mean log-likelihood before it, and the mixing weights after it."""
    own, joint = _of_mean_one(weights), log_joint(family, mixing, rows)
    log_likelihood = logsumexp(joint, axis=1)
    lost = np.flatnonzero(~np.isfinite(log_likelihood))
    if len(lost):
        raise BadValueError(0, int(lost[0]), None, np.inf, FAR)
    mixing = maximize(rows, weights, family, np.exp(joint - log_likelihood[:, None]))
    return float(own @ log_likelihood / own.sum()), mixing


def maximize(
    rows: Rows, weights: FloatArray, family: Family, shared: FloatArray | Shared
) -> FloatArray:
    """The M step: fit the family to the responsibilities `shared`; return the mixing weights."""
    if isinstance(rows, DeviceArray):
        return _on_device(rows, weights).maximize(family, _there(shared, rows))
    owned = _owned(weights, shared)
    family.fit(rows, owned)
    return _mixing(owned)


def mixing_weights(
    rows: Rows, weights: FloatArray, family: Family, shared: FloatArray | Shared
) -> FloatArray:
    """The part of the M step that leaves the components as they are: their weights."""
    if isinstance(rows, DeviceArray):
        return _on_device(rows, weights).mixing(family, _there(shared, rows))
    return _mixing(_owned(weights, shared))


def _on_device(rows: DeviceArray, weights: FloatArray) -> Weighted:
    return Weighted(rows, _of_mean_one(weights))


def _there(shared: Any, rows: DeviceArray) -> Shared:
    """Responsibilities as a device wants them."""
    return Known(shared, rows.tensor) if isinstance(shared, np.ndarray) else shared


def _owned(weights: FloatArray, shared: Any) -> FloatArray:
    """The weight of every row in every component; every component has some."""
    weights = _of_mean_one(weights)
    owned = weights[:, None] * shared
    empty = owned.sum(axis=0) <= SMALLEST_PART * weights.sum()
    if empty.any():
        owned[:, empty] = SMALLEST_PART * weights[:, None]
    return owned


def _mixing(owned: FloatArray) -> FloatArray:
    totals = owned.sum(axis=0)
    return np.asarray(totals / totals.sum())


def _of_mean_one(weights: FloatArray) -> FloatArray:
    """Constants of a family must not depend on the scale of the weights."""
    return np.asarray(weights * (len(weights) / weights.sum()))
