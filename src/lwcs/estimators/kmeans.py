"""CoresetKMeans: k-means on a coreset, with the scikit-learn API."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from lwcs import kernels
from lwcs.building import Job
from lwcs.coreset import Coreset, explaining_points, refuse_sample_weight
from lwcs.divergences import Domain, as_divergence, available
from lwcs.estimators.incremental import Incremental
from lwcs.estimators.inputs import (
    check_parameters,
    check_rows,
    forget,
    measured_by,
    open_for_answers,
    scan_rows,
    set_features,
    summarize,
)
from lwcs.estimators.kmeans_answers import KMeansAnswers, refuse_transform
from lwcs.foundation.notices import warn
from lwcs.foundation.parallel import as_threads
from lwcs.foundation.progress import track
from lwcs.foundation.randomness import as_seed
from lwcs.foundation.rows import count_distinct
from lwcs.passes import AssignTask, full_cost, polish
from lwcs.solvers.kmeans import cluster
from lwcs.sources import LocalSource, Source

if TYPE_CHECKING:
    from lwcs.geometry import Centers


class CoresetKMeans(Incremental, KMeansAnswers, ClusterMixin, BaseEstimator):
    """k-means clustering of data of any size, by clustering a coreset of it.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    coreset_size : int or "auto", default="auto"
        Number of draws of the coreset; "auto" is 100 × n_clusters. Data with no more rows than
        that is clustered itself, without sampling.
    method : {"lightweight", "uniform", "sensitivity", "refined"} or sampler, \
            default="lightweight"
        Sampling method, as for `lwcs.build`.
    divergence : str or Divergence, default="sqeuclidean"
        Divergence that distances are measured by: the squared Euclidean distance, or a Bregman
        divergence by its name ("kl" for counts, "itakura_saito" for power spectra, "cosine" for
        directions, …; `lwcs.divergences.available`) or as an object.
    init : {"k-means++", "plain-k-means++", "random"}, array or callable, default="k-means++"
        Initial centers: by greedy or plain k-means++, random points, given centers of shape
        (n_clusters, n_features), or ``init(X, n_clusters, random_state=...)``.
    n_init : int, default=1
        Number of restarts on the coreset; the best one is kept. Only one is performed if `init` is
        an array.
    max_iter : int, default=300
        Maximum number of iterations of Lloyd's algorithm per restart.
    tol : float, default=1e-4
        Tolerance of convergence: a restart ends once the squared movement of the centers (or
        their divergence) is at most `tol` times the weighted variance of the coreset per column.
    polish : int, default=0
        Number of Lloyd steps on the full data after the solution on the coreset, one pass each.
        One step about halves the remaining error. Must be 0 for a Coreset and for rows that can be
        read only once; ignored by `partial_fit`.
    compute_labels : bool, default=True
        Whether to make a final pass over the data for `labels_` and the full-data `inertia_`.
    random_state : None, int or NumPy generator, default=None
        Random seed of the coreset and of the initial centers.
    n_jobs : int, optional
        Number of threads; all cores by default. Results do not depend on it.
    verbose : int, default=0
        Whether to show progress bars on standard error.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Centers, in the units of the data.
    labels_ : int32 array of shape (n_samples,)
        Label of every row, equal to ``predict(X)``. Set for data in memory if `compute_labels`.
    inertia_ : float
        Cost of exactly `cluster_centers_`: on the full data, or where no final pass is made
        (`compute_labels=False`, fitted on a Coreset, on rows that can be read only once, or by
        `partial_fit`) on the coreset. There it is biased low, since the centers were fitted to
        the coreset; less so if they were polished.
    n_iter_ : int
        Number of iterations of the best restart.
    coreset_ : Coreset
        The coreset that was clustered.
    scale_ : array of shape (n_features,) or None
        Standard deviations that distances are measured in, for data scanned with
        ``scale="standard"``.
    geometry_ : Geometry
        How rows are measured: the divergence, the scale, and the mean that rows are smoothed
        towards.
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
        method: Any = "lightweight",
        divergence: Any = "sqeuclidean",
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        polish: int = 0,
        compute_labels: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.coreset_size = coreset_size
        self.method = method
        self.divergence = divergence
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.polish = polish
        self.compute_labels = compute_labels
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CoresetKMeans:
        """Cluster data, or a coreset of it that was built before.

        Parameters
        ----------
        X : array, sparse array, table, path of files, data of an engine, Source or Coreset
            Rows to cluster: whatever `lwcs.scan` accepts, or a coreset.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A row with weight 3 counts as that row three times.
        """
        self._forget()
        try:
            fitted = self._fit(X, sample_weight)
        except BaseException:
            # After an error or an interrupt, the estimator is not fitted.
            self._forget()
            raise
        self.__dict__.update(fitted)
        return self

    def _forget(self) -> None:
        forget(self, "_n_features_out", "_stream", "_seed")

    def _fit(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        """Do what `fit` does; return what it sets."""
        size, threads, seed = (
            check_parameters(self),
            as_threads(self.n_jobs),
            as_seed(self.random_state),
        )
        divergence, job = as_divergence(self.divergence), None
        if isinstance(X, Coreset):
            refuse_sample_weight(sample_weight)
            self._check_polish("X is a Coreset, without the rows of the data", "fit the data")
            coreset, kernel = measured_by(X, divergence), kernels.choose(X.points.size)
            set_features(self, coreset)
            check_rows(coreset, self.n_clusters)
        else:
            job = Job.of(scan_rows(self, X, sample_weight, reset=True), divergence)
            if not job.source.rereadable:
                self._check_polish("these can be read only once", "write them to a file first")
            kernel = job.geometry.kernel
            coreset = summarize(
                job,
                size,
                self.n_clusters,
                method=self.method,
                seed=seed,
                n_jobs=threads,
                progress=bool(self.verbose),
            )
        fitted = self._solve(coreset, kernel, seed, threads)
        # Rows that can be read only once are gone after the coreset.
        if job is None or not job.source.rereadable:
            return fitted
        geometry, centers = fitted["geometry_"], fitted["cluster_centers_"]
        for _ in range(self.polish):
            own = polish(
                job.source, geometry.own_centers(centers), threads, progress=bool(self.verbose)
            )
            centers = geometry.to_data(own).astype(centers.dtype)
        if self.compute_labels:
            fitted |= self._final_pass(job.source, geometry.own_centers(centers), threads)
        elif self.polish:
            fitted["inertia_"] = coreset.cost(centers)
        return fitted | {"cluster_centers_": centers}

    def _check_polish(self, why: str, instead: str) -> None:
        if self.polish:
            raise ValueError(
                f"polish={self.polish} needs further passes over the rows, but {why}; {instead}, "
                "or pass polish=0"
            )

    def _solve(
        self, coreset: Coreset, kernel: kernels.KernelName, seed: int, threads: int
    ) -> dict[str, Any]:
        """Cluster a coreset; return what that sets."""
        with explaining_points(coreset):
            geometry = coreset.geometry(kernel)
            found = cluster(
                coreset.points,
                coreset.weights,
                geometry,
                self.n_clusters,
                init=self.init,
                n_init=self._restarts(),
                max_iter=self.max_iter,
                tol=self.tol,
                seed=seed,
                n_jobs=threads,
            )
        self._warn(found.converged, len(np.unique(found.labels)), coreset)
        dtype = geometry.center_dtype(coreset.points.dtype)
        return {
            "cluster_centers_": geometry.to_data(found.centers).astype(dtype),
            "inertia_": found.cost,
            "coreset_": coreset,
            "n_iter_": found.n_iter,
            "scale_": coreset.scale,
            "geometry_": geometry,
            "_n_features_out": self.n_clusters,
        }

    def _restarts(self) -> int:
        """One if the centers to start from are given: all restarts would be the same."""
        given = not isinstance(self.init, str) and not callable(self.init)
        if given and self.n_init > 1:
            warn(
                f"init is an array of centers, so only one restart is performed instead of "
                f"n_init={self.n_init}; pass n_init=1",
                RuntimeWarning,
            )
        return 1 if given else self.n_init

    def _warn(self, converged: bool, distinct: int, coreset: Coreset) -> None:
        if distinct < self.n_clusters:
            warn(
                f"the number of distinct clusters ({distinct}) is smaller than n_clusters "
                f"({self.n_clusters}): {_why_fewer(coreset, self.n_clusters)}",
                ConvergenceWarning,
            )
        if not converged:
            warn(
                f"Lloyd's algorithm did not converge in max_iter={self.max_iter} iterations; "
                "pass a larger max_iter or tol",
                ConvergenceWarning,
            )

    def _final_pass(self, source: Source, centers: Centers, threads: int) -> dict[str, Any]:
        if not isinstance(source, LocalSource):
            return {"inertia_": full_cost(source, centers, threads)}
        labels = np.empty(source.n_rows, dtype=np.int32)
        costs = source.each_block(AssignTask(centers, labels), n_jobs=threads)
        total = -(-source.n_rows // source.block_rows)
        with source.explaining():
            cost = fsum(track(costs, "labels", total, show=bool(self.verbose)))
        return {"inertia_": cost, "labels_": labels}

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and label the rows that were fitted; for a Coreset, its points.

        Rows that can be read only once, such as those of a generator, are refused.
        """
        self.fit(open_for_answers(self, X, sample_weight, "fit_predict"))
        if "labels_" in vars(self):
            return self.labels_
        return self.predict(X.points if isinstance(X, Coreset) else X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the distances of `transform`; for a Coreset, those of its points."""
        rows = open_for_answers(self, X, sample_weight, "fit_transform")
        if not isinstance(rows, Coreset):
            refuse_transform(rows)
        self.fit(rows)
        return self.transform(X.points if isinstance(X, Coreset) else X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = _starts_at_zero(self.divergence)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _starts_at_zero(divergence: Any) -> bool:
    """Whether negative numbers are refused; an invalid divergence is refused by `fit`."""
    known = available().get(divergence) if isinstance(divergence, str) else divergence
    return getattr(known, "domain", Domain()).low == 0.0


def _why_fewer(coreset: Coreset, k: int) -> str:
    """Why fewer than k clusters have rows, and what to do."""
    rows = count_distinct(coreset.points[np.flatnonzero(coreset.weights)])
    whole = coreset.method == "all rows"
    has = f"{'the data' if whole else 'the coreset'} has {'only ' * (rows < k)}{rows} distinct row"
    has += "s" * (rows != 1)
    if rows >= k:
        return f"{has}, but some are equally far from several centers; pass a smaller n_clusters"
    return f"{has}; pass n_clusters <= {rows}" + ("" if whole else ", or a coreset of more draws")
