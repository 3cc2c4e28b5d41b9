"""Messages that fit what was given: examples, counts, and names of columns that occur twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import lwcs


@pytest.mark.parametrize(
    ("given", "example"),
    [(3.0, 3), (2.6, 3), (-4.2, 1), (np.float32(7.4), 7), ("12", 12), (True, 1)],
)
def test_an_example_is_the_nearest_integer(given, example):
    with pytest.raises(TypeError, match=rf"for example n_clusters={example}$"):
        lwcs.CoresetKMeans(given).fit(np.eye(20))


@pytest.mark.parametrize("given", [None, "many", np.nan, np.inf, [3]])
def test_what_is_near_to_no_integer_has_no_example(given):
    with pytest.raises(TypeError, match=r"is not an integer; pass an integer >= 1$"):
        lwcs.CoresetKMeans(given).fit(np.eye(20))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_more_clusters_than_distinct_rows_are_counted(container):
    X = container(np.repeat([[0.0, 1.0], [1.0, 0.0], [5.0, 0.0]], 200, axis=0))
    with pytest.warns(ConvergenceWarning, match=r"the data has only 3 distinct rows.*<= 3$"):
        lwcs.CoresetKMeans(5, coreset_size=600, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"the coreset has only 3 distinct rows.* draws$"):
        lwcs.CoresetKMeans(5, coreset_size=50, random_state=0).fit(X)
    # Two directions, though three rows.
    with pytest.warns(ConvergenceWarning, match=r"the data has 3 distinct rows, but some are"):
        lwcs.CoresetKMeans(3, coreset_size=600, divergence="cosine", random_state=0).fit(X)


def _twice() -> pa.Table:
    return pa.Table.from_arrays([pa.array([1.0, 2.0, 3.0])] * 3, names=["a", "b", "a"])


def _in_files(tmp_path: Path) -> list[object]:
    table = _twice()
    pq.write_table(table, tmp_path / "d.parquet")
    pq.write_table(table.rename_columns(["a", "b", "c"]), tmp_path / "one.parquet")
    with pa.ipc.new_file(str(tmp_path / "d.arrow"), table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "d.csv").write_text("a,b,a\n1,2,3\n4,5,6\n")
    (tmp_path / "one.csv").write_text("a,b\n1,2\n4,5\n")
    groups = (["d.parquet"], ["one.parquet", "d.parquet"], ["d.arrow"], ["d.csv"])
    return [[str(tmp_path / name) for name in group] for group in groups]


def test_two_columns_of_one_name_are_one_clear_error(tmp_path):
    table, rows = _twice(), np.ones((3, 3))
    given = [
        pd.DataFrame(rows, columns=["a", "b", "a"]),
        table,
        lambda: table.to_reader(),
        *_in_files(tmp_path),
    ]
    for data in given:
        for use in (lwcs.scan, lambda X: lwcs.build(X, 2), lwcs.CoresetKMeans(1).fit):
            with pytest.raises(ValueError, match="must be unique, but 'a' occurs more than once"):
                use(data() if callable(data) else data)
    with pytest.raises(ValueError, match="must be unique, but 'a' occurs more than once"):
        lwcs.scan(table.to_batches()[0])
    with pytest.raises(ValueError, match=r"'a' occurs more than once in '.*d.csv'"):
        lwcs.build([tmp_path / "one.csv", tmp_path / "d.csv"], 2)
    lazy = pl.LazyFrame({"a": [1.0], "b": [2.0]}).select("a", pl.col("b").alias("a"))
    with pytest.raises(ValueError, match=r"polars query cannot be run: .*duplicate"):
        lwcs.scan(lazy)


def test_two_columns_of_one_name_in_a_relation_are_refused():
    duckdb = pytest.importorskip("duckdb")
    with pytest.raises(ValueError, match="must be unique, but 'a' occurs more than once"):
        lwcs.scan(duckdb.sql("select 1.0 as a, 2.0 as b, 3.0 as a"))
