"""Files and a model that tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.cli.rows import numbers, rows_of


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = rows_of()
    pq.write_table(table, "d.parquet")
    Path("events").mkdir()
    pq.write_table(table.slice(0, 300), "events/a.parquet")
    pq.write_table(table.slice(300), "events/b.parquet")
    pc.write_csv(table, "d.csv")
    model = lwcs.CoresetKMeans(3, random_state=0).fit(numbers("d.parquet"))
    model.save("m.parquet")
    return tmp_path
