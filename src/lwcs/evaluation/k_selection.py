"""choose_k(): how many clusters data has, from one build of it.

The draws are split into those that every k is solved on, and those that are held out to price and
to judge the solutions. `k_selection_kmeans` and `k_selection_mixture` solve and judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal

from lwcs import kernels
from lwcs.arrays.checks import check_choice, check_confidence, check_count
from lwcs.arrays.device import with_explained_memory
from lwcs.coreset.building import BuildContext
from lwcs.coreset.coreset import Coreset, refuse_sample_weight
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.estimators.validation import check_rows, coreset_of_stream, measured_by
from lwcs.evaluation.k_selection_kmeans import (
    KMeansModels,
    kmeans_rows,
    solve_clusters,
)
from lwcs.evaluation.k_selection_mixture import fit_mixtures, judge_mixtures, mixture_rows
from lwcs.evaluation.k_selection_result import Interval, KChoice
from lwcs.evaluation.k_selection_verdict import judge_clusters
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, single_threaded_blas
from lwcs.runtime.randomness import as_seed
from lwcs.samplers import as_sampler
from lwcs.sizing.fit_warnings import warn_of_domination
from lwcs.sizing.solution import first_size, summarize
from lwcs.solvers.families import new_family
from lwcs.sources import scan
from lwcs.statistics.referee import deviations

if TYPE_CHECKING:
    from lwcs.divergences import Divergence
    from lwcs.kernels import KernelName
    from lwcs.runtime.progress import Callback
    from lwcs.samplers import Sampler
    from lwcs.statistics.referee import Mean, Price

DEFAULT = range(2, 51)
# The part of the draws that is solved; the others are held out.
_SOLVED = 0.75
_GAUSSIAN, _FULL = "gaussian", "full"


@with_explained_memory
def choose_k(
    data: Any,
    ks: Iterable[int] | None = None,
    *,
    model: Literal["kmeans", "mixture"] = "kmeans",
    divergence: str | Divergence = "sqeuclidean",
    family: str = _GAUSSIAN,
    covariance_type: str = _FULL,
    method: str | Sampler = "lightweight",
    size: int | Literal["auto"] = "auto",
    sample_weight: Any = None,
    n_bootstrap: int = 5,
    every_k: bool = False,
    confidence: float = 0.95,
    random_state: object = None,
    n_jobs: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool | Callback = False,
) -> KChoice:
    """Choose the number of clusters, from one build of the data.

    Every k is solved on three quarters of the draws, each starting from the solutions for its
    neighbours; the other draws, which know nothing of them, price and judge them. For k-means, the
    recommended k is the largest one whose clusters are all real: the data has a valley at the
    border of any two neighbours, and every cluster recurs in bootstrap coresets. Below the true
    number that holds, too; one above it, a cluster is cut where there is no valley. If it holds
    for no k >= 2, none is recommended, and `outcome` says why. For mixtures, the recommended k
    is the one with the least BIC, or the smallest k whose BIC is within noise of it.

    The choice is made again in 25 resamples of the draws, and the k that most of them choose is
    recommended; `resamples` says how many did. The solutions stay the same, and the data is not
    read again.

    Parameters
    ----------
    data : array, memory map, scipy sparse array, table, path, nested list, Source or Coreset
        Whatever `lwcs.scan` accepts, or a coreset, also a StreamingCoreset.
    ks : iterable of int, optional
        Numbers of clusters to try, in any order; by default 2 to 50, as far as they are below the
        number of rows. The time is about that of solving them all.
    model : {"kmeans", "mixture"}, default="kmeans"
        What to fit: clusters, or mixtures of distributions.
    divergence : str or Divergence, default="sqeuclidean"
        Divergence that distances are measured by; for k-means only.
    family : str, default="gaussian"
        Distribution of the components of a mixture, as for CoresetMixture.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Covariance type of Gaussian mixtures.
    method : {"lightweight", "uniform", "sensitivity", "refined"} or sampler, \
            default="lightweight"
        Sampling method, as for `lwcs.build`.
    size : int or "auto", default="auto"
        Number of draws. "auto" is 400 for each of the largest number of clusters, and at least
        20,000. Data with no more rows than that is clustered itself; a Coreset has its own size.
    sample_weight : array of shape (n_samples,), optional
        A row with weight 3 counts as that row three times.
    n_bootstrap : int, default=5
        Number of bootstrap coresets for the stability of clusters. 0 leaves it out.
    every_k : bool, default=False
        Whether to compute the stability for every k, which takes several times as long as all the
        rest. By default it is computed where it matters, for the largest k whose clusters are told
        apart; for k-means only.
    confidence : float, default=0.95
        Confidence of the intervals, which are those of the central limit theorem: too short where
        most of the cost is in very few rows. `lwcs.certify` has one that always holds.
    random_state : None, int or NumPy generator, default=None
        Random seed of the draws and the solutions. The same seed gives the same result, whatever
        the number of threads.
    n_jobs : int, optional
        Number of threads; by default all cores that the container allows, or what joblib's context
        or OMP_NUM_THREADS say.
    memory_limit : int or str, optional
        Maximum memory for rows that are being read, such as ``"512MB"``; see `lwcs.scan`.
    progress : bool or callable, default=False
        Whether to show progress on standard error, or a function that is called with a
        `lwcs.Progress`, as for `lwcs.build`.

    Returns
    -------
    KChoice

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 1, (2_000, 2)) for c in (0, 8, 16, 24)])
    >>> choice = lwcs.choose_k(X, range(2, 9), random_state=0)
    >>> choice.k
    4
    >>> choice.model().cluster_centers_.shape
    (4, 2)
    >>> lwcs.choose_k(rng.uniform(size=(2_000, 2)), range(2, 9), random_state=0).k is None
    True
    """
    tried = check_ks(DEFAULT if ks is None else ks)
    seed, journal = as_seed(random_state), Journal(progress)
    check_choice(model, "model", ("kmeans", "mixture"))
    check_count(n_bootstrap, "n_bootstrap", least=0)
    if every_k and model == "mixture":
        raise ValueError("every_k is for k-means: mixtures have no stability; leave it out")
    params = SelectionParams(
        tried[-1],
        _divergence_of_draws(model, divergence, family, covariance_type, method),
        as_sampler(method, tried[-1]),
        None if size == "auto" else check_count(size, "size"),
        check_confidence(confidence),
        seed,
        as_threads(n_jobs),
        journal,
    )
    with single_threaded_blas():
        needed = tried[0] if ks is None else tried[-1]
        draws = split_draws(data, needed, params, sample_weight, memory_limit)
        if ks is None:
            tried = tuple(k for k in tried if k < len(draws.solved)) or tried[:1]
        models: Callable[[int], Any]
        if model == "mixture":
            mixtures = fit_mixtures(
                draws,
                tried,
                journal,
                family=family,
                covariance_type=covariance_type,
                random_state=seed,
                n_jobs=params.n_jobs,
            )
            models = mixtures.__getitem__
            verdict = judge_mixtures(*mixture_rows(draws, mixtures, seed))
        else:
            solutions = solve_clusters(draws, tried, params)
            known = kmeans_rows(draws, solutions, n_bootstrap, params, every_k=every_k)
            parameters = {"divergence": params.divergence, "random_state": seed}
            by_k = dict(zip(tried, solutions, strict=True))
            models = KMeansModels(draws.solved, by_k, parameters)
            verdict = judge_clusters(*known)
            # A smaller k than the right one would cut along one column of clusters that lie on it.
            most = verdict.k or tried[-1]
            warn_of_domination(models.result(most).dominating_columns())
        return KChoice(*verdict, model, draws.solved, journal.timings(), models)


def check_ks(ks: Any) -> tuple[int, ...]:
    """Check the numbers of clusters; return them in increasing order, each once."""
    if isinstance(ks, str | bytes) or not isinstance(ks, Iterable):
        raise TypeError(f"ks={ks!r} is not a list of integers; pass for example range(2, 51)")
    found = sorted({check_count(k, "k") for k in ks})
    if not found:
        raise ValueError("ks is empty; pass numbers of clusters, for example range(2, 51)")
    return tuple(found)


def _divergence_of_draws(
    model: str, divergence: Any, family: str, covariance_type: str, method: Any
) -> Divergence:
    """The divergence that rows are drawn by; parameters of the other kind of model are refused."""
    measured = as_divergence(divergence)
    if model == "kmeans":
        for name, value, default in (
            ("family", family, _GAUSSIAN),
            ("covariance_type", covariance_type, _FULL),
        ):
            if value != default:
                raise ValueError(
                    f"{name}={value!r} is for mixtures; pass model='mixture', or leave it out"
                )
        return measured
    if type(measured) is not SquaredEuclidean:
        raise ValueError(
            f"divergence={measured.name!r} is for model='kmeans'; a mixture has a family instead: "
            "pass for example family='poisson', and leave out divergence"
        )
    options = {"covariance_type": covariance_type, "reg_covar": 1e-6}
    own = new_family(family, options)
    return own.start if as_sampler(method).solves_first else own.divergence


@dataclass(frozen=True, slots=True)
class SelectionParams:
    """Parameters of the draws, and of the intervals that come from them."""

    most: int
    """The largest number of clusters."""
    divergence: Divergence
    method: str | Sampler
    size: int | None
    """Number of draws; None for as many as `most` clusters take."""
    confidence: float
    seed: int
    n_jobs: int
    journal: Journal


@dataclass(frozen=True, slots=True)
class SplitDraws:
    """The draws that are solved, and those that are held out; few rows are both."""

    whole: Coreset
    solved: Coreset
    held_out: Coreset
    kernel: KernelName
    confidence: float

    @property
    def exact(self) -> bool:
        """Whether all rows of the data are here, so that nothing has been sampled."""
        return self.solved.exact

    def cost(self, price: Price) -> Interval:
        """A cost with its interval."""
        half = self._half_width(price)
        return Interval(price.cost, price.cost * max(1.0 - half, 0.0), price.cost * (1.0 + half))

    def mean(self, mean: Mean) -> Interval:
        """A mean with its interval."""
        half = self._half_width(mean)
        return Interval(mean.value, mean.value - half, mean.value + half)

    def _half_width(self, estimate: Price | Mean) -> float:
        if self.exact:
            return 0.0
        return deviations(1.0 - self.confidence) * sqrt(estimate.variance)


def split_draws(
    data: Any,
    needed: int,
    params: SelectionParams,
    sample_weight: Any,
    memory_limit: int | str | None,
) -> SplitDraws:
    """Build a coreset of data, or take one that was given, with `needed` rows; split its draws."""
    data = coreset_of_stream(data)
    if isinstance(data, Coreset):
        coreset = _given(data, needed, params, sample_weight)
        kernel = kernels.choose()
    else:
        source = scan(data, weight=sample_weight, memory_limit=memory_limit)
        context = BuildContext.of(source, params.divergence)
        coreset = summarize(
            context,
            params.size or first_size(params.most),
            needed,
            method=params.method,
            seed=params.seed,
            n_jobs=params.n_jobs,
            journal=params.journal,
            name="max(ks)",
        )
        kernel = context.geometry.kernel
    if coreset.exact:
        return SplitDraws(coreset, coreset, coreset, kernel, params.confidence)
    size = round(_SOLVED * coreset.size)
    if 0 < size < coreset.size:
        solved, held_out = coreset.split(size, random_state=params.seed)
        if len(solved) >= needed:
            return SplitDraws(coreset, solved, held_out, kernel, params.confidence)
    raise ValueError(
        f"{coreset.size} draws are too few for max(ks)={needed}: three quarters of them are "
        f"solved, and need as many distinct rows; pass a smaller max(ks), or more draws, "
        f"about {first_size(needed)}"
    )


def _given(coreset: Coreset, needed: int, params: SelectionParams, sample_weight: Any) -> Coreset:
    """Check a coreset that was built before; draw from it if it has all rows of large data."""
    refuse_sample_weight(sample_weight)
    if params.size is not None:
        raise ValueError(
            f"size={params.size} is for rows that are still to be drawn, but this Coreset has "
            f"{coreset.size} draws; leave out size, or pass coreset.reduce({params.size})"
        )
    coreset = measured_by(coreset, params.divergence)
    check_rows(coreset, needed, "max(ks)")
    enough = first_size(params.most)
    if coreset.exact and coreset.size > enough:
        return coreset.reduce(enough, random_state=params.seed)
    return coreset
