"""Methods of a fitted CoresetKMeans: labels, distances, costs, stability, and conversions."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn import get_config
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from lwcs import kernels
from lwcs.arrays.checks import check_count
from lwcs.arrays.device import check_device, on_host, with_explained_memory
from lwcs.coreset.building import BuildContext, placed
from lwcs.coreset.coreset import Coreset, refuse_sample_weight
from lwcs.divergences import SquaredEuclidean
from lwcs.estimators.summary import SummaryMixin
from lwcs.estimators.validation import (
    TF32,
    check_features,
    check_rows,
    check_same_library,
    coreset_of_stream,
    measured_by,
    scan_rows,
)
from lwcs.geometry.nearest import FewRowsSearch
from lwcs.geometry.products import PIECE_VALUES
from lwcs.passes import DistancesTask, LabelTask, full_cost
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, single_threaded_blas
from lwcs.runtime.randomness import as_seed
from lwcs.sizing.decision import sampler_of
from lwcs.sizing.solution import first_size, summarize
from lwcs.sources import LocalSource, Source
from lwcs.sources.base import whole_pass
from lwcs.sources.memory.local import FEW_ROWS
from lwcs.storage.persistence import Savable, Tabular

if TYPE_CHECKING:
    import pyarrow as pa

    from lwcs.arrays.types import DenseRows
    from lwcs.estimators.coreset_kmeans import CoresetKMeans
    from lwcs.geometry import Centers, Geometry
    from lwcs.sizing.stability import Stability


# scikit-learn wraps the `transform` of the class that inherits its mixin.
class KMeansPredictMixin(
    SummaryMixin, Savable, Tabular, ClassNamePrefixFeaturesOutMixin, TransformerMixin
):
    """The part of CoresetKMeans that needs a fitted model."""

    _instead_of_rows = "pass rows of data, such as its cluster_centers_"

    cluster_centers_: Any
    geometry_: Geometry
    n_jobs: int | None
    device: str | None = None
    precision: str = "float32"

    def _fitted(self) -> Any:
        model: Any = self
        model._check_is_fitted()
        return model

    def measured_centers(self, source: Source) -> Centers:
        """The centers in coordinates of their geometry, for the device and kernel of a source."""
        geometry = self.geometry_.with_kernel(kernels.choose())
        geometry = placed(geometry, check_device(self.device), source, self.precision == TF32)
        return geometry.own_centers(self.host_centers())

    def host_centers(self) -> DenseRows:
        """The centers as a NumPy array, whatever their library and device."""
        centers: DenseRows = on_host(self.cluster_centers_, "cluster_centers_")
        return centers

    @with_explained_memory
    def predict(self, X: Any) -> Any:
        """Label every row by its nearest center.

        The result is in the container of X: for arrays and tables an int32 array, for tensors of
        torch and arrays of CuPy one on their device, for a PartitionedSource one array per
        partition, for Dask a lazy array or Series, for Spark and Ray their table with one more
        column, `label`.
        """
        if (labels := _labels_of_few(self, X)) is not None:
            return labels
        check_same_library(self._fitted(), X, "cluster_centers_", "predict")
        source = scan_rows(self._fitted(), X, reset=False)
        task = LabelTask(self.measured_centers(source))
        with source.explaining(), whole_pass(source, Journal(), "labels"):
            return source.map_rows(task, n_jobs=as_threads(self.n_jobs))

    @with_explained_memory
    def transform(self, X: Any) -> Any:
        """Distances of every row to every center, of shape (n_samples, n_clusters).

        As in scikit-learn, Euclidean distances are not squared; a divergence is returned as it
        is.
        """
        check_same_library(self._fitted(), X, "cluster_centers_", "transform")
        source = scan_rows(self._fitted(), X, reset=False)
        refuse_transform(source)
        task = DistancesTask(self.measured_centers(source))
        with source.explaining(), whole_pass(source, Journal(), "distances"):
            return source.map_rows(task, n_jobs=as_threads(self.n_jobs))

    @with_explained_memory
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the cost of the centers on X, as in scikit-learn: larger is better."""
        source = scan_rows(self._fitted(), X, sample_weight, reset=False)
        return -full_cost(source, self.measured_centers(source), as_threads(self.n_jobs))

    @with_explained_memory
    def stability(
        self,
        data: Any = None,
        *,
        sample_weight: Any = None,
        n_bootstrap: int = 20,
        random_state: Any = None,
    ) -> Stability:
        """Say which clusters are real: whether each is found again in bootstrap coresets.

        The draws of the coreset are drawn again with replacement and clustered afresh,
        `n_bootstrap` times. The score of a cluster is its mean overlap (Jaccard) with its best
        match, where clusters that the draws cannot tell apart count as one: above 0.85 for clusters
        that the data really has, and below 0.6 for parts of a cluster that a too large `n_clusters`
        has cut.
        The result is also kept as `stability_`, and in the file of the model.

        Parameters
        ----------
        data : array, sparse array, table, path, Source, Coreset or StreamingCoreset, optional
            Rows or a coreset to judge the clusters by; the model's own `coreset_` by default. A
            model that was loaded from a file has none. Rows are drawn from in one build.
        sample_weight : array of shape (n_samples,), optional
            Weights of these rows.
        n_bootstrap : int, default=20
            Number of bootstrap coresets, at least 2. Each is solved as a small fit is, on 5,000
            draws, 100 per cluster, or as many more as small clusters need to be seen again.
        random_state : None, int or NumPy generator, default=None
            Random seed; that of the model by default.

        Returns
        -------
        Stability
            One row per cluster, and the pairs that the draws cannot tell apart.

        Examples
        --------
        >>> import numpy as np
        >>> from lwcs import CoresetKMeans
        >>> rng = np.random.default_rng(0)
        >>> X = np.vstack([rng.normal(c, 0.1, (500, 2)) for c in (0, 5, 9)])
        >>> found = CoresetKMeans(n_clusters=4, random_state=0).fit(X).stability()
        >>> int((found.score > 0.85).sum()), int((found.score < 0.6).sum()), len(found.pairs)
        (2, 2, 1)
        """
        from lwcs.sizing.stability import Original, bootstrap

        model = self._fitted()
        n_bootstrap = check_count(n_bootstrap, "n_bootstrap", least=2)
        seed = as_seed(model.random_state if random_state is None else random_state)
        threads, journal = as_threads(model.n_jobs), Journal(model.verbose)
        with single_threaded_blas():
            coreset = self._coreset_for_stability(data, sample_weight, seed, threads, journal)
            geometry = self.geometry_.with_kernel(kernels.choose())
            original = Original.of(coreset, geometry, self.host_centers())
            stability = bootstrap(original, n_bootstrap, seed, threads, journal)
        if coreset is getattr(model, "coreset_", None) and not coreset.exact:
            # Those of the record are exact where a pass has counted the clusters.
            record = model.fitted_on_
            error = np.sqrt(record.share_variances)
            stability = replace(stability, share=record.shares, share_error=error)
        model.stability_ = stability
        return stability

    def _coreset_for_stability(
        self, data: Any, sample_weight: Any, seed: int, threads: int, journal: Journal
    ) -> Coreset:
        """The model's own coreset, or one of other data."""
        model: Any = self
        k = model.cluster_centers_.shape[0]
        if data is None:
            refuse_sample_weight(sample_weight)
            own: Coreset | None = getattr(model, "coreset_", None)
            if own is None:
                raise ValueError(
                    "this model was loaded from a file, which has no coreset; pass the data or a "
                    "coreset of it: model.stability(data)"
                )
            return own
        data = coreset_of_stream(data)
        if isinstance(data, Coreset):
            refuse_sample_weight(sample_weight)
            coreset = measured_by(data, self.geometry_.divergence)
            check_features(model, coreset)
            check_rows(coreset, k)
            return coreset
        source = scan_rows(model, data, sample_weight, reset=False)
        context = BuildContext.of(
            source,
            self.geometry_.divergence,
            check_device(self.device),
            tf32=self.precision == TF32,
        )
        # With "auto", these are lightweight draws: the centers are known already, so that no pilot
        # is needed to choose a method.
        method = sampler_of(model.method, k)
        return summarize(
            context, first_size(k), k, method=method, seed=seed, n_jobs=threads, journal=journal
        )

    def to_sklearn(self) -> KMeans:
        """Convert to a fitted `sklearn.cluster.KMeans` with these centers."""
        model = self._fitted()
        if model.scale_ is not None:
            raise ValueError(
                "this model measures distances in standard deviations, which sklearn's KMeans "
                "cannot; fit it on data that was scaled beforehand"
            )
        if type(self.geometry_.divergence) is not SquaredEuclidean:
            raise ValueError(
                f"this model measures by {self.geometry_.divergence!r}, which sklearn's KMeans "
                "cannot"
            )
        centers = np.array(self.host_centers(), order="C")
        converted = KMeans(len(centers), init=centers.copy(), n_init=1, max_iter=1)
        # Fitting on its own centers sets every attribute that this version of scikit-learn has.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            converted.fit(centers)
        converted.cluster_centers_ = centers
        converted.inertia_, converted.n_iter_ = model.inertia_, model.n_iter_
        if "labels_" in vars(model):
            converted.labels_ = on_host(model.labels_, "labels_")
        if hasattr(model, "feature_names_in_"):
            converted.feature_names_in_ = model.feature_names_in_
        return converted.set_params(max_iter=model.max_iter)

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table: one row per center, with metadata in its schema.

        It has what `save` writes: neither the coreset nor the labels, nor parameters that are
        objects (an `init` array, a sampler), which come back as their defaults.
        """
        from lwcs.estimators.kmeans_io import to_table

        return to_table(self._fitted())

    @classmethod
    def from_arrow(cls, table: pa.Table) -> CoresetKMeans:
        """Convert back from the table of `to_arrow`, whose metadata and checksum are checked."""
        from lwcs.estimators.kmeans_io import KIND, from_table
        from lwcs.storage.persistence import of_kind

        return from_table(*of_kind(table, KIND, "CoresetKMeans"), "table")

    def _table(self) -> pa.Table:
        return self.to_arrow()

    def _html_repr(self) -> str:
        from lwcs.estimators.model_io import html_of

        return html_of(self, super()._html_repr())


def refuse_transform(source: Source) -> None:
    """Refuse to compute the distances of rows that are not in memory."""
    if not isinstance(source, LocalSource):
        raise TypeError(
            f"transform returns n_samples × n_clusters numbers, too many for a "
            f"{type(source).__name__}; use predict"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """The centers of a model, prepared for few rows, and what they were prepared from."""

    given: tuple[Any, ...]
    """The objects that the model had."""
    content: tuple[Any, ...]
    """Copies of its arrays, which users may change in place."""
    search: FewRowsSearch | None
    """None if the rows of this model are always measured by a pass."""

    @classmethod
    def of(cls, model: Any) -> _Prepared:
        """Prepare the centers as they are."""
        centers, geometry, n_jobs = given = _parts(model)
        as_threads(n_jobs)
        arrays = _arrays(given)
        plain = type(centers) is np.ndarray and centers.ndim == 2 and centers.dtype.kind == "f"
        if not plain or not len(centers) or type(geometry.divergence) is not SquaredEuclidean:
            return cls(given, (), None)
        content = tuple(None if each is None else each.copy() for each in arrays)
        own = geometry if geometry.scale is None else replace(geometry, scale=content[1])
        return cls(given, content, FewRowsSearch.of(own.own_centers(content[0])))

    def holds_for(self, model: Any) -> bool:
        """Whether the model still has these objects, with the same content."""
        now = _parts(model)
        if any(one is not other for one, other in zip(now, self.given, strict=True)):
            return False
        return self.search is None or all(map(np.array_equal, _arrays(now), self.content))


_PREPARED: WeakKeyDictionary[Any, _Prepared] = WeakKeyDictionary()
"""Not an attribute of the model: `predict` sets none, and files must not contain it."""


def _parts(model: Any) -> tuple[Any, Any, Any]:
    """The objects that labels depend on."""
    return model.cluster_centers_, model.geometry_, model.n_jobs


def _arrays(parts: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    return parts[0], parts[1].scale


def _labels_of_few(model: Any, X: Any) -> Any:
    """Labels of a few plain rows; None for other rows, and where an error or a warning is due.

    All that a pass would check is checked here, quickly enough for a single row. Where a check
    fails, the caller makes the pass, which raises the error or warns.
    """
    rows = _few_rows(model, X)
    if rows is None or get_config()["array_api_dispatch"]:
        return None
    prepared = _PREPARED.get(model)
    if prepared is None or not prepared.holds_for(model):
        prepared = _PREPARED[model] = _Prepared.of(model)
    search = prepared.search
    if search is None or search.slopes.shape[1] != rows.shape[1]:
        return None
    if len(rows) * len(search.slopes) > PIECE_VALUES:
        # A pass keeps no rows × centers matrix.
        return None
    return search.labels(rows)


def _few_rows(model: Any, X: Any) -> DenseRows | None:
    """Rows as an array, if they are few, in NumPy or pandas, and have the features of the fit."""
    own, pandas = vars(model), sys.modules.get("pandas")
    names = own.get("feature_names_in_")
    if type(X) is np.ndarray:
        if names is not None:
            return None
        rows = X
    elif pandas is not None and type(X) is pandas.DataFrame and names is not None:
        if len(X) > FEW_ROWS or list(X.columns) != names.tolist():
            return None
        if not all(isinstance(dtype, np.dtype) for dtype in X.dtypes):
            return None
        rows = X.to_numpy()
    else:
        return None
    numbers = rows.dtype.kind in "iuf" and rows.dtype.itemsize <= 8
    if not numbers or rows.ndim != 2 or not 0 < len(rows) <= FEW_ROWS:
        return None
    if rows.shape[1] != own.get("n_features_in_") or "cluster_centers_" not in own:
        return None
    if model.device is not None or any(source.accepts(X) for source in Source.registered):
        return None
    return rows
