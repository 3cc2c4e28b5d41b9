"""Mixtures for every number of components: BIC by draws that were not fitted, and the verdict.

On m draws of n rows, the log-likelihood of the draws that were fitted is too high by about half the
number of parameters times n/m, which the penalty of BIC, half of it times ln n, does not make up
for. Held-out draws have no such bias. They are few, but the same for every k: what matters is the
difference between two mixtures, whose noise is small.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.evaluation.k_selection_result import KRow, Outcome, RunnerUp, Verdict
from lwcs.evaluation.k_selection_verdict import redrawn, shares_of, with_shares
from lwcs.runtime.randomness import Stage, generator
from lwcs.runtime.warnings import warn
from lwcs.solvers.em import log_likelihoods, prepared
from lwcs.statistics.referee import Mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.evaluation.k_selection import SplitDraws
    from lwcs.runtime.journal import Journal

# Differences of BIC of fewer standard errors may be chance; of less than this, they are no evidence
# even if all rows are known (Kass and Raftery 1995: 6 to 10 is strong).
_CHANCE, _NO_EVIDENCE = 2.0, 6.0
_RUNNERS_UP = 3


def fit_mixtures(
    draws: SplitDraws, ks: Sequence[int], journal: Journal, **parameters: Any
) -> dict[int, CoresetMixture]:
    """Fit a mixture for every k."""
    models = {}
    with (
        journal.stage("EM", len(ks), note=f"{ks[0]} to {ks[-1]} components") as stage,
        warnings.catch_warnings(),
    ):
        # One warning names all fits that did not converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for k in ks:
            models[k] = CoresetMixture(k, **parameters).fit(draws.solved)
            stage.step()
    late = [str(k) for k in ks if not models[k].converged_]
    if late:
        warn(
            f"EM did not converge for k={', '.join(late)}, whose BIC may be too large; pass fewer "
            "of them",
            ConvergenceWarning,
        )
    return models


def mixture_rows(
    draws: SplitDraws, models: Mapping[int, CoresetMixture], seed: int
) -> tuple[tuple[KRow, ...], IntArray]:
    """The BIC of every mixture by the held-out draws, and the k that each resample chooses."""
    held_out = draws.held_out
    # The number of rows of the data, whatever the unit of their weights.
    n = held_out.n_samples
    likelihoods, averages, rows = [], [], []
    for k, model in models.items():
        mixture = model.mixture_
        points = prepared(held_out.host_points, mixture.family)
        values = log_likelihoods(mixture.family, mixture.weights, points)
        mean = Mean.on_draws(held_out.host_weights, held_out.counts, values)
        bic = -2.0 * n * mean.value + model.n_parameters() * log(n)
        likelihoods.append(values)
        averages.append(mean)
        rows.append(KRow(k, log_likelihood=draws.mean(mean), bic=bic))
    least = likelihoods[rows.index(min(rows, key=_bic))]

    def noise(values: FloatArray) -> float:
        """Standard error of the difference of BIC to the least one."""
        if draws.exact:
            return 0.0
        gap = Mean.on_draws(held_out.host_weights, held_out.counts, values - least)
        return 2.0 * n * sqrt(gap.variance)

    pairs = zip(rows, likelihoods, strict=True)
    known = tuple(replace(row, bic_noise=noise(values)) for row, values in pairs)
    again = redrawn(held_out.size, held_out.counts, generator(seed, Stage.CHOICE))
    weights = again * (held_out.host_weights / held_out.counts)
    # Differences to the mean, since likelihoods may be large.
    apart = np.array(likelihoods) - np.array([[mean.value] for mean in averages])
    moved = -2.0 * n * (weights @ apart.T) / weights.sum(axis=1)[:, None]
    bics = np.array([_bic(row) for row in known]) + moved
    chosen = [
        _choice([replace(row, bic=float(bic)) for row, bic in zip(known, each, strict=True)])
        for each in bics
    ]
    return known, np.array([row.k for row in chosen])


def judge_mixtures(rows: Sequence[KRow], chosen: IntArray) -> Verdict:
    """Recommend the number of components that most resamples choose, by the k that each chose."""
    shares = shares_of(chosen)
    k, best = next(iter(shares)), min(rows, key=_bic)
    row = next(each for each in rows if each.k == k)
    if row is best:
        reason = f"k = {k}: it has the least BIC, {best.bic:,.6g}"
        if len(rows) > 1:
            reason += f", of {rows[0].k} to {rows[-1].k} components"
    elif row is _choice(rows):
        reason = (
            f"k = {k}: the fewest components whose BIC, {row.bic:,.6g}, is within "
            f"noise of the least one, {best.bic:,.6g} for k = {best.k}"
        )
    else:
        reason = (
            f"k = {k}: most resamples choose it; its BIC is {row.bic:,.6g}, and the least one "
            f"{best.bic:,.6g} for k = {best.k}"
        )
    if k == 1:
        reason = f"no structure: {reason}"
    if len(rows) > 1 and row is rows[-1]:
        reason += "; it is the largest k that was tried, so there may be more"
    near = [each for each in rows if _is_near(each, best)]
    runners_up = sorted((each for each in near if each is not row), key=_bic)[:_RUNNERS_UP]
    whys = [f"its BIC is {_bic(each) - _bic(row):+.3g}, within noise" for each in runners_up]
    others = (RunnerUp(each.k, why) for each, why in zip(runners_up, whys, strict=True))
    complete = with_shares(rows, shares, [_why_not(each, row, best) for each in rows])
    outcome: Outcome = "no structure" if k == 1 else "structure"
    return Verdict(k, reason, tuple(others), outcome, shares, complete)


def _why_not(row: KRow, chosen: KRow, best: KRow) -> str | None:
    """Why a k is not recommended, in words that are the same for the same reason."""
    if row is chosen:
        return None
    if not _is_near(row, best):
        return f"its BIC is above that of k = {best.k} by more than noise"
    if row.k > chosen.k:
        return f"its BIC is within noise of the least one, and k = {chosen.k} has fewer components"
    return f"fewer resamples choose it than k = {chosen.k}"


def _choice(rows: Sequence[KRow]) -> KRow:
    """The fewest components whose BIC is within noise of the least one."""
    best = min(rows, key=_bic)
    return next(row for row in rows if _is_near(row, best))


def _bic(row: KRow) -> float:
    assert row.bic is not None
    return row.bic


def _is_near(row: KRow, best: KRow) -> bool:
    noise = max(_NO_EVIDENCE, _CHANCE * (row.bic_noise or 0.0))
    return row is best or _bic(row) - _bic(best) <= noise
