"""`lwcs report`, and --report of `lwcs fit` and `lwcs mixture`."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.runtime.formatting import typeset
from tests.cli.running import run

ROWS = 3_000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2)) + 9.0 * rng.integers(0, 3, (ROWS, 1))
    pq.write_table(pa.table({"x": X[:, 0], "y": X[:, 1], "name": ["n"] * ROWS}), "d.parquet")
    return tmp_path


FIT = ("fit", "d.parquet", "-k", "3", "--columns", "x,y", "--size", "400", "-o", "m.parquet")


def text_of(name: str) -> str:
    return unescape(Path(name).read_text("utf-8"))


def command_of(name: str) -> str:
    return re.search("<pre[^>]*><code>(lwcs .*)</code>", text_of(name))[1]


def answers_of(name: str) -> np.ndarray:
    model = lwcs.load(name)
    return model.means_ if isinstance(model, lwcs.CoresetMixture) else model.cluster_centers_


BUILD = ("build", "d.parquet", "--columns", "x,y", "--size", "500", "--seed", "7",
         "-o", "c.parquet")  # fmt: skip
OUT = ("-o", "m.parquet", "--report", "r.html")


@pytest.mark.parametrize(
    "arguments",
    [
        (*FIT, "--report", "r.html"),
        # Centers that depend on the seed, of all rows and of a coreset that has a seed of its own.
        ("fit", *OUT, "-k", "9", "--n-init", "1", "--columns", "x,y", "--", "d.parquet"),
        ("fit", "c.parquet", "-k", "9", *OUT),
        ("mixture", "d.parquet", "-n", "4", "--columns", "x,y", *OUT),
        ("mixture", "c.parquet", "-n", "4", *OUT),
    ],
)
def test_the_command_in_the_report_gives_the_same_centers(folder, arguments):
    assert run(*BUILD)[0] == 0
    code, _, said = run(*arguments)
    assert code == 0
    assert "wrote m.parquet and r.html" in said
    command = command_of("r.html")
    words = shlex.split(command)
    assert words[:3] == ["lwcs", arguments[0], "--seed"]
    assert words[3] != "7"
    first = answers_of("m.parquet")
    Path("m.parquet").unlink()
    assert run(*words[1:])[0] == 0
    assert np.array_equal(answers_of("m.parquet"), first)
    assert command_of("r.html") == command


def test_fit_writes_a_report_with_a_title_and_advice_for_commands(folder):
    assert run(*FIT, "--report", "r.html")[0] == 0
    text = text_of("r.html")
    assert "<title>d.parquet</title>" in text
    assert "fit without --size, or with --holdout 0.1" in text


def test_a_given_seed_is_not_repeated_and_facts_name_the_report(folder):
    code, out, _ = run(*FIT, "--seed", "5", "--report", "r.html", "--json")
    assert code == 0
    assert json.loads(out)["report"] == "r.html"
    assert text_of("r.html").count("--seed 5") == 1


def test_columns_that_are_left_out_are_told(folder):
    arguments = ["fit", "d.parquet", "-k", "3", "-o", "m.parquet", "--report", "r.html"]
    assert run(*arguments)[0] == 0
    assert "<dt>Columns left out</dt><dd><bdi>name</bdi></dd>" in text_of("r.html")


def test_secrets_of_stores_are_not_in_the_report():
    from lwcs.cli.commands.report import command_line
    from lwcs.cli.errors import ARGUMENTS

    context = click.Context(click.Command("fit"))
    context.meta[ARGUMENTS] = (
        "fit", "s3://me:word@bucket/a", "https://host/a.csv?sig=abc", "--storage-option",
        "secret=xyz", "--storage-option=key=pqr", "abfs://box@place/a.csv?sig=def",
        "https://token@host/b.csv", "--", "-a.csv",
    )  # fmt: skip
    with context:
        said = command_line(3)
    for secret in ("word", "abc", "xyz", "pqr", "def", "token"):
        assert secret not in said
    assert "bucket/a" in said
    assert "abfs://box@place/a.csv" in said
    assert said.startswith("lwcs fit --seed 3 ")
    assert said.endswith(" -- -a.csv")


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (("s3://me:word@bucket",), "…@bucket"),
        (("abfs://box@place/a.csv?sig=word",), "a.csv?…"),
        (("folder/a.csv", "b.csv"), "a.csv and 1 more"),
    ],
)
def test_the_title_has_no_secrets(folder, data, title):
    from lwcs.cli.commands.report import write_report

    model = lwcs.CoresetKMeans(2, random_state=0).fit(np.arange(12.0).reshape(6, 2))
    with click.Context(click.Command("fit")):
        write_report(model, "r.html", data)
    assert f"<title>{title}</title>" in text_of("r.html")


def test_mixtures_have_a_report(folder):
    code, _, said = run("mixture", "d.parquet", "-n", "3", "--columns", "x,y", "-o", "m.parquet",
                        "--report", "r.html")  # fmt: skip
    assert (code, said.rstrip().endswith("wrote m.parquet and r.html")) == (0, True)
    text = text_of("r.html")
    assert "mean log-likelihood" in text
    assert "<dt>Components</dt><dd>3</dd>" in text


def test_report_describes_a_model_by_the_coreset_that_it_was_fitted_on(folder):
    assert run("build", "d.parquet", "--columns", "x,y", "--size", "400", "-o", "c.parquet")[0] == 0
    assert run("fit", "c.parquet", "-k", "3", "-o", "m.parquet")[0] == 0
    code, out, said = run("report", "c.parquet", "m.parquet", "--json")
    assert (code, said) == (0, "")
    facts = json.loads(out)
    assert (facts["clusters"], facts["size"], facts["certified"]) == (3, 400, False)
    assert facts["report"] == "report.html"
    assert "<title>c.parquet</title>" in text_of("report.html")


def test_report_draws_from_rows_and_certifies(folder):
    assert run(*FIT, "-q")[0] == 0
    arguments = ("report", "d.parquet", "m.parquet", "--size", "500", "--seed", "1", "-o", "r.html",
                 "--title", "Mine <3")  # fmt: skip
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    facts = json.loads(out)
    assert (facts["size"], facts["rows"], facts["certified"]) == (500, ROWS, True)
    certificate = lwcs.certify("d.parquet", lwcs.load("m.parquet"), size=500, random_state=1)
    text = text_of("r.html")
    assert typeset(str(certificate)) in text
    assert "<title>Mine <3</title>" in text


def test_a_coreset_that_knows_nothing_of_the_fit_certifies_it(folder):
    assert run(*FIT, "-q")[0] == 0
    assert run("build", "d.parquet", "--columns", "x,y", "--size", "300", "--seed", "8",
               "-o", "c.parquet")[0] == 0  # fmt: skip
    code, out, _ = run("report", "c.parquet", "m.parquet", "--json")
    assert (code, json.loads(out)["certified"]) == (0, True)


def test_a_certificate_that_fails_for_another_reason_is_an_error(folder, monkeypatch):
    assert run(*FIT, "-q")[0] == 0
    assert run(*BUILD)[0] == 0

    def fail(*_, **__):
        raise ValueError("the cost is beyond the range of numbers")

    monkeypatch.setattr("lwcs.evaluation.certification.drawn_and_certified", fail)
    code, _, said = run("report", "c.parquet", "m.parquet")
    assert (code, "beyond the range of numbers" in said) == (1, True)
    assert not list(folder.glob("*.html"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "m.parquet"), "DATA is missing"),
        (("report", "d.parquet"), "MODEL 'd.parquet' is not a model that lwcs saved"),
        (
            ("report", "d.parquet", "m.parquet", "-o", "r.pdf"),
            "--output 'r.pdf': the report is a page",
        ),
        (("report", "d.parquet", "m.parquet", "-o", "no/r.html"), "create it first"),
        (
            (*FIT, "--report", "d.parquet"),
            "--report 'd.parquet': the report is a page for a browser",
        ),
        ((*FIT, "--report", "-"), "pass a name that ends in .html"),
    ],
)
def test_wrong_input_is_refused_before_any_work(folder, arguments, words):
    assert run(*FIT, "-q")[0] == 0
    code, _, said = run(*arguments)
    assert code == 2
    assert words in " ".join(said.split())
    assert not list(folder.glob("*.html"))


def test_a_coreset_of_other_columns_is_refused(folder):
    assert run(*FIT, "-q")[0] == 0
    pq.write_table(pa.table({"x": np.arange(500.0)}), "other.parquet")
    assert run("build", "other.parquet", "--size", "50", "-o", "c.parquet")[0] == 0
    code, _, said = run("report", "c.parquet", "m.parquet")
    assert code == 1
    assert "Error" in said
    assert "2" in said
    assert not list(folder.glob("*.html"))
