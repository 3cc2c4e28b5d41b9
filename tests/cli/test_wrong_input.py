"""Wrong inputs of commands: the error says what was given, and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import lwcs
from lwcs.cli import main
from tests.cli.running import run

LWCS = [sys.executable, "-m", "lwcs"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 2)) + np.array([0.0, 50.0])
    frame = pd.DataFrame(X, columns=["x", "y"])
    frame.to_parquet("d.parquet")
    frame.to_csv("d.csv", index=False)
    lwcs.CoresetKMeans(3, random_state=0).fit(frame).save("m.parquet")
    lwcs.build(frame, 50, random_state=0).save("c.parquet")
    return tmp_path


def refused(*arguments: str, stdin: bytes | None = None) -> str:
    """The message of a command that fails in one line, and writes nothing."""
    code, out, said = run(*arguments, stdin=stdin)
    assert (code in (1, 2), out) == (True, "")
    *_, last = said.strip().splitlines()
    assert last.startswith("Error: ")
    assert "Traceback" not in said
    return last


def test_columns_in_another_order_than_those_of_the_model_are_refused(folder):
    message = refused("assign", "d.parquet", "m.parquet", "--columns", "y,x", "-o", "l.csv")
    assert "--columns selects y,x, but MODEL was fitted on x,y" in message
    assert run("assign", "d.parquet", "m.parquet", "--columns", "x,y", "-o", "l.csv")[0] == 0
    one = refused("assign", "d.parquet", "m.parquet", "--columns", "x", "-o", "l.csv")
    assert "DATA has 1 column, but MODEL was fitted on 2" in one


def test_a_column_of_the_model_cannot_be_excluded(folder):
    message = refused("assign", "d.parquet", "m.parquet", "--exclude", "x", "-o", "l.csv")
    assert "--exclude leaves out 'x', which the model was fitted on" in message


COMMANDS = [("assign", "-o", "l.csv"), ("certify",), ("drift",), ("report", "-o", "r.html")]


@pytest.mark.parametrize("command", COMMANDS)
def test_data_and_model_are_found_in_either_order(folder, command):
    name, *rest = command
    usual = run(name, "d.parquet", "m.parquet", *rest, "--json")
    swapped = run(name, "m.parquet", "d.parquet", *rest, "--json")
    first, second = (json.loads(each[1]) | {"seconds": 0} for each in (usual, swapped))
    assert first.keys() == second.keys()
    assert "Hint" not in usual[2]
    assert f"Hint: MODEL comes last: lwcs {name} DATA m.parquet" in swapped[2]
    assert "Hint" not in run(name, "m.parquet", "d.parquet", *rest, "-q")[2]


def test_several_files_and_pipes_follow_a_model(folder):
    table = pq.read_table("d.parquet")
    pq.write_table(table.slice(0, 100), "a.parquet")
    pq.write_table(table.slice(100), "b.parquet")
    usual = run("certify", "a.parquet", "b.parquet", "m.parquet")
    assert run("certify", "m.parquet", "a.parquet", "b.parquet")[:2] == usual[:2]
    rows, model = Path("d.parquet").read_bytes(), Path("m.parquet").read_bytes()
    assert run("certify", "m.parquet", "-", stdin=rows)[:2] == usual[:2]
    assert run("certify", "-", "m.parquet", stdin=rows)[:2] == usual[:2]
    assert run("certify", "-", "d.parquet", stdin=model)[:2] == usual[:2]
    assert run("certify", "d.parquet", "-", stdin=model)[:2] == usual[:2]


def test_two_models_are_no_rows(folder):
    assert "is a saved CoresetKMeans, not rows" in refused("certify", "m.parquet", "m.parquet")


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_in_the_place_of_a_model_are_told(folder, command):
    name, *rest = command
    alone = refused(name, "d.csv", *rest)
    assert "MODEL 'd.csv' is not a model" in alone
    assert "it looks like rows, with 2 columns of numbers (x, y)" in alone
    assert "lwcs fit d.csv -k 10 -o model.parquet" in alone
    assert "(x, y); pass DATA first" in refused(name, "d.csv", "d.csv", *rest)


def test_a_coreset_is_not_a_model(folder):
    message = refused("assign", "d.parquet", "c.parquet", "-o", "l.csv")
    assert "MODEL 'c.parquet' is a saved Coreset, not a model; pass DATA first" in message


def test_a_model_is_piped_from_fit_to_assign_and_inspect(folder):
    made = CliRunner().invoke(main, ["fit", "d.parquet", "-k", "3", "--seed", "0", "-o", "-"])
    model = made.stdout_bytes
    (folder / "same.parquet").write_bytes(model)
    assert run("assign", "d.parquet", "-", "-o", "a.csv", stdin=model)[0] == 0
    assert run("assign", "d.parquet", "same.parquet", "-o", "b.csv")[0] == 0
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    facts = json.loads(run("inspect", "-", "--json", stdin=model)[1])
    assert (facts["kind"], facts["clusters"]) == ("model", 3)
    assert "standard input" in run("inspect", "-", stdin=model)[1]
    assert "both standard input" in refused("assign", "-", "-", "-o", "l.csv", stdin=model)


def test_standard_input_says_what_is_wrong_with_it(folder):
    rows, csv = (folder / "d.parquet").read_bytes(), (folder / "d.csv").read_bytes()
    fit = ["-k", "2", "-o", "k.parquet"]
    assert "standard input is empty" in refused("fit", "-", *fit, stdin=b"")
    assert "pass --format csv" in refused("fit", "-", *fit, stdin=csv)
    assert "DATA mixes - (standard input) with files" in refused(
        "fit", "d.parquet", "-", *fit, stdin=rows
    )
    assert "pass DATA first" in refused("assign", "d.parquet", "-", "-o", "l.csv", stdin=rows)


def test_json_and_the_output_do_not_share_standard_output(folder):
    for command in (
        ["build", "d.parquet", "--size", "5"],
        ["fit", "d.parquet", "-k", "2"],
        ["mixture", "d.parquet", "-n", "2"],
        ["assign", "d.parquet", "m.parquet"],
    ):
        assert "--json and --output - both write" in refused(*command, "--json", "-o", "-")


def test_a_stream_without_rows_is_named(folder):
    lwcs.StreamingCoreset(50).save("s.parquet")
    for command in (["fit", "-k"], ["mixture", "-n"]):
        message = refused(command[0], "s.parquet", command[1], "2", "-o", "k.parquet")
        assert "'s.parquet' is a saved stream that has no rows yet" in message


def test_arrays_have_no_column_names(folder):
    np.save("x.npy", np.zeros((10, 2)))
    for option in ("--columns", "--exclude", "--weight"):
        message = refused("build", "x.npy", "--size", "5", option, "x", "-o", "k.parquet")
        assert f"{option} x names columns, but an array has no column names; leave it" in message


def test_nothing_is_kept_only_if_nothing_is_named(folder):
    message = refused("assign", "d.parquet", "m.parquet", "--keep", "", "-o", "l.csv")
    assert "column '' is not one of 'x', 'y'" in message


def test_outputs_that_cannot_be_written_are_named(folder, monkeypatch):
    pipe = [*LWCS, "build", "d.parquet", "--size", "5", "-o", "/dev/stdout"]
    done = subprocess.run(pipe, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot replace '/dev/stdout': it is not a regular file" in done.stderr
    monkeypatch.setattr(os, "access", lambda *_: False)
    message = refused("build", "d.parquet", "--size", "5", "-o", "k.parquet")
    assert message.startswith("Error: cannot write 'k.parquet': the folder '")
    assert message.endswith("is read-only; pass a path that you may write to")
    monkeypatch.undo()
    monkeypatch.chdir(folder)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device", ".lwcs-1.tmp")

    monkeypatch.setattr(os, "open", full)
    message = refused("build", "d.parquet", "--size", "5", "-o", "k.parquet")
    assert "cannot write 'k.parquet': No space left on device" in message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is of Linux")
def test_a_full_standard_output_is_an_error_in_one_line(folder):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*LWCS, "inspect", "d.parquet", "--json"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert done.stderr.decode().strip().splitlines()[-1] == "Error: No space left on device"


def test_missing_values_are_dropped_by_a_flag_or_by_scan(folder):
    frame = pd.DataFrame({"x": [1.0, None, 3.0], "y": [1.0, 2.0, 3.0]})
    frame.to_parquet("gap.parquet")
    message = refused("build", "gap.parquet", "--size", "5", "-o", "k.parquet")
    assert message.endswith("drop such rows with --missing drop")
    for rows in (frame, "gap.parquet"):
        with pytest.raises(ValueError, match=r"such rows with lwcs\.scan\(…, missing='drop'\)$"):
            lwcs.build(rows, 5)


def test_options_of_another_family_or_method_are_not_ignored(folder):
    gamma = ["mixture", "d.parquet", "-n", "2", "--family", "gamma", "-o", "k.parquet"]
    message = refused(*gamma, "--covariance", "diag", "--reg-covar", "1")
    assert "--family gamma does not take --covariance or --reg-covar; leave out" in message
    message = refused("build", "d.parquet", "--size", "9", "-k", "2", "-o", "k.parquet")
    assert "--method lightweight does not take --clusters; leave out --clusters" in message


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_of_one_name_are_told_with_their_file(folder, ending):
    table = pa.table([np.arange(9.0)] * 2, names=["a", "a"])
    (pq.write_table if ending == "parquet" else pc.write_csv)(table, f"twice.{ending}")
    message = refused("build", f"twice.{ending}", "--size", "5", "-o", "k.parquet")
    assert f"'a' occurs more than once in 'twice.{ending}'; rename one of them" in message


ODD = [pa.binary(), pa.large_binary(), pa.binary(1), pa.list_(pa.int8())]


@pytest.mark.parametrize("kind", ODD)
def test_columns_that_text_cannot_hold_are_refused_by_name(folder, kind):
    values = pa.array([[1]] * 300 if pa.types.is_list(kind) else [b"\xff"] * 300, kind)
    pq.write_table(pq.read_table("d.parquet").append_column("odd", values), "odd.parquet")
    assign = ["assign", "odd.parquet", "m.parquet", "--keep", "odd", "-o"]
    assert "--keep odd: the column holds" in refused(*assign, "l.csv")
    assert run(*assign, "l.parquet")[0] == 0
    assert pq.read_table("l.parquet")["odd"].combine_chunks() == values


def test_a_kept_column_that_a_file_does_not_have_is_named(folder):
    table = pq.read_table("d.parquet")
    pq.write_table(table.append_column("tag", pa.array(["t"] * 300)), "e.parquet")
    files = ["e.parquet", "d.parquet", "m.parquet"]
    message = refused("assign", *files, "--keep", "tag", "-o", "l.csv")
    assert "'d.parquet' has no column 'tag', but other files have it" in message
    assert message.endswith("select other columns with --keep …")


def test_the_query_of_a_url_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = "http://127.0.0.1:9/x.csv?Signature=secret"
    code, _, said = run("build", url, "--size", "5", "-o", "c.parquet")
    assert code != 0
    assert "secret" not in said
    assert "http://127.0.0.1:9/x.csv?…" in said


def test_names_with_commas_are_chosen_in_double_quotes(folder):
    Path("a.csv").write_text(
        'id,"net, total","the ""best""",city\n1,2.5,3,Rome\n2,3.5,3,Oslo\n3,9.5,7,Rome\n'
    )
    chosen = '"net, total","the ""best"""'
    code, _, err = run("fit", "a.csv", "-k", "2", "--columns", chosen, "-o", "m.parquet")
    assert code == 0, err
    assert list(lwcs.load("m.parquet").feature_names_in_) == ["net, total", 'the "best"']
    keep = ["--keep", 'city,"net, total"', "-o", "labels.csv"]
    code, _, err = run("assign", "a.csv", "m.parquet", *keep)
    assert code == 0, err
    head = Path("labels.csv").read_text().splitlines()[0]
    assert head == '"row","label","squared_distance","city","net, total"'
    code, _, err = run("fit", "a.csv", "-k", "2", "--columns", '"net, total', "-o", "m.parquet")
    assert code == 2
    assert "--columns" in err
    assert "put a name that has a comma" in err
