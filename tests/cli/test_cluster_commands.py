"""`lwcs summary` and `lwcs exemplars`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lwcs
from tests.cli.running import run


@pytest.fixture
def rows(tmp_path: Any, monkeypatch: Any) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"c{row}" for row in range(600)],
            "age": rng.normal(np.repeat([30, 60], [400, 200]), 2.0),
            "amount": rng.normal(np.repeat([900, 100], [400, 200]), 9.0),
        }
    )
    frame.to_csv("rows.csv", index=False)
    assert run("fit", "rows.csv", "-k", "2", "--seed", "0", "-o", "m.parquet", "-q")[0] == 0
    return frame


def test_summary_prints_what_the_model_says(rows: pd.DataFrame) -> None:
    code, out, _ = run("summary", "m.parquet")
    assert code == 0
    assert out == f"{lwcs.load('m.parquet').summary()}\n"
    assert "high amount, low age\n  400 rows (66.7 %)" in out


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_summary_writes_a_table(rows: pd.DataFrame, name: str) -> None:
    code, out, said = run("summary", "m.parquet", "-o", name)
    assert (code, out) == (0, "")
    assert f"Summarized 2 clusters; wrote {name}" in said
    read = pd.read_csv if name.endswith("csv") else pd.read_parquet
    pd.testing.assert_frame_equal(
        read(name), lwcs.load("m.parquet").summary().to_arrow().to_pandas(), check_dtype=False
    )


def test_summary_has_json_and_pipes(rows: pd.DataFrame) -> None:
    facts = json.loads(run("summary", "m.parquet", "--json")[1])
    assert facts["rows"] == 600
    assert [each["rows"] for each in facts["clusters"]] == [400, 200]
    assert run("summary", "m.parquet", "-o", "-")[1].startswith('"cluster","name","rows"')
    piped = run("summary", "-", stdin=Path("m.parquet").read_bytes())
    assert piped[:2] == run("summary", "m.parquet")[:2]


def test_summary_refuses_what_is_no_model(rows: pd.DataFrame) -> None:
    code, _, said = run("summary", "rows.csv")
    assert code == 2
    assert "fit one to it first: lwcs fit rows.csv -k 10 -o model.parquet" in said
    code, _, said = run("summary", "m.parquet", "-o", "m.parquet")
    assert code == 2
    assert "is also an input of this command" in said


def test_exemplars_prints_rows_with_their_ids(rows: pd.DataFrame) -> None:
    code, out, _ = run("exemplars", "rows.csv", "m.parquet", "-n", "2", "--keep", "id", "-q")
    assert (code, out) == (0, "")
    code, out, _ = run("exemplars", "rows.csv", "m.parquet", "-n", "2", "--keep", "id")
    found = lwcs.exemplars(lwcs.load("m.parquet"), rows, 2, keep="id")
    assert out == f"{found}\n"
    assert f" c{found.row[0]} " in out


def test_exemplars_fit_a_narrow_terminal(rows: pd.DataFrame, monkeypatch: Any) -> None:
    command = ("exemplars", "rows.csv", "m.parquet", "-n", "2", "--keep", "id")
    whole = run(*command)[1]
    monkeypatch.setenv("COLUMNS", "30")
    out = run(*command)[1]
    assert out != whole
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    assert max(map(len, lines)) <= 30
    assert set(whole.split()) == set(out.split())


def test_exemplars_writes_a_table_and_json(rows: pd.DataFrame) -> None:
    found = lwcs.exemplars(lwcs.load("m.parquet"), rows, 3, keep="id").to_arrow()
    command = ("exemplars", "rows.csv", "m.parquet", "-n", "3", "--keep", "id")
    said = run(*command, "-o", "e.parquet")[2]
    assert "Chose 12 of 600 rows; wrote e.parquet" in said
    assert pd.read_parquet("e.parquet").equals(found.to_pandas())
    facts = json.loads(run(*command, "--json")[1])
    assert facts["exemplars"] == found.to_pylist()
    assert (facts["rows"], facts["dropped"]) == (600, 0)


def test_dates_are_texts_in_json(rows: pd.DataFrame) -> None:
    rows.assign(since=pd.Timestamp("2026-01-02")).to_parquet("rows.parquet")
    out = run("exemplars", "rows.parquet", "m.parquet", "-n", "1", "--keep", "since", "--json")[1]
    assert json.loads(out)["exemplars"][0]["since"].startswith("2026-01-02")


def test_exemplars_counts_dropped_rows_and_refuses_unknown_columns(rows: pd.DataFrame) -> None:
    rows.loc[7, "age"] = np.nan
    rows.to_csv("gaps.csv", index=False)
    assert run("exemplars", "gaps.csv", "m.parquet")[0] == 1
    out = run("exemplars", "gaps.csv", "m.parquet", "--missing", "drop")[1]
    assert out.endswith("\n\n1 row with a missing value was dropped\n")
    code, _, said = run("exemplars", "rows.csv", "m.parquet", "--keep", "idd")
    assert code == 1
    assert "'idd'" in said
    np.save("rows.npy", rows[["age", "amount"]].to_numpy()[:5])
    code, _, said = run("exemplars", "rows.npy", "m.parquet", "--keep", "id")
    assert code == 2
    assert "--keep id names columns, but DATA has no column names" in said
