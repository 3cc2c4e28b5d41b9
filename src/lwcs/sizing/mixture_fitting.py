"""Fits of mixtures to draws, with an estimate of the sampling error and more draws if it is large.

A mixture θ is fitted on some of the draws, C; the others, R, are independent of it. What it gains
on C against R is twice what it loses on all rows (`statistics.referee`):

    sampling error ≈ ½·(L_C(θ) − L_R(θ)),    L: mean log-likelihood per row.

Both means vary far more with the draws than the gap is large. So the same difference for θ*, the
mixture of all draws, is subtracted: its expectation is 0, since θ* does not know which of the draws
are in C, and most of the noise is common to both. That is,

    gap = mean over C of ln p_θ/p_θ*  −  mean over R of ln p_θ/p_θ*.

On mixtures of 8 Gaussians this makes the standard deviation of the estimate four times smaller.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lwcs.arrays.checks import BadValueError, translating
from lwcs.coreset.coreset import explaining_points
from lwcs.runtime.randomness import Stage, deal, generator, part_of
from lwcs.runtime.warnings import decided, warn
from lwcs.sizing.solution import LARGEST, REDRAWS, SMALL_ROWS, another_seed, enough_draws, summarize
from lwcs.solvers.em import log_likelihoods, loops, maximize, prepared, responsibilities
from lwcs.solvers.lloyd import cheapest
from lwcs.statistics.record import FittedOn
from lwcs.statistics.referee import NONE, UNKNOWN, Mean, SamplingError

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.coreset.building import BuildContext
    from lwcs.coreset.coreset import Coreset
    from lwcs.runtime.journal import Journal
    from lwcs.samplers import Sampler
    from lwcs.solvers.em import Mixture
    from lwcs.solvers.em_starts import Runs
    from lwcs.sources import Source


PREFIX = 4
"""The first level has this fraction of the draws: one in four."""
# With fewer numbers per parameter, the mixture of the first level says little about all draws. For
# full covariances, this is 10 draws per component for each column.
_NUMBERS_PER_PARAMETER = 20
# Starts on the first level, where one costs a quarter of one on all draws; and their tolerance, as
# a multiple of that of the best: bad ones are known by then. With four, a third of the fits of 8
# Gaussians ended in a poor optimum; with eight none did, in twice the time of one on all draws.
_STARTS, _ROUGHLY = 8, 10.0
# EM for the mixture of all draws that others are compared with; it has to converge.
_BASELINE_TOL, _BASELINE_ITERATIONS = 1e-5, 50


@dataclass(frozen=True, slots=True)
class MixtureFit:
    """A mixture, the coreset that it was fitted on, and its sampling error."""

    coreset: Coreset
    mixture: Mixture
    error: SamplingError

    def record(self, source: Source | None) -> FittedOn:
        """The record of the rows for the model; `source` is None where a coreset was given."""
        coreset, mixture, error = self.coreset, self.mixture, self.error
        family, weights = mixture.family, mixture.weights
        rows = prepared(coreset.host_points, family)
        costs = -log_likelihoods(family, weights, rows)
        mean = Mean.on_draws(coreset.host_weights, coreset.counts, costs)
        gap, noise = (error.gap, error.noise) if error.known else (0.0, 0.0)
        variance = 0.0 if coreset.exact else mean.variance + noise**2
        cost = Mean(mean.value + gap, variance)
        memberships = responsibilities(family, weights, rows)
        return FittedOn.of(coreset, cost, costs, memberships, len(weights), source)


@dataclass(frozen=True, slots=True)
class MixtureDraws:
    """Distinct rows that were drawn, `counts` times each, checked against a family."""

    rows: Rows
    weights: FloatArray
    counts: IntArray
    indices: IntArray
    """Row numbers in the coreset."""

    @classmethod
    def of(cls, coreset: Coreset, runs: Runs) -> MixtureDraws:
        """All rows of a coreset."""
        rows = prepared(coreset.host_points, runs.new_family())
        return cls(rows, coreset.host_weights, coreset.counts, np.arange(len(coreset)))

    def __len__(self) -> int:
        return int(self.counts.sum())

    def split(self, size: int, seed: int) -> tuple[MixtureDraws, MixtureDraws]:
        """Split the draws at random into `size` of them and the others: two independent samples."""
        kept = deal(self.counts, [size], generator(seed, Stage.LEVELS))[0]
        return self._part(kept), self._part(self.counts - kept)

    def _part(self, kept: IntArray) -> MixtureDraws:
        part = part_of(self.weights, self.counts, kept)
        return MixtureDraws(self.rows[part.at], part.weights, part.counts, self.indices[part.at])

    def candidates(self, runs: Runs, starts: int, last: Mixture | None) -> list[Mixture]:
        """Run EM on these draws from several starts, or on from the last mixture."""
        with self._in_coreset():
            return runs.candidates(self.rows, self.weights, starts, last)

    def go_on(self, runs: Runs, last: Mixture) -> Mixture:
        """Run EM on these draws from a mixture."""
        with self._in_coreset():
            return runs.go_on(last, self.rows, self.weights)

    def resume(self, runs: Runs, last: Mixture) -> Mixture:
        """Go on with EM from the mixture of the fit before."""
        with self._in_coreset():
            return runs.resume(last, self.rows, self.weights)

    def likelihoods(self, mixture: Mixture) -> FloatArray:
        """The log-likelihood of every row."""
        return log_likelihoods(mixture.family, mixture.weights, self.rows)

    def score(self, mixture: Mixture) -> float:
        """Mean log-likelihood; −∞ if a draw is so far from all components that EM cannot go on."""
        found = self.likelihoods(mixture)
        return self.mean(found).value if np.isfinite(found).all() else -np.inf

    def mean(self, values: FloatArray) -> Mean:
        """The mean of a value of every row, as an estimate for all rows of the data."""
        return Mean.on_draws(self.weights, self.counts, values)

    def _in_coreset(self) -> AbstractContextManager[None]:
        """Name the row of the coreset in errors about a bad value."""

        def translate(bad: Exception) -> Exception | None:
            if not isinstance(bad, BadValueError):
                return None
            row = int(self.indices[bad.row])
            return BadValueError(bad.partition, row, bad.column, bad.value, bad.wants)

        return translating(translate)


def fit_on_one_level(
    coreset: Coreset,
    runs: Runs,
    n_init: int | None,
    last: Mixture | None = None,
    holdout: float = 0.0,
) -> MixtureFit:
    """Fit all draws, or all but some that are held out to estimate the sampling error."""
    with explaining_points(coreset):
        whole = MixtureDraws.of(coreset, runs)
        if coreset.exact or not holdout:
            found = _likeliest(whole.candidates(runs, n_init or 1, last))
            return MixtureFit(coreset, found, NONE if coreset.exact else UNKNOWN)
        size = max(len(whole) - max(1, round(holdout * len(whole))), 1)
        own, held = whole.split(size, runs.seed)
        if len(own.indices) < runs.k:
            raise ValueError(
                f"holdout={holdout:g} leaves {len(own.indices)} distinct rows of the {len(whole)} "
                f"draws but n_components={runs.k}; pass a smaller holdout, or a larger coreset_size"
            )
        found = _likeliest(own.candidates(runs, n_init or 1, last))
        if held.score(found) == -np.inf:
            return MixtureFit(coreset, found, UNKNOWN)
        precisely = replace(runs, tol=_BASELINE_TOL, max_iter=_BASELINE_ITERATIONS)
        return MixtureFit(coreset, found, _error(own, held, found, whole.go_on(precisely, found)))


def fit_on_levels(
    coreset: Coreset, runs: Runs, n_init: int | None, last: Mixture | None = None
) -> MixtureFit:
    """Fit two levels of the draws where there are enough of them, else all at once."""
    if coreset.exact or not has_levels(coreset, runs):
        return fit_on_one_level(coreset, runs, n_init, last)
    return fit_on_two_levels(coreset, runs, n_init, last)


def fit_on_two_levels(
    coreset: Coreset, runs: Runs, n_init: int | None, last: Mixture | None = None
) -> MixtureFit:
    """Try starts on some of the draws, and go on from the best on all of them.

    The other draws choose the best start and estimate its error, which falls like 1/m for m draws.
    """
    starts = n_init or (_STARTS if runs.k > 1 else 1)
    with explaining_points(coreset):
        whole = MixtureDraws.of(coreset, runs)
        first, others = whole.split(len(whole) // PREFIX, runs.seed)
        resumes, runs = runs.resumes, replace(runs, resumes=False)
        roughly = replace(runs, tol=_ROUGHLY * runs.tol) if starts > 1 else runs
        tried = first.candidates(roughly, starts, last)
        best = tried[cheapest([-others.score(each) for each in tried])]
        if starts > 1:
            best = first.go_on(runs, best)
        if others.score(best) == -np.inf:
            return fit_on_one_level(coreset, runs, n_init, last)
        if resumes and last is not None:
            finished = whole.resume(runs, last)
        else:
            finished = whole.go_on(runs, best)
        error = _error(first, others, best, finished)
    return MixtureFit(coreset, finished, error.scaled(len(first) / len(whole)))


def least_draws(coreset: Coreset, runs: Runs) -> int:
    """Number of draws that two levels need for this mixture."""
    with explaining_points(coreset):
        draws, family = MixtureDraws.of(coreset, runs), runs.new_family()
        maximize(draws.rows, draws.weights, family, loops(draws.rows).even(runs.k, draws.rows))
    return -(-PREFIX * _NUMBERS_PER_PARAMETER * family.n_parameters() // coreset.n_features)


def has_levels(coreset: Coreset, runs: Runs) -> bool:
    """Whether a coreset has independent draws, enough for two levels."""
    independent = not coreset.exact and coreset.depth == 0
    return independent and coreset.size >= least_draws(coreset, runs)


def _likeliest(found: list[Mixture]) -> Mixture:
    """The first of the best mixtures, by the draws that they were fitted on."""
    return found[cheapest([-each.lower_bound for each in found])]


def _error(
    own: MixtureDraws, other: MixtureDraws, found: Mixture, baseline: Mixture
) -> SamplingError:
    """The sampling error of a mixture by its own draws and others, relative to a baseline."""

    def gain(draws: MixtureDraws) -> Mean:
        return draws.mean(draws.likelihoods(found) - draws.likelihoods(baseline))

    return SamplingError.of_means(gain(own), gain(other))


@dataclass(frozen=True, slots=True)
class RowDrawing:
    """The rows of a source, and the parameters that they are drawn by."""

    context: BuildContext
    sampler: Sampler
    seed: int
    n_jobs: int
    journal: Journal

    def first(self, size: int, k: int, *, chosen: bool) -> Coreset:
        """The first draws, or all rows if there are few; `chosen` if the size is "auto"."""
        few, known = max(SMALL_ROWS, 2 * size) if chosen else size, self.context.source.n_rows
        coreset = summarize(
            self.context,
            few if known is not None and known <= few else size,
            k,
            method=self.sampler,
            seed=self.seed,
            n_jobs=self.n_jobs,
            journal=self.journal,
            name="n_components",
        )
        if coreset.exact or coreset.n_samples > few or not self.context.source.rereadable:
            return coreset
        return self.all_rows()

    def all_rows(self) -> Coreset:
        """All rows as a coreset."""
        return self.context.all_rows(self.n_jobs, self.journal)

    def again(self, size: int, attempt: int) -> Coreset:
        """Draw a coreset that is independent of the others."""
        seed = another_seed(self.seed, attempt)
        return self.context.coreset(
            size, self.sampler, seed, n_jobs=self.n_jobs, journal=self.journal
        )


def fit_to_target(
    coreset: Coreset,
    runs: Runs,
    n_init: int | None,
    target: float,
    drawing: RowDrawing | None,
    last: Mixture | None = None,
) -> MixtureFit:
    """Fit a mixture, and draw more rows while its sampling error is above the target.

    `coreset` has the first draws, and without `drawing` the only ones. Every further fit goes on
    from the last mixture, on new draws; their number follows from the error, which falls like 1/m.
    Without `n_init`, starts are tried on the first level, where they are cheap.
    """
    if coreset.exact:
        return fit_on_one_level(coreset, runs, n_init, last)
    most, found = LARGEST * coreset.size, None
    for attempt in range(REDRAWS + 1):
        if has_levels(coreset, runs):
            found = fit_on_two_levels(coreset, runs, n_init, last)
            if not found.error.known or found.error.estimate <= target:
                return found
            decided("size", "%d draws: error %.3g", coreset.size, found.error.estimate)
            last, runs = found.mixture, replace(runs, resumes=False)
            wanted = enough_draws(coreset.size, found.error.estimate, target)
        else:
            wanted = enough_draws(least_draws(coreset, runs), 1.0, 1.0)
        if drawing is None or attempt == REDRAWS:
            break
        if wanted >= coreset.n_samples / 2 and coreset.n_samples <= 2 * most:
            return fit_on_one_level(drawing.all_rows(), runs, n_init, last)
        if min(wanted, most) <= coreset.size:
            break
        coreset = drawing.again(min(wanted, most), attempt + 1)
        decided("size", "%d draws instead, for target_error=%g", coreset.size, target)
    if found is None:
        return fit_on_one_level(coreset, runs, n_init, last)
    _warn(found, target, once=drawing is None)
    return found


def _warn(found: MixtureFit, target: float, *, once: bool) -> None:
    why = ", and the rows can be read only once" if once else ""
    warn(
        f"the log-likelihood is about {found.error.estimate:.2g} nats per row below that of a "
        f"mixture fitted to all rows, more than target_error={target:g}, with "
        f"{found.coreset.size:,} draws{why}; pass a larger coreset_size, fewer components or "
        "parameters, or another target_error",
        ConvergenceWarning,
    )
