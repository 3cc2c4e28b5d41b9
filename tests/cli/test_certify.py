"""`lwcs certify`: files and coresets in, a sentence or JSON out."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.cli.running import run

ROWS = 3_000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2)) + 9.0 * rng.integers(0, 3, (ROWS, 1))
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "name": ["n"] * ROWS, "w": np.full(ROWS, 2.0)})
    pq.write_table(table, "d.parquet")
    assert run("fit", "d.parquet", "-k", "3", "--columns", "x,y", "--size", "400", "--seed", "0",
               "-o", "m.parquet", "-q")[0] == 0  # fmt: skip
    return tmp_path


def facts(*arguments: str) -> dict:
    code, out, said = run("certify", *arguments, "--json")
    assert code == 0, said
    return json.loads(out)


def test_a_file_is_certified_in_words_and_as_json(folder):
    own = ("d.parquet", "m.parquet", "--size", "500", "--seed", "1")
    code, out, said = run("certify", *own)
    assert (code, said) == (0, "")
    expected = lwcs.certify("d.parquet", lwcs.load("m.parquet"), size=500, random_state=1)
    assert out == str(expected).removesuffix(".") + "\n"
    assert run("certify", *own, "-q") == (0, "", "")
    found = facts(*own)
    assert (found["kind"], found["draws"], found["rows"]) == ("clt", 500, ROWS)
    assert found["estimate"] == pytest.approx(expected.estimate)
    true = -lwcs.load("m.parquet").score("d.parquet")
    assert found["low"] < true < found["high"]
    wide = facts(*own, "--confidence", "0.999")
    assert wide["high"] - wide["low"] > found["high"] - found["low"]


def test_few_rows_are_measured_as_a_whole_with_their_weights(folder):
    found = facts("d.parquet", "m.parquet", "--weight", "w")
    assert found["kind"] == "exact"
    true = -lwcs.load("m.parquet").score("d.parquet")
    assert found["estimate"] == pytest.approx(2.0 * true)
    assert found["per_row"] == pytest.approx(true / ROWS)


def test_coresets_are_certified_unless_the_model_knows_their_draws(folder):
    for seed in ("0", "1"):
        run("build", "d.parquet", "--columns", "x,y", "--size", "300", "--seed", seed, "-q",
            "-o", f"c{seed}.parquet")  # fmt: skip
    assert facts("c1.parquet", "m.parquet")["draws"] == 300
    code, _, said = run("certify", "c0.parquet", "m.parquet")
    assert code == 1
    assert "same seed (0)" in said
    assert "another --seed" in said
    assert "coreset.split" not in said
    for flags in (["--size", "5"], ["--seed", "5"]):
        code, _, said = run("certify", "c1.parquet", "m.parquet", *flags)
        assert code == 2
        assert f"leave out {flags[0]}" in said


def test_a_coreset_without_an_interval_says_why_in_json_without_infinity(folder):
    run("build", "d.parquet", "--columns", "x,y", "--size", "300", "--method", "uniform", "-q",
        "-o", "u.parquet")  # fmt: skip
    found = facts("u.parquet", "m.parquet")
    assert (found["kind"], found["low"], found["high"]) == ("none", 0.0, None)
    assert "method='lightweight'" in found["reason"]
    assert "No interval can be given" in run("certify", "u.parquet", "m.parquet")[1]


def test_a_mixture_has_a_log_likelihood(folder):
    run("mixture", "d.parquet", "-n", "3", "--columns", "x,y", "--seed", "0", "-o", "x.parquet",
        "-q")  # fmt: skip
    found = facts("d.parquet", "x.parquet", "--size", "1000", "--seed", "3")
    assert found["quantity"] == "log-likelihood"
    true = ROWS * lwcs.load("x.parquet").score("d.parquet")
    assert found["low"] < true < found["high"]


def test_scaled_models_are_measured_in_their_scale(folder):
    run("fit", "d.parquet", "-k", "3", "--columns", "x,y", "--standardize", "--size", "400",
        "--cost", "-o", "s.parquet", "-q")  # fmt: skip
    found = facts("d.parquet", "s.parquet")
    assert found["estimate"] == pytest.approx(lwcs.load("s.parquet").inertia_)
    assert facts("d.parquet", "s.parquet", "--size", "500", "--seed", "1")["kind"] == "clt"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("m.parquet",), "DATA is missing"),
        (("d.parquet", "d.parquet"), "not a model that lwcs saved"),
        (("d.parquet", "m.parquet", "--confidence", "1"), "--confidence"),
        (("d.parquet", "m.parquet", "--size", "0"), "--size"),
        (("d.parquet", "m.parquet", "--columns", "x"), "--columns"),
    ],
)
def test_wrong_input_is_named_in_the_words_of_the_command(folder, arguments, words):
    code, out, said = run("certify", *arguments)
    assert code != 0
    assert not out
    assert words in said
