"""`lwcs drift`: words for people, JSON and an exit code for schedulers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.cli.commands.evaluate import WORSE
from tests.cli.rows import arrow_stream, rows_of
from tests.cli.running import run


@pytest.fixture
def days(folder) -> Path:
    """Rows like those of the model, and rows with one cluster elsewhere."""
    table = rows_of(1_500)
    same = table.slice(500)
    pq.write_table(same, "same.parquet")
    moved = np.where(same["x"].to_numpy() > 15, same["x"].to_numpy() + 5, same["x"])
    pq.write_table(same.set_column(1, "x", pa.array(moved)), "moved.parquet")
    return folder


def test_the_same_rows_are_no_drift_and_no_failure(days):
    code, said, _ = run("drift", "same.parquet", "m.parquet", "--fail-above", "0.1", "--seed", "0")
    assert code == 0
    assert "No drift: cost per row and shares of clusters are as before" in said
    assert "is not above 0.1" in said


def test_a_regret_above_the_threshold_ends_with_a_code_of_its_own(days):
    code, said, _ = run("drift", "moved.parquet", "m.parquet", "--fail-above", "0.1", "--seed", "0")
    assert code == WORSE == 3
    assert "Drift: the cost per row has risen" in said
    assert "is above 0.1: exit code 3" in said
    code, out, said = run("drift", "moved.parquet", "m.parquet", "--fail-above", "0.1", "-q")
    assert (code, out, said) == (3, "", "")


def test_the_low_end_of_the_interval_decides(days):
    found = json.loads(run("drift", "moved.parquet", "m.parquet", "--json", "--seed", "0")[1])
    low, value = found["regret"]["low"], found["regret"]["value"]
    assert 0.0 < low < value
    between = str(0.5 * (low + value))
    for threshold, expected in ((between, 0), (str(0.9 * low), 3)):
        flags = ("--fail-above", threshold, "--seed", "0", "--json")
        code, out, _ = run("drift", "moved.parquet", "m.parquet", *flags)
        assert code == expected
        assert json.loads(out)["failed"] is (expected == 3)


def test_an_alarm_alone_is_no_failure(days):
    code, said, _ = run("drift", "moved.parquet", "m.parquet", "--seed", "0")
    assert code == 0
    assert "Drift:" in said


def test_json_is_what_the_library_says(days):
    code, out, _ = run("drift", "moved.parquet", "m.parquet", "--json", "--seed", "7")
    facts = json.loads(out)
    model = lwcs.load("m.parquet")
    expected = lwcs.drift(model, "moved.parquet", random_state=7).to_dict()
    assert code == 0
    assert {name: facts[name] for name in expected} == expected
    assert facts["fail_above"] is None


def test_standard_input_a_coreset_and_a_mixture_are_compared(days):
    piped = arrow_stream(pq.read_table("same.parquet"))
    code, out, _ = run(
        "drift", "-", "m.parquet", "--json", "--seed", "0", "--size", "500", stdin=piped
    )
    assert (code, json.loads(out)["drifted"]) == (0, False)
    run("build", "moved.parquet", "--columns", "x,y", "--size", "400", "-o", "c.parquet")
    code, out, _ = run("drift", "c.parquet", "m.parquet", "--json")
    assert (code, json.loads(out)["drifted"]) == (0, True)
    run("mixture", "d.parquet", "--columns", "x,y", "-n", "3", "-o", "mix.parquet", "--seed", "0")
    code, said, _ = run(
        "drift", "moved.parquet", "mix.parquet", "--fail-above", "0.1", "--seed", "0"
    )
    assert code == 3
    assert "nats per row" in said


def test_draws_are_made_in_the_scale_of_the_model(days):
    run("fit", "d.parquet", "-k", "3", "--columns", "x,y", "--standardize", "-o", "s.parquet")
    flags = ("--size", "300", "--seed", "7", "--json")
    code, out, _ = run("drift", "same.parquet", "s.parquet", *flags)
    expected = lwcs.drift(lwcs.load("s.parquet"), "same.parquet", size=300, random_state=7)
    assert (code, json.loads(out)["now"]["value"]) == (0, expected.now.value)
    piped = arrow_stream(pq.read_table("same.parquet"))
    assert run("drift", "-", "s.parquet", *flags, stdin=piped)[0] == 0


def test_rows_that_are_dropped_are_counted(days):
    same = pq.read_table("same.parquet")
    gaps = pa.array([None, *same["x"].to_pylist()[1:]])
    pq.write_table(same.set_column(1, "x", gaps), "gaps.parquet")
    code, said, _ = run("drift", "gaps.parquet", "m.parquet", "--missing", "drop", "--seed", "0")
    assert code == 0
    assert "1 row with a missing value was dropped" in said
    code, _, said = run("drift", "gaps.parquet", "m.parquet")
    assert code == 1
    assert "--missing drop" in said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("same.parquet",) * 2, 2, "is not a model that lwcs saved"),
        (("m.parquet",), 2, "DATA is missing"),
        (("nowhere.parquet", "m.parquet"), 1, "nowhere.parquet"),
        (("same.parquet", "m.parquet", "--columns", "x"), 1, "MODEL was fitted on 2"),
        (("same.parquet", "m.parquet", "--size", "5"), 1, "pass --size >= 6"),
        (("same.parquet", "m.parquet", "--confidence", "1"), 2, "confidence"),
        (("same.parquet", "m.parquet", "--fail-above", "-1"), 2, "fail-above"),
        (("-", "-"), 2, "both standard input"),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_command(days, arguments, code, says):
    found, _, said = run("drift", *arguments, stdin=b"")
    assert found == code
    assert says in said


def test_the_help_names_the_exit_codes():
    said = run("drift", "--help")[1]
    assert "3 if the regret is above" in " ".join(said.split())


@pytest.mark.parametrize("threshold", ["nan", "inf"])
def test_a_threshold_that_nothing_exceeds_is_refused(threshold):
    code, _, said = run("drift", "x.parquet", "m.parquet", "--fail-above", threshold)
    assert code == 2
    assert "is never exceeded; pass a finite number such as 0.1" in said
