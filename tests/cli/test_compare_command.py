"""`lwcs compare`: rows, tables and figures in a folder; mistakes answered in one line."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import lwcs
from lwcs.cli import main

OPTIONS = ["--sizes", "50,100", "--repeats", "2", "--full-repeats", "1"]


@pytest.fixture
def points(tmp_path) -> str:
    X = np.random.default_rng(0).standard_t(3, size=(1_000, 17))
    np.save(tmp_path / "points.npy", X)
    return str(tmp_path / "points.npy")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["compare", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_folder_of_rows_tables_and_figures(points, tmp_path):
    out = tmp_path / "out"
    code, text = run(points, "-k", "3", "-k", "5", *OPTIONS, "-o", str(out))
    assert code == 0
    assert "points, k = 5" in text
    assert {p.name for p in out.iterdir()} == {
        "points.parquet",
        "table.md",
        "error_by_size.svg",
        "error_by_size.png",
        "error_by_time.svg",
        "error_by_time.png",
    }
    rows = lwcs.load(out / "points.parquet")
    assert rows.clusters("points") == [3, 5]
    assert rows.to_markdown() == (out / "table.md").read_text()
    # Once more: nothing is left to do, and nothing changes.
    before = (out / "points.parquet").read_bytes()
    assert run(points, "-k", "3", "-k", "5", *OPTIONS, "-o", str(out))[0] == 0
    assert (out / "points.parquet").read_bytes() == before


def test_data_sets_of_the_paper_by_name(points, tmp_path):
    code, text = run("--paper", f"CSN={points}", "-k", "3", *OPTIONS, "-o", str(tmp_path / "o"))
    assert code == 0
    assert "CSN (1k of 80k rows), k = 3" in text
    assert (tmp_path / "o" / "CSN.parquet").exists()


def test_unseen_rows_are_reported(points, tmp_path):
    out = tmp_path / "out"
    code, text = run(points, "-k", "3", *OPTIONS, "--holdout-rows", "100", "-o", str(out))
    assert code == 0
    assert "On held-out rows" in text
    assert "On held-out rows" in (out / "table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "DATA is missing"),
        (["nowhere.parquet"], "'nowhere.parquet' does not exist"),
        (["--paper", "points.npy"], "must be NAME=PATH"),
        (["--paper", "KDDD=x.npy"], "did you mean 'KDD'"),
        (["POINTS", "--methods", "full,lightwieght"], "did you mean 'lightweight'"),
        (["POINTS", "--sizes", "1000;2000"], "not a list of integers"),
        (["POINTS", "-k", "0"], "0 is not in the range"),
        (["POINTS", "-k", "3", "--holdout-rows", "5000"], "leaves no rows"),
    ],
)
def test_mistakes_are_answered_in_one_line(points, tmp_path, arguments, message):
    arguments = [points if a == "POINTS" else a for a in arguments]
    code, text = run(*arguments, "-o", str(tmp_path / "o"))
    assert code != 0
    assert message in text
    assert "Traceback" not in text
