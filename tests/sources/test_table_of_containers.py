"""The table in docs/guide/tables.md: every cell is tried."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from tests.sources.containers import CONTAINERS

N = 150
RNG = np.random.default_rng(0)
NUMBERS = {"x": RNG.normal(size=N), "y": RNG.uniform(1, 2, size=N)}
GAPS = NUMBERS | {"x": np.where(np.arange(N) == 7, np.nan, NUMBERS["x"])}
TEXT = {"t": ["word"] * N} | NUMBERS
LISTS = {"v": [[1.0, float(i)] for i in range(N)]} | NUMBERS
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "tables.md"


def array(columns, _=None):
    if "v" in columns:
        return np.array(columns["v"] + [None], dtype=object)[:-1].reshape(-1, 1)
    return np.column_stack(list(columns.values()))


def stored(write, name):
    def make(columns, folder):
        write(folder / name, array(columns))
        return str(folder / name)

    return make


def hdf5(path, rows):
    import h5py

    with h5py.File(path, "w") as file:
        file["rows"] = rows


def zarr(path, rows):
    import zarr

    with warnings.catch_warnings():
        # Of text, for which zarr has no specification.
        warnings.simplefilter("ignore")
        zarr.create_array(str(path), data=rows, overwrite=True)


def npz(path, rows):
    np.savez(path, rows=rows)


def in_container(name):
    def make(columns, folder):
        if name == "CSV" and "v" in columns:
            columns = columns | {"v": [str(each) for each in columns["v"]]}
        return CONTAINERS[name](pa.table(columns), folder)

    return make


def folder_of_parquet(columns, folder):
    whole = pa.table(columns)
    (folder / "d").mkdir(exist_ok=True)
    for i in range(2):
        pq.write_table(whole.slice(i * 75, 75), folder / "d" / f"{i}.parquet")
    return str(folder / "d")


MAKERS = {
    "NumPy array": array,
    "masked array": lambda columns, _: np.ma.masked_array(array(columns)),
    "list of rows": lambda columns, _: array(columns).tolist(),
    "scipy sparse array": lambda columns, _: sp.csr_array(array(columns)),
    "`.npy` file": stored(np.save, "a.npy"),
    "`.npz` file": stored(npz, "a.npz"),
    "HDF5 file": stored(hdf5, "a.h5"),
    "zarr array": stored(zarr, "a.zarr"),
    "pandas DataFrame": lambda columns, _: pd.DataFrame(columns),
    "polars DataFrame": lambda columns, _: pl.DataFrame(columns),
    "pyarrow Table": lambda columns, _: pa.table(columns),
    "list of tables": lambda c, _: [pa.table(c).slice(0, 100), pa.table(c).slice(100)],
    "Parquet file": in_container("Parquet"),
    "folder or glob of files": folder_of_parquet,
    "Feather file": in_container("Feather"),
    "CSV file": in_container("CSV"),
    "polars LazyFrame": in_container("polars LazyFrame"),
    "DuckDB relation": in_container("DuckDB"),
    "pyarrow Dataset": in_container("pyarrow Dataset"),
    "pyarrow Scanner": in_container("pyarrow Scanner"),
    "Arrow reader": in_container("Arrow reader"),
    "generator of arrays": lambda c, _: (part for part in [array(c)[:90], array(c)[90:]]),
    "generator of tables": in_container("generator of tables"),
}
ON_ENGINES = ("Dask array", "Dask DataFrame", "Spark DataFrame", "Ray Dataset")
REFUSALS = (TypeError, ValueError)


def left_out(data, features):
    """How many warnings there were, if the features are those expected."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = lwcs.scan(data)
    return "left out" if found.feature_names == features and caught else "taken"


def choosing(make):
    assert lwcs.scan(make(NUMBERS), columns="y").feature_names == ("y",)
    assert lwcs.scan(make(NUMBERS), exclude="y").feature_names == ("x",)
    return "taken"


def of_lists(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lwcs.ColumnWarning)
        if lwcs.scan(make(LISTS)).feature_names == ("v[0]", "v[1]"):
            return "taken"
    return left_out(make(LISTS), ("x", "y"))


def of_text(make):
    return left_out(make(TEXT), ("x", "y"))


def dropping(make):
    coreset = lwcs.build(lwcs.scan(make(GAPS), missing="drop"), 40, random_state=0)
    assert coreset.details["dropped"] == 1
    assert coreset.total_weight == pytest.approx(N - 1)
    return "taken"


def weighing(make, weights=None):
    ways = []
    for way, weight in (("column", "y"), ("array", NUMBERS["y"] if weights is None else weights)):
        try:
            found = lwcs.build(lwcs.scan(make(NUMBERS), weight=weight), 40, random_state=0)
        except REFUSALS:
            continue
        assert found.total_weight == pytest.approx(NUMBERS["y"].sum())
        ways.append(way)
    if not ways:
        raise ValueError("weights are refused as a column and as an array")
    return " or ".join(ways)


TRIALS = {
    "`columns=`, `exclude=`": choosing,
    "lists of one length": of_lists,
    "text, dates, others": of_text,
    '`missing="drop"`': dropping,
    "`weight=`": weighing,
}


def cells():
    lines = PAGE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| data |"))
    heads = [cell.strip() for cell in lines[start].strip("|").split("|")]
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        row = [cell.strip() for cell in line.strip("|").split("|")]
        for head, cell in zip(heads[1:], row[1:], strict=True):
            yield row[0], head, cell


def verdict(trial, make, **more):
    try:
        return trial(make, **more)
    except REFUSALS as error:
        return "refused" if len(str(error)) > 30 else f"refused without words: {error}"


@pytest.mark.parametrize(("data", "what", "cell"), list(cells()))
def test_every_cell_is_true(data, what, cell, tmp_path):
    if data in ON_ENGINES:
        pytest.skip("tried by make test-engines")
    assert verdict(TRIALS[what], lambda columns: MAKERS[data](columns, tmp_path)) == cell


def test_the_table_has_every_container_and_every_trial():
    assert {data for data, _, _ in cells()} == {*MAKERS, *ON_ENGINES}
    assert {what for _, what, _ in cells()} == set(TRIALS)
