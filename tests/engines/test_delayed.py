"""A list of Dask Delayed is data, as the Dask array or DataFrame of the same chunks is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs
from tests.engines.sameness import assert_same, cut

dask = pytest.importorskip("dask")

X = np.random.default_rng(2).standard_normal((300, 4))
PARTS = cut(X, [0, 100, 100, 101, 300])
CUT = lwcs.PartitionedSource(PARTS)


def delayed(parts):
    return [dask.delayed(lambda part: part, pure=False)(part) for part in parts]


@pytest.mark.parametrize("kind", [list, tuple])
def test_arrays_give_the_bits_of_the_dask_array(kind):
    want = lwcs.build(CUT, 50, random_state=1)
    assert_same(lwcs.build(kind(delayed(PARTS)), 50, random_state=1), want)


def test_arrays_give_the_same_on_a_cluster(dask):
    assert_same(lwcs.build(delayed(PARTS), 50, random_state=1), lwcs.build(CUT, 50, random_state=1))


def test_sparse_arrays_stay_sparse():
    parts = [sp.csr_array(part) for part in PARTS if len(part)]
    want = lwcs.build(lwcs.PartitionedSource(parts), 50, random_state=1)
    got = lwcs.build(delayed(parts), 50, random_state=1)
    assert sp.issparse(got.points)
    np.testing.assert_array_equal(got.points.toarray(), want.points.toarray())
    np.testing.assert_array_equal(got.weights, want.weights)


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_tables_give_the_bits_of_the_dask_dataframe(library):
    tables = [pa.table(dict(zip("abcd", part.T, strict=True))) for part in PARTS]
    made = {
        "pandas": lambda table: table.to_pandas(),
        "pyarrow": lambda table: table,
        "polars": lambda table: pytest.importorskip("polars").from_arrow(table),
    }[library]
    got = lwcs.build(delayed([made(table) for table in tables]), 50, random_state=1)
    assert_same(got, lwcs.build(CUT, 50, random_state=1))
    assert got.feature_names == ("a", "b", "c", "d")


def test_an_estimator_fits_and_labels_them_lazily():
    model = lwcs.CoresetKMeans(3, random_state=0).fit(delayed(PARTS))
    want = lwcs.CoresetKMeans(3, random_state=0).fit(CUT)
    np.testing.assert_array_equal(model.cluster_centers_, want.cluster_centers_)
    labels = model.predict(delayed(PARTS))
    assert isinstance(labels, __import__("dask.array").array.Array)
    np.testing.assert_array_equal(labels.compute(), np.concatenate(want.predict(CUT)))


def test_other_things_are_refused():
    with pytest.raises(TypeError, match=r"a Delayed gives a list.*two-dimensional array"):
        lwcs.scan(delayed([[1.0, 2.0]]))
    with pytest.raises(TypeError, match=r"gives a ndarray.*two-dimensional"):
        lwcs.scan(delayed([np.ones(3)]))
    with pytest.raises(TypeError, match="or a list of Delayed"):
        lwcs.scan(delayed(PARTS)[0])


@pytest.mark.parametrize("kind", ["array", "frame", "delayed"])
def test_a_stream_takes_rows_in_memory_only(kind):
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    rows = {
        "array": lambda: da.from_array(X, chunks=100),
        "frame": lambda: dd.from_pandas(pd.DataFrame(X).rename(columns=str), npartitions=2),
        "delayed": lambda: delayed(PARTS),
    }[kind]()
    stream = lwcs.StreamingCoreset(50, random_state=0)
    with pytest.raises(TypeError, match=r"whose rows are not in memory, as is expected here"):
        stream.update(rows)
    assert stream.n_samples == 0
    with pytest.raises(TypeError, match="partial_fit takes rows in memory"):
        lwcs.CoresetKMeans(3).partial_fit(rows)
    # What the message says to do.
    stream.update(lwcs.build(rows, 50, random_state=0))
    assert stream.n_samples == len(X)


@pytest.mark.parametrize("name", ["spark", "ray"])
def test_a_stream_refuses_tables_of_other_engines(started, name):
    rows = started(name).arrays(PARTS)
    with pytest.raises(TypeError, match=r"whose rows are not in memory, as is expected here"):
        lwcs.StreamingCoreset(50).update(rows)
    with pytest.raises(TypeError, match="partial_fit takes rows in memory"):
        lwcs.CoresetKMeans(3).partial_fit(rows)
