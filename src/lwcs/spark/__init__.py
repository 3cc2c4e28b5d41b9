"""CoresetKMeans as a `pyspark.ml` Estimator: for Pipelines, CrossValidator, save and load."""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        f"lwcs.spark requires packages that are not installed ({error}); pip install 'lwcs[spark]'"
    ) from error

from lwcs.spark.kmeans import CoresetKMeans, CoresetKMeansModel, CoresetKMeansSummary

__all__ = ["CoresetKMeans", "CoresetKMeansModel", "CoresetKMeansSummary"]

# Saved stages name their class by this module, whichever file it is in.
for _public in (CoresetKMeans, CoresetKMeansModel, CoresetKMeansSummary):
    _public.__module__ = __name__
