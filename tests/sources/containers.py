"""One table in every container that lwcs takes, for tests that hold for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
from pyarrow import csv


def _parquet(table: pa.Table, folder: Path) -> str:
    pq.write_table(table, folder / "t.parquet", row_group_size=150)
    return str(folder / "t.parquet")


def _feather(table: pa.Table, folder: Path) -> str:
    feather.write_feather(table, folder / "t.feather")
    return str(folder / "t.feather")


def _csv(table: pa.Table, folder: Path) -> str:
    csv.write_csv(table, folder / "t.csv")
    return str(folder / "t.csv")


def _duckdb(table: pa.Table, _: Path) -> Any:
    return duckdb.connect().from_arrow(table)


def _batches(table: pa.Table, _: Path) -> Any:
    return iter([table.slice(start, 100) for start in range(0, len(table), 100)])


CONTAINERS = {
    "pandas": lambda table, _: table.to_pandas(),
    "polars": lambda table, _: pl.from_arrow(table),
    "pyarrow": lambda table, _: table,
    "Parquet": _parquet,
    "Feather": _feather,
    "CSV": _csv,
    "polars LazyFrame": lambda table, _: pl.from_arrow(table).lazy(),
    "DuckDB": _duckdb,
    "pyarrow Dataset": lambda table, _: ds.dataset(table),
    "pyarrow Scanner": lambda table, _: ds.dataset(table).scanner(),
    "Arrow reader": lambda table, _: table.to_reader(max_chunksize=100),
    "generator of tables": _batches,
}
WITH_VECTORS = [name for name in CONTAINERS if name != "CSV"]
