"""Kinds of columns and containers that only engines have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs
from tests.engines.test_same_on_all import assert_same, cut

X = np.random.default_rng(2).standard_normal((300, 4))
PARTS = cut(X, [0, 100, 101, 300])
CUT = lwcs.PartitionedSource(PARTS)


def own(model):
    """Labels of X by definition."""
    apart = X[:, None, :] - model.cluster_centers_[None]
    return np.argmin((apart**2).sum(axis=2), axis=1)


def vectors(part, kind):
    return pa.table({"id": np.arange(len(part)), "features": pa.array(part.tolist(), kind)})


@pytest.mark.parametrize("name", ["spark", "ray"])
def test_a_column_of_lists(started, name):
    rows = started(name).tables([vectors(part, pa.list_(pa.float64())) for part in PARTS])
    want = lwcs.build(CUT, 50, random_state=1)
    got = lwcs.build(lwcs.scan(rows, columns="features"), 50, random_state=1)
    assert_same(got, want)
    assert got.feature_names == tuple(f"features[{j}]" for j in range(4))
    model = lwcs.CoresetKMeans(3, random_state=0).fit(got)
    np.testing.assert_array_equal(started(name).labels(model.predict(rows)), own(model))


@pytest.mark.parametrize("name", ["spark", "ray"])
def test_lists_of_different_lengths_or_without_one(started, name):
    kind = pa.list_(pa.float64())
    short = pa.table({"features": pa.array([[1.0] * 4, [1.0, 2.0]], kind)})
    first = vectors(PARTS[0], kind).select(["features"])
    with pytest.raises(ValueError, match=r"vector of length 2 where 4.*partition 1"):
        lwcs.build(started(name).tables([first, short]), 5, random_state=0)
    gone = pa.table({"features": pa.array([[1.0] * 4, None, [1.0] * 4], kind)})
    with pytest.raises(ValueError, match="missing value in row 1 of partition 1"):
        lwcs.build(started(name).tables([first, gone]), 5, random_state=0)
    rows = lwcs.scan(started(name).tables([first, gone]), missing="drop")
    coreset = lwcs.build(rows, 500, random_state=0)
    assert coreset.details["dropped"] == 1
    assert 101 not in coreset.indices


def test_spark_vectors_dense_and_sparse(spark):
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import StructField, StructType

    schema = StructType([StructField("features", VectorUDT())])

    def frame(make):
        return spark.session.createDataFrame([(make(row),) for row in X], schema).coalesce(1)

    whole = lwcs.PartitionedSource([X])
    want = lwcs.build(whole, 50, random_state=1)
    dense = frame(lambda row: Vectors.dense(row))
    assert_same(lwcs.build(dense, 50, random_state=1), want)
    model = lwcs.CoresetKMeans(3, random_state=0).fit(dense)
    labelled = model.predict(dense)
    np.testing.assert_array_equal(spark.labels(labelled), own(model))
    assert labelled.first().features == Vectors.dense(X[0])
    holes = X * (np.random.default_rng(0).random(X.shape) < 0.3)
    sparse = spark.session.createDataFrame(
        [(Vectors.sparse(4, np.flatnonzero(row), row[row != 0.0]),) for row in holes], schema
    ).coalesce(1)
    csr = lwcs.PartitionedSource([sp.csr_array(holes)])
    want, got = (lwcs.build(rows, 50, random_state=1) for rows in (csr, sparse))
    assert sp.issparse(got.points)
    np.testing.assert_array_equal(got.points.toarray(), want.points.toarray())
    np.testing.assert_array_equal(got.weights, want.weights)
    # The first one tells; the others may be of the other kind.
    mixed = dense.limit(1).union(sparse).coalesce(1)
    assert lwcs.build(mixed, 50, random_state=1).n_features == 4
    mixed = sparse.limit(1).union(dense).coalesce(1)
    assert sp.issparse(lwcs.build(mixed, 50, random_state=1).points)


def test_spark_columns_with_odd_names(spark):
    rows = spark.tables([pa.table({"a.b": X[:, 0], "c": X[:, 1], "e`f": X[:, 2]})])
    want = lwcs.build(lwcs.PartitionedSource([X[:, :3].copy()]), 50, random_state=1)
    got = lwcs.build(rows, 50, random_state=1)
    assert_same(got, want)
    assert got.feature_names == ("a.b", "c", "e`f")
    model = lwcs.CoresetKMeans(2, random_state=0).fit(got)
    labelled = model.predict(rows)
    assert labelled.columns == ["a.b", "c", "e`f", "label"]
    assert len(spark.labels(labelled)) == len(X)


def test_ray_tensors_and_lazy_datasets(ray):
    import ray.data as rd

    rows = rd.from_numpy(PARTS)
    want = lwcs.build(CUT, 50, random_state=1)
    got = lwcs.build(rows, 50, random_state=1)
    assert_same(got, want)
    model = lwcs.CoresetKMeans(3, random_state=0).fit(got)
    np.testing.assert_array_equal(ray.labels(model.predict(rows)), own(model))
    lazy = rd.range(1_000, override_num_blocks=8).map_batches(
        lambda batch: {"x": np.sin(batch["id"]), "y": np.cos(batch["id"] / 3), "id": batch["id"]}
    )
    source = lwcs.scan(lazy, columns=["x", "y"])
    once = lwcs.build(source, 50, random_state=1)
    assert_same(lwcs.build(lwcs.scan(lazy, columns=["x", "y"]), 50, random_state=1), once)
    assert lwcs.CoresetKMeans(3, random_state=0).fit(source).predict(lazy).columns() == [
        "x",
        "y",
        "id",
        "label",
    ]


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_dask_without_a_cluster(scheduler):
    """Any scheduler of Dask's own."""
    dask = pytest.importorskip("dask")
    import dask.array as da

    rows = da.from_array(X, chunks=(100, 2))
    parts = lwcs.PartitionedSource([X[:100], X[100:200], X[200:]])
    with dask.config.set(scheduler=scheduler):
        got = lwcs.build(rows, 50, random_state=1)
    assert_same(got, lwcs.build(parts, 50, random_state=1))


def test_dask_arrays_of_sparse_and_of_unknown_chunks(dask):
    import dask.array as da

    rows = da.from_array(X, chunks=(100, 4))
    sparse = rows.map_blocks(sp.csr_array)
    parts = [sp.csr_array(X[start : start + 100]) for start in (0, 100, 200)]
    want, got = (
        lwcs.build(each, 50, random_state=1) for each in (lwcs.PartitionedSource(parts), sparse)
    )
    np.testing.assert_array_equal(got.points.toarray(), want.points.toarray())
    np.testing.assert_array_equal(got.weights, want.weights)
    keep = X[:, 0] > 0.0
    unknown = rows[rows[:, 0] > 0.0]
    assert np.isnan(unknown.shape[0])
    parts = [X[a : a + 100][keep[a : a + 100]] for a in (0, 100, 200)]
    want = lwcs.build(lwcs.PartitionedSource(parts), 50, random_state=1)
    assert_same(lwcs.build(unknown, 50, random_state=1), want)
    weights = da.from_array(np.arange(300.0), chunks=100)
    lwcs.build(lwcs.scan(unknown, sample_weight=weights[rows[:, 0] > 0.0]), 50, random_state=1)
    with pytest.raises(ValueError, match="lengths of the array's chunks are not known"):
        lwcs.scan(unknown, sample_weight=np.ones(150))
    with pytest.raises(ValueError, match=r"shape .* but the data has 300 rows"):
        lwcs.scan(rows, sample_weight=np.ones(150))


def test_dask_labels_are_lazy_and_chunked_like_the_rows(dask, dask_tables):
    import dask.array as da
    import dask.dataframe as dd

    calls = da.map_blocks(_never, chunks=((3, 3), (4,)), dtype=float, meta=np.empty((0, 0)))
    model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    labels = model.predict(calls)
    assert isinstance(labels, da.Array)
    assert (labels.chunks, labels.dtype) == (((3, 3),), np.int32)
    frame = dask_tables.arrays(PARTS)
    model = lwcs.CoresetKMeans(3, random_state=0).fit(frame)
    series = model.predict(frame)
    assert isinstance(series, dd.Series)
    frame["label"] = series
    assert frame.compute()["label"].tolist() == model.predict(lwcs.scan(_pandas())).tolist()


def _never(block_id=None):
    raise AssertionError("nobody asked for labels yet")


def _pandas():
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{j}" for j in range(4)])


def test_dask_tables_with_weights_and_odd_names(dask_tables):
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    weights = dd.from_pandas(pd.Series(np.arange(300.0)), npartitions=3)
    coreset = lwcs.build(frame, 50, sample_weight=weights, random_state=1)
    assert coreset.total_weight == np.arange(300).sum()
    assert coreset.feature_names == ("0", "1", "2", "3")
    with pytest.raises(TypeError, match="Dask Series"):
        lwcs.build(frame, 50, sample_weight=np.ones(300))


def test_other_things_of_dask_are_refused():
    pytest.importorskip("dask")
    import dask.array as da
    import dask.bag as db

    with pytest.raises(TypeError, match=r"pass a dask.array or a dask.dataframe"):
        lwcs.scan(db.from_sequence([1, 2]))
    with pytest.raises(ValueError, match="shape"):
        lwcs.scan(da.zeros(5))
    with pytest.raises(TypeError, match="dtype complex"):
        lwcs.scan(da.zeros((5, 2), dtype=complex))
    with pytest.raises(TypeError, match="columns= and weight="):
        lwcs.scan(da.zeros((5, 2)), columns=["a"])
    with pytest.raises(ValueError, match="missing='drop' is for tables"):
        lwcs.scan(da.zeros((5, 2)), missing="drop")
