"""The index of a pandas table is no feature, in a file as little as in memory."""

from __future__ import annotations

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.cli.running import run

N = 300
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=N), "y": RNG.normal(size=N)})
SHUFFLED = RNG.permutation(N) * 1_000
INDEXES = {
    "without a name": pd.Index(SHUFFLED),
    "named": pd.Index(SHUFFLED, name="customer"),
    "of two levels": pd.MultiIndex.from_arrays([SHUFFLED, np.arange(N)], names=["customer", None]),
    "of dates": pd.date_range("2024-01-01", periods=N, name="day")[::-1],
    "counted": pd.RangeIndex(N),
}
FILES = {
    "Parquet": lambda frame, path: frame.to_parquet(path / "t.parquet") or path / "t.parquet",
    "Feather": lambda frame, path: (
        pa.feather.write_feather(pa.Table.from_pandas(frame), path / "t.feather")
        or path / "t.feather"
    ),
}
WITH_METADATA = {
    "path": str,
    "table": pq.read_table,
    "dataset": ds.dataset,
    "scanner": lambda path: ds.dataset(path).scanner(),
    "reader": lambda path: pq.read_table(path).to_reader(),
}
WITHOUT = {
    "polars": pl.read_parquet,
    "LazyFrame": pl.scan_parquet,
    "DuckDB": lambda path: duckdb.connect().read_parquet(str(path)),
}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", FILES)
def test_the_index_in_a_file_is_no_feature_and_causes_no_word(kind, index, tmp_path):
    path = FILES[kind](FRAME.set_axis(INDEXES[index]), tmp_path)
    source = lwcs.scan(path)
    assert source.feature_names == ("x", "y")
    assert len(source.skipped) == (0 if index == "counted" else INDEXES[index].nlevels)
    found = lwcs.CoresetKMeans(3, random_state=0).fit(path)
    expected = lwcs.CoresetKMeans(3, random_state=0).fit(FRAME)
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-9)


@pytest.mark.parametrize("container", WITH_METADATA)
def test_the_index_is_known_by_the_metadata_of_the_schema(container, tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.set_axis(INDEXES["named"]).to_parquet(path)
    assert lwcs.scan(WITH_METADATA[container](path)).feature_names == ("x", "y")
    # It is a column like all others to who names it.
    named = lwcs.scan(WITH_METADATA[container](path), columns=["customer", "x"])
    assert named.feature_names == ("customer", "x")


@pytest.mark.parametrize("container", WITHOUT)
def test_an_index_without_a_name_is_known_by_the_name_that_pandas_gives_it(container, tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.set_axis(INDEXES["without a name"]).to_parquet(path)
    assert lwcs.scan(WITHOUT[container](path)).feature_names == ("x", "y")


def test_the_files_of_a_folder_may_have_different_indexes(tmp_path):
    FRAME.set_axis(INDEXES["named"]).to_parquet(tmp_path / "a.parquet")
    FRAME.assign(customer=1).to_parquet(tmp_path / "b.parquet", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lwcs.scan(tmp_path).feature_names == ("x", "y")


def test_a_table_of_nothing_but_an_index_says_so(tmp_path):
    FRAME[[]].set_axis(INDEXES["named"]).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="'customer' holds the index of a pandas table"):
        lwcs.scan(tmp_path / "t.parquet")


def test_damaged_metadata_of_pandas_is_ignored(tmp_path):
    for text in (b"{", b"[]", b'{"index_columns": [[1], {"kind": "range"}]}', b"\xff"):
        table = pa.table({"x": FRAME["x"], "y": FRAME["y"]}).replace_schema_metadata(
            {b"pandas": text}
        )
        assert lwcs.scan(table).feature_names == ("x", "y")


def test_assign_keeps_the_index_that_is_named(tmp_path):
    data, model, labels = (str(tmp_path / name) for name in ("t.parquet", "m.parquet", "l.parquet"))
    FRAME.set_axis(INDEXES["named"]).to_parquet(data)
    assert run("fit", data, "-k", "2", "-o", model, "--seed", "0")[0] == 0
    assert run("assign", data, model, "-o", labels, "--keep", "customer")[0] == 0
    assert pq.read_table(labels)["customer"].to_pylist() == SHUFFLED.tolist()
    # What was kept is a column of its own, and no index any more.
    assert not pq.read_schema(labels).pandas_metadata
