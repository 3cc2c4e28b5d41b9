"""CoresetKMeans for Spark: the Estimator, its Model, their summary, and how models are saved."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql.functions import col, when

from lwcs.arrays.checks import check_choice
from lwcs.estimators.coreset_kmeans import CoresetKMeans as LocalKMeans
from lwcs.estimators.kmeans_io import from_table
from lwcs.passes import LabelTask
from lwcs.sources.engines.spark import SparkSource, quoted
from lwcs.sources.scan_options import ScanOptions
from lwcs.spark.params import COSINE, CoresetKMeansParams, with_spark_names
from lwcs.storage.arrow_tables import lay_out
from lwcs.storage.persistence import KEY, read_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import DenseRows


class CoresetKMeansSummary:
    """Cost, sizes and predictions of the rows that a model was fitted on.

    It has what `pyspark.ml.clustering.KMeansSummary` has, and the sampling error. `predictions`
    and `cluster` are lazy; `clusterSizes` counts them when it is first asked for.

    Attributes
    ----------
    trainingCost : float
        Cost of the centers on all rows: the sum of squared distances, or of 1 − cos.
    samplingError, samplingErrorBound : float
        How much more the centers cost than if all rows had been clustered, and its bound, as
        `sampling_error_` of `lwcs.CoresetKMeans`.
    k, numIter : int
        Number of clusters, and of iterations on the coreset.
    featuresCol, predictionCol : str
        Columns of `predictions`.
    predictions, cluster : DataFrame
        The rows with their cluster, and the clusters alone.
    clusterSizes : list of int
        Number of rows in each cluster.
    """

    def __init__(self, model: CoresetKMeansModel, dataset: Any, cost: float) -> None:
        inner = model.inner
        self.trainingCost, self.k, self.numIter = cost, len(inner.cluster_centers_), inner.n_iter_
        self.samplingError = inner.sampling_error_
        self.samplingErrorBound = inner.sampling_error_bound_
        self.featuresCol, self.predictionCol = model.getFeaturesCol(), model.getPredictionCol()
        self.predictions = model.transform(dataset)
        self.cluster = self.predictions.select(self.predictionCol)

    @cached_property
    def clusterSizes(self) -> list[int]:
        """Number of rows in each cluster."""
        counted = self.cluster.toDF("cluster").groupBy("cluster").count().collect()
        sizes = {row["cluster"]: row["count"] for row in counted}
        return [int(sizes.get(label, 0)) for label in range(self.k)]


_RECORD, _SPARSE, _DATA = "lwcs", "sparse", "data"


class ModelWriter(MLWriter):
    """Writes a CoresetKMeansModel."""

    def __init__(self, model: CoresetKMeansModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:
        """Write parameters, then centers."""
        inner, session = self._model.inner, self.sparkSession
        record = json.loads(inner.to_arrow().schema.metadata[KEY])
        extra = {_RECORD: record, _SPARSE: self._model.sparse}
        DefaultParamsWriter.saveMetadata(self._model, path, session, extraMetadata=extra)
        centers = inner.cluster_centers_
        kind = "float" if centers.dtype == np.float32 else "double"
        rows = [(i, center.tolist()) for i, center in enumerate(centers)]
        frame = session.createDataFrame(rows, f"cluster int, center array<{kind}>")
        frame.coalesce(1).write.parquet(f"{path}/{_DATA}")


class ModelReader(MLReader):
    """Reads a CoresetKMeansModel."""

    def __init__(self, cls: type[CoresetKMeansModel]) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> Any:
        """Read parameters and centers, and check both."""
        session = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, session)
        record = metadata.get(_RECORD)
        if not isinstance(record, dict):
            raise ValueError(f"{path!r} is not a saved {self._cls.__name__}")
        frame = session.read.parquet(f"{path}/{_DATA}")
        kind = frame.schema["center"].dataType.elementType.typeName()
        rows = sorted(frame.collect(), key=lambda row: row["cluster"])
        centers = np.array(
            [row["center"] for row in rows], dtype=np.float32 if kind == "float" else np.float64
        )
        columns, _ = lay_out(
            {"cluster": np.arange(len(rows))}, centers, record.get("feature_names")
        )
        table = pa.table(columns).replace_schema_metadata({KEY: json.dumps(record)})
        inner = from_table(table, read_metadata(table, path), path)
        model = self._cls(inner, sparse=metadata.get(_SPARSE) is True)
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


class CoresetKMeans(Estimator, CoresetKMeansParams, DefaultParamsReadable, DefaultParamsWritable):
    """k-means on Spark through a coreset, with the API of `pyspark.ml.clustering.KMeans`.

    Parameters
    ----------
    featuresCol : str, default="features"
        Column of Spark ML vectors, dense or sparse, or of arrays of numbers.
    predictionCol : str, default="prediction"
        Column of the clusters, which `transform` adds.
    weightCol : str, optional
        Column of weights: a row with weight 3 counts as that row three times.
    k : int, default=2
        Number of clusters.
    seed : int, default=0
        Random seed.
    maxIter : int, default=300
        Maximum number of iterations of Lloyd's algorithm on the coreset.
    tol : float, default=1e-4
        Tolerance of convergence, as for `lwcs.CoresetKMeans`. Unless it is set, iterations may end
        before it is reached, where they gain little against the sampling error (only if
        `coresetSize` is 0).
    distanceMeasure : str, default="euclidean"
        "euclidean", "cosine", or the name of another divergence (`lwcs.divergences.available`).
    handleInvalid : {"error", "skip", "keep"}, default="error"
        What to do with rows that have a missing value (null or NaN). "error" refuses them, "skip"
        leaves them out of `fit` and `transform`, "keep" leaves them out of `fit`, and `transform`
        gives them no cluster (null).
    coresetSize : int, default=0
        Number of draws of the coreset; 0 draws as many as it takes to reach `targetError`.
    method : {"auto", "lightweight", "uniform", "sensitivity", "refined"}, default="auto"
        Sampling method.
    targetError : float, default=0.02
        Sampling error that is aimed at if `coresetSize` is 0.
    polish : int, default=0
        Number of Lloyd steps on all rows, one pass each.
    """

    _input_kwargs: dict[str, Any]

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str = "features",
        predictionCol: str = "prediction",
        weightCol: str | None = None,
        k: int = 2,
        seed: int | None = None,
        maxIter: int = 300,
        tol: float | None = None,
        distanceMeasure: str = "euclidean",
        handleInvalid: str = "error",
        coresetSize: int = 0,
        method: str = "auto",
        targetError: float = 0.02,
        polish: int = 0,
    ) -> None:
        super().__init__()
        self._set(**self._input_kwargs)

    def setParams(self, **given: Any) -> CoresetKMeans:
        """Set several parameters at once, by the names of the constructor."""
        return self._set(**given)

    def setWeightCol(self, value: str) -> CoresetKMeans:
        """Set `weightCol`."""
        return self._set(weightCol=value)

    def setK(self, value: int) -> CoresetKMeans:
        """Set `k`."""
        return self._set(k=value)

    def setSeed(self, value: int) -> CoresetKMeans:
        """Set `seed`."""
        return self._set(seed=value)

    def setMaxIter(self, value: int) -> CoresetKMeans:
        """Set `maxIter`."""
        return self._set(maxIter=value)

    def setTol(self, value: float) -> CoresetKMeans:
        """Set `tol`."""
        return self._set(tol=value)

    def setDistanceMeasure(self, value: str) -> CoresetKMeans:
        """Set `distanceMeasure`."""
        return self._set(distanceMeasure=value)

    def setCoresetSize(self, value: int) -> CoresetKMeans:
        """Set `coresetSize`."""
        return self._set(coresetSize=value)

    def setMethod(self, value: str) -> CoresetKMeans:
        """Set `method`."""
        return self._set(method=value)

    def setTargetError(self, value: float) -> CoresetKMeans:
        """Set `targetError`."""
        return self._set(targetError=value)

    def setPolish(self, value: int) -> CoresetKMeans:
        """Set `polish`."""
        return self._set(polish=value)

    def _fit(self, dataset: Any) -> CoresetKMeansModel:
        inner = LocalKMeans(**self.options())
        weight = self.getWeightCol() if self.isDefined(self.weightCol) else None
        names = [self.getFeaturesCol(), *([] if weight is None else [weight])]
        options = ScanOptions(
            columns=[self.getFeaturesCol()],
            weight=weight,
            missing="drop" if self.drops_invalid() else "error",
        )
        for name in names:
            check_choice(name, "column", dataset.columns)
        self.prediction_beside(dataset.columns)
        with with_spark_names(), _kept(dataset.select(*map(quoted, names)), dataset) as rows:
            source = SparkSource(rows, options)
            inner.fit(source)
        model = CoresetKMeansModel(inner, sparse=source.sparse)
        self._copyValues(model)
        halved = self.getDistanceMeasure() == COSINE
        # The distance of Spark is 1 − cos, which is half of the squared one of unit vectors.
        cost = float(inner.inertia_) / (2.0 if halved else 1.0)
        model._summary = CoresetKMeansSummary(model, dataset, cost)
        return model


@contextmanager
def _kept(rows: Any, dataset: Any) -> Iterator[Any]:
    """Persist the rows that every pass reads, unless they are already, as Spark's KMeans does."""
    level = dataset.storageLevel
    if level.useMemory or level.useDisk:
        yield rows
        return
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows
    finally:
        rows.unpersist()


class CoresetKMeansModel(Model, CoresetKMeansParams, MLReadable, MLWritable):
    """Clusters that `CoresetKMeans` has found."""

    _summary: CoresetKMeansSummary | None = None

    def __init__(self, inner: LocalKMeans | None = None, *, sparse: bool = False) -> None:
        super().__init__()
        self._inner, self.sparse = inner, sparse
        """Whether vectors were sparse: rows are then read as such."""

    @property
    def inner(self) -> LocalKMeans:
        """The fitted `lwcs.CoresetKMeans`: for its coreset, errors, and `save`."""
        if self._inner is None:
            raise RuntimeError("this model has no centers; fit a CoresetKMeans, or load a model")
        return self._inner

    def clusterCenters(self) -> list[DenseRows]:
        """The centers, one array each."""
        return list(self.inner.cluster_centers_)

    @property
    def numFeatures(self) -> int:
        """Length of the vectors."""
        return int(self.inner.cluster_centers_.shape[1])

    @property
    def hasSummary(self) -> bool:
        """Whether there is a summary; a model that was loaded has none."""
        return self._summary is not None

    @property
    def summary(self) -> CoresetKMeansSummary:
        """Cost, sizes and predictions of the rows that were fitted."""
        if self._summary is None:
            raise RuntimeError(
                f"this {type(self).__name__} has no training summary: it was loaded, not fitted"
            )
        return self._summary

    def predict(self, value: Any) -> int:
        """The cluster of one vector."""
        row = value.toArray() if hasattr(value, "toArray") else value
        rows = np.asarray(row, dtype=np.float64)[None]
        # By position: the names are those of a column of vectors.
        return int(self._nearest(rows)[0])

    def _nearest(self, rows: DenseRows) -> Any:
        from lwcs.sources import scan

        source = scan(rows)
        self._check_width(source.n_features)
        return source.map_rows(LabelTask(self.inner.measured_centers(source)))

    def _check_width(self, width: int) -> None:
        if width != self.numFeatures:
            raise ValueError(
                f"column {self.getFeaturesCol()!r} holds vectors of length {width}, but the model "
                f"was fitted on vectors of length {self.numFeatures}"
            )

    def _transform(self, dataset: Any) -> Any:
        name, drop = self.prediction_beside(dataset.columns), self.drops_invalid()
        options = ScanOptions(columns=[self.getFeaturesCol()], missing="drop" if drop else "error")
        source = SparkSource(dataset, options, like=(self.numFeatures, self.sparse))
        self._check_width(source.n_features)
        task = LabelTask(self.inner.measured_centers(source))
        labelled = source.with_values(task, name)
        if not drop:
            return labelled
        label = col(quoted(name))
        if self.getHandleInvalid() == "skip":
            return labelled.where(label >= 0)
        return labelled.withColumn(name, when(label >= 0, label))

    def write(self) -> ModelWriter:
        """A writer, for `overwrite` and `save`."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """A reader, for `load`."""
        return ModelReader(cls)
