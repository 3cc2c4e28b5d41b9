"""Expectation–maximization (EM) for mixtures on weighted rows.

Rows of the host are computed with by the methods of the family; rows on a device by `device_em`, if
the family is one of those that have device code. The log-likelihood never decreases.
"""

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
from lwcs.solvers import device_em
from lwcs.solvers.device_em import FAR, SMALLEST_PART, Shared, WeightedRows

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def log_joint(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln π_j + ln p(row | j), of shape (n_rows, n_components)."""
    if isinstance(rows, DeviceArray):
        return np.asarray(device_em.evaluate(family, weights, rows, "joint")[0])
    # Where a square overflows, the density is 0.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.asarray(family.log_density(rows) + np.log(weights))


def log_likelihoods(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """ln p(row) of every row."""
    if isinstance(rows, DeviceArray):
        return np.asarray(device_em.evaluate(family, weights, rows, "log-likelihood")[0])
    return np.asarray(logsumexp(log_joint(family, weights, rows), axis=1))


def responsibilities(family: Family, weights: FloatArray, rows: Rows) -> FloatArray:
    """p(j | row), of shape (n_rows, n_components)."""
    if isinstance(rows, DeviceArray):
        return np.asarray(device_em.evaluate(family, weights, rows, "responsibilities")[0])
    joint = log_joint(family, weights, rows)
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1)[:, None]))


def expected(family: Family, weights: FloatArray, rows: Rows) -> FloatArray | Shared:
    """Responsibilities for `maximize`; those of rows on a device stay there."""
    if isinstance(rows, DeviceArray):
        return device_em.EStep(family, weights, rows).shared
    return responsibilities(family, weights, rows)


def belonging(labels: Labels | DeviceArray, k: int, rows: Rows) -> FloatArray | Shared:
    """Responsibilities for `maximize` of rows that belong to one of k components each."""
    if isinstance(rows, DeviceArray):
        return device_em.labelled(labels, k, rows.tensor)
    return np.eye(k)[labels]


def evenly(k: int, rows: Rows) -> FloatArray | Shared:
    """Responsibilities for `maximize` of rows that belong to all of k components alike."""
    if isinstance(rows, DeviceArray):
        return device_em.even(k, rows.tensor)
    return np.full((rows.shape[0], k), 1.0 / k)


def likeliest(family: Family, rows: Rows) -> Labels | DeviceArray:
    """The component with the largest density for every row; on the device of the rows."""
    if isinstance(rows, DeviceArray):
        return device_em.evaluate(family, np.ones(len(family.means)), rows, "labels")[0]
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
    bounds: Sequence[float] = (),
) -> Mixture:
    """Run EM from the components of `family` with the weights `mixing`.

    It has converged once an iteration raises the mean log-likelihood by less than `tol`. `bounds`
    are the log-likelihoods of iterations before, the last of which counts as one of these.
    """
    if isinstance(rows, DeviceArray):
        step = _on_device(rows, weights).step
    else:
        step = partial(_step, rows, weights)
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


def _step(
    rows: Rows, weights: FloatArray, family: Family, mixing: FloatArray
) -> tuple[float, FloatArray]:
    """One iteration: the mean log-likelihood before it, and the mixing weights after it."""
    joint = log_joint(family, mixing, rows)
    log_likelihood = logsumexp(joint, axis=1)
    lost = np.flatnonzero(~np.isfinite(log_likelihood))
    if len(lost):
        raise BadValueError(0, int(lost[0]), None, np.inf, FAR)
    mixing = maximize(rows, weights, family, np.exp(joint - log_likelihood[:, None]))
    weights = _of_mean_one(weights)
    return float(weights @ log_likelihood / weights.sum()), mixing


def maximize(
    rows: Rows, weights: FloatArray, family: Family, shared: FloatArray | Shared
) -> FloatArray:
    """The M step: fit the family to the responsibilities `shared`; return the mixing weights."""
    if isinstance(rows, DeviceArray):
        return _on_device(rows, weights).maximize(family, _shared(shared, rows))
    owned = _owned(weights, shared)
    family.fit(rows, owned)
    return _mixing(owned)


def mixing_weights(
    rows: Rows, weights: FloatArray, family: Family, shared: FloatArray | Shared
) -> FloatArray:
    """The part of the M step that leaves the components as they are: the mixing weights."""
    if isinstance(rows, DeviceArray):
        return _on_device(rows, weights).mixing(family, _shared(shared, rows))
    return _mixing(_owned(weights, shared))


def _on_device(rows: DeviceArray, weights: FloatArray) -> WeightedRows:
    return WeightedRows(rows, _of_mean_one(weights))


def _shared(shared: Any, rows: DeviceArray) -> Shared:
    """Responsibilities for rows on a device, which may be a NumPy array."""
    return device_em.from_host(shared, rows.tensor) if isinstance(shared, np.ndarray) else shared


def _owned(weights: FloatArray, shared: Any) -> FloatArray:
    """The weight of every row in every component; no component is left without any."""
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
    """Weights with the mean one: constants of a family must not depend on their scale."""
    return np.asarray(weights * (len(weights) / weights.sum()))
