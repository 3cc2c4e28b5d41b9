"""build, fit, assign, inspect as a person uses them: files in, files out, exit codes, one line."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.cli.running import run

LWCS = [sys.executable, "-m", "lwcs"]
ROWS = 2_000


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(ROWS, 3)) + 10 * rng.integers(0, 4, (ROWS, 1))).astype(np.float32)


@pytest.fixture
def folder(X, tmp_path, monkeypatch) -> Path:
    (tmp_path / "events").mkdir()
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "z": X[:, 2], "name": ["n"] * ROWS})
    pq.write_table(table.slice(0, 900), tmp_path / "events" / "a.parquet")
    pq.write_table(table.slice(900), tmp_path / "events" / "b.parquet")
    pc.write_csv(table, tmp_path / "rows.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def numbers(path: str) -> lwcs.Source:
    return lwcs.scan(path, columns=["x", "y", "z"])


def test_build_fit_assign_inspect(folder, X):
    code, _, said = run(
        "build", "events/*.parquet", "--size", "500", "--seed", "1", "-o", "c.parquet"
    )
    assert code == 0
    assert "500 draws from 2,000 rows" in said
    assert "'name'" in said, "a column that is left out is named"
    expected = lwcs.build(numbers("events/*.parquet"), 500, random_state=1)
    assert lwcs.load("c.parquet") == expected
    assert run("fit", "c.parquet", "-k", "4", "--seed", "1", "-o", "m.parquet")[0] == 0
    model = lwcs.load("m.parquet")
    assert model.cluster_centers_.shape == (4, 3)
    code, out, _ = run("assign", "events", "m.parquet", "-o", "labels.parquet", "--json")
    assert code == 0
    labels = pq.read_table("labels.parquet")
    assert labels.column_names == ["row", "label", "squared_distance"]
    np.testing.assert_array_equal(labels["row"], np.arange(ROWS))
    own = lwcs.CoresetKMeans(4, random_state=1).fit(expected)
    np.testing.assert_array_equal(
        labels["label"], own.predict(pq.read_table("events", columns=["x", "y", "z"]))
    )
    cost = -own.score(numbers("events/*.parquet"))
    assert json.loads(out)["cost"] == pytest.approx(cost)
    assert np.sum(labels["squared_distance"]) == pytest.approx(cost)
    for file, kind in (("c.parquet", "coreset"), ("m.parquet", "model"), ("rows.csv", "rows")):
        code, out, _ = run("inspect", file, "--json")
        assert (code, json.loads(out)["kind"]) == (0, kind)
    code, out, _ = run("inspect", "c.parquet")
    assert code == 0
    assert "lightweight" in out


def test_fit_straight_from_files(folder, X):
    arguments = ["--columns", "x,z", "--size", "300", "--seed", "2", "--cost", "--json"]
    code, out, _ = run("fit", "events", "-k", "4", *arguments, "-o", "m.parquet", "--polish", "1")
    assert code == 0
    facts = json.loads(out)
    model = lwcs.load("m.parquet")
    assert list(model.feature_names_in_) == ["x", "z"]
    assert facts["cost_of"] == "all rows"
    columns = pq.read_table("events", columns=["x", "z"])
    assert facts["cost"] == pytest.approx(-model.score(columns))
    # The model knows its columns.
    assert run("assign", "rows.csv", "m.parquet", "-o", "labels.csv")[0] == 0
    assert Path("labels.csv").read_text().startswith('"row","label","squared_distance"')


def test_standardized_models_keep_their_scale(folder, X):
    arguments = ["--standardize", "--seed", "2", "--size", "300", "-o", "m.parquet", "-q"]
    assert run("fit", "events", "-k", "4", *arguments) == (0, "", "")
    np.testing.assert_allclose(lwcs.load("m.parquet").scale_, X.std(axis=0), rtol=1e-5)


def test_a_pipe_is_read_once(folder):
    text = Path("rows.csv").read_bytes()
    arguments = ["build", "-", "--format", "csv", "--size", "300", "--seed", "1", "--json"]
    code, out, _ = run(*arguments, "-o", "c.parquet", stdin=text)
    assert code == 0
    assert json.loads(out)["weights"] == "mixture"
    assert lwcs.load("c.parquet").n_samples == ROWS
    sink = io.BytesIO()
    table = pq.read_table("events/a.parquet")
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arguments[3] = "arrow"
    assert run(*arguments, "-o", "d.parquet", stdin=sink.getvalue())[0] == 0
    assert lwcs.load("d.parquet").n_samples == 900


def test_standard_output(folder):
    done = subprocess.run(
        [*LWCS, "build", "events", "--size", "50", "--seed", "1", "-o", "-"],
        capture_output=True,
        check=True,
    )
    Path("out.parquet").write_bytes(done.stdout)
    assert lwcs.load("out.parquet") == lwcs.build(numbers("events"), 50, random_state=1)
    run("fit", "events", "-k", "4", "--seed", "1", "-o", "m.parquet")
    done = subprocess.run(
        [*LWCS, "assign", "events", "m.parquet", "-o", "-"], capture_output=True, check=True
    )
    assert done.stdout.count(b"\n") == ROWS + 1


def test_dropped_rows_have_no_label(folder, X):
    table = pq.read_table("events/a.parquet")
    gaps = pa.array([None if i in (3, 8) else float(v) for i, v in enumerate(X[:900, 0])])
    pq.write_table(table.set_column(0, "x", gaps), "gaps.parquet")
    code, _, said = run("build", "gaps.parquet", "--size", "50", "-o", "c.parquet")
    assert code == 1
    assert "'x' has a missing value in row 3 of gaps.parquet" in said
    drop = ["--missing", "drop", "-o"]
    code, _, said = run("build", "gaps.parquet", "--size", "50", *drop, "c.parquet")
    assert code == 0
    assert "2 rows with missing values were dropped" in said
    run("fit", "events", "-k", "4", "--seed", "1", "-o", "m.parquet")
    assert run("assign", "gaps.parquet", "m.parquet", *drop, "l.parquet")[0] == 0
    labels = pq.read_table("l.parquet")["label"].to_pylist()
    assert len(labels) == 900
    assert [i for i, label in enumerate(labels) if label is None] == [3, 8]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["build", "--size", "5", "-o", "c"], 2, "DATA is missing"),
        (["build", "events", "-o", "c"], 2, "Missing option '--size'"),
        (["build", "events", "--size", "0", "-o", "c"], 2, "0 is not in the range"),
        (["build", "-", "--size", "5", "-o", "c"], 2, "standard input is empty"),
        (["build", "events", "--size", "5", "--memory", "lots", "-o", "c"], 2, "not an amount"),
        (["build", "events", "--size", "5", "--memory", "1KB", "-o", "c"], 1, "or more"),
        (["build", "nowhere.parquet", "--size", "5", "-o", "c"], 1, "does not exist"),
        (["build", "events", "--size", "5", "-o", "no/where"], 2, "does not exist"),
        (["build", "events", "--size", "5", "-o", "events"], 2, "that is a folder"),
        (["build", "events", "--size", "5", "-o", "c.csv"], 2, "ends in .parquet"),
        (["build", "events", "--size", "5", "--jobs", "0", "-o", "c"], 2, "0 is not in the range"),
        (["build", "events", "--size", "5", "--memory", "1.2.3GB", "-o", "c"], 2, "not an amount"),
        (["fit", "events", "-k", "5", "--polish", "-1", "-o", "c"], 2, "-1 is not in the range"),
        (["build", "events", "--size", "5", "--columns", "xx", "-o", "c"], 1, "did you mean 'x'"),
        (
            ["build", "events", "--size", "5", "--method", "lightwieght", "-o", "c"],
            2,
            "'lightweight'",
        ),
        (["fit", "events", "-k", "5", "--size", "3", "-o", "c"], 2, "--size 3 is smaller"),
        (["assign", "events", "rows.csv", "-o", "c"], 2, "pass DATA first, and then a file"),
        (["assign", "events", "events/a.parquet", "-o", "c"], 2, "not a model that lwcs saved"),
        (["inspect", "nowhere"], 1, "does not exist"),
        (["biuld"], 2, "No such command"),
    ],
)
def test_mistakes_are_answered_in_one_line(folder, arguments, code, message):
    found, out, said = run(*arguments)
    assert found == code
    assert message in said
    assert "Traceback" not in said
    assert out == ""
    if code == 1:
        lines = [line for line in said.splitlines() if line.startswith("Error")]
        assert len(lines) == 1
    assert not Path("c").exists()


def test_debug_shows_the_traceback(folder):
    with pytest.raises(FileNotFoundError):
        run("build", "nowhere.parquet", "--size", "5", "-o", "c", "--debug")


def test_coresets_are_never_taken_for_rows(folder):
    run("build", "events/a.parquet", "--size", "100", "--seed", "1", "-o", "a.pq")
    run("build", "events/b.parquet", "--size", "100", "--seed", "1", "-o", "b.pq")
    assert run("fit", "a.pq", "b.pq", "-k", "4", "--seed", "1", "-o", "m.parquet")[0] == 0
    union = lwcs.load("a.pq") + lwcs.load("b.pq")
    expected = lwcs.CoresetKMeans(4, random_state=1).fit(union)
    np.testing.assert_array_equal(
        lwcs.load("m.parquet").cluster_centers_, expected.cluster_centers_
    )
    code, _, said = run("build", "a.pq", "--size", "5", "-o", "c.parquet")
    assert code == 1
    assert "was saved by lwcs" in said
    code, _, said = run("fit", "m.parquet", "-k", "2", "-o", "c.parquet")
    assert code == 1
    assert "CoresetKMeans" in said
    code, _, said = run("fit", "a.pq", "-k", "2", "--columns", "x", "-o", "c.parquet")
    assert code == 2
    assert "columns, weights and scale are fixed" in said


def test_columns_of_any_name_find_their_way_back(folder, X):
    table = pa.table({"temp[C]": X[:, 0], "a,b": X[:, 1]})
    pq.write_table(table, "odd.parquet")
    assert run("fit", "odd.parquet", "-k", "3", "--seed", "1", "-o", "m.parquet")[0] == 0
    assert run("assign", "odd.parquet", "m.parquet", "-o", "l.parquet")[0] == 0
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
    pq.write_table(pa.table({"v": vectors}), "v.parquet")
    assert run("fit", "v.parquet", "-k", "3", "--seed", "1", "-o", "m.parquet")[0] == 0
    assert run("assign", "v.parquet", "m.parquet", "-o", "l.parquet")[0] == 0
    assert pq.read_table("l.parquet").num_rows == ROWS


def test_a_special_file_is_not_replaced(folder):
    os.mkfifo("pipe")
    code, _, said = run("build", "events", "--size", "5", "-o", "pipe")
    assert code == 2
    assert "not a regular file" in said
    assert Path("pipe").is_fifo()


def test_a_pipe_converts_what_is_asked_for_alone(folder):
    text = b"x,d\n" + b"1,2020-01-01\n" * 30_000 + b"2,unknown\n"
    arguments = ["build", "-", "--format", "csv", "--columns", "x", "--size", "5"]
    assert run(*arguments, "-o", "c.parquet", stdin=text)[0] == 0


def test_an_interrupt_does_not_wait_for_a_silent_pipe(tmp_path):
    child = subprocess.Popen(
        [*LWCS, "build", "-", "--format", "csv", "--size", "5", "-o", str(tmp_path / "c.parquet")],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    child.stdin.write(b"x,y\n" + b"1.5,2.5\n" * 300_000)
    child.stdin.flush()
    time.sleep(4.0)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=20) == 130
    child.stdin.close()
    child.stderr.close()
    assert list(tmp_path.iterdir()) == []


def test_memory_is_kept_to(folder):
    arguments = ["build", "events", "--size", "50", "--seed", "1", "-o"]
    assert run(*arguments, "a.parquet", "--memory", "64MB")[0] == 0
    assert run(*arguments, "b.parquet")[0] == 0
    assert lwcs.load("a.parquet") == lwcs.load("b.parquet")


def test_completion_is_printed():
    code, out, _ = run("completion", "bash")
    assert code == 0
    assert "_LWCS_COMPLETE" in out


def wide(path: Path, rows: int = 400_000) -> None:
    X = np.random.default_rng(0).standard_normal((rows, 16), dtype=np.float32)
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(16)}), path)


def test_a_terminal_sees_progress_and_a_pipe_does_not(tmp_path):
    wide(tmp_path / "x.parquet")
    arguments = [*LWCS, "build", str(tmp_path / "x.parquet"), "--size", "500", "-o"]
    quiet = subprocess.run(
        [*arguments, str(tmp_path / "a.parquet")], capture_output=True, text=True, check=True
    )
    assert "pass" not in quiet.stderr
    ours, theirs = pty.openpty()
    child = subprocess.Popen([*arguments, str(tmp_path / "b.parquet")], stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert child.wait() == 0
    assert b"first pass" in seen
    assert b"second pass" in seen
    assert b"500 draws from 400,000 rows" in seen


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    wide(tmp_path / "x.parquet", 1_000_000)
    run(
        "fit",
        str(tmp_path / "x.parquet"),
        "-k",
        "300",
        "--size",
        "3000",
        "-o",
        str(tmp_path / "m.parquet"),
    )
    out = tmp_path / "out"
    out.mkdir()
    child = subprocess.Popen(
        [*LWCS, "assign", str(tmp_path / "x.parquet"), str(tmp_path / "m.parquet"), "-o",
         str(out / "labels.parquet")],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60.0
    while not list(out.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[1]
    assert child.returncode == 130
    assert "Interrupted" in said
    assert list(out.iterdir()) == []


def test_inspect_reads_rows_as_the_options_say(folder):
    Path("a.csv").write_text("7;1,5;x\n8;;y\n9;3,5;z\n")
    options = ["--no-header", "--delimiter", ";", "--decimal", ",", "--missing", "drop"]
    code, out, err = run("inspect", "a.csv", *options, "--exclude", "x0,x2", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["features"] == ["x1"]
    assert facts["left_out"] == ["x0", "x2"]
    assert (facts["rows"], facts["dropped"]) == (3, 1)


def test_inspect_refuses_options_for_rows_of_a_saved_coreset(folder, X):
    lwcs.build(X, 10, random_state=0).save("c.parquet")
    code, _, err = run("inspect", "c.parquet", "--exclude", "x0")
    assert code == 2
    assert "--exclude is for rows, but 'c.parquet' is a saved Coreset" in err
