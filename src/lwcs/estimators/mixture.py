"""CoresetMixture: mixtures of distributions by a coreset, in scikit-learn's grammar."""

from __future__ import annotations

import warnings
from math import fsum
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lwcs import kernels
from lwcs.coreset import Coreset, explaining_points
from lwcs.divergences import Measure
from lwcs.estimators.inputs import check_rows, forget, scan_rows, set_features, size_of, summarise
from lwcs.estimators.mixture_rows import EvidenceTask, MixtureTask, directions, prepared
from lwcs.foundation import storage
from lwcs.foundation.checks import check_centers, check_choice, check_count
from lwcs.foundation.parallel import as_threads
from lwcs.foundation.randomness import Stage, as_seed, generator
from lwcs.samplers import Refined, Sensitivity, as_sampler
from lwcs.samplers.base import check_total
from lwcs.solvers.assignment import nearest
from lwcs.solvers.families import Bernoulli, Exponential, Gamma, Multinomial, Poisson
from lwcs.solvers.gaussian import COVARIANCES, Gaussian
from lwcs.solvers.kmeans import cluster
from lwcs.solvers.mixture import Mixture, fit_mixture, log_joint
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import DenseRows, FloatArray, Rows
    from lwcs.solvers.families import Family

FAMILIES = {each.name: each for each in (Poisson, Multinomial, Bernoulli, Exponential, Gamma)}
DRAWS_PER_COMPONENT = 1_000
_INITS = ("k-means", "random")


class CoresetMixture(DensityMixin, BaseEstimator):
    """Mixture of distributions fitted to data of any size, by fitting a coreset of it.

    Weighted expectation–maximisation; with ``family="gaussian"`` and all rows, this is
    scikit-learn's GaussianMixture, with `sample_weight`. Rows are drawn by the Bregman divergence
    that belongs to the family, from the mean: squared distances for Gaussians, KL for counts,
    logistic for Bernoullis, Itakura–Saito for exponentials and gammas. The paper's theory covers
    Gaussians of one fixed variance, and families with a mean alone; for the other
    covariances, and the shapes of gammas, a coreset is a heuristic.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    family : {"gaussian", "poisson", "multinomial", "bernoulli", "exponential", "gamma"}, \
            default="gaussian"
        What components are. Counts for "poisson" (each column by itself) and "multinomial" (a
        row together), 0 … 1 for "bernoulli", numbers > 0 for "exponential" and "gamma". The
        first three take sparse rows.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Of Gaussians.
    coreset_size : int or "auto", default="auto"
        Draws of the coreset; "auto" is 1,000 × n_components. Data with no more rows than that is
        fitted itself.
    method : str or sampler, default="lightweight"
        How rows are drawn, as for `lwcs.build`.
    init : {"k-means", "random"} or array of shape (n_components, n_features), default="k-means"
        Where components start: clusters, random shares, or given means.
    n_init : int, default=1
        Restarts; the likeliest is kept.
    max_iter : int, default=100
        Most rounds a restart.
    tol : float, default=1e-3
        Ends a run once the mean log-likelihood of a row gains less.
    reg_covar : float, default=1e-6
        Added to the diagonal of Gaussian covariances.
    warm_start : bool, default=False
        Start from what the last `fit` found.
    random_state : None, int or NumPy generator, default=None
        Seed of the coreset and of the starts.
    n_jobs : int, optional
        Threads; all cores by default.
    verbose : int, default=0
        Draw progress bars on standard error.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
    means_ : array of shape (n_components, n_features)
        Of "multinomial", the probabilities of the columns.
    covariances_, precisions_cholesky_ : array
        Of Gaussians, in scikit-learn's shapes.
    shapes_ : array of shape (n_components, n_features)
        Of gammas.
    lower_bound_ : float
        Weighted mean log-likelihood of a row of the coreset.
    converged_, n_iter_
        Of the best restart.
    coreset_ : Coreset
        What was fitted.
    mixture_
        The components as one object, which the attributes above are taken from.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs import CoresetMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (30_000, 2)), rng.normal(8, 2, (10_000, 2))])
    >>> model = CoresetMixture(2, random_state=0).fit(X)
    >>> np.sort(model.weights_).round(1)
    array([0.2, 0.8])
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        family: str = "gaussian",
        covariance_type: str = "full",
        coreset_size: int | str = "auto",
        method: Any = "lightweight",
        init: Any = "k-means",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.covariance_type = covariance_type
        self.coreset_size = coreset_size
        self.method = method
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg_covar = reg_covar
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CoresetMixture:
        """Fit data, or a coreset of it that was built elsewhere.

        Parameters
        ----------
        X : whatever `lwcs.scan` takes, or a Coreset
            Rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A row of weight 3 counts as that row three times.
        """
        before = getattr(self, "mixture_", None) if self.warm_start else None
        forget(self)
        try:
            coreset, found = self._fit(X, sample_weight, before)
        except BaseException:
            # Interrupted or refused, this is an estimator that was not fitted.
            forget(self)
            raise
        self._keep(found)
        self.coreset_ = coreset
        return self

    def _fit(self, X: Any, sample_weight: Any, before: Mixture | None) -> tuple[Coreset, Mixture]:
        size, seed = self._check(), as_seed(self.random_state)
        family = self._new_family()
        if isinstance(X, Coreset):
            if sample_weight is not None:
                raise ValueError("a Coreset has weights of its own; pass no sample_weight with it")
            # Its weights are unbiased whatever it was drawn by.
            coreset = X
            set_features(self, coreset)
            check_rows(coreset, self.n_components, "n_components")
        else:
            source = scan_rows(self, X, sample_weight, reset=True)
            coreset = summarise(
                source,
                size,
                self.n_components,
                method=self.method,
                divergence=self._drawn_by(family),
                kernel=kernels.choose(source.n_values),
                seed=seed,
                n_jobs=as_threads(self.n_jobs),
                progress=bool(self.verbose),
                name="n_components",
            )
        if coreset.scale is not None:
            raise ValueError(
                "a mixture has variances of its own, and takes no scale='standard'; scan the data "
                "without it"
            )
        with explaining_points(coreset):
            rows = prepared(coreset.points, family)
        return coreset, self._best(rows, coreset.weights, seed, before)

    def _check(self) -> int:
        """Check what can be checked without data; return the coreset's size."""
        k = check_count(self.n_components, "n_components")
        check_choice(self.family, "family", ("gaussian", *FAMILIES))
        check_choice(self.covariance_type, "covariance_type", COVARIANCES)
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        for name in ("tol", "reg_covar"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not 0.0 <= float(value) < np.inf:
                raise ValueError(f"{name}={value!r} is not allowed; pass a number >= 0")
        if isinstance(self.init, str):
            check_choice(self.init, "init", _INITS)
        as_sampler(self.method)
        return size_of(self.coreset_size, k, DRAWS_PER_COMPONENT, "n_components")

    def _drawn_by(self, family: Family) -> Divergence:
        """The family's divergence; smoothed if rows are to be centers of a rough solution."""
        rough = isinstance(as_sampler(self.method), Sensitivity | Refined)
        return family.start if rough else family.divergence

    def _new_family(self) -> Family:
        if self.family == "gaussian":
            return Gaussian(self.covariance_type, self.reg_covar)
        return FAMILIES[self.family]()

    def _best(self, rows: Rows, weights: FloatArray, seed: int, before: Mixture | None) -> Mixture:
        """The likeliest of some restarts."""
        best: Mixture | None = None
        for attempt in range(self.n_init):
            shares = self._shares(rows, weights, seed, attempt, before)
            found = fit_mixture(
                rows, weights, self._new_family(), shares, max_iter=self.max_iter, tol=self.tol
            )
            if best is None or found.lower_bound > best.lower_bound:
                best = found
        assert best is not None
        if not best.converged:
            warnings.warn(
                f"the mixture did not converge in max_iter={self.max_iter} rounds; pass a larger "
                "max_iter or tol, or check the data for components that are hard to tell apart",
                ConvergenceWarning,
                stacklevel=3,
            )
        return best

    def _given_means(self, d: int) -> FloatArray:
        shape = (self.n_components, d)
        if np.shape(self.init) != shape:
            raise ValueError(
                f"init has shape {np.shape(self.init)}; pass means of shape {shape}, or one of "
                f"{', '.join(map(repr, _INITS))}"
            )
        return Measure(self._new_family().divergence).centers(check_centers(self.init, d), "init")

    def _goes_on(self, before: Mixture, n_features: int) -> bool:
        """Whether the last fit was one of the same kind."""
        same = before.family.name == self.family
        return same and before.family.means.shape == (self.n_components, n_features)

    def _shares(
        self,
        rows: Rows,
        weights: FloatArray,
        seed: int,
        attempt: int,
        before: Mixture | None,
    ) -> FloatArray:
        """What part of every row each component starts with."""
        if before is not None and self._goes_on(before, rows.shape[1]):
            joint = log_joint(before.family, before.weights, rows)
            shared: FloatArray = np.exp(joint - logsumexp(joint, axis=1)[:, None])
            return shared
        if isinstance(self.init, str) and self.init == "random":
            rng = generator(seed, Stage.SEEDING, attempt)
            return rng.dirichlet(np.ones(self.n_components), rows.shape[0])
        if isinstance(self.init, str):
            start = self._new_family().start
            seen = directions(rows) if self.family == "multinomial" else rows
            mean = np.asarray(weights @ seen) / weights.sum() if start.smoothing else None
            labels = cluster(
                seen,
                weights,
                Measure(start, mean=mean),
                self.n_components,
                kernel=kernels.choose(rows.shape[0] * rows.shape[1]),
                seed=seed + attempt,
                n_jobs=as_threads(self.n_jobs),
            ).labels
        else:
            labels = nearest(rows, self._given_means(rows.shape[1]))[0].astype(np.int64)
        return np.eye(self.n_components)[labels]

    def _keep(self, found: Mixture) -> None:
        self.mixture_ = found
        self.weights_, self.means_ = found.weights, found.family.means
        self.lower_bound_, self.n_iter_ = found.lower_bound, found.n_iter
        self.converged_ = found.converged
        if isinstance(found.family, Gaussian):
            self.covariances_ = found.family.covariances
            self.precisions_cholesky_ = found.family.precisions_cholesky
        if isinstance(found.family, Gamma):
            self.shapes_ = found.family.shapes

    def predict(self, X: Any) -> Any:
        """The likeliest component of every row, in the container that X has."""
        return self._map(X, "labels")

    def predict_proba(self, X: Any) -> DenseRows:
        """The probability of every component, by row."""
        return self._map(X, "shares")

    def score_samples(self, X: Any) -> DenseRows:
        """Log-likelihood of every row."""
        return self._map(X, "evidence")

    def _map(self, X: Any, what: str) -> Any:
        check_is_fitted(self, "mixture_")
        source = scan_rows(self, X, reset=False)
        if what != "labels" and not isinstance(source, LocalSource):
            raise TypeError(
                f"{type(source).__name__} takes labels alone; use predict, or ask for parts of it"
            )
        task = MixtureTask(self.mixture_.family, self.mixture_.weights, what)
        with source.explaining():
            return source.map_rows(task, n_jobs=as_threads(self.n_jobs))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood of a row, weighted if weights are given."""
        total, weight = self._evidence(X, sample_weight)
        return total / weight

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X: lower is better."""
        total, weight = self._evidence(X)
        return float(-2.0 * total + self._n_parameters() * np.log(weight))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on X: lower is better."""
        return -2.0 * self._evidence(X)[0] + 2.0 * self._n_parameters()

    def _evidence(self, X: Any, sample_weight: Any = None) -> tuple[float, float]:
        """Log-likelihood of all rows, and their weight, wherever they are."""
        check_is_fitted(self, "mixture_")
        source = scan_rows(self, X, sample_weight, reset=False)
        task = EvidenceTask(self.mixture_.family, self.mixture_.weights)
        with source.explaining():
            parts = list(source.gather(task, n_jobs=as_threads(self.n_jobs)))
        weight = fsum(weight for _, weight in parts)
        check_total(weight)
        return fsum(total for total, _ in parts), weight

    def _n_parameters(self) -> int:
        return int(self.mixture_.family.n_parameters()) + len(self.weights_) - 1

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, Any]:
        """Draw rows from the mixture, and the component that each is of."""
        check_is_fitted(self, "mixture_")
        n = check_count(n_samples, "n_samples")
        rng = np.random.default_rng(as_seed(self.random_state))
        counts = rng.multinomial(n, self.weights_)
        rows = [self.mixture_.family.sample(j, count, rng) for j, count in enumerate(counts)]
        return np.concatenate(rows), np.repeat(np.arange(len(counts)), counts)

    def to_arrow(self) -> pa.Table:
        """The model as a pyarrow table: a row a component, metadata in the schema."""
        from lwcs.estimators.mixture_table import to_table

        check_is_fitted(self, "mixture_")
        return to_table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as Parquet; `lwcs.load` reads it back.

        The coreset is not in it, nor are parameters that are objects (an `init` array, a
        sampler): those come back as their defaults.
        """
        storage.write_table(self.to_arrow(), path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        known = FAMILIES.get(self.family)
        tags.input_tags.sparse = known is not None and known.sparse
        tags.input_tags.positive_only = known is not None and known.divergence.domain.low == 0.0
        return tags
