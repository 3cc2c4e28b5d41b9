"""CoresetMixture: mixtures of distributions through a coreset, with the scikit-learn API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning

from lwcs.arrays.checks import check_count, check_number
from lwcs.arrays.device import ArrayOrigin, followed, with_explained_memory
from lwcs.coreset.building import BuildContext
from lwcs.coreset.coreset import Coreset, refuse_sample_weight
from lwcs.estimators.mixture_predict import MixturePredictMixin
from lwcs.estimators.validation import (
    check_auto,
    check_errors,
    check_rows,
    fitting,
    open_rereadable,
    scan_rows,
    set_features,
    size_of,
)
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads
from lwcs.runtime.randomness import as_seed
from lwcs.runtime.warnings import warn
from lwcs.samplers import as_sampler
from lwcs.sizing.mixture_fitting import RowDrawing, fit_on_levels, fit_on_one_level, fit_to_target
from lwcs.solvers.em_starts import Given, Runs, check_init, to_continue
from lwcs.solvers.families import available, new_family

if TYPE_CHECKING:
    from lwcs.runtime.progress import Callback
    from lwcs.sizing.mixture_fitting import MixtureFit
    from lwcs.solvers.em import Mixture
    from lwcs.solvers.families import Family
    from lwcs.sources import Source
    from lwcs.statistics.referee import SamplingError

DRAWS_PER_COMPONENT = 1_000


class CoresetMixture(MixturePredictMixin, DensityMixin, BaseEstimator):
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
        Number of draws in the coreset. "auto" is as many as `target_error` takes: first
        1,000 × n_components, up to 16 times as many if these do not suffice, or all rows. Data of
        up to 10,000 rows, or of no more than twice the draws, is fitted itself. With an integer,
        all rows are used if there are no more than that.
    method : str or sampler, default="lightweight"
        Sampling method, as in `lwcs.build`.
    init : {"k-means", "random"}, default="k-means"
        Initialization: from clusters, or from random responsibilities. Ignored if `means_init` is
        given.
    means_init : array of shape (n_components, n_features), optional
        Initial means. The other initial parameters, unless they are given, are estimated from the
        rows assigned to each mean: those that are nearest to it by the divergence of the family.
        For multinomial, the means are the probabilities of the columns; rows of `means_init` that
        do not sum to 1 are divided by their sums.
    weights_init : array of shape (n_components,), optional
        Initial weights of the components; they must sum to 1.
    precisions_init : array, optional
        Initial precisions (inverse covariances), in the shape of `precisions_`; Gaussian only. If
        means, weights and precisions are all given, EM starts from exactly that mixture, as in
        scikit-learn.
    target_error : float or None, default=0.02
        With ``coreset_size="auto"``: how much the log-likelihood, in nats per row, may be below
        that of a mixture fitted to all rows. The mixture is fitted on a quarter of the draws
        first, from several starts; the other draws choose the best and tell how far it is off;
        then EM goes on from there on all draws. If the error is larger than this, more rows are
        drawn, at most twice, and if it still is, there is a ConvergenceWarning. None: the first
        draws are fitted at once, and `sampling_error_` is not known.
    holdout : float, default=0.0
        Part of the draws that is held back, from 0 to 1: the mixture is fitted on the others, and
        these tell how far it is off. For an integer `coreset_size` or a Coreset, whose
        `sampling_error_` is not known otherwise; 0.1 is enough. `coreset_` has all draws. Not
        used where ``coreset_size="auto"`` compares draws anyway.
    n_init : int or "auto", default="auto"
        Number of restarts; the one with the largest log-likelihood is kept. "auto" is 8 where a
        quarter of the draws is fitted first (see `target_error`), else 1. With `means_init`, only
        one is performed, since all restarts would be equal.
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
        Number of threads; by default all cores that the container allows, or what joblib's context
        or OMP_NUM_THREADS say.
    verbose : int or callable, default=0
        Whether to show progress, or a function that is called with a `lwcs.Progress`, as
        `progress` of `lwcs.build`. A function is not saved.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
        Weights of the components; they sum to 1. For tensors of torch and arrays of CuPy, this and
        the arrays below are on their device.
    means_ : array of shape (n_components, n_features)
        Means of the components. For multinomial, the probabilities of the columns.
    covariances_ : array
        Covariances, in the shapes of scikit-learn: (n_components, n_features, n_features) for
        "full", (n_features, n_features) for "tied", (n_components, n_features) for "diag",
        (n_components,) for "spherical". Gaussian only.
    precisions_, precisions_cholesky_ : array
        Inverse covariances, and their upper triangular Cholesky factors, in the same shapes;
        Gaussian only.
    shapes_ : array of shape (n_components, n_features)
        Shape parameters; gamma only.
    trials_ : float
        Mean of the row sums; multinomial only.
    lower_bound_ : float
        Weighted mean log-likelihood per row of the coreset, before the last M step.
    lower_bounds_ : list of float
        The same for every iteration of the best restart; where a quarter of the draws is fitted
        first, of the run on all draws that follows. So are `converged_` and `n_iter_`.
    converged_ : bool
        Whether EM converged in the best restart.
    n_iter_ : int
        Number of EM iterations in the best restart.
    coreset_ : Coreset
        The coreset that was fitted.
    sampling_error_ : float
        Estimate of how much the log-likelihood, in nats per row, is below that of a mixture
        fitted to all rows from the same start. It does not include what a poor start costs. 0.0
        if all rows were fitted; nan if it is not known: for an integer `coreset_size` without
        `holdout`, for coresets that were not drawn directly from data (unions, streams), and for
        a Coreset with too few draws for the parameters.
    sampling_error_bound_ : float
        About twice the estimate, and its standard error: an upper bound in most cases.
    mixture_ : Mixture
        The fitted mixture that the attributes above are taken from.
    fitted_on_ : FittedOn
        What the model remembers of its rows, as for CoresetKMeans; minus the log-likelihood of a
        row is its cost.
    timings_ : dict
        Seconds, rows, passes and bytes by stage, as for CoresetKMeans; EM is the stage "EM".
    n_features_in_, feature_names_in_
        As in scikit-learn.

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
        init: str = "k-means",
        means_init: Any = None,
        weights_init: Any = None,
        precisions_init: Any = None,
        target_error: float | None = 0.02,
        holdout: float = 0.0,
        n_init: int | str = "auto",
        max_iter: int = 100,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | Callback = 0,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.covariance_type = covariance_type
        self.coreset_size = coreset_size
        self.method = method
        self.init = init
        self.means_init = means_init
        self.weights_init = weights_init
        self.precisions_init = precisions_init
        self.target_error = target_error
        self.holdout = holdout
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg_covar = reg_covar
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_explained_memory
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
        with fitting(self, "_row_facts"):
            journal = Journal(self.verbose)
            found = self._fit(X, sample_weight, before, journal)
            self.coreset_ = found.coreset
            self._keep(found.mixture, found.error, ArrayOrigin.of(found.coreset.points))
            self.timings_ = journal.timings()
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the most likely component of every row that was fitted.

        Equal to ``fit(X).predict(X)``; for a Coreset, the labels of its points. Rows that can be
        read only once, such as those of a generator, are refused, since labels need a second pass.
        """
        self.fit(open_rereadable(self, X, sample_weight, "fit_predict"))
        return self.predict(X.points if isinstance(X, Coreset) else X)

    def _fit(
        self, X: Any, sample_weight: Any, before: Mixture | None, journal: Journal
    ) -> MixtureFit:
        size, seed, k = self._check(), as_seed(self.random_state), self.n_components
        family = self._new_family()
        source: Source | None = None
        if isinstance(X, Coreset):
            refuse_sample_weight(sample_weight)
            # Its weights are unbiased, whatever divergence it was drawn by.
            coreset, drawing = X, None
            set_features(self, coreset)
            given = self._given(family)
            check_rows(coreset, k, "n_components")
        else:
            source = scan_rows(self, X, sample_weight, reset=True, journal=journal)
            given = self._given(family)
            sampler = as_sampler(self.method, k)
            # The centers of a pilot are rows, for which the divergence must be smoothed.
            divergence = family.start if sampler.solves_first else family.divergence
            context = BuildContext.of(source, divergence)
            drawing = RowDrawing(context, sampler, seed, as_threads(self.n_jobs), journal)
            coreset = drawing.first(size, k, chosen=self.coreset_size == "auto")
            drawing = drawing if source.rereadable else None
        if coreset.scale is not None:
            raise ValueError(
                "scale='standard' is not supported by CoresetMixture, which fits the variances "
                "itself; scan the data without scale"
            )
        last = to_continue(before, family, (k, coreset.n_features))
        runs = replace(self._runs(given, seed, journal), resumes=last is not None)
        found = self._solve(coreset, runs, last, drawing, given=coreset is X)
        if not found.mixture.converged:
            warn(
                f"EM did not converge in max_iter={self.max_iter} iterations; pass a larger "
                "max_iter or tol, or fewer components",
                ConvergenceWarning,
            )
        self.fitted_on_ = found.record(source)
        return found

    def _solve(
        self, coreset: Coreset, runs: Runs, last: Mixture | None, drawing: RowDrawing | None,
        given: bool,
    ) -> MixtureFit:  # fmt: skip
        """Fit the draws at once or on levels, and draw more rows where the size is chosen."""
        n_init = self._restarts() if last is None else 1
        target, held = self.target_error, given and self.holdout > 0.0
        if self.coreset_size != "auto" or target is None or held:
            return fit_on_one_level(coreset, runs, n_init, last, self.holdout)
        if given:
            return fit_on_levels(coreset, runs, n_init, last)
        return fit_to_target(coreset, runs, n_init, float(target), drawing, last)

    def _check(self) -> int:
        """Check the parameters without data; return the size of the coreset."""
        k = check_count(self.n_components, "n_components")
        check_auto(self.n_init, "n_init", check_count)
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol")
        check_errors(self)
        check_init(self.init)
        as_sampler(self.method)
        return size_of(self.coreset_size, k, DRAWS_PER_COMPONENT, "n_components")

    def _new_family(self) -> Family:
        return new_family(self.family, self.get_params(deep=False))

    def _given(self, family: Family) -> Given:
        """The initial parameters that were given, checked before rows are read."""
        return Given.checked(
            family,
            self.n_components,
            self.n_features_in_,
            means=self.means_init,
            weights=self.weights_init,
            precisions=self.precisions_init,
        )

    def _runs(self, given: Given, seed: int, journal: Journal) -> Runs:
        k, init, threads = self.n_components, self.init, as_threads(self.n_jobs)
        return Runs(
            self._new_family, k, init, given, self.max_iter, self.tol, seed, threads, journal
        )

    def _restarts(self) -> int | None:
        """Number of restarts that differ; None for "auto"."""
        request = None if isinstance(self.n_init, str) else self.n_init
        if self.means_init is None or request == 1:
            return request
        if request is not None:
            warn(
                f"means_init is given, so only one restart is performed instead of "
                f"n_init={self.n_init}; pass n_init=1, or leave out means_init",
                RuntimeWarning,
            )
        return 1

    def _keep(self, mixture: Mixture, error: SamplingError, origin: ArrayOrigin | None) -> None:
        """Set the fitted attributes, with arrays in the library and on the device of X."""
        self.mixture_, self.n_iter_, self.converged_ = mixture, mixture.n_iter, mixture.converged
        self.lower_bound_, self.lower_bounds_ = mixture.lower_bound, list(mixture.bounds)
        self.sampling_error_, self.sampling_error_bound_ = error.estimate, error.bound
        for name, value in {"weights": mixture.weights, **mixture.family.attributes()}.items():
            setattr(self, f"{name}_", followed(value, origin))

    if not TYPE_CHECKING:  # for type checkers, only attributes that are declared exist

        def __getattr__(self, name: str) -> Any:
            """Say which families have a fitted attribute that this model does not have."""
            fitted, known = vars(self).get("mixture_"), available().values()
            owners = [each.name for each in known if name in {f"{own}_" for own in each.shown()}]
            if fitted is None or not owners:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(
                f"{name} exists for family={' or '.join(map(repr, owners))} only; this model has "
                f"family={fitted.family.name!r}"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        known = available().get(self.family)
        tags.array_api_support = True
        tags.input_tags.sparse = known is not None and known.sparse
        tags.input_tags.positive_only = known is not None and known.divergence.domain.low == 0.0
        return tags
