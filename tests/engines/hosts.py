"""Each engine as the tests see it: data in given partitions, labels brought home.

Run by `make test-engines` on real engines: a Dask LocalCluster of two workers, Spark with two
cores (classic, or by Connect with LWCS_SPARK=connect), Ray with two CPUs.
"""

from __future__ import annotations

import os
import shutil
import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

NAMES = ("dask", "dask table", "spark", "ray")
CONNECT = os.environ.get("LWCS_SPARK") == "connect"


def table(rows: np.ndarray, weights: np.ndarray | None = None) -> pa.Table:
    columns = {f"x{j}": rows[:, j] for j in range(rows.shape[1])}
    return pa.table(columns if weights is None else {**columns, "w": weights})


class DaskArrays:
    """Chunks of a Dask array, made by the workers whenever they are asked for."""

    def __init__(self) -> None:
        distributed = pytest.importorskip("distributed")
        import dask

        # A LocalCluster looks for a worker 15 s after it was lost, and gives up one that just then
        # restarts after another kill; with no worker left, a round waits for ever.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
        self._cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        )
        self._client = distributed.Client(self._cluster)

    def arrays(self, parts: list[np.ndarray]) -> Any:
        import dask.array as da

        return da.map_blocks(
            lambda block_id=None: parts[block_id[0]],
            chunks=(tuple(map(len, parts)), (parts[0].shape[1],)),
            dtype=parts[0].dtype,
            meta=np.empty((0, 0), dtype=parts[0].dtype),
        )

    def weighted(self, parts: list[np.ndarray], weights: list[np.ndarray]) -> Any:
        import dask.array as da

        import lwcs

        given = da.map_blocks(
            lambda block_id=None: weights[block_id[0]],
            chunks=(tuple(map(len, weights)),),
            dtype=float,
            meta=np.empty(0),
        )
        return lwcs.scan(self.arrays(parts), weight=given)

    def labels(self, predicted: Any) -> np.ndarray:
        return predicted.compute()

    def close(self) -> None:
        self._client.close()
        self._cluster.close()


class Tables(ABC):
    """Base class of engines whose partitions are tables."""

    @abstractmethod
    def tables(self, parts: list[pa.Table]) -> Any:
        """Data with these partitions."""

    def arrays(self, parts: list[np.ndarray]) -> Any:
        return self.tables([table(part) for part in parts])

    def weighted(self, parts: list[np.ndarray], weights: list[np.ndarray]) -> Any:
        import lwcs

        both = zip(parts, weights, strict=True)
        return lwcs.scan(self.tables([table(part, w) for part, w in both]), weight="w")


class DaskTables(Tables):
    def __init__(self) -> None:
        pytest.importorskip("dask.dataframe")

    def tables(self, parts: list[pa.Table]) -> Any:
        import dask.dataframe as dd

        meta = parts[0].to_pandas().iloc[:0]
        return dd.from_map(pa.Table.to_pandas, parts, meta=meta)

    def labels(self, predicted: Any) -> np.ndarray:
        return predicted.compute().to_numpy()

    def close(self) -> None:
        pass


class Spark(Tables):
    def __init__(self) -> None:
        pytest.importorskip("pyspark")
        if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
            pytest.skip("Spark needs Java 17 or newer, and there is none")
        from pyspark.sql import SparkSession

        # Workers run the Python that runs the tests, and find the tests where it does.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        # The second number: how often a task may fail, which without a cluster is once.
        start = SparkSession.builder.config("spark.sql.shuffle.partitions", "4")
        if CONNECT:
            start = start.remote("local[2,4]")
        else:
            start = start.master("local[2,4]").config("spark.ui.enabled", "false")
        self.session = start.getOrCreate()

    def tables(self, parts: list[pa.Table]) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        batches = [part.combine_chunks().to_batches() for part in parts]

        def make(numbers: Any) -> Any:
            for number in numbers:
                for i in number.column(0).to_pylist():
                    yield from batches[i]

        numbers = self.session.range(0, len(parts), 1, len(parts))
        return numbers.mapInArrow(make, from_arrow_schema(parts[0].schema))

    def labels(self, predicted: Any) -> np.ndarray:
        return predicted.select("label").toArrow().column("label").to_numpy()

    def close(self) -> None:
        self.session.stop()


class Ray(Tables):
    def __init__(self) -> None:
        ray = pytest.importorskip("ray")
        # The tests, and the lwcs that is tested, which need not be the one that is installed.
        paths = [os.getcwd(), os.environ.get("PYTHONPATH", "")]
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}},
        )
        import ray.data

        ray.data.DataContext.get_current().enable_progress_bars = False

    def tables(self, parts: list[pa.Table]) -> Any:
        import ray.data

        return ray.data.from_arrow(parts)

    def labels(self, predicted: Any) -> np.ndarray:
        return np.array([row["label"] for row in predicted.take_all()])

    def close(self) -> None:
        import ray

        ray.shutdown()


HOSTS = {"dask": DaskArrays, "dask table": DaskTables, "spark": Spark, "ray": Ray}
