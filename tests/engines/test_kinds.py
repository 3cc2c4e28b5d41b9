"""Kinds of columns and containers that only engines have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs
from tests.engines.sameness import assert_same, cut

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
    with pytest.raises(ValueError, match=r"vector of length 2 in row .*where 4.*partition 1"):
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
    lwcs.build(lwcs.scan(unknown, weight=weights[rows[:, 0] > 0.0]), 50, random_state=1)
    with pytest.raises(ValueError, match="lengths of the array's chunks are not known"):
        lwcs.scan(unknown, weight=np.ones(150))
    with pytest.raises(ValueError, match=r"shape .* but the data has 300 rows"):
        lwcs.scan(rows, weight=np.ones(150))


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


def test_weights_of_a_dask_array_in_all_forms(dask):
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    w = np.arange(300.0)
    rows = da.from_array(X, chunks=(100, 4))
    parts = [lwcs.scan(X[a : a + 100], weight=w[a : a + 100]) for a in (0, 100, 200)]
    want = lwcs.build(lwcs.PartitionedSource(parts), 50, random_state=1)
    series = pd.Series(w)
    for given in (w, w.tolist(), series, da.from_array(w, chunks=70), dd.from_pandas(series, 3)):
        assert_same(lwcs.build(rows, 50, sample_weight=given, random_state=1), want)
    with pytest.raises(ValueError, match="2 chunks but the data has 3"):
        lwcs.build(rows, 50, sample_weight=dd.from_pandas(series, 2))


def test_dask_chunks_of_two_kinds_are_refused(dask):
    import dask.array as da

    def mixed(chunk, block_id=None):
        return sp.csr_array(chunk) if block_id[0] else chunk

    rows = da.from_array(X, chunks=(100, 4)).map_blocks(mixed, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match="some partitions are sparse and others are dense"):
        lwcs.build(rows, 50, random_state=1)


def test_a_wider_type_than_declared_is_refused_not_wrapped(dask_tables):
    import dask.dataframe as dd
    import pandas as pd

    meta = pd.DataFrame({"a": np.array([1], "i1")})
    rows = dd.from_map(lambda _: pd.DataFrame({"a": [300, 2]}), [0, 1], meta=meta)
    with pytest.raises(TypeError, match=r"'a' holds int64 here.*int8.*\(in partition 0\)"):
        lwcs.build(rows, 10)


@pytest.mark.parametrize("name", ["spark", "ray"])
def test_a_gap_inside_a_vector_is_dropped(started, name):
    part = vectors(PARTS[2], pa.list_(pa.float64()))
    values = PARTS[2].copy()
    values[7, 2] = np.nan
    bad = vectors(values, pa.list_(pa.float64()))
    rows = started(name).tables([part, bad])
    source = lwcs.scan(rows, columns="features", missing="drop")
    coreset = lwcs.build(source, 5_000, random_state=0)
    assert coreset.details["dropped"] == 1
    assert len(PARTS[2]) + 7 not in coreset.indices


def test_spark_sparse_vectors_with_gaps_and_weights(spark):
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import DoubleType, StructField, StructType

    schema = StructType([StructField("v", VectorUDT()), StructField("w", DoubleType())])
    vector = Vectors.sparse(3, [0, 2], [1.0, 5.0])
    rows = [(vector, 1.0), (vector, 2.0), (None, 1.0), (vector, None), (vector, 3.0)]
    frame = spark.session.createDataFrame(rows, schema).coalesce(1)
    with pytest.raises(ValueError, match="column 'v' has a missing value in row 2 of partition 0"):
        lwcs.build(lwcs.scan(frame, columns="v", weight="w"), 10)
    present = frame.where("v is not null")
    with pytest.raises(ValueError, match="column 'w' has a missing value in row 2 of partition 0"):
        lwcs.build(lwcs.scan(present, columns="v", weight="w"), 10)
    with pytest.raises(ValueError, match="column 'v' has a missing value in row 2 of partition 0"):
        lwcs.build(lwcs.scan(frame, columns="v"), 10)
    source = lwcs.scan(frame, columns="v", weight="w", missing="drop")
    coreset = lwcs.build(source, 100, random_state=0)
    assert (coreset.total_weight, coreset.details["dropped"]) == (6.0, 2)
    assert set(coreset.indices) <= {0, 1, 4}
    model = lwcs.CoresetKMeans(1, random_state=0).fit(coreset)
    assert spark.labels(model.predict(source)).tolist() == [0, 0, -1, -1, 0]


def test_spark_columns_that_are_not_used_may_be_anything(spark):
    frame = spark.session.range(0, 500, 1, 2).selectExpr(
        "cast(id % 11 as double) a",
        "cast(id % 7 as double) b",
        "timestamp '2020-01-01 00:00:00' ts",
        "struct(timestamp '2020-01-01 00:00:00' as t) s",
        "date '2020-01-01' d",
        "'x' name",
    )
    with pytest.warns(lwcs.ColumnWarning, match="4 of 6 columns are left out"):
        source = lwcs.scan(frame)
    assert source.feature_names == ("a", "b")
    model = lwcs.CoresetKMeans(3, random_state=0).fit(source)
    labelled = model.predict(frame)
    assert labelled.columns == [*frame.columns, "label"]
    assert labelled.drop("label").exceptAll(frame).count() == 0
    interval = frame.selectExpr("a", "b", "interval 1 month i")
    with pytest.warns(lwcs.ColumnWarning, match="1 of 3 columns is left out"):
        assert lwcs.build(interval, 50, random_state=0).n_samples == 500


def test_a_module_that_a_users_function_lacks_is_not_ours(spark):
    from pyspark.sql import functions

    lacking = functions.udf(lambda _: __import__("no_such_module").x, "double")
    rows = spark.session.range(10).select(lacking("id").alias("x"))
    with pytest.raises(Exception, match="no_such_module") as caught:
        lwcs.build(rows, 5)
    assert not isinstance(caught.value, RuntimeError)


def test_more_partitions_in_the_second_round_are_noticed(spark):
    session = spark.session
    rows = session.range(0, 1_000, 1, 4).repartition("id")
    source = lwcs.scan(rows)
    run = source.run

    def then_more(work, told):
        results = run(work, told)
        session.conf.set("spark.sql.shuffle.partitions", "7")
        return results

    source.run = then_more
    session.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        with pytest.raises(ValueError, match="changed between two passes"):
            lwcs.build(source, 100, random_state=0)
    finally:
        session.conf.set("spark.sql.shuffle.partitions", "4")
        session.conf.set("spark.sql.adaptive.enabled", "true")


def test_the_context_of_a_ray_dataset_is_left_as_it_was(ray):
    import ray.data as rd

    lazy = rd.range(100, override_num_blocks=4).map_batches(lambda batch: {"x": batch["id"] * 1.0})
    before = lazy.context.execution_options.preserve_order
    lwcs.build(lazy, 20, random_state=0)
    assert lazy.context.execution_options.preserve_order == before


def test_ray_tensors_of_other_shapes_are_refused(ray):
    import ray.data as rd

    with pytest.raises(ValueError, match=r"arrays of shape \(2, 2\); pass vectors"):
        lwcs.scan(rd.from_numpy(np.zeros((20, 2, 2))))
    wide = [pa.list_(pa.float64(), width) for width in (2, 3)]
    parts = [pa.table({"v": pa.array([[1.0] * kind.list_size], kind)}) for kind in wide]
    with pytest.raises((ValueError, TypeError), match="partition 1"):
        lwcs.build(rd.from_arrow(parts), 5)
    gaps = pa.table({"v": pa.array([None] * 150 + [[1.0, 2.0]], pa.list_(pa.float64()))})
    assert lwcs.scan(rd.from_arrow([gaps])).n_features == 2


def test_columns_that_look_like_a_vector(dask_tables):
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame(X[:, :2], columns=["x[0]", "x[1]"])
    model = lwcs.CoresetKMeans(3, random_state=0).fit(frame)
    labels = model.predict(dd.from_pandas(frame, npartitions=3)).compute()
    assert labels.tolist() == model.predict(frame).tolist()


def test_other_things_of_dask_are_refused():
    pytest.importorskip("dask")
    import dask.array as da
    import dask.bag as db

    with pytest.raises(
        TypeError, match=r"pass a dask\.array\.Array or a dask\.dataframe\.DataFrame"
    ):
        lwcs.scan(db.from_sequence([1, 2]))
    with pytest.raises(ValueError, match="shape"):
        lwcs.scan(da.zeros(5))
    with pytest.raises(TypeError, match="dtype complex"):
        lwcs.scan(da.zeros((5, 2), dtype=complex))
    with pytest.raises(TypeError, match="names columns, but a Dask array has no"):
        lwcs.scan(da.zeros((5, 2)), columns=["a"])


def test_rows_of_a_dask_array_with_nan_are_dropped():
    import dask.array as da

    X = np.arange(20.0).reshape(10, 2)
    X[3, 1] = np.nan
    source = lwcs.scan(da.from_array(X, chunks=(4, 2)), missing="drop")
    coreset = lwcs.build(source, 500, random_state=0)
    assert (coreset.details["dropped"], coreset.total_weight) == (1, 9.0)
    assert set(coreset.indices) == {0, 1, 2, 4, 5, 6, 7, 8, 9}
    model = lwcs.CoresetKMeans(2, random_state=0).fit(source)
    assert (model.predict(source).compute() == -1).tolist() == [i == 3 for i in range(10)]
