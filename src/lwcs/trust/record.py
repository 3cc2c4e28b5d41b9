"""What a model remembers of the rows that it was fitted on, so that others can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.trust.referee import Mean

if TYPE_CHECKING:
    from lwcs.coreset import Coreset
    from lwcs.foundation.fields import Fields
    from lwcs.foundation.types import FloatArray, IntArray

FITTED_ON = "fitted_on"
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class FittedOn:
    """The rows that a model was fitted on: how many, which draws of them, and how it fits them.

    The cost of a row is its distance d from the nearest center, or minus its log-likelihood.
    """

    n_samples: int
    total_weight: float
    seed: int | None
    """Of the draws, if they have one."""
    draws: str
    """Digest of the coreset."""
    cost: Mean
    """Mean cost per row, without the bias of a fit on a sample as far as that is known."""
    spread: float
    """Variance of the cost of one row; not finite where that is beyond the range of numbers."""
    shares: FloatArray
    """Share of each cluster in the total weight."""
    share_variances: FloatArray
    """Of the shares as estimates for these rows; 0 if all rows were used."""
    rows: str = ""
    """Digest of the data, so that draws of other data with the same seed are told apart."""

    @classmethod
    def of(
        cls, coreset: Coreset, cost: Mean, costs: FloatArray, memberships: FloatArray | IntArray,
        k: int,
    ) -> FittedOn:  # fmt: skip
        """Describe a fit by the cost of every row of its coreset, and by labels or probabilities.

        `memberships` are labels, or the probability of every cluster for every row.
        """
        weights, counts = coreset.weights, coreset.counts
        # At the ends of the range of numbers, squares of costs are not numbers.
        with np.errstate(over="ignore", invalid="ignore"):
            spread = Mean.on_draws(weights, counts, (costs - cost.value) ** 2).value
        shares, variances = shares_on_draws(weights, counts, memberships, k)
        return cls(
            coreset.n_samples,
            coreset.total_weight,
            coreset.seed,
            digest(coreset),
            cost,
            spread,
            shares,
            np.zeros(k) if coreset.exact else variances,
            digest_of_data(coreset),
        )

    def saved(self) -> dict[str, Any]:
        """The record as metadata of a file."""
        return {
            "n_samples": self.n_samples,
            "total_weight": self.total_weight,
            "seed": self.seed,
            "draws": self.draws,
            "cost": self.cost.value,
            "cost_variance": _finite(self.cost.variance),
            "spread": _finite(self.spread),
            "shares": self.shares.tolist(),
            "share_variances": self.share_variances.tolist(),
            "rows": self.rows,
        }

    @classmethod
    def read(cls, fields: Fields, k: int) -> FittedOn | None:
        """Read a record off the metadata of a model; None if the file is an older one."""
        if fields.null(FITTED_ON, missing=True):
            return None
        own = fields.inner(FITTED_ON)
        shares, variances = (own.vector(name, k) for name in ("shares", "share_variances"))
        if shares is None or variances is None:
            raise own.fail("shares" if shares is None else "share_variances", f"{k} numbers")
        return cls(
            own.integer("n_samples", least=1),
            own.number("total_weight", above=0.0),
            None if own.null("seed") else own.seed("seed"),
            own.text("draws"),
            Mean(own.number("cost"), _variance(own, "cost_variance")),
            _variance(own, "spread"),
            shares,
            variances,
            "" if own.null("rows", missing=True) else own.text("rows"),
        )


def _finite(variance: float) -> float | None:
    return variance if isfinite(variance) else None


def _variance(fields: Fields, name: str) -> float:
    return nan if fields.null(name) else fields.number(name, least=0.0)


def digest(coreset: Coreset) -> str:
    """Tell coresets apart by their draws: which rows, how often, with which weights."""
    own = blake2b(digest_size=_DIGEST_BYTES)
    for values in (coreset.indices, coreset.counts, coreset.weights):
        own.update(values.tobytes())
    return own.hexdigest()


def digest_of_data(coreset: Coreset) -> str:
    """Tell data sets apart by their means, whatever was drawn; empty if the mean is not known."""
    if coreset.mean is None:
        return ""
    # The last digits of a mean depend on how the rows were read.
    text = ",".join(f"{value:.9e}" for value in coreset.mean)
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def shares_on_draws(
    weights: FloatArray, counts: IntArray, memberships: FloatArray | IntArray, k: int
) -> tuple[FloatArray, FloatArray]:
    """Shares of k clusters in the weight of all rows, and their variances.

    As for `Mean.on_draws`: to first order, the error of a share p is the mean of m·w·(r − p)/Σw
    over the draws, where r is the membership of a row.
    """
    m, total = int(counts.sum()), float(weights.sum())
    squares = weights * (weights / counts)
    if memberships.ndim == 1:
        shares = np.bincount(memberships, weights, minlength=k) / total
        inside = np.bincount(memberships, squares, minlength=k)
        variances = inside * (1.0 - shares) ** 2 + (squares.sum() - inside) * shares**2
    else:
        shares = weights @ memberships / total
        variances = squares @ (memberships - shares) ** 2
    return shares, variances / total**2 * (m / max(m - 1, 1))
