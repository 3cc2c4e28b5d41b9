"""The rule for columns on engines: the same as for tables in memory and files."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

import lwcs

pytestmark = pytest.mark.engines

N = 120
RNG = np.random.default_rng(0)
E = RNG.normal(size=(N, 3)).astype(np.float32)
X = RNG.normal(size=(N, 2))


@pytest.fixture(params=["dask table", "spark", "ray"])
def tables(request, started):
    return started(request.param)


@pytest.fixture(autouse=True)
def lists_stay_lists():
    """Dask turns Python objects into text unless it is told not to."""
    dask = pytest.importorskip("dask")
    with dask.config.set({"dataframe.convert-string": False}):
        yield


def in_two(columns):
    whole = pa.table(columns)
    return [whole.slice(0, N // 2), whole.slice(N // 2)]


def vectors():
    return pa.array(E.tolist(), pa.list_(pa.float32()))


def test_vectors_are_used_and_the_numbers_beside_them_are_not(tables):
    rows = tables.tables(in_two({"id": np.arange(N), "emb": vectors()}))
    with pytest.warns(lwcs.ColumnWarning, match=r"'id' \(numbers beside the vectors of 'emb'\)"):
        source = lwcs.scan(rows)
    assert source.feature_names == ("emb[0]", "emb[1]", "emb[2]")
    coreset = lwcs.build(source, 40, random_state=0)
    np.testing.assert_array_equal(coreset.points, E[coreset.indices])


def test_numbers_and_vectors_that_are_named_are_used_side_by_side(tables):
    rows = tables.tables(in_two({"a": X[:, 0], "emb": vectors(), "b": X[:, 1]}))
    source = lwcs.scan(rows, columns=["b", "emb"])
    assert source.feature_names == ("b", "emb[0]", "emb[1]", "emb[2]")
    coreset = lwcs.build(source, 40, random_state=0)
    whole = np.column_stack([X[:, 1], E])
    np.testing.assert_array_equal(coreset.points, whole[coreset.indices])


def test_columns_are_left_out_by_name_and_pattern(tables):
    rows = tables.tables(in_two({"x1": X[:, 0], "x2": X[:, 1], "name": ["n"] * N}))
    assert lwcs.scan(rows, exclude=["name", "*2"]).feature_names == ("x1",)
    with pytest.raises(ValueError, match="did you mean 'name'"):
        lwcs.scan(rows, exclude="nam")


def test_identifiers_are_named_by_a_warning(tables):
    columns = {"nr": np.arange(N) + 7, "x": X[:, 0], "y": X[:, 1]}
    whole = pa.table(columns)
    rows = tables.tables([whole.slice(0, 110), whole.slice(110)])
    with pytest.warns(lwcs.ColumnWarning, match="'nr' looks like an identifier"):
        lwcs.build(rows, 10, random_state=0)
    with pytest.warns(lwcs.ColumnWarning, match="'user_id' looks like an identifier"):
        lwcs.build(tables.tables(in_two({"user_id": np.arange(N) % 3, "x": X[:, 0]})), 10)


def test_a_model_finds_its_columns_by_name(tables):
    columns = {"t": ["n"] * N, "y": X[:, 1], "z": X[:, 0] + 9, "x": X[:, 0]}
    rows = tables.tables(in_two(columns))
    model = lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(rows, columns=["x", "y"]))
    nearest = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2).argmin(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lwcs.ColumnWarning)
        np.testing.assert_array_equal(tables.labels(model.predict(rows)), nearest)


def test_the_vectors_of_an_assembler_are_used(started):
    from pyspark.ml.feature import VectorAssembler

    rows = started("spark").tables(in_two({"id": np.arange(N), "x": X[:, 0], "y": X[:, 1]}))
    assembled = VectorAssembler(inputCols=["x", "y"], outputCol="features").transform(rows)
    with pytest.warns(lwcs.ColumnWarning, match=r"numbers beside the vectors of 'features'"):
        model = lwcs.CoresetKMeans(3, random_state=0).fit(assembled)
    assert list(model.feature_names_in_) == ["features[0]", "features[1]"]
