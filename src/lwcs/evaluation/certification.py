"""certify(): what centers or a mixture cost on all rows, from one build, with an interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_confidence, check_count
from lwcs.arrays.device import with_explained_memory
from lwcs.coreset.building import BuildContext
from lwcs.coreset.coreset import Coreset, explaining_points, refuse_bad_rows, refuse_sample_weight
from lwcs.coreset.streaming import StreamingCoreset
from lwcs.divergences import SquaredEuclidean
from lwcs.evaluation.certified import (
    CentersTarget,
    MixtureTarget,
    as_target,
    look_fitted,
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
    Interval,
    by_bernstein,
    largest_drawn,
    largest_share,
    of_cost,
    of_log_likelihood,
)
from lwcs.statistics.extremes import NOT_BUILT, NoBoundError, largest_value, was_built
from lwcs.statistics.referee import Mean, Price

if TYPE_CHECKING:
    from lwcs.divergences import Divergence
    from lwcs.evaluation.certified import Target
    from lwcs.runtime.progress import Callback

DRAWS = 20_000
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
    _, found = drawn_and_certified(
        data,
        as_target(centers, divergence),
        check_confidence(confidence),
        size=size,
        sample_weight=sample_weight,
        random_state=random_state,
        n_jobs=n_jobs,
        memory_limit=memory_limit,
        progress=progress,
    )
    return found


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
    """The draws that a target is certified by, and its certificate; `certify` has the parameters.

    A coreset has its own draws.
    """
    if isinstance(data, StreamingCoreset):
        data = data.coreset()
    if isinstance(data, Coreset):
        with single_threaded_blas():
            given = _given(data, target, size, sample_weight)
            return given, certificate_of(given, target, confidence, given=True)
    draws = DRAWS if size is None else check_count(size, "size")
    how = as_seed(random_state), as_threads(n_jobs), Journal(progress)
    source = open_rows(data, target, sample_weight, memory_limit)
    # Once for all steps: to set the limit takes longer than some of them.
    with single_threaded_blas():
        coreset = draws_of(
            BuildContext.of(source, target.divergence or SquaredEuclidean()), draws, *how
        )
        return coreset, certificate_of(coreset, target, confidence, given=False)


def open_rows(data: Any, target: Target, sample_weight: Any, memory_limit: Any) -> Source:
    """Scan data for the columns of a target, in standard deviations if that is measured so."""
    # The columns and the scale of a Source are fixed.
    fixed = isinstance(data, Source)
    source = scan(
        data,
        columns=None if target.names is None or fixed else Fitted(target.names),
        weight=sample_weight,
        scale="standard" if target.scaled and not fixed else None,
        memory_limit=memory_limit,
    )
    _check_columns(source, target, "data")
    return source


def draws_of(
    job: BuildContext, size: int, seed: int, n_jobs: int | None, journal: Journal
) -> Coreset:
    """Draw rows independently of any fit with this seed; if there are no more than `size`, all."""
    return summarize(
        job, size, 1, method=Lightweight(), seed=seed, n_jobs=n_jobs, journal=journal,
        stage=Stage.HOLDOUT,
    )  # fmt: skip


def _given(coreset: Coreset, target: Target, size: object, sample_weight: object) -> Coreset:
    """A coreset that was built before, checked."""
    refuse_sample_weight(sample_weight)
    if size is not None:
        raise ValueError(
            f"size={size!r} is given, but a Coreset has its own {coreset.size:,} draws; leave it "
            "out, or pass coreset.reduce(size)"
        )
    _check_columns(coreset, target, "coreset")
    refuse_bad_rows(coreset)
    refuse_fitted(target.model, coreset)
    return coreset


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


@dataclass(frozen=True, slots=True)
class _Found:
    """An estimate, its interval, and the one that holds for any data."""

    estimate: float
    interval: Interval
    proven: Interval
    biased: bool = False

    @classmethod
    def unknown(
        cls, estimate: float, why: str, low: float = 0.0, *, biased: bool = False
    ) -> _Found:
        nothing = Interval.unknown(why, low)
        return cls(estimate, nothing, nothing, biased)

    @classmethod
    def exact(cls, estimate: float) -> _Found:
        interval = Interval(estimate, estimate, "exact")
        return cls(estimate, interval, interval)


def certificate_of(
    coreset: Coreset, target: Target, confidence: float, *, given: bool
) -> Certificate:
    """Certify a target by draws, or by all rows; those that were given might know the target."""
    if isinstance(target, MixtureTarget):
        found = _log_likelihood(coreset, target, confidence)
    else:
        assert isinstance(target, CentersTarget)
        found = _cost(coreset, target, confidence, given=given)
    interval = found.interval
    return Certificate(
        estimate=found.estimate,
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        kind=interval.kind,
        bernstein=(found.proven.low, found.proven.high),
        reason=interval.reason,
        biased=found.biased,
        quantity="log-likelihood" if isinstance(target, MixtureTarget) else "cost",
        n_clusters=target.k,
        n_draws=coreset.size,
        n_samples=coreset.n_samples - coreset.details.get("dropped", 0),
        total_weight=coreset.total_weight,
    )


def _cost(coreset: Coreset, target: CentersTarget, confidence: float, *, given: bool) -> _Found:
    """The cost of centers."""
    costs, draws = target.costs(coreset), coreset.size
    own = coreset.host_weights, coreset.counts, costs.distances
    with np.errstate(over="ignore"):
        price = Price.on_draws(*own)
    if not isfinite(price.cost):
        raise ValueError(
            "the cost of these centers is beyond the range of numbers; scale the data and the "
            "centers down, for example to unit variance"
        )
    if coreset.exact:
        return _Found.exact(price.cost)
    if given and look_fitted(coreset, costs):
        return _Found.unknown(price.cost, _FITTED, biased=True)
    try:
        largest = largest_value(coreset, costs.centers)
    except NoBoundError as why:
        return _Found.unknown(price.cost, str(why))
    return _Found(
        price.cost,
        of_cost(price, draws, largest_drawn(*own), largest, confidence),
        by_bernstein(price, draws, largest, confidence),
    )


def _log_likelihood(coreset: Coreset, target: MixtureTarget, confidence: float) -> _Found:
    """The total log-likelihood of a mixture: Ω times its mean, whose variance is smaller."""
    weights, counts, total = coreset.host_weights, coreset.counts, coreset.total_weight
    with explaining_points(coreset), np.errstate(over="ignore", invalid="ignore"):
        values = target.log_likelihoods(coreset.host_points)
        mean = Mean.on_draws(weights, counts, values)
        share = largest_share(weights, counts, values)
    estimate = total * mean.value
    if coreset.exact:
        return _Found.exact(estimate)
    if not was_built(coreset):
        return _Found.unknown(estimate, NOT_BUILT, -inf)
    mean_interval = of_log_likelihood(mean, share, confidence)
    interval = replace(
        mean_interval, low=total * mean_interval.low, high=total * mean_interval.high
    )
    return _Found(estimate, interval, Interval.unknown(_UNBOUNDED, -inf))
