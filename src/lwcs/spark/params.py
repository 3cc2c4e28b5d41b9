"""Parameters of CoresetKMeans and its model on Spark: those of `pyspark.ml`, and further ones."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasDistanceMeasure,
    HasFeaturesCol,
    HasHandleInvalid,
    HasMaxIter,
    HasPredictionCol,
    HasSeed,
    HasTol,
    HasWeightCol,
)

from lwcs.arrays.checks import check_choice, check_count, check_number, translating
from lwcs.divergences import as_divergence, available
from lwcs.sizing.decision import sampler_of
from lwcs.sources.engines.engine import refuse_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.divergences import Divergence

EUCLIDEAN, COSINE = "euclidean", "cosine"
INVALID = ("error", "skip", "keep")
_NAMES = {
    "n_clusters": "k",
    "coreset_size": "coresetSize",
    "target_error": "targetError",
    "max_iter": "maxIter",
    "random_state": "seed",
    "lwcs.scan(…, missing='drop')": "handleInvalid='skip'",
}
"""Names in errors of `lwcs.CoresetKMeans`, and the names of these parameters on Spark."""


def with_spark_names() -> AbstractContextManager[None]:
    """Name parameters of Spark in errors instead of those of `lwcs.CoresetKMeans`."""

    def translate(error: Exception) -> Exception | None:
        if not isinstance(error, ValueError):
            return None
        message = str(error)
        for name, spark_name in _NAMES.items():
            message = message.replace(name, spark_name)
        return None if message == str(error) else ValueError(message)

    return translating(translate)


def _param(name: str, doc: str, converter: Callable[..., Any]) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=converter)


class CoresetKMeansParams(
    HasFeaturesCol,
    HasPredictionCol,
    HasWeightCol,
    HasSeed,
    HasMaxIter,
    HasTol,
    HasDistanceMeasure,
    HasHandleInvalid,
):
    """The parameters that an estimator and its model share."""

    k: Any = _param("k", "number of clusters, at least 1", TypeConverters.toInt)
    tol: Any = _param(
        "tol",
        "the convergence tolerance of Lloyd's algorithm (>= 0); unless it is set, iterations may "
        "end before it is reached, where they gain little against the sampling error",
        TypeConverters.toFloat,
    )
    coresetSize: Any = _param(
        "coresetSize",
        "number of draws of the coreset; 0 draws as many as it takes to reach targetError",
        TypeConverters.toInt,
    )
    method: Any = _param(
        "method",
        "sampling method: auto, lightweight, uniform, sensitivity or refined",
        TypeConverters.toString,
    )
    targetError: Any = _param(
        "targetError",
        "sampling error that coresetSize=0 aims at: 0.02 is 2 %",
        TypeConverters.toFloat,
    )
    polish: Any = _param(
        "polish",
        "number of Lloyd steps on all rows after the solution on the coreset, one pass each",
        TypeConverters.toInt,
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        defaults = {"k": 2, "seed": 0, "maxIter": 300, "tol": 1e-4, "coresetSize": 0, "polish": 0}
        self._setDefault(**defaults, method="auto", targetError=0.02)
        self._setDefault(distanceMeasure=EUCLIDEAN, handleInvalid="error")

    def setFeaturesCol(self, value: str) -> Self:
        """Set `featuresCol`."""
        return self._set(featuresCol=value)

    def setPredictionCol(self, value: str) -> Self:
        """Set `predictionCol`."""
        return self._set(predictionCol=value)

    def setHandleInvalid(self, value: str) -> Self:
        """Set `handleInvalid`."""
        return self._set(handleInvalid=value)

    def getK(self) -> int:
        """Number of clusters."""
        return int(self.getOrDefault(self.k))

    def getCoresetSize(self) -> int:
        """Number of draws of the coreset, or 0."""
        return int(self.getOrDefault(self.coresetSize))

    def getMethod(self) -> str:
        """Sampling method."""
        return str(self.getOrDefault(self.method))

    def getTargetError(self) -> float:
        """Sampling error that is aimed at."""
        return float(self.getOrDefault(self.targetError))

    def getPolish(self) -> int:
        """Number of Lloyd steps on all rows."""
        return int(self.getOrDefault(self.polish))

    def divergence(self) -> Divergence:
        """The divergence that `distanceMeasure` names."""
        name = self.getDistanceMeasure()
        check_choice(name, "distanceMeasure", (EUCLIDEAN, *available()))
        return as_divergence("sqeuclidean" if name == EUCLIDEAN else name)

    def drops_invalid(self) -> bool:
        """Whether rows with missing values are left out, rather than an error."""
        check_choice(self.getHandleInvalid(), "handleInvalid", INVALID)
        return bool(self.getHandleInvalid() != "error")

    def prediction_beside(self, names: list[str]) -> str:
        """The name of the column of clusters, which none of these columns may have."""
        name: str = self.getPredictionCol()
        rename = f"frame.withColumnRenamed({name!r}, …), or pass another predictionCol"
        refuse_column(name, names, rename)
        return name

    def options(self) -> dict[str, Any]:
        """Parameters of `lwcs.CoresetKMeans`, checked under the names that they have here."""
        k = check_count(self.getK(), "k")
        size = check_count(self.getCoresetSize(), "coresetSize", least=0)
        if 0 < size < k:
            raise ValueError(
                f"coresetSize={size} is smaller than k={k}; pass coresetSize >= {k} (about "
                f"{100 * k:,} is a good start), or 0"
            )
        sampler_of(self.getMethod(), k)
        return {
            "n_clusters": k,
            "coreset_size": size or "auto",
            "method": self.getMethod(),
            "divergence": self.divergence(),
            "target_error": check_number(self.getTargetError(), "targetError", above=0.0),
            "max_iter": check_count(self.getMaxIter(), "maxIter"),
            # With "auto", the last level may end before the default of 1e-4 is reached.
            "tol": check_number(self.getTol(), "tol") if self.isSet(self.tol) else "auto",
            "polish": check_count(self.getPolish(), "polish", least=0),
            # Spark allows any integer.
            "random_state": self.getSeed() % 2**64,
        }
