"""Saved models on Spark: parameters as `pyspark.ml` saves them, centers as Parquet.

Both are written by Spark, on any file system that it knows; nothing is pickled. What lwcs has to
say of a model is in its own form beside the parameters, with the checksum of its files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from lwcs.estimators.kmeans_table import from_table
from lwcs.foundation.storage import KEY, read_metadata
from lwcs.foundation.tables import lay_out

if TYPE_CHECKING:
    from lwcs.spark.kmeans import CoresetKMeansModel

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
