"""CoresetKMeans: k-means on a coreset, with the scikit-learn API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, ClusterMixin

from lwcs import kernels
from lwcs.arrays.device import ArrayOrigin, check_device, followed, on_host, with_explained_memory
from lwcs.coreset.building import BuildContext, placed
from lwcs.coreset.coreset import Coreset, refuse_sample_weight
from lwcs.divergences import Domain, as_divergence, available
from lwcs.estimators.kmeans_predict import KMeansPredictMixin, refuse_transform
from lwcs.estimators.partial_fit import PartialFitMixin
from lwcs.estimators.validation import (
    TF32,
    check_parameters,
    check_rows,
    fitting,
    is_fitted_attribute,
    measured_by,
    open_rereadable,
    scan_rows,
    set_features,
)
from lwcs.geometry import Geometry
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads
from lwcs.runtime.randomness import as_seed
from lwcs.runtime.warnings import warn
from lwcs.sizing.decision import is_auto, sampler_of
from lwcs.sizing.fit_warnings import warn_of_domination, warn_of_fit
from lwcs.sizing.fitting import fit_coreset, fit_rows
from lwcs.sizing.levels import SolverParams
from lwcs.sizing.solution import FitRequest, FitResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.runtime.progress import Callback
    from lwcs.sources import Source


_HINTS = {
    "labels_": "fit sets it for arrays and tables in memory, with compute_labels=True, and not for "
    "paths and queries, which may have more rows than memory has room for. Label rows with "
    "predict(X), where X may be a path too, or with `lwcs assign`, which writes labels to a file; "
    "or fit on an array",
    "coreset_": "a loaded model has none; save the coreset beside it",
}


class CoresetKMeans(PartialFitMixin, KMeansPredictMixin, ClusterMixin, BaseEstimator):
    """k-means clustering of data of any size, by clustering a coreset of it.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    coreset_size : int or "auto", default="auto"
        Number of draws of the coreset. "auto" draws as many as it takes to reach `target_error`,
        400 × n_clusters and at least 20,000 to begin with; solves them coarse to fine; draws again
        where a pass over all rows shows that clusters were missed; and clusters data of up to
        10,000 rows, or of which every second row would be drawn, itself. An integer is exactly
        that: so many draws, solved at once, as in the paper. Data with no more rows than that is
        clustered itself.
    target_error : float or None, default=0.02
        Sampling error that "auto" aims at: how much more the centers may cost on all rows than if
        all rows had been clustered. If it is not reached, there is a warning with the figure,
        except for a Coreset, whose size is given. None draws 100 × n_clusters rows and solves them
        at once.
    method : {"auto", "lightweight", "uniform", "sensitivity", "refined"} or sampler, \
            default="auto"
        Sampling method, as for `lwcs.build`. "auto" begins with lightweight draws, and draws rows
        around their centers instead, as "refined" does, where that is predicted to be clearly
        better than more of them; where the draws may have missed clusters, one pass over all rows
        tells, also without `compute_labels`. Draws from large arrays are uniform, which saves a
        pass, where a few rows show that this loses nothing, and there is a final pass to judge.
        With an integer `coreset_size`, the draws are lightweight, as in the paper, unless they
        have failed: then as many are drawn around their centers. `diagnosis_` says what was chosen
        and why. A method that is wrong for the data is a warning, which names a better one; so are
        lightweight draws where `coreset_size`, or rows that can be read only once, left no choice.
    divergence : str or Divergence, default="sqeuclidean"
        Divergence that distances are measured by: the squared Euclidean distance, or a Bregman
        divergence by its name ("kl" for counts, "itakura_saito" for power spectra, "cosine" for
        directions, …; `lwcs.divergences.available`) or as an object.
    init : {"auto", "k-means++", "local-search", "plain-k-means++", "random"}, array or callable, \
            default="auto"
        Initial centers: by greedy k-means++, the same and then local search (swaps of a center
        for a point, while that pays), plain k-means++, random points, given centers of shape
        (n_clusters, n_features), or ``init(X, n_clusters, random_state=...)``, which is called once
        per start, from several threads, with NumPy arrays whatever X is. "auto" is "k-means++",
        and if the size is chosen, clusters are then split and merged as long as that pays.
    n_init : int or "auto", default="auto"
        Number of starts; the best one is kept. "auto" is 8 for up to 10 clusters, falling to 1
        for more than 40, on the coarsest level and compared by draws that they have not seen; and
        1 if `coreset_size` is an integer. Only one is performed if `init` is an array.
    max_iter : int, default=300
        Maximum number of iterations of Lloyd's algorithm per restart.
    tol : float or "auto", default="auto"
        Tolerance of convergence: Lloyd's algorithm ends once the squared movement of the centers
        (or their divergence) is at most `tol` times the weighted variance of the coreset per
        column. "auto" is 1e-4; if the size is chosen, the last level may end earlier, where an
        iteration gains little against the sampling error.
    polish : int, default=0
        Number of Lloyd steps on the full data after the solution on the coreset, one pass each.
        One step about halves the remaining error. Must be 0 for a Coreset and for rows that can be
        read only once; ignored by `partial_fit`.
    compute_labels : bool, default=True
        Whether to make a final pass over the data for `labels_`, the full-data `inertia_` and
        the sampling error.
    holdout : float, default=0.0
        Part of the draws that is held back to estimate the sampling error where there is no final
        pass and `coreset_size` is an integer or the data is a Coreset; 0.1 is a good start.
    random_state : None, int or NumPy generator, default=None
        Random seed of the coreset and of the initial centers.
    n_jobs : int, optional
        Number of threads; by default all cores that the container allows, or what joblib's context
        or OMP_NUM_THREADS say. Results do not depend on it.
    verbose : int or callable, default=0
        Whether to show progress on standard error, or a function that is called with a
        `lwcs.Progress`, as `progress` of `lwcs.build`. A function is not saved.
    device : str, optional
        Where distances of dense rows are computed, such as "cuda" or "cuda:1":
        rows of the host and of files go through it block by block. Rows on a device are computed
        with there, as they are by default. Results are where X is, whatever the device.
    precision : {"float32", "tf32"}, default="float32"
        Precision of products of float32 rows on a GPU. With "tf32" labels take about half of the
        time, and about 1 in 1,000 of them differ. Ignored on the CPU.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Centers, in the units of the data; in the library and on the device of X, as `labels_` are.
    labels_ : int32 array of shape (n_samples,)
        Label of every row, equal to ``predict(X)``. Set for data in memory if `compute_labels`.
    inertia_ : float
        Cost of exactly `cluster_centers_`: on the full data, or where no final pass is made
        (`compute_labels=False`, fitted on a Coreset, on rows that can be read only once, or by
        `partial_fit`) on the coreset. There it is an estimate: too low on average, since the
        centers were fitted to the coreset, and off by chance in either direction.
    sampling_error_ : float
        Estimate of how much more the centers cost on all rows than if Lloyd's algorithm went on
        from them on all rows: 0.02 is 2 %. It comes from draws that were not used, and from the
        final pass where that sees more than chance; 0 if all rows were clustered (what further
        iterations would gain then is `diagnosis_.unfinished`), and nan where nothing is known
        (without a final pass: an integer `coreset_size` or a small Coreset
        without `holdout`, and a union of coresets). What `polish` gained is taken off, as far as a
        further pass has measured it. It does not cover a poor local optimum.
    sampling_error_bound_ : float
        Upper bound in practice: the whole gap between the cost elsewhere and on the draws that were
        clustered (the estimate is half of it), and its standard error.
    n_iter_ : int
        Number of iterations of the best restart; with levels, of the last one.
    coreset_ : Coreset
        The coreset that was clustered; its method is "refined" if rows were drawn again around
        the centers of a first solution.
    scale_ : array of shape (n_features,) or None
        Standard deviations that distances are measured in, for data scanned with
        ``scale="standard"``.
    geometry_ : Geometry
        How rows are measured: the divergence, the scale, and the mean that rows are smoothed
        towards.
    fitted_on_ : FittedOn
        What the model remembers of its rows, also in its file: their number and weight, the mean
        and the variance of the cost per row, and the share of each cluster with its variance.
    stability_ : Stability
        What `stability` has found; only set once that was called, also in the file.
    diagnosis_ : Diagnosis or None
        What was seen of the data, and which method was used; `str(model.diagnosis_)` says it in
        words. It has the sampling error that is predicted for every method with as many draws
        (`errors`), the error that was measured, and how the cost and the clusters are spread. None
        for a model of `lwcs.choose_k`.
    timings_ : dict
        Seconds, rows, passes and bytes by stage, and in "total", as in the details of a coreset:
        passes over the rows by their names, and "seeding", "Lloyd", "split and merge", which
        have seconds only. Starts that run beside one another add up.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs import CoresetKMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 0.1, (5_000, 2)) for c in (0, 5, 9)])
    >>> model = CoresetKMeans(n_clusters=3, random_state=0).fit(X)
    >>> np.sort(model.cluster_centers_[:, 0]).round()
    array([0., 5., 9.])
    >>> bool(np.all(model.labels_ == model.predict(X)))
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        coreset_size: int | str = "auto",
        method: Any = "auto",
        divergence: Any = "sqeuclidean",
        target_error: float | None = 0.02,
        init: Any = "auto",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float | str = "auto",
        polish: int = 0,
        compute_labels: bool = True,
        holdout: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | Callback = 0,
        device: str | None = None,
        precision: str = "float32",
    ) -> None:
        self.n_clusters = n_clusters
        self.coreset_size = coreset_size
        self.method = method
        self.divergence = divergence
        self.target_error = target_error
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.polish = polish
        self.compute_labels = compute_labels
        self.holdout = holdout
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device
        self.precision = precision

    @with_explained_memory
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CoresetKMeans:
        """Cluster data, or a coreset of it that was built before.

        Parameters
        ----------
        X : array, sparse array, table, path of files, data of an engine, Source or Coreset
            Rows to cluster: whatever `lwcs.scan` accepts, or a coreset. Tensors of torch and
            arrays of CuPy stay on their device.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A row with weight 3 counts as that row three times.
        """
        with fitting(self, "_n_features_out", "_row_facts", "_stream", "_seed"):
            self.__dict__.update(self._fit(X, sample_weight))
        return self

    def _fit(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        """The attributes that `fit` sets."""
        request, divergence = self._request(), as_divergence(self.divergence)
        device = check_device(self.device)
        if isinstance(X, Coreset):
            refuse_sample_weight(sample_weight)
            self._check_polish("X is a Coreset, without the rows of the data", "fit the data")
            coreset = measured_by(X, divergence)
            set_features(self, coreset)
            check_rows(coreset, self.n_clusters)
            result = fit_coreset(coreset, self._geometry_for(coreset), request)
            warn_of_domination({} if result.diagnosis is None else result.diagnosis.columns)
            return self._attributes(result, request)
        source = scan_rows(self, X, sample_weight, reset=True, journal=request.params.journal)
        context = BuildContext.of(source, divergence, device, tf32=self.precision == TF32)
        if not context.source.rereadable:
            self._check_polish("these can be read only once", "write them to a file first")
        return self._attributes(fit_rows(context, request), request, context.source)

    def _geometry_for(self, coreset: Coreset) -> Geometry:
        """The geometry that a coreset is clustered by, with its kernel and its device."""
        own = Geometry(coreset.divergence, kernel=kernels.choose())
        return placed(own, check_device(self.device), [coreset.host_points], self.precision == TF32)

    def _request(self) -> FitRequest:
        """The parameters, checked."""
        size, threads = check_parameters(self), as_threads(self.n_jobs)
        sampler = sampler_of(self.method, self.n_clusters)
        params = SolverParams(
            k=self.n_clusters,
            init=on_host(self.init, "init"),
            n_init=self._restarts(),
            max_iter=self.max_iter,
            tol=None if isinstance(self.tol, str) else self.tol,
            seed=as_seed(self.random_state),
            n_jobs=threads,
            journal=Journal(self.verbose),
        )
        return FitRequest(
            params,
            sampler,
            size,
            self.target_error or 0.0,
            self.polish,
            self.compute_labels,
            self.holdout,
            "auto" if is_auto(self.method) else sampler.label,
            is_auto(self.method),
        )

    def _check_polish(self, why: str, instead: str) -> None:
        if self.polish:
            raise ValueError(
                f"polish={self.polish} needs further passes over the rows, but {why}; {instead}, "
                "or pass polish=0"
            )

    def _attributes(
        self, result: FitResult, request: FitRequest, source: Source | None = None
    ) -> dict[str, Any]:
        """The fitted attributes; `source` has the rows, if it was not a coreset that was given."""
        solution, error = result.solution, result.error
        found, coreset = solution.found, solution.coreset
        origin = ArrayOrigin.of(coreset.points)
        warn_of_fit(found, coreset, self.n_clusters, self.max_iter)
        fitted = {
            "cluster_centers_": followed(result.centers, origin),
            "inertia_": result.cost,
            "sampling_error_": error.estimate,
            "sampling_error_bound_": error.bound,
            "coreset_": coreset,
            "n_iter_": found.n_iter,
            "scale_": coreset.scale,
            "geometry_": _portable(solution.geometry),
            "fitted_on_": result.record(source),
            "diagnosis_": result.diagnosis,
            "timings_": request.params.journal.timings(),
            "_n_features_out": self.n_clusters,
        }
        if result.labels is not None and self.compute_labels:
            fitted["labels_"] = followed(result.labels, origin)
        return fitted

    def _restarts(self) -> int | None:
        """Number of restarts, None for "auto": one for given centers, as all would be the same."""
        n_init = None if isinstance(self.n_init, str) else self.n_init
        given = not isinstance(self.init, str) and not callable(self.init)
        if given and n_init is not None and n_init > 1:
            warn(
                f"init is an array of centers, so only one restart is performed instead of "
                f"n_init={n_init}; pass n_init=1",
                RuntimeWarning,
            )
        return 1 if given else n_init

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and label the rows that were fitted; for a Coreset, its points.

        Rows that can be read only once, such as those of a generator, are refused.
        """
        self.fit(open_rereadable(self, X, sample_weight, "fit_predict"))
        if "labels_" in vars(self):
            return self.labels_
        return self.predict(X.points if isinstance(X, Coreset) else X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the distances of `transform`; for a Coreset, those of its points."""
        rows = open_rereadable(self, X, sample_weight, "fit_transform")
        if not isinstance(rows, Coreset):
            refuse_transform(rows)
        self.fit(rows)
        return self.transform(X.points if isinstance(X, Coreset) else X)

    def __getattr__(self, name: str) -> Any:
        # Python calls this for missing attributes only. Nothing is computed here.
        known = vars(self)
        if "cluster_centers_" in known and name in _HINTS:
            raise AttributeError(f"this {type(self).__name__} has no {name!r}: {_HINTS[name]}")
        if "cluster_centers_" not in known and "_stream" in known and is_fitted_attribute(name):
            raise AttributeError(self._what_is_missing())
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = _starts_at_zero(self.divergence)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _portable(geometry: Geometry) -> Geometry:
    """A geometry without device and precision, which are parameters of the model."""
    single = geometry.precision_of_products == "tf32"
    products = "data" if single else geometry.precision_of_products
    return replace(geometry, device=None, precision_of_products=products)


def solved_model(result: FitResult, parameters: Mapping[str, Any]) -> CoresetKMeans:
    """The model that a fit with this result would give."""
    model = CoresetKMeans(len(result.centers), **parameters)
    set_features(model, result.solution.coreset)
    model.__dict__.update(model._attributes(result, model._request()))
    return model


def check_fitted(model: CoresetKMeans) -> None:
    """Raise NotFittedError, which says what is missing, if a model has no centers."""
    model._check_is_fitted()


def _starts_at_zero(divergence: Any) -> bool:
    """Whether negative numbers are refused; an invalid divergence is refused by `fit`."""
    known = available().get(divergence) if isinstance(divergence, str) else divergence
    return getattr(known, "domain", Domain()).low == 0.0
