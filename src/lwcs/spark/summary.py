"""What is known of the training of a CoresetKMeansModel."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lwcs.spark.kmeans import CoresetKMeansModel


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
