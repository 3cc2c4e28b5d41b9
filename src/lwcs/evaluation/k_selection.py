"""The draws of `choose_k`: one build, dealt into those that are solved and those that judge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal

from lwcs import kernels
from lwcs.arrays.checks import check_choice, check_confidence, check_count
from lwcs.arrays.device import with_explained_memory
from lwcs.coreset.building import BuildContext
from lwcs.coreset.coreset import Coreset, refuse_sample_weight
from lwcs.coreset.streaming import StreamingCoreset
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.estimators.validation import check_rows, measured_by
from lwcs.evaluation.k_choice import KChoice
from lwcs.evaluation.k_clusters import Models, evidence_of, solve_clusters
from lwcs.evaluation.k_mixtures import fit_mixtures, judge_mixtures
from lwcs.evaluation.k_rows import Interval
from lwcs.evaluation.k_verdict import judge_clusters
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, single_threaded_blas
from lwcs.runtime.randomness import as_seed
from lwcs.samplers import as_sampler
from lwcs.sizing.solution import first_size, summarize
from lwcs.solvers.families import new_family
from lwcs.sources import scan
from lwcs.statistics.referee import deviations

if TYPE_CHECKING:
    from lwcs.divergences import Divergence
    from lwcs.kernels import KernelName
    from lwcs.runtime.journal import Journal
    from lwcs.runtime.progress import Callback
    from lwcs.samplers import Sampler
    from lwcs.statistics.referee import Mean, Price


# The part of the draws that is solved; the others judge.
_SOLVED = 0.75
DEFAULT = range(2, 51)


def check_ks(ks: Any) -> tuple[int, ...]:
    """Check the numbers of clusters; return them in increasing order, each once."""
    if isinstance(ks, str | bytes) or not isinstance(ks, Iterable):
        raise TypeError(f"ks={ks!r} is not a list of integers; pass for example range(2, 51)")
    found = sorted({check_count(k, "k") for k in ks})
    if not found:
        raise ValueError("ks is empty; pass numbers of clusters, for example range(2, 51)")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Rules:
    """How draws are made, and intervals of what they say."""

    most: int
    """The largest number of clusters."""
    divergence: Divergence
    method: str | Sampler
    size: int | None
    """None: as many as that number of clusters takes."""
    confidence: float
    seed: int
    n_jobs: int
    journal: Journal


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draws that are solved, and those that judge: the same ones, if they are all rows."""

    whole: Coreset
    """Both together."""
    solved: Coreset
    judges: Coreset
    kernel: KernelName
    confidence: float

    @property
    def exact(self) -> bool:
        """Whether all rows of the data are here, so that nothing has been sampled."""
        return self.solved.exact

    def cost(self, price: Price) -> Interval:
        """A cost with its interval."""
        half = 0.0 if self.exact else self._quantile * sqrt(price.variance)
        return Interval(price.cost, price.cost * max(1.0 - half, 0.0), price.cost * (1.0 + half))

    def mean(self, mean: Mean) -> Interval:
        """A mean with its interval."""
        half = 0.0 if self.exact else self._quantile * sqrt(mean.variance)
        return Interval(mean.value, mean.value - half, mean.value + half)

    @property
    def _quantile(self) -> float:
        return deviations(1.0 - self.confidence)


def draw(
    data: Any, needed: int, rules: Rules, sample_weight: Any, memory_limit: int | str | None
) -> Drawn:
    """One build of the data, or a coreset of it, which must have `needed` rows."""
    if isinstance(data, StreamingCoreset):
        data = data.coreset()
    if isinstance(data, Coreset):
        coreset, kernel = (
            _given(data, needed, rules, sample_weight),
            kernels.choose(data.host_points.size),
        )
    else:
        source = scan(data, weight=sample_weight, memory_limit=memory_limit)
        job = BuildContext.of(source, rules.divergence)
        coreset = summarize(
            job,
            rules.size or first_size(rules.most),
            needed,
            method=rules.method,
            seed=rules.seed,
            n_jobs=rules.n_jobs,
            journal=rules.journal,
            name="max(ks)",
        )
        kernel = job.geometry.kernel
    solved, judges = (coreset, coreset) if coreset.exact else _dealt(coreset, needed, rules.seed)
    return Drawn(coreset, solved, judges, kernel, rules.confidence)


def _dealt(coreset: Coreset, needed: int, seed: int) -> tuple[Coreset, Coreset]:
    """Deal the draws into those that are solved and those that judge."""
    size = round(_SOLVED * coreset.size)
    solved = None
    if 0 < size < coreset.size:
        solved, judges = coreset.split(size, random_state=seed)
    if solved is None or len(solved) < needed:
        raise ValueError(
            f"{coreset.size} draws are too few for max(ks)={needed}: three quarters of them are "
            f"solved, and need as many distinct rows; pass a smaller max(ks), or more draws, "
            f"about {first_size(needed)}"
        )
    return solved, judges


def _given(coreset: Coreset, needed: int, rules: Rules, sample_weight: Any) -> Coreset:
    """A coreset that was built before; of all rows of large data, some."""
    refuse_sample_weight(sample_weight)
    if rules.size is not None:
        raise ValueError(
            f"size={rules.size} is for rows that are still to be drawn, but this Coreset has "
            f"{coreset.size} draws; leave out size, or pass coreset.reduce({rules.size})"
        )
    coreset = measured_by(coreset, rules.divergence)
    check_rows(coreset, needed, "max(ks)")
    enough = first_size(rules.most)
    if coreset.exact and coreset.size > enough:
        return coreset.reduce(enough, random_state=rules.seed)
    return coreset


_MODELS = ("kmeans", "mixture")
_GAUSSIAN = "gaussian"


@with_explained_memory
def choose_k(
    data: Any,
    ks: Iterable[int] | None = None,
    *,
    model: Literal["kmeans", "mixture"] = "kmeans",
    divergence: str | Divergence = "sqeuclidean",
    family: str = _GAUSSIAN,
    covariance_type: str = "full",
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
    for no k >= 2, there is no structure, and none is recommended. For mixtures, the recommended k
    is the one with the least BIC, or the smallest k whose BIC is within noise of it.

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
    check_choice(model, "model", _MODELS)
    check_count(n_bootstrap, "n_bootstrap", least=0)
    if every_k and model == "mixture":
        raise ValueError("every_k is for k-means: mixtures have no stability; leave it out")
    measured = _measured_by(model, divergence, family, covariance_type, method)
    rules = Rules(
        tried[-1],
        measured,
        as_sampler(method, tried[-1]),
        None if size == "auto" else check_count(size, "size"),
        check_confidence(confidence),
        seed,
        as_threads(n_jobs),
        journal,
    )
    with single_threaded_blas():
        needed = tried[0] if ks is None else tried[-1]
        drawn = draw(data, needed, rules, sample_weight, memory_limit)
        if ks is None:
            tried = tuple(k for k in tried if k < len(drawn.solved)) or tried[:1]
        if model == "mixture":
            parameters = {"family": family, "covariance_type": covariance_type}
            return _mixtures(drawn, tried, parameters, rules)
        return _clusters(drawn, tried, n_bootstrap, rules, every_k=every_k)


def _measured_by(
    model: str, divergence: Any, family: str, covariance_type: str, method: Any
) -> Divergence:
    """The divergence of the draws; what is for the other model is refused."""
    measured = as_divergence(divergence)
    if model == "kmeans":
        for name, value, default in (
            ("family", family, _GAUSSIAN),
            ("covariance_type", covariance_type, "full"),
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


def _clusters(
    drawn: Drawn, ks: tuple[int, ...], n_bootstrap: int, rules: Rules, *, every_k: bool
) -> KChoice:
    """Solve k-means for every k, and choose."""
    solved = drawn.solved
    found = solve_clusters(drawn, ks, rules)
    rows = evidence_of(drawn, found, n_bootstrap, rules, every_k=every_k)
    verdict = judge_clusters(rows)
    parameters = {"divergence": rules.divergence, "random_state": rules.seed}
    models = Models(solved, dict(zip(ks, found, strict=True)), parameters)
    timings = rules.journal.timings()
    return KChoice(*verdict.parts, rows, "kmeans", solved, timings, models)


def _mixtures(
    drawn: Drawn, ks: tuple[int, ...], parameters: dict[str, Any], rules: Rules
) -> KChoice:
    """Fit mixtures for every k, and choose."""
    own = {**parameters, "random_state": rules.seed, "n_jobs": rules.n_jobs}
    found = fit_mixtures(drawn, ks, own, rules.journal)
    verdict = judge_mixtures(found.rows)
    timings = rules.journal.timings()
    return KChoice(
        *verdict.parts, found.rows, "mixture", drawn.solved, timings, found.models.__getitem__
    )
