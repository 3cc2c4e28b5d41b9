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

from sklearn.exceptions import ConvergenceWarning

from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.evaluation.k_selection_result import KRow, RunnerUp, Verdict
from lwcs.runtime.warnings import warn
from lwcs.solvers.em import log_likelihoods, prepared
from lwcs.statistics.referee import Mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.arrays.types import FloatArray
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


def mixture_rows(draws: SplitDraws, models: Mapping[int, CoresetMixture]) -> tuple[KRow, ...]:
    """The BIC of every mixture by the held-out draws."""
    held_out = draws.held_out
    # The number of rows of the data, whatever the unit of their weights.
    n = max(held_out.n_samples - held_out.details.get("dropped", 0), 1)
    likelihoods, rows = [], []
    for k, model in models.items():
        mixture = model.mixture_
        points = prepared(held_out.host_points, mixture.family)
        values = log_likelihoods(mixture.family, mixture.weights, points)
        mean = Mean.on_draws(held_out.host_weights, held_out.counts, values)
        bic = -2.0 * n * mean.value + model.n_parameters() * log(n)
        likelihoods.append(values)
        rows.append(KRow(k, log_likelihood=draws.mean(mean), bic=bic))
    least = likelihoods[rows.index(min(rows, key=_bic))]

    def noise(values: FloatArray) -> float:
        """Standard error of the difference of BIC to the least one."""
        if draws.exact:
            return 0.0
        gap = Mean.on_draws(held_out.host_weights, held_out.counts, values - least)
        return 2.0 * n * sqrt(gap.variance)

    pairs = zip(rows, likelihoods, strict=True)
    return tuple(replace(row, bic_noise=noise(values)) for row, values in pairs)


def judge_mixtures(rows: Sequence[KRow]) -> Verdict:
    """Recommend the least BIC, or the fewest components whose BIC is within noise of it."""
    best = min(rows, key=_bic)
    near = [row for row in rows if _excess(row, best) <= _noise(row)]
    chosen = near[0]
    if chosen is best:
        reason = f"k = {chosen.k}: it has the least BIC, {best.bic:,.6g}"
        if len(rows) > 1:
            reason += f", of {rows[0].k} to {rows[-1].k} components"
    else:
        reason = (
            f"k = {chosen.k}: the fewest components whose BIC, {chosen.bic:,.6g}, is within "
            f"noise of the least one, {best.bic:,.6g} for k = {best.k}"
        )
    if chosen.k == 1:
        reason = f"no structure: {reason}"
    if len(rows) > 1 and chosen is rows[-1]:
        reason += "; it is the largest k that was tried, so there may be more"
    runners_up = sorted((row for row in near if row is not chosen), key=_bic)[:_RUNNERS_UP]
    whys = [f"its BIC is {_excess(row, chosen):+.3g}, within noise" for row in runners_up]
    others = (RunnerUp(row.k, why) for row, why in zip(runners_up, whys, strict=True))
    return Verdict(chosen.k, reason, tuple(others))


def _bic(row: KRow) -> float:
    assert row.bic is not None
    return row.bic


def _excess(row: KRow, best: KRow) -> float:
    return _bic(row) - _bic(best) if row is not best else 0.0


def _noise(row: KRow) -> float:
    return max(_NO_EVIDENCE, _CHANCE * (row.bic_noise or 0.0))
