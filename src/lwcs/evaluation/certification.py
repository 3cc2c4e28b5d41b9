"""certify(): what centers or a mixture cost on all rows, with an interval, from one build.

Rows are drawn as for a lightweight coreset, by a seed stage that no fit uses. `statistics` has the
intervals: `certificate` by the central limit theorem and by Bernstein's inequality, `extremes` the
bound on the cost of a single row that both of them need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_confidence, check_count
from lwcs.arrays.device import with_explained_memory
from lwcs.coreset.building import BuildContext
from lwcs.coreset.coreset import Coreset, explaining_points, refuse_bad_rows, refuse_sample_weight
from lwcs.divergences import SquaredEuclidean
from lwcs.estimators.validation import coreset_of_stream
from lwcs.evaluation.certification_targets import (
    CentersTarget,
    MixtureTarget,
    appear_fitted,
    as_target,
    refuse_fitted,
)
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, single_threaded_blas
from lwcs.runtime.randomness import Stage, as_seed
from lwcs.samplers import Lightweight
from lwcs.sizing.solution import summarize
from lwcs.sources import Source, scan
from lwcs.sources.scan_options import Fitted
from lwcs.statistics.certificate import (
    Certificate,
    ConfidenceInterval,
    bernstein_interval,
    cost_interval,
    largest_drawn,
    largest_share,
    log_likelihood_interval,
)
from lwcs.statistics.extremes import NOT_BUILT, NoBoundError, largest_value, was_built
from lwcs.statistics.referee import Mean, Price

if TYPE_CHECKING:
    from lwcs.divergences import Divergence
    from lwcs.evaluation.certification_targets import Target
    from lwcs.runtime.progress import Callback

DRAWS = 20_000
"""Number of draws by default."""
_UNBOUNDED = "the log-likelihood of a row has no bound"
_FITTED = (
    "the centers are the means of their clusters in these draws, so that they were fitted on "
    "them; pass the data, or a part of the draws that was kept apart by coreset.split"
)


@with_explained_memory
def certify(
    data: Any,
    centers: Any,
    confidence: float = 0.95,
    *,
    size: int | None = None,
    divergence: str | Divergence | None = None,
    sample_weight: Any = None,
    random_state: object = None,
    n_jobs: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool | Callback = False,
) -> Certificate:
    """Estimate what any centers cost on all rows, with an interval, from one build.

    The rows are drawn as for a lightweight coreset, independently of every fit, also of one with
    the same `random_state`. The estimate is unbiased, and the interval accounts for rows that were
    not drawn; for a mixture it does not, as a row may have any log-likelihood: a few rows far from
    all components may be missed. It is about the cost of *these* centers, and not about how far
    they are from the best ones.

    Parameters
    ----------
    data : array, sparse array, table, path of files, data of an engine, Source or Coreset
        Whatever `lwcs.scan` accepts; the columns of a model with column names are found by name.
        Or a coreset: it must be independent of the centers, that is, neither the one that they
        were fitted on nor one of the same rows with the same seed.
    centers : array of shape (k, n_features) or fitted model
        Centers in the units of the data; or a model that has them: of this library, of
        scikit-learn (``cluster_centers_``), of faiss (``centroids``). For a mixture
        (`CoresetMixture`, or scikit-learn's ``GaussianMixture``), the log-likelihood is estimated.
        A model of this library is measured by its own divergence and scale.
    confidence : float, default=0.95
        Probability that the interval has the true value, above 0 and below 1.
    size : int, optional
        Number of draws; 20,000 by default. If the data has no more rows, all of them are measured.
        A coreset has its own size.
    divergence : str or Divergence, optional
        Divergence that centers in an array are measured by: by default the squared Euclidean
        distance, or that of the coreset.
    sample_weight : array of shape (n_samples,), optional
        A row with weight 3 counts as that row three times.
    random_state : None, int or NumPy generator, default=None
        Random seed of the draws.
    n_jobs : int, optional
        Number of threads; all cores by default.
    memory_limit : int or str, optional
        Maximum memory for rows that are being read; see `lwcs.scan`.
    progress : bool or callable, default=False
        As for `lwcs.build`.

    Returns
    -------
    Certificate
        The estimate, the interval, and in words how it was made. ``str()`` is a sentence.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_normal((50_000, 4))
    >>> certificate = lwcs.certify(X, np.zeros((1, 4)), random_state=0)
    >>> certificate.kind, bool(certificate.low < np.sum(X**2) < certificate.high)
    ('clt', True)
    """
    return drawn_and_certified(
        data,
        as_target(centers, divergence),
        check_confidence(confidence),
        size=size,
        sample_weight=sample_weight,
        random_state=random_state,
        n_jobs=n_jobs,
        memory_limit=memory_limit,
        progress=progress,
    )[1]


def drawn_and_certified(
    data: Any,
    target: Target,
    confidence: float,
    *,
    size: int | None = None,
    sample_weight: Any = None,
    random_state: object = None,
    n_jobs: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool | Callback = False,
) -> tuple[Coreset, Certificate]:
    """The draws that a target is certified by, or the given coreset, and the certificate.

    `certify` documents the parameters.
    """
    data = coreset_of_stream(data)
    if isinstance(data, Coreset):
        with single_threaded_blas():
            _check_coreset(data, target, size, sample_weight)
            return data, certificate_of(data, target, confidence, given=True)
    draws = DRAWS if size is None else check_count(size, "size")
    seed, threads, journal = as_seed(random_state), as_threads(n_jobs), Journal(progress)
    source = _open_rows(data, target, sample_weight, memory_limit)
    # Once for all steps: setting the limit takes longer than some of them.
    with single_threaded_blas():
        context = BuildContext.of(source, target.divergence or SquaredEuclidean())
        coreset = draws_of(context, draws, seed, threads, journal)
        return coreset, certificate_of(coreset, target, confidence, given=False)


def _open_rows(data: Any, target: Target, sample_weight: Any, memory_limit: Any) -> Source:
    """Scan data for the columns of a target, with a scale if the target has one."""
    # The columns and the scale of a Source are fixed.
    fixed, columns = isinstance(data, Source), None
    if target.names is not None and not fixed:
        columns = Fitted.of(target.names, getattr(target.model, "reading_", {}))
    source = scan(
        data,
        columns=columns,
        weight=sample_weight,
        scale="standard" if target.scaled and not fixed else None,
        memory_limit=memory_limit,
    )
    _check_columns(source, target, "data")
    return source


def draws_of(
    context: BuildContext, size: int, seed: int, n_jobs: int | None, journal: Journal
) -> Coreset:
    """Draw rows independently of any fit with this seed; if there are no more than `size`, all."""
    return summarize(
        context, size, 1, method=Lightweight(), seed=seed, n_jobs=n_jobs, journal=journal,
        stage=Stage.HOLDOUT,
    )  # fmt: skip


def _check_coreset(coreset: Coreset, target: Target, size: object, sample_weight: object) -> None:
    """Check a coreset that was built before, and that it is independent of the target."""
    refuse_sample_weight(sample_weight)
    if size is not None:
        raise ValueError(
            f"size={size!r} is given, but a Coreset has its own {coreset.size:,} draws; leave it "
            "out, or pass coreset.reduce(size)"
        )
    _check_columns(coreset, target, "coreset")
    refuse_bad_rows(coreset)
    refuse_fitted(target.model, coreset)


def _check_columns(data: Source | Coreset, target: Target, what: str) -> None:
    if data.n_features != target.n_features:
        raise ValueError(
            f"the {what} has {data.n_features} columns but the centers have {target.n_features}; "
            "choose the same columns with lwcs.scan(…, columns=…)"
        )
    names = data.feature_names
    if target.names is not None and names is not None and tuple(names) != target.names:
        raise ValueError(
            f"the {what} has the columns {list(names)} but the model was fitted on "
            f"{list(target.names)}; choose these, in this order, with lwcs.scan(…, columns=…)"
        )


def certificate_of(
    coreset: Coreset, target: Target, confidence: float, *, given: bool
) -> Certificate:
    """Certify a target by draws, or by all rows; draws that were `given` may be those of a fit."""
    if isinstance(target, MixtureTarget):
        estimate = _log_likelihood(coreset, target, confidence)
    else:
        assert isinstance(target, CentersTarget)
        estimate = _cost(coreset, target, confidence, given=given)
    interval, proven = estimate.interval, estimate.proven or estimate.interval
    return Certificate(
        estimate=estimate.value,
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        kind=interval.kind,
        bernstein=(proven.low, proven.high),
        reason=interval.reason,
        biased=estimate.biased,
        quantity="log-likelihood" if isinstance(target, MixtureTarget) else "cost",
        n_clusters=target.k,
        n_draws=coreset.size,
        n_samples=coreset.n_samples,
        total_weight=coreset.total_weight,
    )


@dataclass(frozen=True, slots=True)
class _Estimate:
    """An estimate and its interval."""

    value: float
    interval: ConfidenceInterval
    proven: ConfidenceInterval | None = None
    """The interval that holds for any data, if it is another one."""
    biased: bool = False


def _cost(coreset: Coreset, target: CentersTarget, confidence: float, *, given: bool) -> _Estimate:
    distances, draws = target.distances(coreset), coreset.size
    drawn = coreset.host_weights, coreset.counts, distances.to_nearest
    with np.errstate(over="ignore"):
        price = Price.on_draws(*drawn)
    cost = price.cost
    if not isfinite(cost):
        raise ValueError(
            "the cost of these centers is beyond the range of numbers; scale the data and the "
            "centers down, for example to unit variance"
        )
    if coreset.exact:
        return _Estimate(cost, ConfidenceInterval(cost, cost, "exact"))
    if given and appear_fitted(coreset, distances):
        return _Estimate(cost, ConfidenceInterval.unknown(_FITTED), biased=True)
    try:
        largest = largest_value(coreset, distances.centers)
    except NoBoundError as error:
        return _Estimate(cost, ConfidenceInterval.unknown(str(error)))
    interval = cost_interval(price, draws, largest_drawn(*drawn), largest, confidence)
    return _Estimate(cost, interval, bernstein_interval(price, draws, largest, confidence))


def _log_likelihood(coreset: Coreset, target: MixtureTarget, confidence: float) -> _Estimate:
    """The total log-likelihood of a mixture: Ω times its mean, whose variance is smaller."""
    weights, counts, total = coreset.host_weights, coreset.counts, coreset.total_weight
    with explaining_points(coreset), np.errstate(over="ignore", invalid="ignore"):
        values = target.log_likelihoods(coreset.host_points)
        mean = Mean.on_draws(weights, counts, values)
        share = largest_share(weights, counts, values)
    value = total * mean.value
    if coreset.exact:
        return _Estimate(value, ConfidenceInterval(value, value, "exact"))
    if not was_built(coreset):
        return _Estimate(value, ConfidenceInterval.unknown(NOT_BUILT, -inf))
    per_row = log_likelihood_interval(mean, share, confidence)
    interval = replace(per_row, low=total * per_row.low, high=total * per_row.high)
    return _Estimate(value, interval, ConfidenceInterval.unknown(_UNBOUNDED, -inf))
