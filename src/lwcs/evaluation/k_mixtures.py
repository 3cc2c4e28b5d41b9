"""How many components a mixture has: BIC for every k, by draws that were not fitted.

On m draws of n rows, the log-likelihood of the draws that were fitted is too high by about half the
number of parameters times n/m, which the penalty of BIC, half of it times ln n, does not make up
for. Draws that were not fitted know no such bias. They are few, but the same for every k: what
matters is the difference between two mixtures, whose noise is small.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.evaluation.k_choice import RunnerUp
from lwcs.evaluation.k_rows import KRow
from lwcs.evaluation.k_verdict import Verdict
from lwcs.runtime.warnings import warn
from lwcs.solvers.em import log_likelihoods, prepared
from lwcs.statistics.referee import Mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.evaluation.k_selection import Drawn
    from lwcs.runtime.journal import Journal

# Differences of BIC of fewer standard errors may be chance; of less than this, they are no evidence
# even if all rows are known (Kass and Raftery 1995: 6 to 10 is strong).
_CHANCE, _NO_EVIDENCE = 2.0, 6.0
_RUNNERS_UP = 3


@dataclass(frozen=True, slots=True)
class Mixtures:
    """The fitted models, and what is known of each."""

    models: dict[int, CoresetMixture]
    rows: tuple[KRow, ...]


def fit_mixtures(
    drawn: Drawn, ks: Sequence[int], parameters: dict[str, Any], journal: Journal
) -> Mixtures:
    """Fit a mixture for every k, and judge it by the other draws."""
    models, found = {}, []
    with (
        journal.stage("EM", len(ks), note=f"{ks[0]} to {ks[-1]} components") as stage,
        warnings.catch_warnings(),
    ):
        # That some did not converge is said once, for all of them.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for k in ks:
            models[k] = CoresetMixture(k, **parameters).fit(drawn.solved)
            found.append(_likelihoods(drawn, models[k]))
            stage.step()
    late = [str(k) for k in ks if not models[k].converged_]
    if late:
        warn(
            f"EM did not converge for k={', '.join(late)}, whose BIC may be too large; pass fewer "
            "of them",
            ConvergenceWarning,
        )
    return Mixtures(models, _rows(drawn, models, found))


def _likelihoods(drawn: Drawn, model: CoresetMixture) -> FloatArray:
    """The log-likelihood of every row that judges."""
    mixture = model.mixture_
    rows = prepared(drawn.judges.host_points, mixture.family)
    return log_likelihoods(mixture.family, mixture.weights, rows)


def _rows(
    drawn: Drawn, models: dict[int, CoresetMixture], found: list[FloatArray]
) -> tuple[KRow, ...]:
    own, n = drawn.judges, _n_rows(drawn.judges)
    rows = []
    for (k, model), values in zip(models.items(), found, strict=True):
        mean = Mean.on_draws(own.host_weights, own.counts, values)
        bic = -2.0 * n * mean.value + model.n_parameters() * log(n)
        rows.append(KRow(k, log_likelihood=drawn.mean(mean), bic=bic))
    least = rows.index(min(rows, key=_bic))

    def noise(values: FloatArray) -> float:
        if drawn.exact:
            return 0.0
        difference = Mean.on_draws(own.host_weights, own.counts, values - found[least])
        return 2.0 * n * sqrt(difference.variance)

    return tuple(
        replace(row, bic_noise=noise(values)) for row, values in zip(rows, found, strict=True)
    )


def _n_rows(coreset: Coreset) -> int:
    """How many rows the data has, whatever the unit of their weights is."""
    dropped = coreset.details.get("dropped", 0)
    return max(coreset.n_samples - dropped, 1)


def judge_mixtures(rows: Sequence[KRow]) -> Verdict:
    """The least BIC, or the fewest components that are no worse beyond noise."""
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
    others = [row for row in near if row is not chosen]
    return Verdict(
        chosen.k,
        reason,
        tuple(
            RunnerUp(row.k, f"its BIC is {_excess(row, chosen):+.3g}, within noise")
            for row in sorted(others, key=_bic)[:_RUNNERS_UP]
        ),
    )


def _bic(row: KRow) -> float:
    assert row.bic is not None
    return row.bic


def _excess(row: KRow, best: KRow) -> float:
    return _bic(row) - _bic(best) if row is not best else 0.0


def _noise(row: KRow) -> float:
    return max(_NO_EVIDENCE, _CHANCE * (row.bic_noise or 0.0))
