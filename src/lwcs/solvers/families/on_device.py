"""Log-densities and fits of the built-in families for rows on a device; their own are the oracle.

Rows are float64 tensors, a piece at a time. Parameters of the components are NumPy arrays before
and after, and go to the device once for all pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.foundation.device import on_device
from lwcs.solvers.families.base import means_of_sums
from lwcs.solvers.families.gaussian import Gaussian
from lwcs.solvers.families.natural import NaturalFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lwcs.foundation.types import FloatArray
    from lwcs.solvers.families.base import Family

# Values of one temporary; there are two at a time, of 128 MB each.
_PIECE_VALUES = 2**24


def piece_rows(family: Family, k: int, n_features: int) -> int:
    """Number of rows that are computed with at a time, for k components."""
    per_row = k + n_features if isinstance(family, NaturalFamily) else k * n_features
    return max(1, _PIECE_VALUES // per_row)


def density(family: Family, like: Any) -> Callable[[Any], Any]:
    """ln p(row | component) as a function of rows on the device of `like`, as `log_density`."""
    if isinstance(family, NaturalFamily):
        return _natural_density(family, like)
    assert isinstance(family, Gaussian)
    return _gaussian_density(family, like)


class Sums(NamedTuple):
    """What the first sweep over the rows finds, on the host."""

    totals: FloatArray
    """The weight of every component."""
    statistics: list[FloatArray]
    """Weighted sums of the statistics; of the rows themselves for Gaussian."""


def sums(family: Family, parts: Iterable[tuple[Any, Any]]) -> Sums:
    """Add up rows with the weights of every component, both piece by piece."""
    found: list[Any] = []
    for rows, weights in parts:
        own = family.statistics(rows) if isinstance(family, NaturalFamily) else (rows,)
        each = [weights.sum(0), *(weights.T @ values for values in own)]
        found = [a + b for a, b in zip(found, each, strict=True)] if found else each
    totals, *statistics = (np.asarray(each.cpu().numpy()) for each in found)
    return Sums(totals, statistics)


def fit(family: Family, known: Sums, parts: Iterable[tuple[Any, Any]]) -> None:
    """Fit the components to sums; Gaussian ones in a second sweep over the same pieces."""
    weights = known.totals[None, :]
    if isinstance(family, NaturalFamily):
        family.fit_sums(known.statistics, weights)
        return
    assert isinstance(family, Gaussian)
    family.means = means_of_sums(known.statistics[0], weights)
    family.fit_spreads(_spreads(family, parts), known.totals)


def _natural_density(family: NaturalFamily, like: Any) -> Callable[[Any], Any]:
    parameters, offsets = (family.natural()[0], on_device(family.natural()[1], like))
    slopes = [on_device(each, like).T for each in parameters]

    def found(rows: Any) -> Any:
        total = offsets
        for values, slope in zip(family.statistics(rows), slopes, strict=True):
            total = total + values @ slope
        base = family.base(rows)
        return total if base is None else total + base[:, None]

    return found


def _gaussian_density(family: Gaussian, like: Any) -> Callable[[Any], Any]:
    means, factors = (on_device(x, like) for x in (family.means, family.precisions_cholesky))
    half = 0.5 * family.means.shape[1] * np.log(2.0 * np.pi)
    logs = on_device(family.log_determinants() - half, like)
    if family.diagonal:
        factors = factors.reshape(len(means), 1, -1)

    def found(rows: Any) -> Any:
        scaled = rows - means[:, None]
        scaled = scaled.mul_(factors) if family.diagonal else scaled @ factors
        return (logs[:, None] - 0.5 * scaled.square_().sum(-1)).T

    return found


def _spreads(family: Gaussian, parts: Iterable[tuple[Any, Any]]) -> FloatArray:
    """Σw·(x − m)², or Σw·(x − m)(x − m)ᵀ, of every component."""
    found: Any = 0.0
    for rows, weights in parts:
        apart = rows - on_device(family.means, rows)[:, None]
        own = weights.T.contiguous()
        if family.diagonal:
            found = found + (own[:, None, :] @ apart.square_())[:, 0]
        else:
            found = found + (apart * own[:, :, None]).mT @ apart
    return np.asarray(found.cpu().numpy())
