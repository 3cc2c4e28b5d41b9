"""Tests of drift: by how much two samples of rows differ, and how much of that is chance.

The mean cost per row of two samples of one population differs by chance, with variance spread/n of
each, and the share of a cluster with variance p(1 − p)/n. Where only draws of the rows are known,
the variance of the draws is added.

Besides, centers cost less on the rows that they were fitted on than on others of the population. By
how much is estimated on the new rows: centers that were fitted on one part of them cost more on
another part, and that gap is in proportion to 1/n. It is scaled down to more rows, and never up to
fewer, which would multiply its noise: then several fits, of as few rows, tell the gap. The same
difference for the old centers, which are independent of both parts, is subtracted: its expectation
is 0, and it has most of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from lwcs.statistics.record import kish, shares_on_draws
from lwcs.statistics.referee import Mean, deviations

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.statistics.record import FittedOn

# Shares that differ by no more are equal, to rounding.
_ROUNDING = 1e-12
# Squares of smaller numbers underflow, or lose digits.
_SMALLEST_SQUARED = 1e-150
# The gap on half of the rows may be less than twice that on all rows, by up to this factor, since
# both samples may have several optima.
_MARGIN = 1.25
# Centers that were fitted on draws of heavy tails cost up to 10 % more on all rows than their draws
# suggest (KDD, k = 50), four standard errors: standard errors are multiplied by this.
_DOUBT = 2.0
# Fits of one population that found different optima mostly differ by less.
_LARGE_REGRET = 0.5
# Clusters follow the rows that they were fitted on: shares elsewhere differ by a little more.
_FOLLOWING = 1.05


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that was estimated, and the interval that holds it with a given confidence."""

    value: float
    low: float
    high: float
    standard_error: float

    @classmethod
    def of(cls, mean: Mean, confidence: float, *, least: float = -inf) -> Estimate:
        """The normal interval of a mean of numbers that are at least `least`."""
        error = sqrt(mean.variance)
        reach = deviations(1.0 - confidence) * error if error else 0.0
        return cls(mean.value, max(mean.value - reach, least), mean.value + reach, error)


@dataclass(frozen=True, slots=True)
class Sample:
    """Weighted rows that stand for a population, `counts` draws each."""

    weights: FloatArray
    counts: IntArray
    n_rows: float = inf
    """Number of rows that were drawn from, if these are a sample themselves; ∞ if they are all of
    the population, or if these rows have not been drawn."""

    @property
    def n_effective(self) -> float:
        """Number of equally weighted draws with the same variance."""
        return kish(self.weights, self.counts)

    def n_for_centers(
        self, values: FloatArray, memberships: FloatArray | IntArray, k: int
    ) -> float:
        """The effective number of draws for the cost of centers, by the costs `values` of rows.

        A center of a cluster of weight W has the variance Σw²·d/W², which costs W times that.
        """
        labels = memberships if memberships.ndim == 1 else memberships.argmax(axis=1)
        unit = float(values.max(initial=0.0)) or 1.0
        costs, squares = self.weights * (values / unit), self.weights / self.counts
        masses, sums, errors = (
            np.bincount(labels, each, minlength=k)
            for each in (self.weights, costs, squares * costs)
        )
        filled = masses > 0.0
        lost = float((errors[filled] / masses[filled]).sum())
        gained = float((sums[filled] / masses[filled]).sum())
        return self.n_effective if lost == 0.0 else float(self.weights.sum()) * gained / lost

    def mean(self, values: FloatArray) -> Mean:
        """The mean of a value of every row, as an estimate for the population."""
        unit = float(np.abs(values).max(initial=0.0))
        if not 0.0 < unit < inf:
            return Mean(0.0 if unit == 0.0 else nan)
        # Divided by the largest, so that squares stay in the range of numbers.
        own = values / unit
        found = Mean.on_draws(self.weights, self.counts, own)
        spread = float(self.weights @ (own - found.value) ** 2 / self.weights.sum())
        return scaled(Mean(found.value, found.variance + spread / self.n_rows), unit)

    def with_spread(self, now: Mean, spread: float) -> Mean:
        """A mean cost with at least the variance that as many rows of the given spread have.

        The new rows may have none of the few rows of a heavy tail or of a rare cluster, and then
        vary much less than the population does.
        """
        usual = spread / (self.n_effective if self.n_rows == inf else self.n_rows)
        return Mean(now.value, max(now.variance, usual))

    def degrees(self, values: FloatArray) -> float:
        """Degrees of freedom of the variance of that mean: 2·(Σe²)²/Σe⁴, e its errors by row.

        Few, where the variance comes from a few rows, as with heavy tails.
        """
        unit = float(np.abs(values).max(initial=0.0)) or 1.0
        own = values / unit
        away = np.abs(own - float(self.weights @ own) / float(self.weights.sum()))
        # By the draws, and by the rows that they were drawn from.
        of_draws = (self.weights / self.counts * away) ** 2
        found = [_degrees(of_draws, self.counts)]
        if self.n_rows < inf:
            found.append(_degrees(away**2, self.weights * (self.n_rows / self.weights.sum())))
        return min(found)

    def of_rows_alone(self) -> Sample:
        """These draws as a sample of the rows that they were drawn from, not of a population."""
        return replace(self, n_rows=inf)

    def shares(self, memberships: FloatArray | IntArray, k: int) -> Shares:
        """Shares of k clusters, by labels or by the probability of every cluster."""
        values, variances = shares_on_draws(self.weights, self.counts, memberships, k)
        return Shares(values, variances, self.n_rows, self.n_effective)


def _degrees(squares: FloatArray, times: FloatArray | IntArray) -> float:
    total = float(times @ squares)
    return inf if total == 0.0 else 2.0 * total / float(times @ (squares * (squares / total)))


def scaled(mean: Mean, unit: float) -> Mean:
    """A mean in other units."""
    return Mean(mean.value * unit, mean.variance * unit * unit)


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of clusters, the variance of each by the draws, and the rows that were drawn from."""

    values: FloatArray
    variances: FloatArray
    n_rows: float
    n_draws: float = inf
    """Number of equally weighted draws; ∞ if all rows were used."""

    @property
    def noise(self) -> FloatArray:
        """The variance of each share as an estimate for the population."""
        return np.asarray(self.variances + self.values * (1.0 - self.values) / self.n_rows)

    @property
    def rate(self) -> float:
        """The variance of a share p of the population as a multiple of p(1 − p).

        From numbers of rows alone: an observed share of 0 by chance would seem to have no noise.
        """
        return 1.0 / self.n_draws + 1.0 / self.n_rows


@dataclass(frozen=True, slots=True)
class ShareShift:
    """The share of a cluster then and now, and whether more than chance has changed it."""

    cluster: int
    then: float | None
    now: float
    difference: float | None
    standard_error: float | None
    """Standard error of the difference."""
    changed: bool


def share_shifts(then: Shares | None, now: Shares, level: float) -> tuple[ShareShift, ...]:
    """Compare the shares of all clusters; `level` is the probability of any false alarm.

    A share of few draws is known badly, and so is its variance. The variance is therefore the
    larger of two: each sample by its own share, and both by the share that they have in common.
    """
    if then is None:
        return tuple(
            ShareShift(j, None, float(p), None, None, False) for j, p in enumerate(now.values)
        )
    rate = then.rate + now.rate
    common = (then.values * now.rate + now.values * then.rate) / rate
    pooled = common * (1.0 - common) * rate
    errors = _FOLLOWING * np.sqrt(np.maximum(then.noise + now.noise, pooled))
    differences = now.values - then.values
    reach = deviations(level / len(errors)) * errors + _ROUNDING
    changed = np.abs(differences) > reach
    rows = zip(then.values, now.values, differences, errors, changed, strict=True)
    return tuple(
        ShareShift(j, float(before), float(after), float(moved), float(error), bool(beyond))
        for j, (before, after, moved, error, beyond) in enumerate(rows)
    )


@dataclass(frozen=True, slots=True)
class CostShift:
    """The difference of the costs per row, and whether it is more than chance."""

    difference: float
    allowance: float
    """The part that is due to fitting: centers cost least on their own rows."""
    standard_error: float
    """Standard error of `difference − allowance`."""
    changed: bool
    reach: float
    """How many standard errors chance explains."""

    def intervals(
        self, then: Mean, now: Mean, optimism: Mean, *, least: float
    ) -> tuple[Estimate, Estimate]:
        """The costs per row then and now, with intervals such that disjoint ones are a change.

        That of the cost then has what the centers cost more on other rows than on their own.
        """
        before, after = sqrt(then.variance + optimism.variance), sqrt(now.variance)
        around, reach = _times(self.reach, before), _times(self.reach, after)
        low, high = then.value - around, then.value + self.allowance + around
        return (
            Estimate(then.value, max(low, least), high, before),
            Estimate(now.value, max(now.value - reach, least), now.value + reach, after),
        )


def _times(reach: float, error: float) -> float:
    return reach * error if error else 0.0


def recorded_cost(record: FittedOn) -> Mean | None:
    """The cost per row then, as an estimate for the population; None beyond the range of numbers.

    The population is what both samples of rows come from, if nothing has changed.
    """
    cost = record.cost
    lost = 0.0 < abs(cost.value) < _SMALLEST_SQUARED
    if lost or not isfinite(cost.variance) or not isfinite(record.spread):
        return None
    return Mean(cost.value, record.spread / record.rows.n + _DOUBT**2 * cost.variance)


def cost_shift(
    then: Mean, now: Mean, optimism: Mean, level: float, *, bound: float = 0.0,
    degrees: float = inf,
) -> CostShift:  # fmt: skip
    """Compare costs per row; `level` is the probability of a false alarm.

    `optimism` is what centers cost more elsewhere than on their own rows, and `bound` how far the
    cost then may be too low because it was measured on the draws that the centers were fitted on.
    They explain a part of a higher cost, and nothing of a lower one. `degrees` are those of the
    cost now.
    """
    unit = max(abs(then.value), abs(now.value), sqrt(now.variance)) or 1.0
    allowance = max(optimism.value, 0.0) + bound
    difference = now.value - then.value
    variance = sum(each.variance / unit / unit for each in (then, now, optimism))
    error = unit * sqrt(variance)
    beyond, reach = max(difference - allowance, -difference), deviations(level, degrees)
    changed = beyond > _times(reach, error) + _ROUNDING * unit
    return CostShift(difference, allowance, error, changed, reach)


def optimism(
    own: Sample, other: Sample, old: tuple[FloatArray, FloatArray],
    fresh: tuple[FloatArray, FloatArray], part: float, unit: float = inf,
) -> Mean:  # fmt: skip
    """The difference in cost per row between other rows and those that centers were fitted on.

    `fresh` are the costs of one or more fits: of every row of `own` for the fit on its part, and of
    all rows of the independent sample `other`, one row per fit. `old` are those of centers that are
    independent of both. `part` is the size of a part relative to the number of rows that the old
    centers were fitted on. The difference is in proportion to the cost inside, so that new rows
    that cost more do not explain themselves: `unit` is the cost of the old centers on their own
    rows, ∞ for log-likelihoods, of which differences count.
    """
    elsewhere = np.atleast_2d(fresh[1])
    level = own.mean(fresh[0]).value
    ratio = unit / level if 0.0 <= unit < level else 1.0
    inside = own.of_rows_alone().mean(fresh[0] - old[0])
    outside = other.of_rows_alone().mean(elsewhere.mean(axis=0) - old[1])
    between = _variance_between([other.mean(each) for each in elsewhere])
    gap = Mean(outside.value - inside.value, outside.variance + inside.variance + between)
    return scaled(gap, _MARGIN * part * ratio)


def _variance_between(fits: list[Mean]) -> float:
    """The variance of what another fit costs, around the mean of these; 0 for a single one."""
    if len(fits) < 2:
        return 0.0
    values = np.array([each.value for each in fits])
    unit = float(np.abs(values).max()) or 1.0
    return float((values / unit).var(ddof=1) * (1.0 + 1.0 / len(values)) * unit * unit)


def is_large_regret(regret: Mean, usual: list[Mean], level: float) -> bool:
    """Whether a regret is larger than chance, a better optimum and the rows then explain.

    `usual` are the regrets of fits on no more new rows than the old model was fitted on.
    """
    if regret.value == inf:
        return all(each.value < inf for each in usual)
    expected = max(sum(each.value for each in usual) / len(usual), 0.0)
    error = sqrt(regret.variance + _variance_between(usual))
    reach = deviations(level, len(usual) - 1.0 if len(usual) > 1 else inf)
    return regret.value > expected + _LARGE_REGRET + _times(reach, error)


def relative_regret(sample: Sample, old: FloatArray, fresh: FloatArray) -> Mean:
    """The excess of the cost of the old centers over that of fresh ones, relative to the latter.

    Both are measured on the same rows. To first order, the error of the ratio R of the two costs is
    the mean of (old − R·fresh), over the mean of fresh.
    """
    unit = float(max(old.max(initial=0.0), fresh.max(initial=0.0))) or 1.0
    old, fresh = old / unit, fresh / unit
    total, base = float(sample.weights @ old), float(sample.weights @ fresh)
    if base == 0.0:
        return Mean(0.0 if total == 0.0 else inf)
    ratio = total / base
    average = base / float(sample.weights.sum())
    return Mean(ratio - 1.0, sample.mean((old - ratio * fresh) / average).variance)


def regret_in_nats(sample: Sample, old: FloatArray, fresh: FloatArray) -> Mean:
    """The difference of the log-likelihoods per row of a fresh mixture and the old one."""
    return sample.mean(old - fresh)
