"""FittedOn: the record of the rows that a model was fitted on, for comparison with other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from math import inf, isclose, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.sources import LocalSource
from lwcs.statistics.referee import Mean
from lwcs.storage.fields import finite_or_none

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.sources import Source
    from lwcs.storage.fields import Fields

FITTED_ON = "fitted_on"
_DIGEST_BYTES = 16
# Relative rounding error of a sum of ones.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SampleSize:
    """Effective number of rows: of equally weighted rows that are as good a sample."""

    n: float
    known: bool = True
    """False if the rows have weights that are not in memory: `n` then counts all rows."""

    @classmethod
    def behind(cls, coreset: Coreset, source: Source | None = None) -> SampleSize:
        """The effective number of rows behind a coreset; `source` has the rows, if available."""
        weights = source.weights if isinstance(source, LocalSource) else None
        if coreset.exact:
            weights = coreset.host_weights
        if weights is not None:
            return cls(kish(np.asarray(weights)))
        n = float(coreset.n_samples)
        weighted = source is not None and source.weighted
        return cls(n, known=cls(n).counted_by(coreset.total_weight) and not weighted)

    def counted_by(self, total_weight: float) -> bool:
        """Whether a total weight is the number of rows: rows then have no weights of their own."""
        return isclose(total_weight, self.n, rel_tol=_ROUNDING)


def kish(weights: FloatArray, counts: IntArray | int = 1) -> float:
    """Number of equally weighted draws with the same variance, by Kish: (Σw)²/Σw²."""
    own = weights / weights.max()
    return float(own.sum() ** 2 / ((own / counts) @ own))


@dataclass(frozen=True, slots=True, eq=False)
class FittedOn:
    """The rows that a model was fitted on: how many, which draws of them, and how it fits them.

    The cost of a row is its distance d from the nearest center, or minus its log-likelihood.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (500, 2)) for center in (0.0, 10.0, 20.0)])
    >>> fitted_on = lwcs.CoresetKMeans(3, random_state=0).fit(X).fitted_on_
    >>> fitted_on.n_samples, fitted_on.shares.round(2).tolist()
    (1500, [0.33, 0.33, 0.33])
    """

    n_samples: int
    rows: SampleSize
    """Effective number of rows, as a sample of a population."""
    total_weight: float
    seed: int | None
    """Seed of the draws, if they have one."""
    draws: str
    """Digest of the coreset."""
    cost: Mean
    """Mean cost per row, without the bias of a fit on a sample as far as that is known."""
    spread: float
    """Variance of the cost of one row; not finite where that is beyond the range of numbers."""
    shares: FloatArray
    """Share of each cluster in the total weight."""
    share_variances: FloatArray
    """Variances of the shares as estimates for these rows; 0 if all rows were counted."""
    n_draws: float = inf
    """Number of equally weighted draws that the shares are from; ∞ if all rows were counted."""
    data: str = ""
    """Digest of the data, which distinguishes draws of other data with the same seed."""
    cost_shares: FloatArray | None = None
    """Share of each cluster in the cost of all rows; None for a mixture."""

    @classmethod
    def of(
        cls, coreset: Coreset, cost: Mean, costs: FloatArray, memberships: FloatArray | IntArray,
        k: int, source: Source | None = None,
    ) -> FittedOn:  # fmt: skip
        """Describe a fit by the cost of every row of its coreset, and by labels or probabilities.

        `memberships` are labels, or the probability of every cluster for every row. `source`
        has the rows that were drawn from, if available.
        """
        weights, counts = coreset.host_weights, coreset.counts
        # Squares of costs may overflow; `spread` is then not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            spread = Mean.on_draws(weights, counts, (costs - cost.value) ** 2).value
        shares, variances = shares_on_draws(weights, counts, memberships, k)
        return cls(
            coreset.n_samples,
            SampleSize.behind(coreset, source),
            coreset.total_weight,
            coreset.seed,
            digest(coreset),
            cost,
            spread,
            shares,
            np.zeros(k) if coreset.exact else variances,
            inf if coreset.exact else kish(weights, counts),
            digest_of_data(coreset),
            cost_shares(weights, costs, memberships, k),
        )

    def counted(self, weights: FloatArray, costs: FloatArray | None) -> FittedOn:
        """A record with exact shares, by the weight of every cluster and its cost on all rows."""
        shares, none = _parts(weights), np.zeros(len(weights))
        found = replace(self, shares=shares, share_variances=none, n_draws=inf)
        return found if costs is None else replace(found, cost_shares=_parts(costs))

    def saved(self) -> dict[str, Any]:
        """The record as metadata of a file."""
        return {
            "n_samples": self.n_samples,
            "n_effective": self.rows.n,
            "weights_known": self.rows.known,
            "total_weight": self.total_weight,
            "seed": self.seed,
            "draws": self.draws,
            "cost": self.cost.value,
            "cost_variance": finite_or_none(self.cost.variance),
            "spread": finite_or_none(self.spread),
            "shares": self.shares.tolist(),
            "share_variances": self.share_variances.tolist(),
            "n_draws": finite_or_none(self.n_draws),
            "data": self.data,
            "cost_shares": None if self.cost_shares is None else self.cost_shares.tolist(),
        }

    @classmethod
    def read(cls, fields: Fields, k: int) -> FittedOn:
        """Read the record off the metadata of a model with k clusters or components."""
        own = fields.inner(FITTED_ON)
        shares, variances = (own.vector(name, k) for name in ("shares", "share_variances"))
        if shares is None or variances is None:
            raise own.fail("shares" if shares is None else "share_variances", f"{k} numbers")
        return cls(
            own.integer("n_samples", least=1),
            SampleSize(own.number("n_effective", above=0.0), own.boolean("weights_known")),
            own.number("total_weight", above=0.0),
            None if own.null("seed") else own.seed("seed"),
            own.text("draws"),
            Mean(own.number("cost"), _variance(own, "cost_variance")),
            _variance(own, "spread"),
            shares,
            variances,
            inf if own.null("n_draws") else own.number("n_draws", above=0.0),
            own.text("data"),
            own.vector("cost_shares", k),
        )


def _variance(fields: Fields, name: str) -> float:
    return nan if fields.null(name) else fields.number(name, least=0.0)


def digest(coreset: Coreset) -> str:
    """A digest of the draws of a coreset: which rows, how often, with which weights."""
    own = blake2b(digest_size=_DIGEST_BYTES)
    for values in (coreset.indices, coreset.counts, coreset.host_weights):
        own.update(values.tobytes())
    return own.hexdigest()


def digest_of_data(coreset: Coreset) -> str:
    """A digest of the data behind a coreset, from its mean; empty if that is not known."""
    if coreset.mean is None:
        return ""
    # The last digits of a mean depend on how the rows were read.
    text = ",".join(f"{value:.9e}" for value in coreset.mean)
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def cost_shares(
    weights: FloatArray, costs: FloatArray, memberships: FloatArray | IntArray, k: int
) -> FloatArray | None:
    """Shares of k clusters in the cost of all rows; None for the components of a mixture."""
    if memberships.ndim == 2:
        return None
    # Divided by the largest first, so that the sum does not overflow.
    sums = np.bincount(memberships, weights * (costs / (costs.max() or 1.0)), minlength=k)
    return _parts(sums.astype(np.float64, copy=False))


def _parts(values: FloatArray) -> FloatArray:
    """Each value as a part of their sum, without overflow."""
    own = values / (values.max() or 1.0)
    parts: FloatArray = own / (own.sum() or 1.0)
    return parts


def shares_on_draws(
    weights: FloatArray, counts: IntArray, memberships: FloatArray | IntArray, k: int
) -> tuple[FloatArray, FloatArray]:
    """Shares of k clusters in the weight of all rows, and their variances.

    As for `Mean.on_draws`: to first order, the error of a share p is the mean of m·w·(r − p)/Σw
    over the draws, where r is the membership of a row.
    """
    m, own = int(counts.sum()), _parts(weights)
    squares = own * (own / counts)
    if memberships.ndim == 1:
        shares = np.bincount(memberships, own, minlength=k).astype(np.float64, copy=False)
        inside = np.bincount(memberships, squares, minlength=k)
        # By rounding, this may be negative for a cluster that has all rows.
        outside = np.maximum(squares.sum() - inside, 0.0)
        variances = inside * (1.0 - shares) ** 2 + outside * shares**2
    else:
        shares = own @ memberships
        variances = squares @ (memberships - shares) ** 2
    return shares, variances * (m / max(m - 1, 1))
