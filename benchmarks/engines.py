"""Engines: a build on each against the local one, a fit against the engine's own k-means."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lwcs
from benchmarks.measure import Result, interleaved

COLUMNS, K, LABELS = 16, 100, 20
CHUNK = 500_000
BUILD_CHUNKS, FIT_CHUNKS = 40, 4


def benchmarks() -> Iterator[Result]:
    """Every line of this table; engines one after the other, so that they share no core."""
    parts = [rows_of(i) for i in range(BUILD_CHUNKS)]
    yield from _dask(parts)
    yield from _ray(parts)
    del parts[FIT_CHUNKS:]
    yield from _spark(parts)


def rows_of(chunk: int) -> np.ndarray:
    """Heavy-tailed clusters of very different sizes."""
    rng = np.random.default_rng(chunk)
    centers = 8.0 * np.random.default_rng(99).standard_normal((150, COLUMNS), dtype=np.float32)
    shares = 1.0 / np.arange(1, 151)
    own = rng.choice(150, size=CHUNK, p=shares / shares.sum())
    X = rng.standard_normal((CHUNK, COLUMNS), dtype=np.float32)
    X *= np.sqrt(2.5 / rng.chisquare(2.5, size=(CHUNK, 1))).astype(np.float32)
    X += centers[own]
    return X


def build(data: Any) -> lwcs.Coreset:
    return lwcs.build(data, 20_000, random_state=0)


def fit(data: Any) -> lwcs.CoresetKMeans:
    model = lwcs.CoresetKMeans(K, coreset_size=20_000, compute_labels=False, random_state=0)
    return model.fit(data)


def _building(
    name: str, ours: Any, parts: list[np.ndarray], few: Any = None, most: float = np.inf
) -> Result:
    """Against the local build, after subtracting the time for as many partitions of `few` rows."""
    local = lwcs.PartitionedSource(parts)
    contestants = {"ours": partial(build, ours), "local": partial(build, local)}
    if few is not None:
        contestants["start"] = partial(build, few)
    times = interleaved(3, **contestants)
    start = times.get("start", 0.0)
    ratio = (times["ours"] - start) / times["local"]
    less = f" (start-up {start:.2f} s)" if start else ""
    return Result(
        f"build on {name}{less}", len(parts) * CHUNK, COLUMNS, times["ours"],
        "the same partitions in this process", times["local"], ratio,
        "stated" if most == np.inf else f"≤ {most} × and start-up", ratio <= most,
    )  # fmt: skip


def _against_bare(frame: Any) -> Result:
    """The limit: read twice what Spark passes to Python, as a build does, and do nothing."""

    def over(batches: Any) -> Any:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in batches)]})

    def bare() -> None:
        for _ in range(2):
            frame.mapInArrow(over, "n long").collect()

    times = interleaved(2, ours=partial(build, frame), bare=bare)
    ratio = times["ours"] / times["bare"]
    return Result(
        "build on Spark, cached columns", BUILD_CHUNKS * CHUNK, COLUMNS, times["ours"],
        "two mapInArrow that only count rows", times["bare"], ratio, "stated", True,
    )  # fmt: skip


def _fitting(name: str, parts: list[np.ndarray], ours: float, cost: float, theirs: Any) -> Result:
    """One run of Spark's own k-means, which takes minutes; the best of three of ours."""
    start = time.perf_counter()
    centers = theirs()
    seconds = time.perf_counter() - start
    reference = sum(_cost(part, centers) for part in parts)
    worse = 100.0 * (cost / reference - 1.0)
    faster = seconds / ours
    return Result(
        f"fit, k = {K}, coreset of 20,000; cost {worse:+.1f} %", len(parts) * CHUNK, COLUMNS,
        ours, name, seconds, faster, "≥ 10 × faster, cost ≤ +5 %", faster >= 10.0 and worse <= 5.0,
    )  # fmt: skip


def _cost(part: np.ndarray, centers: np.ndarray) -> float:
    from sklearn.metrics import pairwise_distances_argmin_min

    found = pairwise_distances_argmin_min(part, centers.astype(np.float32))[1]
    return float(np.sum(found.astype(np.float64) ** 2))


def _best_fit(data: Any, parts: list[np.ndarray]) -> tuple[float, float]:
    times = interleaved(3, fit=partial(fit, data))
    centers = fit(data).cluster_centers_
    return times["fit"], sum(_cost(part, centers) for part in parts)


def _labelling(frame: Any) -> Iterator[Result]:
    """Labels that are counted, and a count that does not use them; most of it is start-up."""
    from pyspark.ml.clustering import KMeans

    from lwcs.spark import CoresetKMeans

    models = {
        "ours": CoresetKMeans(k=LABELS, seed=0, coresetSize=20_000).fit(frame),
        "spark": KMeans(k=LABELS, seed=0, maxIter=5).fit(frame),
    }
    uses = {
        "counted by label": lambda rows: rows.groupBy("prediction").count().collect(),
        "not used": lambda rows: rows.count(),
    }
    for use, run in uses.items():
        times = interleaved(
            7,
            **{
                name: lambda own=own, run=run: run(own.transform(frame))
                for name, own in models.items()
            },
        )
        ratio = times["ours"] / times["spark"]
        yield Result(
            f"transform, k = {LABELS}, {use}", CHUNK, COLUMNS, times["ours"],
            "pyspark.ml.clustering.KMeansModel", times["spark"], ratio, "≤ 1.3 ×", ratio <= 1.3,
        )  # fmt: skip


def _dask(parts: list[np.ndarray]) -> Iterator[Result]:
    import dask.array as da

    def ours(some: list[np.ndarray]) -> Any:
        return da.concatenate([da.from_array(p, chunks=p.shape, name=False) for p in some])

    rows, few = ours(parts), ours([part[:64] for part in parts])
    yield _building("Dask, threads", rows, parts, few, 1.5)
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        name = "Dask, two worker processes, persisted"
        yield _building(name, rows.persist(), parts, few.persist(), 1.5)
    some = parts[:FIT_CHUNKS]
    rows = ours(some)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from dask_ml.cluster import KMeans
        except ImportError:
            print("dask_ml is not installed: no comparison with it", file=sys.stderr)
            return
        seconds, cost = _best_fit(rows, some)
        theirs = lambda: KMeans(K, random_state=0).fit(rows).cluster_centers_  # noqa: E731
        yield _fitting("dask_ml.cluster.KMeans", some, seconds, cost, theirs)


def _ray(parts: list[np.ndarray]) -> Iterator[Result]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        few = ray.data.from_numpy([part[:64] for part in parts])
        yield _building("Ray", ray.data.from_numpy(parts), parts, few)
    finally:
        ray.shutdown()


def _spark(parts: list[np.ndarray]) -> Iterator[Result]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.ml.clustering import KMeans
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "8g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(tempfile.mkdtemp(prefix="lwcs-bench-"))
    names = [f"x{j}" for j in range(COLUMNS)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i in range(BUILD_CHUNKS):
                part = rows_of(i)
                columns = {name: part[:, j] for j, name in enumerate(names)}
                pq.write_table(pa.table(columns), folder / f"{i:02}.parquet")
            everything = spark.read.parquet(str(folder)).cache()
            everything.count()
            local = [rows_of(i) for i in range(BUILD_CHUNKS)]
            yield _building("Spark, cached columns", everything, local)
            del local
            yield _against_bare(everything)
            everything.unpersist()
            files = [str(folder / f"{i:02}.parquet") for i in range(FIT_CHUNKS)]
            assemble = VectorAssembler(inputCols=names, outputCol="features")
            rows = assemble.transform(spark.read.parquet(*files)).select("features").cache()
            rows.count()
            ours, cost = _best_fit(rows, parts)
            theirs = lambda: np.array(KMeans(k=K, seed=0).fit(rows).clusterCenters())  # noqa: E731
            yield _fitting("pyspark.ml.clustering.KMeans", parts, ours, cost, theirs)
            rows.unpersist()
            frame = assemble.transform(spark.read.parquet(files[0])).select("features").cache()
            frame.count()
            yield from _labelling(frame)
    finally:
        spark.stop()
        shutil.rmtree(folder)
