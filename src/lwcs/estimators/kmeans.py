"""CoresetKMeans: k-means by a coreset, in scikit-learn's grammar."""

from __future__ import annotations

import warnings
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lwcs import kernels
from lwcs.coreset import Coreset, explaining_points
from lwcs.divergences import Domain, SquaredEuclidean, as_divergence, available
from lwcs.estimators.incremental import Incremental
from lwcs.estimators.inputs import (
    check_parameters,
    check_rows,
    forget,
    measured_by,
    scan_rows,
    set_features,
    summarise,
)
from lwcs.foundation import storage
from lwcs.foundation.parallel import as_threads
from lwcs.foundation.progress import track
from lwcs.foundation.randomness import as_seed
from lwcs.solvers.kmeans import cluster
from lwcs.solvers.passes import DistancesTask, FinalPass, LabelTask, full_cost, polish
from lwcs.sources import LocalSource, Source

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from lwcs.divergences import Measure
    from lwcs.foundation.types import DenseRows, FloatArray


class CoresetKMeans(
    Incremental, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """k-means clustering of data of any size, by clustering a coreset of it.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    coreset_size : int or "auto", default="auto"
        Draws of the coreset. "auto" is 100 × n_clusters. Data with no more rows than that is
        clustered itself, without sampling.
    method : {"lightweight", "uniform", "sensitivity", "refined"} or sampler, \
            default="lightweight"
        How rows are drawn, as for `lwcs.build`.
    divergence : str or Divergence, default="sqeuclidean"
        What "near" means: squared distances, or a Bregman divergence by its name ("kl" for
        counts, "itakura_saito" for power spectra, "cosine" for directions, …;
        `lwcs.divergences.available`) or as an object.
    init : {"k-means++", "plain-k-means++", "random"}, array or callable, default="k-means++"
        Where centers start: greedy or plain k-means++, random points, given centers of shape
        (n_clusters, n_features), or ``init(X, n_clusters, random_state=...)``.
    n_init : int, default=1
        Restarts on the coreset; the best is kept.
    max_iter : int, default=300
        Most rounds of Lloyd's algorithm a restart.
    tol : float, default=1e-4
        Ends a run once the centers move, squared (or by the divergence), by no more than this
        times the weighted variance of the coreset (what a row costs around the mean, a column).
    polish : int, default=0
        Lloyd steps on the full data after the coreset's solution, one pass each. One step about
        halves the error that is left.
    compute_labels : bool, default=True
        Make one more pass at the end, for `labels_` and the full-data `inertia_`.
    random_state : None, int or NumPy generator, default=None
        Seed of the coreset and of the starts.
    n_jobs : int, optional
        Threads; all cores by default. Results do not depend on it.
    verbose : int, default=0
        Draw progress bars on standard error.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        In the units of the data.
    labels_ : int32 array of shape (n_samples,)
        Equal to ``predict(X)``. Set for data in memory if `compute_labels`.
    inertia_ : float
        Cost of exactly `cluster_centers_` on the full data. Where no final pass is made
        (`compute_labels=False`, or fitted on a Coreset) it is the coreset's own cost, which is
        biased low, since the centers were fitted to it.
    n_iter_ : int
        Rounds of Lloyd's algorithm of the best restart.
    coreset_ : Coreset
        What was clustered.
    scale_ : array of shape (n_features,) or None
        Standard deviations that distances are measured in, for data scanned with
        ``scale="standard"``.
    measure_ : Measure
        What rows are measured by: the divergence, that scale, the mean that rows are smoothed
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
        """Cluster data, or a coreset of it that was built elsewhere.

        Parameters
        ----------
        X : array, sparse array, table, path of files, data of an engine, Source or Coreset
            Rows to cluster: whatever `lwcs.scan` takes, or a coreset built elsewhere.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A row of weight 3 counts as that row three times.
        """
        self._forget()
        try:
            fitted = self._fit(X, sample_weight)
        except BaseException:
            # Interrupted or refused, this is an estimator that was not fitted.
            self._forget()
            raise
        self.__dict__.update(fitted)
        return self

    def _forget(self) -> None:
        forget(self, "_n_features_out", "_stream")

    def _fit(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        """Do what `fit` does; return what it sets."""
        size, threads, seed = (
            check_parameters(self),
            as_threads(self.n_jobs),
            as_seed(self.random_state),
        )
        divergence, source = as_divergence(self.divergence), None
        if isinstance(X, Coreset):
            if sample_weight is not None:
                raise ValueError("a Coreset has weights of its own; pass no sample_weight with it")
            coreset, kernel = measured_by(X, divergence), kernels.choose(X.points.size)
            set_features(self, coreset)
            check_rows(coreset, self.n_clusters)
        else:
            source = scan_rows(self, X, sample_weight, reset=True)
            if self.polish and not source.rereadable:
                raise ValueError(
                    f"polish={self.polish} goes over the rows once more, but these come only once; "
                    "write them to a file first, or pass polish=0"
                )
            kernel = kernels.choose(source.n_values)
            coreset = summarise(
                source,
                size,
                self.n_clusters,
                method=self.method,
                divergence=divergence,
                kernel=kernel,
                seed=seed,
                n_jobs=threads,
                progress=bool(self.verbose),
            )
        fitted = self._solve(coreset, kernel, seed, threads)
        # Rows that come once are gone after the coreset.
        if source is None or not source.rereadable:
            return fitted
        centers, measure, show = fitted["cluster_centers_"], fitted["measure_"], bool(self.verbose)
        for _ in range(self.polish):
            own = _as_measured(centers, measure)
            own = polish(source, own, measure, kernel, threads, progress=show)
            centers = divergence.backward(own).astype(centers.dtype)
        if self.compute_labels:
            own = _as_measured(centers, measure)
            fitted |= self._final_pass(source, own, measure, kernel, threads)
        return fitted | {"cluster_centers_": centers}

    def _solve(
        self, coreset: Coreset, kernel: kernels.KernelName, seed: int, threads: int
    ) -> dict[str, Any]:
        """Cluster a coreset; return what that sets."""
        with explaining_points(coreset):
            measure = coreset.measure
            found = cluster(
                coreset.points,
                coreset.weights,
                measure,
                self.n_clusters,
                kernel=kernel,
                init=self.init,
                n_init=self.n_init,
                max_iter=self.max_iter,
                tol=self.tol,
                seed=seed,
                n_jobs=threads,
            )
        self._warn(found.converged, len(np.unique(found.labels)))
        # Rounded to float32, a center might be at an edge of its domain.
        single = coreset.points.dtype == np.float32 and measure.squared
        dtype = np.float32 if single else np.float64
        return {
            "cluster_centers_": found.centers.astype(dtype),
            "inertia_": found.cost,
            "coreset_": coreset,
            "n_iter_": found.n_iter,
            "scale_": coreset.scale,
            "measure_": measure,
            "_n_features_out": self.n_clusters,
        }

    def _warn(self, converged: bool, distinct: int) -> None:
        if distinct < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({distinct}) found smaller than n_clusters "
                f"({self.n_clusters}). Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if not converged:
            warnings.warn(
                f"Lloyd's algorithm did not converge in max_iter={self.max_iter} rounds; "
                "pass a larger max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _final_pass(
        self,
        source: Source,
        centers: FloatArray,
        measure: Measure,
        kernel: kernels.KernelName,
        threads: int,
    ) -> dict[str, Any]:
        if not isinstance(source, LocalSource):
            return {"inertia_": full_cost(source, centers, measure, threads)}
        labels = np.empty(source.n_rows, dtype=np.int32)
        costs = source.each_block(FinalPass(centers, measure, labels, kernel), n_jobs=threads)
        total = -(-source.n_rows // source.block_rows)
        with source.explaining():
            cost = fsum(track(costs, "labels", total, show=bool(self.verbose)))
        return {"inertia_": cost, "labels_": labels}

    def _centers(self) -> FloatArray:
        return _as_measured(self.cluster_centers_, self.measure_)

    def predict(self, X: Any) -> Any:
        """Label every row by its nearest center, in the container that X has.

        Arrays and tables give an int32 array, a PartitionedSource one array a partition, Dask a
        lazy array or Series, Spark and Ray their table with one more column, `label`.
        """
        check_is_fitted(self)
        task = LabelTask(self._centers(), self.measure_)
        source = scan_rows(self, X, reset=False)
        with source.explaining():
            return source.map_rows(task, n_jobs=as_threads(self.n_jobs))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and label the rows that were fitted."""
        self.fit(X, y, sample_weight)
        if "labels_" in vars(self):
            return self.labels_
        return self.predict(X.points if isinstance(X, Coreset) else X)

    def transform(self, X: Any) -> Any:
        """Distances of every row to every center, of shape (n_samples, n_clusters).

        Not squared, as scikit-learn's; but the divergence, if there is one of another kind.
        """
        check_is_fitted(self)
        source = scan_rows(self, X, reset=False)
        if not isinstance(source, LocalSource):
            raise TypeError(
                f"transform makes rows × n_clusters numbers, which {type(source).__name__} is too "
                "large for; use predict"
            )
        task = DistancesTask(self._centers(), self.measure_)
        with source.explaining():
            return source.map_rows(task, n_jobs=as_threads(self.n_jobs))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the cost of the centers on X: larger is better, as scikit-learn wants it."""
        check_is_fitted(self)
        source = scan_rows(self, X, sample_weight, reset=False)
        return -full_cost(source, self._centers(), self.measure_, as_threads(self.n_jobs))

    def to_sklearn(self) -> KMeans:
        """A fitted `sklearn.cluster.KMeans` with these centers, for tools that know only that."""
        check_is_fitted(self)
        if self.scale_ is not None:
            raise ValueError(
                "this model measures distances in standard deviations, which sklearn's KMeans "
                "cannot; fit it on data that was scaled beforehand"
            )
        if type(self.measure_.divergence) is not SquaredEuclidean:
            raise ValueError(
                f"this model measures by {self.measure_.divergence!r}, which sklearn's KMeans "
                "cannot"
            )
        centers = np.array(self.cluster_centers_, order="C")
        model = KMeans(len(centers), init=centers.copy(), n_init=1, max_iter=1)
        # Fitting on its own centers sets every attribute that this version of scikit-learn has.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(centers)
        model.cluster_centers_ = centers
        model.inertia_, model.n_iter_ = self.inertia_, self.n_iter_
        if "labels_" in vars(self):
            model.labels_ = self.labels_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model.set_params(max_iter=self.max_iter)

    def to_arrow(self) -> pa.Table:
        """The model as a pyarrow table: a row a center, metadata in the schema."""
        from lwcs.estimators.kmeans_table import to_table

        check_is_fitted(self)
        return to_table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as Parquet; `lwcs.load` reads it back.

        The coreset and the labels are not in it, nor are parameters that are objects (an `init`
        array, a sampler): those come back as their defaults.
        """
        storage.write_table(self.to_arrow(), path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = _starts_at_zero(self.divergence)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _as_measured(centers: DenseRows, measure: Measure) -> FloatArray:
    """Centers in the units of the data, in the coordinates of their divergence."""
    return measure.divergence.inward(centers.astype(np.float64))


def _starts_at_zero(divergence: Any) -> bool:
    """Whether negative numbers are refused; what is no divergence is refused by `fit`."""
    known = available().get(divergence) if isinstance(divergence, str) else divergence
    return getattr(known, "domain", Domain()).low == 0.0
