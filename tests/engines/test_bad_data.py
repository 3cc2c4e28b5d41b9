"""What is wrong with data on a cluster is said with its column and partition, and once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lwcs
from tests.engines.sameness import cut

TABLES = ["dask table", "spark", "ray"]


@pytest.fixture(params=TABLES)
def tables(request, started):
    """Engines whose partitions are tables."""
    return started(request.param)


def some(n=40, d=3):
    return np.random.default_rng(0).standard_normal((n, d))


def test_a_bad_value_is_named_with_row_column_and_partition(engine):
    X = some()
    X[33, 1] = np.inf
    rows = engine.arrays(cut(X, [0, 10, 30, 40]))
    with pytest.raises(ValueError, match=r"row 3, column 1.* of partition 2 is inf"):
        lwcs.build(rows, 10, random_state=0)


def test_a_null_is_named_with_column_and_partition(tables):
    good = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    bad = pa.table({"a": [1.0, 2.0], "b": [3.0, None]})
    with pytest.raises(ValueError, match="column 'b' has a missing value in row 1 of partition 1"):
        lwcs.build(tables.tables([good, bad]), 3, random_state=0)
    # All values of a partition missing: it does not know their type.
    gone = pa.table({"a": [1.0, 2.0], "b": pa.array([None, None], pa.float64())})
    with pytest.raises(ValueError, match="column 'b' has a missing value in row 0 of partition 1"):
        lwcs.build(tables.tables([good, gone]), 3, random_state=0)


def test_missing_rows_can_be_dropped(tables):
    parts = [
        pa.table({"a": [1.0, 2.0, 3.0], "b": [3.0, None, 5.0]}),
        pa.table({"a": [None, 4.0], "b": [1.0, 7.0]}),
    ]
    coreset = lwcs.build(lwcs.scan(tables.tables(parts), missing="drop"), 50, random_state=0)
    assert set(coreset.indices) == {0, 2, 4}
    assert coreset.details["dropped"] == 2
    assert coreset.total_weight == 3.0
    model = lwcs.CoresetKMeans(2, random_state=0).fit(coreset)
    labels = tables.labels(model.predict(lwcs.scan(tables.tables(parts), missing="drop")))
    assert (labels == -1).tolist() == [False, True, False, True, False]


def test_strings_are_left_out_or_refused_by_name(tables):
    part = pa.table({"a": [1.0, 2.0], "name": ["x", "y"]})
    rows = tables.tables([part, part])
    with pytest.warns(lwcs.ColumnWarning, match=r"1 of 2 columns is left out: 'name' \(text\)"):
        source = lwcs.scan(rows)
    assert (source.feature_names, source.skipped) == (("a",), ("name",))
    with pytest.raises(TypeError, match=r"column 'name' holds text .*not numbers"):
        lwcs.scan(rows, columns=["a", "name"])
    with pytest.raises(ValueError, match="did you mean 'name'"):
        lwcs.scan(rows, columns=["nam"])


@pytest.mark.parametrize("name", ["dask table", "ray"])
def test_a_column_of_strings_in_one_partition_only(started, name):
    parts = [pa.table({"a": [1.0, 2.0]}), pa.table({"a": ["x", "y"]})]
    with pytest.raises(TypeError, match=r"column 'a' holds (text|string).* partition 1"):
        lwcs.build(started(name).tables(parts), 3, random_state=0)


def test_no_rows_at_all(engine):
    rows = engine.arrays([np.empty((0, 2)), np.empty((0, 2))])
    with pytest.raises(ValueError, match=r"no rows|at least one row"):
        lwcs.build(rows, 3)


def test_negative_weights_are_named(engine):
    X = some(4)
    given = [np.array([1.0, 1.0]), np.array([1.0, -1.0])]
    with pytest.raises(ValueError, match=r"weight.*partition 1 is -1|weight.*=-1.*partition 1"):
        lwcs.build(engine.weighted([X[:2], X[2:]], given), 3, random_state=0)


def test_one_pass_is_refused(engine):
    with pytest.raises(ValueError, match="passes=1 is not possible"):
        lwcs.build(engine.arrays([some()]), 3, passes=1)


def test_a_model_of_other_features_is_refused(engine):
    model = lwcs.CoresetKMeans(2, random_state=0).fit(some(d=2))
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.predict(engine.arrays([some()]))


def test_more_clusters_than_rows_are_refused(engine):
    with pytest.raises(ValueError, match="n_samples=5 should be >= n_clusters=10"):
        lwcs.CoresetKMeans(10).fit(engine.arrays([some(3), some(2)]))


def test_few_rows_are_clustered_themselves(engine):
    model = lwcs.CoresetKMeans(3, random_state=0).fit(engine.arrays([some(30), some(20)]))
    assert model.coreset_.method == "all rows"
    assert model.coreset_.n_samples == 50


def test_transform_is_refused(engine):
    rows = engine.arrays([some()])
    model = lwcs.CoresetKMeans(2, random_state=0).fit(rows)
    with pytest.raises(TypeError, match="use predict"):
        model.transform(rows)


def test_a_label_column_is_not_overwritten(spark, ray):
    for host in (spark, ray):
        rows = host.tables([pa.table({"a": [1.0, 2.0, 3.0], "Label": [0, 1, 1]})])
        model = lwcs.CoresetKMeans(2, random_state=0).fit(lwcs.scan(rows, columns=["a"]))
        with pytest.raises(ValueError, match="a column 'label' already"):
            model.predict(lwcs.scan(rows, columns=["a"]))


def test_rows_that_differ_between_rounds_are_refused_on_dask(dask):
    import dask.array as da

    def fresh(block_id=None):
        return np.random.default_rng().standard_normal((500, 3))

    rows = da.map_blocks(fresh, chunks=((500,) * 4, (3,)), dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"changed between two passes.*partition"):
        lwcs.build(rows, 100, random_state=0)


def test_rows_that_differ_between_rounds_are_refused_on_spark(spark):
    from pyspark.sql import functions

    ids = spark.session.range(0, 4_000, 1, 4)
    fickle = functions.udf(_random, "double").asNondeterministic()
    for rows in (
        ids.select(fickle("id").alias("x"), functions.col("id").alias("n")),
        ids.where(fickle("id") < 0.5),
        # Rows that go to another partition every time.
        ids.repartition(3, fickle("id")),
    ):
        with pytest.raises(ValueError, match="changed between two passes"):
            lwcs.build(rows, 100, random_state=0)
    # Deterministic for Spark, as rand is with its seed in the plan: no reason to complain.
    assert (
        lwcs.build(ids.select(functions.rand().alias("x")), 100, random_state=0).n_samples == 4_000
    )
    assert lwcs.build(ids.repartition(3), 100, random_state=0).n_samples == 4_000


def _random(_):
    return float(np.random.default_rng().random())


def test_sample_weight_is_for_dask(spark, ray):
    for host in (spark, ray):
        with pytest.raises(ValueError, match="name the column of weights"):
            lwcs.build(host.arrays([some()]), 3, sample_weight=np.ones(40))
