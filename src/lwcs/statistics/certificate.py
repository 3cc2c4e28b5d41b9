"""Certificate: what centers cost on all rows, with an interval, by draws independent of them.

With h independent draws, y = h·w·d(x, Q) is unbiased for the cost of Q, and so is their mean. Two
intervals say how far it may be off. Let e be its standard error, δ = 1 − confidence, M the largest
y of the draws and R the largest y that any row can have (`extremes`). By the central limit theorem
(CLT),

    from mean − z·e − M/h to mean + z·e + ln(1/δ)·R/h.

The last term is for rows that were not drawn, of which the draws say nothing: but for a probability
of δ, a draw is one of them with a probability below ln(1/δ)/h ("the rule of three"), so that they
add less than ln(1/δ)·R/h. A few rows midway between tight clusters do come near that, where
standard errors alone cover 32 %. No draws can tell whether there are such rows, so that no valid
interval is narrower than this term for all data. The interval is called "clt" where this term is at
most z·e, and "rare" where rare rows are the larger part of it. The term below is for one such row
that was drawn by luck. Where R/h is more than half of the mean, neither is given
(docs/results/coverage.md).

By the empirical Bernstein inequality (Maurer and Pontil 2009), which holds for any rows and any h,
and for draws by different laws, the mean is off by at most

    e·√(2·ln(4/δ)) + 7R·ln(4/δ)/(3(h − 1)).
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import inf, isfinite, log, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from lwcs.runtime.formatting import plain_percent
from lwcs.statistics.referee import deviations

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.statistics.referee import Mean, Price

Kind = Literal["exact", "clt", "rare", "bernstein", "none"]

# Intervals with standard errors are given where no row could add more than this part of the
# estimate.
MOST_BY_ONE_ROW = 0.5
# The part of the variance of a log-likelihood that a single draw may have. With more, it is in ten
# draws or fewer, and not well known.
MOST_BY_ONE_DRAW = 0.1
_NOT_COVERED = (
    "Rows that were not drawn are not covered: a row may have any log-likelihood, and a few far "
    "from all components may change the total by more."
)


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """An interval, how it was made, and why there is none, or none by the CLT alone."""

    low: float
    high: float
    kind: Kind
    reason: str = ""

    @classmethod
    def unknown(cls, reason: str, low: float = 0.0) -> ConfidenceInterval:
        """No interval, for a reason."""
        return cls(low, inf, "none", reason)


def cost_interval(
    price: Price, draws: int, largest_seen: float, largest: float, confidence: float
) -> ConfidenceInterval:
    """Interval of a cost: by the CLT with an allowance for rare rows, or by Bernstein's inequality.

    `largest_seen` is M, the largest value of a draw, and `largest` R, the largest of any row.
    """
    cost, error = price.cost, sqrt(price.variance)
    if draws < 2 or largest == 0.0 or largest / draws > MOST_BY_ONE_ROW * cost:
        return bernstein_interval(price, draws, largest, confidence)
    half, rare = deviations(1.0 - confidence) * error, -log(1.0 - confidence) * (largest / draws)
    low, high = cost * (1.0 - half) - largest_seen / draws, cost * (1.0 + half) + rare
    if rare <= half * cost:
        return ConfidenceInterval(max(low, 0.0), high, "clt")
    part = plain_percent(rare / cost)
    reason = (
        f"the upper end has {part} of the estimate for rare rows that were not drawn, such as a "
        "few between clusters, of which draws say nothing; a larger size would help"
    )
    return ConfidenceInterval(max(low, 0.0), high, "rare", reason)


def largest_drawn(weights: FloatArray, counts: IntArray, distances: FloatArray) -> float:
    """M, the largest value h·w·d of a draw."""
    return float((weights * distances / counts).max() * counts.sum())


def bernstein_interval(
    price: Price, draws: int, largest: float, confidence: float
) -> ConfidenceInterval:
    """Interval of a cost by the empirical Bernstein inequality."""
    if largest == 0.0:
        return ConfidenceInterval(price.cost, price.cost, "bernstein")
    if draws < 2:
        return ConfidenceInterval.unknown("one draw alone has no interval; pass a larger size")
    logarithm = log(4.0 / (1.0 - confidence))
    half = price.cost * sqrt(2.0 * logarithm * price.variance)
    half += 7.0 / 3.0 * logarithm * (largest / (draws - 1))
    times = largest / draws / price.cost if price.cost else inf
    reason = (
        "the central limit theorem is not valid here, since a row that was not drawn could add "
        + (f"{times:.3g} times the estimate" if times < 1e6 else "any multiple of the estimate")
        + "; a larger size would help"
    )
    if not isfinite(price.cost + half):
        return ConfidenceInterval.unknown(
            "the interval is beyond the range of numbers; scale the data down"
        )
    return ConfidenceInterval(max(price.cost - half, 0.0), price.cost + half, "bernstein", reason)


def log_likelihood_interval(mean: Mean, share: float, confidence: float) -> ConfidenceInterval:
    """Interval of a mean log-likelihood per row by the CLT, where the variance is well known.

    `share` is the largest part of the variance that a draw has (`largest_share`).
    """
    error = sqrt(mean.variance) if mean.variance >= 0.0 else inf
    if not isfinite(mean.value + error):
        return ConfidenceInterval.unknown(
            "the log-likelihoods of some rows are beyond the range of numbers; scale the data "
            "down", -inf,
        )  # fmt: skip
    if share > MOST_BY_ONE_DRAW:
        return ConfidenceInterval.unknown(
            f"a single draw has {100 * share:.0f} % of the variance of the log-likelihood, so that "
            "the central limit theorem is not valid, and no other bound is known; pass a larger "
            "size", -inf,
        )  # fmt: skip
    half = deviations(1.0 - confidence) * error
    return ConfidenceInterval(mean.value - half, mean.value + half, "clt")


def largest_share(weights: FloatArray, counts: IntArray, values: FloatArray) -> float:
    """The largest part of the variance of a weighted mean that a single draw has."""
    middle = weights @ values / weights.sum()
    # Scaled, so that no square is beyond the range of numbers.
    errors = np.abs(weights * (values - middle)) / counts
    largest = float(errors.max())
    if not largest > 0.0:
        return 0.0
    return float(1.0 / (counts @ (errors / largest) ** 2))


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """What centers or a mixture cost on all rows, with an interval: the result of `lwcs.certify`.

    Attributes
    ----------
    estimate : float
        Cost of the centers on all rows, Σω·d(x, nearest center); for a mixture, the total
        log-likelihood.
    low, high : float
        Interval that has the true value with probability `confidence`.
    confidence : float
        As asked for.
    kind : {"exact", "clt", "rare", "bernstein", "none"}
        "exact" if all rows were used; "clt" for the central limit theorem, with an allowance for
        rows that were not drawn (but none for a mixture, as a row may have any log-likelihood: rare
        rows far from all components may be missed); "rare" for the same where that allowance is the
        larger part of the interval; "bernstein" for the empirical Bernstein inequality, where that
        theorem is not valid; "none" if no interval is known: `low` is then 0 (or −∞) and `high` ∞.
    bernstein : tuple of float
        Interval by the empirical Bernstein inequality, which holds for any rows: wider than the one
        by the central limit theorem. (0, ∞) if no bound on the cost of a row is known.
    reason : str
        Why there is no interval, or none by the central limit theorem alone; else empty.
    biased : bool
        Whether the centers were fitted on these draws, so that the estimate is biased low.
    quantity : {"cost", "log-likelihood"}
        What is estimated.
    n_clusters : int
        Number of centers or components.
    n_draws, n_samples : int
        Number of draws that the estimate is from, and of rows that it is for, without those that
        were dropped for a missing value.
    total_weight : float
        Total weight of these rows.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (500, 2)) for center in (0.0, 10.0, 20.0)])
    >>> model = lwcs.CoresetKMeans(3, coreset_size=100, random_state=0).fit(X)
    >>> certificate = lwcs.certify(X, model, random_state=0)
    >>> print(certificate)
    3 centers cost ... on all 1,500 rows (... per row); all rows were measured.
    >>> certificate.kind
    'exact'
    """

    estimate: float
    low: float
    high: float
    confidence: float
    kind: Kind
    bernstein: tuple[float, float]
    reason: str
    biased: bool
    quantity: Literal["cost", "log-likelihood"]
    n_clusters: int
    n_draws: int
    n_samples: int
    total_weight: float

    @property
    def per_row(self) -> float:
        """The estimate per row, or per unit of weight."""
        return self.estimate / self.total_weight

    def __repr__(self) -> str:
        interval = f"{self.low:.6g} to {self.high:.6g}, {self.kind}"
        return f"Certificate({self.quantity} {self.estimate:.6g}, {interval})"

    def __str__(self) -> str:
        """The certificate in plain words."""
        return " ".join(self._sentences())

    def _sentences(self) -> list[str]:
        costs = self.quantity == "cost"
        what = (
            f"{self.n_clusters:,} center{'s' * (self.n_clusters != 1)} cost"
            f"{'s' * (self.n_clusters == 1)}" if costs
            else f"A mixture of {self.n_clusters:,} has the log-likelihood"
        )  # fmt: skip
        unit = "row" if self.total_weight == self.n_samples else "unit of weight"
        rows = "the only row" if self.n_samples == 1 else f"all {self.n_samples:,} rows"
        on = f"on {rows} ({self.per_row:.5g} per {unit})"
        if self.kind == "exact":
            return [f"{what} {self.estimate:.6g} {on}; all rows were measured."]
        interval = ""
        if self.kind != "none":
            by = "central limit theorem"
            if self.kind == "rare":
                by += ", and rare rows"
            if self.kind == "bernstein":
                by = "empirical Bernstein, for any data"
            elif isfinite(self.bernstein[1]):
                low, high = self.bernstein
                by += f"; for any data {low:.6g} to {high:.6g}, empirical Bernstein"
            sure = plain_percent(self.confidence, 6)
            interval = f", {sure} interval {self.low:.6g} to {self.high:.6g} ({by})"
        draws = f"{self.n_draws:,} draw{'s' * (self.n_draws != 1)}"
        found = f"{what} about {self.estimate:.6g} {on}{interval}, by {draws}."
        if self.biased:
            return [found, f"This is biased low: {self.reason}."]
        if self.kind == "none":
            return [found, f"No interval can be given: {self.reason}."]
        if not costs:
            return [found, _NOT_COVERED]
        if self.reason:
            return [found, f"{self.reason[0].upper()}{self.reason[1:]}."]
        return [found]

    def _repr_html_(self) -> str:
        """The certificate in a notebook."""
        first, *rest = self._sentences()
        more = "".join(f"<br><small>{escape(each)}</small>" for each in rest)
        return f"<p><b>{escape(first)}</b>{more}</p>"
