"""`lwcs choose-k`: the table and the recommendation, files, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.cli.running import run
from tests.evaluation.mixtures import separated

FAST = ("--size", "2000", "--bootstrap", "2", "--seed", "0")


@pytest.fixture(autouse=True)
def points(tmp_path, monkeypatch) -> np.ndarray:
    monkeypatch.chdir(tmp_path)
    X = separated(5_000, 2, 3, seed=0)
    np.save("points.npy", X)
    return X


def test_the_table_and_the_recommendation_are_printed():
    code, out, err = run("choose-k", "points.npy", "-k", "2-5", *FAST)
    assert code == 0
    assert "→ 3" in out
    assert "silhouette" in out
    assert "k = 3: the largest number of clusters that the data tells apart" in out
    assert "Tried 4 numbers of clusters on 5,000 rows" in err
    _, _, err = run("choose-k", "points.npy", "-k", "3", *FAST)
    assert "Tried 1 number of clusters" in err


def test_json_is_what_the_library_says(points):
    code, out, _ = run("choose-k", "points.npy", "-k", "5,2-4", "--json", *FAST)
    assert code == 0
    found = json.loads(out)
    choice = lwcs.choose_k(points, range(2, 6), size=2_000, n_bootstrap=2, random_state=0)
    assert (found["k"], found["reason"]) == (choice.k, choice.reason) == (3, choice.reason)
    assert found["table"] == [row.record() for row in choice.rows]
    assert found["runners_up"] == [{"k": each.k, "why": each.why} for each in choice.runners_up]


def test_the_default_numbers_of_clusters_are_below_the_number_of_rows(points):
    np.save("few.npy", points[:20])
    _, out, _ = run("choose-k", "few.npy", "--json", "--seed", "0")
    assert [row["k"] for row in json.loads(out)["table"]] == list(range(2, 20))


def test_the_confidence_is_that_of_the_intervals(points):
    options = ("-k", "3", "--json", *FAST)
    _, out, _ = run("choose-k", "points.npy", "--confidence", "0.5", *options)
    choice = lwcs.choose_k(points, [3], size=2_000, n_bootstrap=2, confidence=0.5, random_state=0)
    assert json.loads(out)["table"] == [choice.row(3).record()]


def test_files_are_written():
    options = ("-k", "2-4", "--quiet", *FAST)
    assert run("choose-k", "points.npy", *options, "-o", "t.parquet", "--figure", "e.svg")[0] == 0
    assert Path("e.svg").read_bytes().startswith(b"<?xml")
    assert run("choose-k", "points.npy", *options, "-o", "t.csv")[0] == 0
    one, other = pq.read_table("t.parquet"), pc.read_csv("t.csv")
    assert one["k"].to_pylist() == other["k"].to_pylist() == [2, 3, 4]
    assert one["cost"].to_pylist() == pytest.approx(other["cost"].to_pylist())


def test_the_table_on_standard_output():
    code, out, err = run("choose-k", "points.npy", "-k", "2-4", "-o", "-", *FAST)
    assert code == 0
    assert out.splitlines()[0].startswith('"k","cost"')
    assert "k = 3" in err


def test_a_coreset_and_a_mixture():
    run("build", "points.npy", "--size", "1500", "--seed", "0", "-o", "c.parquet")
    code, out, _ = run(
        "choose-k", "c.parquet", "-k", "1-4", "--model", "mixture", "--json", "--seed", "0"
    )
    assert code == 0
    assert json.loads(out)["k"] == 3


WRONG = [
    (("-k", "5-2"), "2-50 or 2,4,8"),
    (("-k", "0-2"), "2-50 or 2,4,8"),
    (("-k", "two"), "2-50 or 2,4,8"),
    (("-k", "9000"), "should be >= -k 9000; pass more rows, or a smaller -k"),
    (("-k", "9", "--size", "10"), "pass a smaller -k, or more draws"),
    (("--confidence", "95"), "--confidence"),
    (("--figure", "e.txt"), "ends in .svg, .png, .pdf"),
    (("--figure", "none/e.svg"), "none"),
    (("-o", "t.docx"), "does not write"),
    (("--family", "poisson"), "--family is for --model mixture"),
    (("--model", "mixture", "--divergence", "kl"), "--divergence is for --model kmeans"),
    (("--model", "mixture", "--bootstrap", "3"), "--bootstrap is for --model kmeans"),
    (
        ("--model", "mixture", "--family", "poisson", "--covariance", "diag"),
        "does not take --covariance",
    ),
    (("-o", "points.npy"), "points.npy"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_mistakes_are_answered(options, message):
    code, _, err = run("choose-k", "points.npy", *options)
    assert code in (1, 2)
    assert message in " ".join(err.split())


def test_data_is_needed():
    code, _, err = run("choose-k")
    assert code == 2
    assert "DATA is missing" in err
