"""drift(): whether a model is still good for new rows, by one build and one fit on half of it.

Drift is detected by the cost per row and the shares of clusters, and by the regret only where it is
large: a fresh fit may just find a better optimum. Old centers were fitted to their own rows, and
cost less there than on other rows of the population. By how much is estimated from the gap of a
fresh fit between two halves of the new rows, scaled down to the number of rows of the old fit. If
those were fewer, fresh fits on as few new rows tell it, and how much worse such fits are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_confidence, check_count, check_memory_limit
from lwcs.arrays.device import with_explained_memory
from lwcs.coreset.building import BuildContext
from lwcs.coreset.coreset import ALL_ROWS, Coreset, refuse_sample_weight
from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.estimators.fitted_models import FittedMixture, as_fitted, weighted_rows
from lwcs.estimators.validation import check_features, coreset_of_stream, measured_by, scan_rows
from lwcs.evaluation.drift_result import Drift, cost_words, regret_words, share_words
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, single_threaded_blas
from lwcs.runtime.randomness import Stage, as_seed, generator
from lwcs.samplers import Lightweight
from lwcs.sizing.solution import first_size, summarize
from lwcs.sources import Source, scan
from lwcs.statistics import drift_tests
from lwcs.statistics.record import SampleSize, digest

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.estimators.fitted_models import FittedCenters, RowCosts
    from lwcs.runtime.progress import Callback
    from lwcs.statistics.record import FittedOn
    from lwcs.statistics.referee import Mean

__all__ = ["Drift", "drift"]

# Number of fresh fits on as few rows as the old fit had: they tell how much such fits differ.
_MOST_FITS = 8
_UNKNOWN_WEIGHTS = (
    "the rows that {} count as rows of equal weight, since how much their weights vary is not "
    "known; if that is much, there are too many alarms"
)


@with_explained_memory
def drift(
    model: Any,
    new_data: Any,
    *,
    confidence: float = 0.95,
    size: int | str = "auto",
    sample_weight: Any = None,
    random_state: object = None,
    n_jobs: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool | Callback = False,
) -> Drift:
    """Tell whether a model is still good for new rows.

    Rows are drawn in one build. A fresh model with as many clusters is fitted on half of the draws;
    the other half tells how much more the old model costs (the regret). All draws tell whether the
    cost per row or the share of a cluster has changed by more than chance, compared with what the
    model remembers of its own rows (`fitted_on_`): that is the alarm, `Drift.drifted`.

    Chance is that of the draws and that of the rows: rows of a population that has not changed
    differ from those before. Without any change, the probability of an alarm is at most
    1 − `confidence`, for any numbers of rows then and now. A regret is an alarm if it is at least
    50 % (0.5 nats for mixtures) more than chance and the number of rows then explain; a smaller
    one may come from a better optimum that the fresh fit has found. It comes from a fit on a
    sample, and is a little too small for that.

    Parameters
    ----------
    model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
        Fitted model. A model of scikit-learn has no record of its rows: it has a regret, and no
        alarm.
    new_data : array, sparse array, table, path, Source, Coreset or StreamingCoreset
        New rows: whatever `lwcs.scan` accepts, with the columns that were fitted, which are found
        by name; or a coreset of them that `lwcs.build` has made, or a stream of rows. Rows are
        measured as the model measures them, with its divergence and its scale.
    confidence : float, default=0.95
        Confidence of the intervals, and probability of no alarm where nothing has changed.
    size : int or "auto", default="auto"
        Number of draws; at least twice the number of clusters. "auto" is 800 × n_clusters, and at
        least 40,000. If there are no more rows than that, all of them are used: the fresh model is
        fitted on a random half of the rows.
    sample_weight : array of shape (n_samples,), optional
        A row with weight 3 counts as that row three times. Chance is that of (Σω)²/Σω² rows. Where
        the weights are not in memory (files, a coreset of weighted rows), it is that of as many
        rows as there are, which is too little if weights vary much; a note says so.
    random_state : None, int or NumPy generator, default=None
        Random seed of the draws and of the fresh fit.
    n_jobs : int, optional
        Number of threads; all cores by default.
    memory_limit : int or str, optional
        Maximum memory for rows that are being read; see `lwcs.scan`.
    progress : bool or callable, default=False
        Whether to show progress, or a function that is called with a `lwcs.Progress`.

    Returns
    -------
    Drift

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> day = lambda c: np.vstack([rng.normal(at, 1.0, (5_000, 2)) for at in c])
    >>> model = lwcs.CoresetKMeans(3, random_state=0).fit(day([0, 8, 16]))
    >>> lwcs.drift(model, day([0, 8, 16]), random_state=0).drifted
    False
    >>> found = lwcs.drift(model, day([0, 8, 19]), random_state=0)
    >>> found.drifted, found.regret.low > 0.5
    (True, True)
    """
    fitted = as_fitted(model)
    confidence = check_confidence(confidence)
    draws, seed = _checked_size(size, fitted.k), as_seed(random_state)
    threads, journal = as_threads(n_jobs), Journal(progress)
    record: FittedOn | None = getattr(model, "fitted_on_", None)
    new_data = coreset_of_stream(new_data)
    with single_threaded_blas():
        if isinstance(new_data, Coreset):
            refuse_sample_weight(sample_weight)
            coreset, rows = new_data, SampleSize.behind(new_data)
            _check_coreset(coreset, record, fitted, model)
        else:
            source = scan_rows(model, new_data, sample_weight, reset=False)
            if memory_limit is not None:
                _limit_memory(source, new_data, memory_limit)
            scale = None if isinstance(fitted, FittedMixture) else fitted.geometry.scale
            if not isinstance(new_data, Source) and source.rereadable and scale is not None:
                # Draws by distances as they are measured later have less noise.
                source.scale = "standard"
            coreset = summarize(
                BuildContext.of(source, fitted.divergence), draws, 1, method=Lightweight(),
                seed=seed, n_jobs=threads, journal=journal, stage=Stage.HOLDOUT,
            )  # fmt: skip
            rows = SampleSize.behind(coreset, source)
        new = _NewRows.of(coreset, rows, fitted, seed)
        then, costs = _Reference.of(record, model), fitted.costs(new.whole, threads)
        fits = _Fits(fitted, new, seed, threads, journal)
        return _compare(then, new, fitted, costs, fits, confidence)


def _checked_size(size: Any, k: int) -> int:
    if isinstance(size, str):
        if size != "auto":
            raise ValueError(f"size={size!r} is not allowed; pass 'auto' or an integer")
        return 2 * first_size(k)
    if check_count(size, "size") < 2 * k:
        raise ValueError(
            f"size={size} is too small: each half of the draws has to have {k} clusters; pass "
            f"size >= {2 * k} (about {800 * k} is a good start)"
        )
    return int(size)


def _limit_memory(source: Source, data: Any, memory_limit: int | str) -> None:
    if isinstance(data, Source):
        # This raises the error that the options of a Source are fixed.
        scan(data, memory_limit=memory_limit)
    limit = check_memory_limit(memory_limit)
    assert limit is not None
    source.limit_memory(limit)


def _check_coreset(
    coreset: Coreset, record: FittedOn | None, fitted: FittedCenters | FittedMixture, model: Any
) -> None:
    """Check that a coreset is of other rows than the model's, which the model can measure."""
    if record is not None and record.draws == digest(coreset):
        raise ValueError(
            "the new data is the coreset that the model was fitted on, which says nothing of "
            "new rows; pass those, or a coreset of them"
        )
    if coreset.depth:
        raise ValueError(
            "the new data is a coreset that was not drawn directly from rows (a union, a "
            "stream of coresets, or arrays), so that its draws are not independent; pass the "
            "rows"
        )
    check_features(model, coreset)
    if not isinstance(fitted, FittedMixture):
        measured_by(coreset, fitted.divergence)


@dataclass(frozen=True, slots=True)
class _Reference:
    """The rows that the model was fitted on, as far as known, as a sample of a population."""

    n_rows: float = 0.0
    cost: Mean | None = None
    shares: drift_tests.Shares | None = None
    bound: float = 0.0
    """Bound on the bias of the cost, which was measured on draws that were fitted."""
    spread: float = 0.0
    """Variance of the cost of one row."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: FittedOn | None, model: Any) -> _Reference:
        if record is None:
            return cls(notes=(
                f"this {type(model).__name__} has no record of the rows that it was fitted on, as "
                "models of lwcs have, so that there is nothing to compare with, and no alarm",
            ))  # fmt: skip
        n_rows = record.rows.n
        shares = drift_tests.Shares(record.shares, record.share_variances, n_rows, record.n_draws)
        cost = drift_tests.recorded_cost(record)
        notes = () if record.rows.known else (_UNKNOWN_WEIGHTS.format("the model was fitted on"),)
        # 0 where the cost is that on all rows; not known where the error of the draws is not.
        bound = float(getattr(model, "sampling_error_bound_", nan)) if record.cost.variance else 0.0
        if not bound < inf:
            why = (
                "the cost at fit is known only on the draws that the model was fitted on, where it "
                "is too low by an unknown amount"
            )
        elif cost is None:
            why = "costs at fit are beyond the range of numbers that noise can be computed for"
        else:
            unit = 1.0 if isinstance(model, CoresetMixture) else cost.value
            return cls(n_rows, cost, shares, bound * unit, record.spread, notes)
        why = f"{why}: only shares are compared"
        return cls(n_rows, None, shares, notes=(why, *notes))


@dataclass(frozen=True, slots=True)
class _NewRows:
    """New rows: all draws, and two halves of them that are independent of each other."""

    whole: Coreset
    first: IntArray
    second: IntArray
    """Rows of the coreset in the other half. All draws of a row are in one half: a fresh fit would
    look better than it is if it were judged by rows that it has seen."""
    n_rows: float
    """Number of rows that were drawn from, as `Sample` has it."""
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, coreset: Coreset, rows: SampleSize, fitted: FittedCenters | FittedMixture, seed: int
    ) -> _NewRows:
        """Split a coreset, as the model measures it, into random halves."""
        whole, k = weighted_rows(fitted.adapted(coreset)), fitted.k
        half = len(whole) // 2
        n_rows, notes = rows.n, () if rows.known else (_UNKNOWN_WEIGHTS.format("are new"),)
        if coreset.exact:
            n_rows, notes = inf, (f"all {len(whole):,} rows are used, none is drawn",)
        if half < k:
            raise ValueError(
                f"the new data has {len(whole):,} distinct rows, but each half of them needs one "
                f"for each of the {k} clusters; pass at least {2 * k} rows"
            )
        order = generator(seed, Stage.REDUCE).permutation(len(whole))
        return cls(whole, np.sort(order[:half]), np.sort(order[half:]), n_rows, notes)

    @property
    def sample(self) -> drift_tests.Sample:
        """All draws."""
        return drift_tests.Sample(self.whole.host_weights, self.whole.counts, self.n_rows)

    def half(self, rows: IntArray) -> drift_tests.Sample:
        """One half, in which every row counts as one draw."""
        weights = self.whole.host_weights[rows]
        return drift_tests.Sample(weights, np.ones(len(rows), dtype=np.int64), self.n_rows)

    def as_few_as(self, n_rows: float, k: int) -> list[IntArray]:
        """Parts of the first half that are like as few rows as an old fit had; none if it had more.

        Drawn by weight, so that they are like rows of the population, which have equal weights.
        """
        weights, size = self.whole.host_weights[self.first], max(round(n_rows), k)
        times = min(int(self.half(self.first).n_effective / size), _MOST_FITS)
        if times < 2 or n_rows == 0.0:
            return []
        # The smallest of exponential variables with these rates, as drawn one after the other.
        waits = generator(self.whole.size, Stage.REDUCE).exponential(size=len(weights)) / weights
        chosen = self.first[np.argsort(waits, kind="stable")[: times * size]]
        return [np.sort(chosen[j::times]) for j in range(times)]

    def to_fit(self, rows: IntArray, *, equal: bool = False) -> Coreset:
        """Some rows as a coreset by itself, with their weights or with equal ones."""
        whole = self.whole
        weights = whole.host_weights[rows] * (len(whole) / len(rows))
        counts, method = whole.counts[rows], whole.method
        if equal:
            weights, counts, method = np.ones(len(rows)), np.ones_like(counts), ALL_ROWS
        return replace(
            whole, points=whole.like_points(whole.host_points[rows]), weights=weights,
            indices=whole.indices[rows], counts=counts, method=method,
            n_samples=len(rows) if method == ALL_ROWS else whole.n_samples,
            total_weight=float(weights.sum()),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Fits:
    """Fresh fits on parts of the new rows."""

    model: FittedCenters | FittedMixture
    new: _NewRows
    seed: int
    n_jobs: int
    journal: Journal

    def on(
        self, rows: IntArray, *, equal: bool = False
    ) -> tuple[FloatArray, FittedCenters | FittedMixture]:
        """The cost of every new row for a model that is fitted on some of them, and that model."""
        rows_to_fit = self.new.to_fit(rows, equal=equal)
        found = self.model.fitted_again(rows_to_fit, self.seed, self.n_jobs, self.journal)
        return found.costs(self.new.whole, self.n_jobs).values, found


def _compare(
    then: _Reference,
    new: _NewRows,
    model: FittedCenters | FittedMixture,
    costs: RowCosts,
    fits: _Fits,
    confidence: float,
) -> Drift:
    """Price old and fresh models, and test what has changed."""
    whole, second, elsewhere = new.sample, new.half(new.second), new.second
    refitted, fresh = fits.on(new.first)
    few = new.as_few_as(then.n_rows, model.k)
    trials = [fits.on(rows, equal=True)[0] for rows in few] or [refitted]
    now, shares = whole.mean(costs.values), whole.shares(costs.memberships, model.k)
    regret_of = drift_tests.regret_in_nats if model.soft else drift_tests.relative_regret
    regret = regret_of(second, costs.values[elsewhere], refitted[elsewhere])

    # The tests divide the probability of a false alarm.
    level = (1.0 - confidence) / (2 + (then.cost is not None))
    estimate = drift_tests.Estimate.of
    at_fit, at_present = None, estimate(now, confidence, least=model.least)
    reasons = list[str]()
    if then.cost is not None:
        gain = _optimism(then, new, model, costs, trials, few)
        usual = whole.with_spread(now, then.spread)
        shift = drift_tests.cost_shift(
            then.cost, usual, gain, level, bound=then.bound, degrees=whole.degrees(costs.values)
        )
        at_fit, at_present = shift.intervals(then.cost, usual, gain, least=model.least)
        reasons += cost_words(then.cost.value, now.value, shift)
    changes = drift_tests.share_shifts(then.shares, shares, level)
    reasons += share_words(changes)
    usual_regrets = [regret_of(second, each[elsewhere], refitted[elsewhere]) for each in trials]
    if then.n_rows and drift_tests.is_large_regret(regret, usual_regrets, level):
        reasons.append(regret_words(regret.value, in_nats=model.soft))
    remarks = [each for each in (model.ignored(new.whole), fresh.remark) if each]
    return Drift(
        then=at_fit,
        now=at_present,
        fresh=estimate(second.mean(refitted[elsewhere]), confidence, least=model.least),
        regret=estimate(regret, confidence),
        shares=changes,
        drifted=bool(reasons),
        reasons=tuple(reasons),
        notes=(*then.notes, *new.notes, *remarks),
        confidence=confidence,
        n_samples=new.whole.n_samples,
        size=new.whole.size,
        unit=model.unit,
        in_nats=model.soft,
    )


def _optimism(
    then: _Reference, new: _NewRows, model: FittedCenters | FittedMixture, costs: RowCosts,
    trials: list[FloatArray], few: list[IntArray],
) -> Mean:  # fmt: skip
    """How much more centers cost on other rows than on as many as the old ones were fitted on."""
    assert then.cost is not None
    second, elsewhere = new.half(new.second), new.second
    outside = np.array([each[elsewhere] for each in trials])
    if few:
        rows, part = np.concatenate(few), 1.0
        own = drift_tests.Sample(np.ones(len(rows)), np.ones(len(rows), dtype=np.int64))
        inside = np.concatenate([each[own] for each, own in zip(trials, few, strict=True)])
    else:
        rows, inside = new.first, trials[0][new.first]
        own = new.half(rows)
        basis = np.ones(len(rows)) if model.soft else costs.values[rows]
        part = own.n_for_centers(basis, costs.memberships[rows], model.k) / then.n_rows
    old = costs.values[rows], costs.values[elsewhere]
    unit = inf if model.soft else then.cost.value
    return drift_tests.optimism(own, second, old, (inside, outside), part, unit)
