"""CoresetMixture: mixtures of distributions through a coreset, with the scikit-learn API."""

from __future__ import annotations

import warnings
from math import fsum
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lwcs.building import Job
from lwcs.coreset import Coreset, explaining_points, refuse_sample_weight
from lwcs.estimators.inputs import check_rows, forget, scan_rows, set_features, size_of, summarize
from lwcs.estimators.mixture_rows import LogLikelihoodTask, MixtureTask, prepared
from lwcs.foundation import storage
from lwcs.foundation.checks import check_count
from lwcs.foundation.parallel import as_threads
from lwcs.foundation.randomness import as_seed
from lwcs.foundation.tabular import Tabular
from lwcs.samplers import as_sampler
from lwcs.samplers.first_pass import check_total
from lwcs.solvers.families import available, new_family
from lwcs.solvers.mixture import Mixture, fit_mixture, responsibilities
from lwcs.solvers.mixture_start import check_init, initial_responsibilities
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import DenseRows, FloatArray, Rows
    from lwcs.solvers.families import Family

DRAWS_PER_COMPONENT = 1_000


class CoresetMixture(Tabular, DensityMixin, BaseEstimator):
    """Mixture of distributions, fitted to data of any size through a coreset.

    The mixture is fitted by weighted expectation–maximization (EM). With ``family="gaussian"`` and
    a coreset of all rows it is scikit-learn's GaussianMixture with support for `sample_weight`.
    The coreset is drawn by the Bregman divergence that corresponds to the family: squared
    distances for Gaussian, KL for counts, logistic for Bernoulli, Itakura–Saito for exponential
    and gamma. The theory of the paper covers spherical Gaussians with a fixed variance and
    families whose only parameter is the mean. For other covariances, and for the shapes of
    gamma distributions, a coreset is a heuristic.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    family : str, default="gaussian"
        Distribution of the components: "gaussian" for any numbers; "poisson" (independent
        columns) or "multinomial" (columns given the sum of the row) for counts; "bernoulli" for
        values between 0 and 1; "exponential" or "gamma" for numbers > 0; or the name of your own
        subclass of `lwcs.solvers.families.Family`. Poisson, multinomial and Bernoulli accept
        sparse rows.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Covariance type; Gaussian only.
    coreset_size : int or "auto", default="auto"
        Number of draws in the coreset; "auto" is 1,000 × n_components. If the data has no more
        rows than that, all rows are used.
    method : str or sampler, default="lightweight"
        Sampling method, as in `lwcs.build`.
    init : {"k-means", "random"} or array of shape (n_components, n_features), default="k-means"
        Initialization: from clusters, from random responsibilities, or from the given means.
    n_init : int, default=1
        Number of restarts; the one with the largest log-likelihood is kept.
    max_iter : int, default=100
        Maximum number of EM iterations per restart.
    tol : float, default=1e-3
        EM stops once the mean log-likelihood per row gains less than this in one iteration.
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances; Gaussian only.
    warm_start : bool, default=False
        Whether to start from the solution of the previous call to `fit`.
    random_state : None, int or NumPy generator, default=None
        Seed for the coreset and the initialization.
    n_jobs : int, optional
        Number of threads; all cores by default.
    verbose : int, default=0
        Whether to show progress bars on standard error.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
        Weights of the components; they sum to 1.
    means_ : array of shape (n_components, n_features)
        Means of the components. For multinomial, the probabilities of the columns.
    covariances_, precisions_cholesky_ : array
        Covariances, and Cholesky factors of their inverses, in the shapes of scikit-learn;
        Gaussian only.
    shapes_ : array of shape (n_components, n_features)
        Shape parameters; gamma only.
    trials_ : float
        Mean of the row sums; multinomial only.
    lower_bound_ : float
        Weighted mean log-likelihood per row of the coreset.
    converged_ : bool
        Whether EM converged in the best restart.
    n_iter_ : int
        Number of EM iterations in the best restart.
    coreset_ : Coreset
        The coreset that was fitted.
    mixture_ : Mixture
        The fitted mixture that the attributes above are taken from.

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
        """Fit the mixture to data, or to a coreset of it.

        Parameters
        ----------
        X : anything that `lwcs.scan` accepts, or a Coreset
            Rows to fit.
        y : Ignored
            Present for compatibility with the scikit-learn API.
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows; a row of weight 3 counts as three copies of it.
        """
        before = getattr(self, "mixture_", None) if self.warm_start else None
        forget(self)
        try:
            coreset, found = self._fit(X, sample_weight, before)
        except BaseException:
            # After an error or an interrupt the estimator is not fitted.
            forget(self)
            raise
        self._keep(found)
        self.coreset_ = coreset
        return self

    def _fit(self, X: Any, sample_weight: Any, before: Mixture | None) -> tuple[Coreset, Mixture]:
        size, seed = self._check(), as_seed(self.random_state)
        family = self._new_family()
        if isinstance(X, Coreset):
            refuse_sample_weight(sample_weight)
            # Its weights are unbiased, whatever divergence it was drawn by.
            coreset = X
            set_features(self, coreset)
            check_rows(coreset, self.n_components, "n_components")
        else:
            source = scan_rows(self, X, sample_weight, reset=True)
            coreset = summarize(
                Job.of(source, self._drawn_by(family)),
                size,
                self.n_components,
                method=self.method,
                seed=seed,
                n_jobs=as_threads(self.n_jobs),
                progress=bool(self.verbose),
                name="n_components",
            )
        if coreset.scale is not None:
            raise ValueError(
                "scale='standard' is not supported by CoresetMixture, which fits the variances "
                "itself; scan the data without scale"
            )
        with explaining_points(coreset):
            rows = prepared(coreset.points, family)
        return coreset, self._best_restart(rows, coreset.weights, seed, before)

    def _check(self) -> int:
        """Check what can be checked without data; return the coreset's size."""
        k = check_count(self.n_components, "n_components")
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        tol: Any = self.tol
        if isinstance(tol, bool) or not isinstance(tol, Real) or not 0.0 <= float(tol) < np.inf:
            raise ValueError(f"tol={tol!r} is not allowed; pass a finite number >= 0")
        check_init(self.init)
        as_sampler(self.method)
        return size_of(self.coreset_size, k, DRAWS_PER_COMPONENT, "n_components")

    def _new_family(self) -> Family:
        return new_family(self.family, self.get_params(deep=False))

    def _drawn_by(self, family: Family) -> Divergence:
        """The divergence of the coreset; a smoothed one if rows serve as centers of a pilot."""
        return family.start if as_sampler(self.method).solves_first else family.divergence

    def _best_restart(
        self, rows: Rows, weights: FloatArray, seed: int, before: Mixture | None
    ) -> Mixture:
        best: Mixture | None = None
        for attempt in range(self.n_init):
            family = self._new_family()
            start = self._start(rows, weights, family, seed, attempt, before)
            found = fit_mixture(rows, weights, family, start, max_iter=self.max_iter, tol=self.tol)
            if best is None or found.lower_bound > best.lower_bound:
                best = found
        assert best is not None
        if not best.converged:
            warnings.warn(
                f"EM did not converge in max_iter={self.max_iter} iterations; pass a larger "
                "max_iter or tol, or fewer components",
                ConvergenceWarning,
                stacklevel=3,
            )
        return best

    def _start(
        self,
        rows: Rows,
        weights: FloatArray,
        family: Family,
        seed: int,
        attempt: int,
        before: Mixture | None,
    ) -> FloatArray:
        """Initial responsibilities; those of the previous fit if that had the same form."""
        if before is not None:
            same_shape = before.family.means.shape == (self.n_components, rows.shape[1])
            if same_shape and type(before.family) is type(family):
                return responsibilities(before.family, before.weights, rows)
        return initial_responsibilities(
            rows,
            weights,
            family,
            self.n_components,
            self.init,
            seed=seed,
            attempt=attempt,
            n_jobs=as_threads(self.n_jobs),
        )

    def _keep(self, found: Mixture) -> None:
        self.mixture_, self.weights_ = found, found.weights
        self.lower_bound_, self.n_iter_ = found.lower_bound, found.n_iter
        self.converged_ = found.converged
        for name, value in found.family.attributes().items():
            setattr(self, f"{name}_", value)

    def predict(self, X: Any) -> Any:
        """Most likely component of every row, in the same kind of container as X."""
        return self._map(X, "labels")

    def predict_proba(self, X: Any) -> DenseRows:
        """Probability of each component for every row."""
        return self._map(X, "responsibilities")

    def score_samples(self, X: Any) -> DenseRows:
        """Log-likelihood of every row."""
        return self._map(X, "log-likelihood")

    def _map(self, X: Any, what: str) -> Any:
        check_is_fitted(self, "mixture_")
        source = scan_rows(self, X, reset=False)
        if what != "labels" and not isinstance(source, LocalSource):
            raise TypeError(
                f"a {type(source).__name__} supports predict only; call predict, or pass parts of "
                "the rows as arrays"
            )
        task = MixtureTask(self.mixture_.family, self.mixture_.weights, what)
        with source.explaining():
            return source.map_rows(task, n_jobs=as_threads(self.n_jobs))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per row, weighted by `sample_weight`."""
        total, weight = self._log_likelihood(X, sample_weight)
        return total / weight

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X; lower is better."""
        total, weight = self._log_likelihood(X)
        return float(-2.0 * total + self._n_parameters() * np.log(weight))

    def aic(self, X: Any) -> float:
        """Akaike information criterion on X; lower is better."""
        return -2.0 * self._log_likelihood(X)[0] + 2.0 * self._n_parameters()

    def _log_likelihood(self, X: Any, sample_weight: Any = None) -> tuple[float, float]:
        """Total log-likelihood of the rows of any source, and their total weight."""
        check_is_fitted(self, "mixture_")
        source = scan_rows(self, X, sample_weight, reset=False)
        task = LogLikelihoodTask(self.mixture_.family, self.mixture_.weights)
        with source.explaining():
            parts = list(source.gather(task, n_jobs=as_threads(self.n_jobs)))
        weight = fsum(weight for _, weight in parts)
        check_total(weight)
        return fsum(total for total, _ in parts), weight

    def _n_parameters(self) -> int:
        return self.mixture_.family.n_parameters() + len(self.weights_) - 1

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, Any]:
        """Draw rows from the mixture; return them and the component of each."""
        check_is_fitted(self, "mixture_")
        n = check_count(n_samples, "n_samples")
        rng = np.random.default_rng(as_seed(self.random_state))
        counts = rng.multinomial(n, self.weights_)
        rows = [self.mixture_.family.sample(j, count, rng) for j, count in enumerate(counts)]
        return np.concatenate(rows), np.repeat(np.arange(len(counts)), counts)

    _instead_of_rows = "pass rows of data"

    def to_arrow(self) -> pa.Table:
        """Convert the model to a pyarrow table with one row per component and metadata."""
        from lwcs.estimators.mixture_table import to_table

        check_is_fitted(self, "mixture_")
        return to_table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a Parquet file, which `lwcs.load` reads.

        The file contains neither the coreset nor parameters that are objects (an `init` array, a
        sampler); these have their default values after loading. A model of your own family can be
        loaded once the class is defined.
        """
        storage.write_table(self.to_arrow(), path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        known = available().get(self.family)
        tags.input_tags.sparse = known is not None and known.sparse
        tags.input_tags.positive_only = known is not None and known.divergence.domain.low == 0.0
        return tags
