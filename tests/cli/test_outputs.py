"""Outputs of commands: no input is overwritten, names mean formats, columns are kept."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.cli.rows import ROWS, arrow_stream, numbers, rows_of
from tests.cli.running import run

LWCS = [sys.executable, "-m", "lwcs"]


# --- An output is never an input.


@pytest.mark.parametrize(
    "arguments",
    [
        ["assign", "d.parquet", "m.parquet", "-o", "d.parquet"],
        ["assign", "d.parquet", "m.parquet", "-o", "m.parquet"],
        ["assign", "d.parquet", "m.parquet", "-o", "./events/../d.parquet"],
        ["assign", "d.parquet", "m.parquet", "-o", "symbolic.parquet"],
        ["assign", "d.parquet", "m.parquet", "-o", "hard.parquet"],
        ["assign", "symbolic.parquet", "m.parquet", "-o", "hard.parquet"],
        ["assign", "events", "m.parquet", "-o", "events/b.parquet"],
        ["assign", "events/*.parquet", "m.parquet", "-o", "events/b.parquet"],
        ["assign", "file://HERE/d.parquet", "m.parquet", "-o", "d.parquet"],
        ["build", "d.parquet", "--size", "5", "-o", "d.parquet"],
        ["build", "d.parquet", "events", "--size", "5", "-o", "events/a.parquet"],
        ["fit", "d.parquet", "-k", "2", "-o", "hard.parquet"],
        ["fit", "c.parquet", "-k", "2", "-o", "c.parquet"],
        ["mixture", "events", "-n", "2", "-o", "events/a.parquet"],
    ],
)
def test_an_output_that_is_an_input_is_refused(folder, arguments):
    os.symlink("d.parquet", "symbolic.parquet")
    os.link("d.parquet", "hard.parquet")
    lwcs.build(numbers("d.parquet"), 20, random_state=0).save("c.parquet")
    before = {path: path.read_bytes() for path in Path().rglob("*.parquet")}
    code, out, said = run(*[one.replace("HERE", str(folder)) for one in arguments])
    assert (code, out) == (2, "")
    assert "is also an input of this command" in said
    assert {path: path.read_bytes() for path in Path().rglob("*.parquet")} == before


def test_a_redirected_input_is_not_overwritten(folder):
    before = Path("d.csv").read_bytes()
    command = [*LWCS, "assign", "-", "m.parquet", "--format", "csv", "-o", "d.csv"]
    with open("d.csv", "rb") as rows:
        done = subprocess.run(command, stdin=rows, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is also an input" in done.stderr
    assert Path("d.csv").read_bytes() == before


def test_results_of_a_comparison_do_not_replace_its_data(folder):
    code, _, said = run("compare", "events/a.parquet", "-k", "2", "-o", "events")
    assert (code, "is also an input" in said) == (2, True)


# --- A name says what is written.


@pytest.mark.parametrize("output", ["l.csv", "l.csv.gz", "l.csv.zst", "l.csv.bz2", "L.CSV.LZ4"])
def test_csv_is_written_compressed_if_the_name_says_so(folder, output):
    assert run("assign", "d.parquet", "m.parquet", "-o", output)[0] == 0
    labels = pc.read_csv(pa.input_stream(output, compression=_codec(output)))
    expected = lwcs.load("m.parquet").predict(numbers("d.parquet"))
    np.testing.assert_array_equal(labels["label"], expected)


def _codec(name: str) -> str | None:
    ending = Path(name).suffix.lower()
    return {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}.get(ending)


@pytest.mark.parametrize(
    ("output", "read"),
    [
        ("l.parquet", pq.read_table),
        ("l.pq", pq.read_table),
        ("labels", pq.read_table),
        ("l.feather", pf.read_table),
        ("l.arrow", pf.read_table),
        ("l.tsv", lambda path: pc.read_csv(path, parse_options=pc.ParseOptions(delimiter="\t"))),
        ("l.tsv.gz", lambda path: pc.read_csv(path, parse_options=pc.ParseOptions(delimiter="\t"))),
    ],
)
def test_a_table_is_written_as_its_name_says(folder, output, read):
    assert run("assign", "d.parquet", "m.parquet", "-o", output)[0] == 0
    table = read(output)
    assert table.column_names == ["row", "label", "squared_distance"]
    expected = lwcs.load("m.parquet").predict(numbers("d.parquet"))
    np.testing.assert_array_equal(table["label"], expected)


@pytest.mark.parametrize("output", ["l.txt", "l.json", "l.npy", "l.parquet.gz", "l.xlsx", "l.gz"])
def test_other_endings_are_refused_with_those_that_are_allowed(folder, output):
    code, _, said = run("assign", "d.parquet", "m.parquet", "-o", output)
    assert code == 2
    for ending in (".parquet", ".pq", ".feather", ".arrow", ".csv", ".tsv", ".gz"):
        assert ending in said
    assert not Path(output).exists()


@pytest.mark.parametrize("output", ["c.csv", "c.csv.gz", "c.feather", "c.txt", "c.npz"])
@pytest.mark.parametrize(
    "command",
    [["build", "--size", "5"], ["fit", "-k", "2"], ["mixture", "-n", "2"]],
)
def test_coresets_and_models_are_parquet(folder, command, output):
    code, _, said = run(*command, "d.parquet", "-o", output)
    assert (code, "ends in .parquet or .pq" in " ".join(said.split())) == (2, True)
    assert not Path(output).exists()


def test_standard_output_is_not_written_to_a_terminal(folder):
    ours, theirs = pty.openpty()
    command = [*LWCS, "build", "d.parquet", "--size", "5", "-o", "-"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert "standard output, which is a terminal" in " ".join(done.stderr.split())


# --- Columns that are kept.


def test_kept_columns_belong_to_their_rows(folder, small_partitions):
    table = pq.read_table("d.parquet")
    gaps = [None if i in (3, 299, 300, 700) else v for i, v in enumerate(table["x"].to_pylist())]
    table = table.set_column(1, "x", pa.array(gaps))
    table = table.append_column("when", pa.array(np.arange(ROWS), pa.timestamp("s")))
    table = table.append_column("tags", pa.array([[str(i)] * (i % 3) for i in range(ROWS)]))
    pq.write_table(table.slice(0, 300), "events/a.parquet", row_group_size=70)
    pq.write_table(table.slice(300), "events/b.parquet")
    arguments = ["--keep", "id,n*,when,tags", "--missing", "drop", "-o", "l.parquet"]
    code, _, said = run("assign", "events", "m.parquet", *arguments)
    assert code == 0, said
    labels = pq.read_table("l.parquet")
    kept = ["id", "name", "when", "tags"]
    assert labels.column_names == ["row", "label", "squared_distance", *kept]
    for name in kept:
        assert labels[name].to_pylist() == table[name].to_pylist()
    assert labels["id"].type == pa.int64()
    empty = [i for i, label in enumerate(labels["label"].to_pylist()) if label is None]
    assert empty == [3, 299, 300, 700]
    there = np.setdiff1d(np.arange(ROWS), empty)
    expected = lwcs.load("m.parquet").predict(table.select(["x", "y"]).take(there))
    np.testing.assert_array_equal(labels["label"].take(there), expected)


def test_a_feature_can_be_kept_too(folder):
    assert run("assign", "d.parquet", "m.parquet", "--keep", "y,id", "-o", "l.feather")[0] == 0
    labels, table = pf.read_table("l.feather"), pq.read_table("d.parquet")
    assert labels["y"].equals(table["y"])
    assert labels["id"].equals(table["id"])


TEXT = b"id,x,code,y\n" + b"".join(
    b"%d,%d,%s,%d\n" % (2**60 + i, i % 7, (b"NA", b"007", b"", b'"a,b"')[i % 4], i % 5)
    for i in range(500)
)


@pytest.mark.parametrize("source", ["file", "pipe"])
def test_columns_kept_from_csv_are_copied_as_text(folder, source, small_partitions):
    Path("t.csv").write_bytes(TEXT)
    how = ["t.csv"] if source == "file" else ["-", "--format", "csv"]
    arguments = ["assign", *how, "m.parquet", "--keep", "id,code,x", "-o", "l.parquet"]
    code, _, said = run(*arguments, stdin=TEXT)
    assert code == 0, said
    labels = pq.read_table("l.parquet")
    assert labels["id"].to_pylist() == [str(2**60 + i) for i in range(500)]
    assert labels["code"].to_pylist() == [("NA", "007", "", "a,b")[i % 4] for i in range(500)]
    assert labels["x"].to_pylist() == [float(i % 7) for i in range(500)]


def test_columns_are_kept_from_an_arrow_stream(folder, small_partitions):
    table = rows_of()
    arguments = ["assign", "-", "m.parquet", "--keep", "name,id", "-o", "l.csv"]
    assert run(*arguments, stdin=arrow_stream(table))[0] == 0
    labels = pc.read_csv("l.csv")
    assert labels["name"].to_pylist() == table["name"].to_pylist()
    assert labels["id"].to_pylist() == table["id"].to_pylist()


def test_names_of_folders_can_be_kept(folder):
    for year in (2023, 2024):
        Path(f"hive/year={year}").mkdir(parents=True)
        pq.write_table(rows_of(20), f"hive/year={year}/d.parquet")
    assert run("assign", "hive", "m.parquet", "--keep", "year", "-o", "l.parquet")[0] == 0
    assert pq.read_table("l.parquet")["year"].to_pylist() == [2023] * 20 + [2024] * 20


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["d.parquet", "--keep", "label"], 2, "the output has a column 'label' of its own"),
        (["d.parquet", "--keep", "nome"], 1, "did you mean 'name'"),
        (["d.parquet", "--keep", "v", "-o", "l.csv"], 2, "holds list<"),
        (["d.parquet", "--keep", "id,id"], 1, "--keep must be unique"),
        (["d.npy", "--keep", "id"], 2, "DATA has no column names"),
        (["d.parquet", "less.parquet", "--keep", "label"], 2, "of its own"),
        (["less.parquet", "d.parquet", "--keep", "name"], 1, "'less.parquet' has no column 'name'"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(folder, arguments, code, message):
    table = rows_of().append_column("label", pa.array(["a"] * ROWS))
    table = table.append_column("v", pa.array([[1.0, 2.0]] * ROWS))
    pq.write_table(table, "d.parquet")
    pq.write_table(table.drop_columns("name"), "less.parquet")
    np.save("d.npy", np.zeros((5, 2)))
    output = [] if "-o" in arguments else ["-o", "l.parquet"]
    files = [one for one in arguments if one.startswith(("d.", "less."))]
    rest = [one for one in arguments if one not in files]
    found, _, said = run("assign", *files, "m.parquet", *rest, *output)
    assert found == code, said
    assert message in " ".join(said.split())
    assert not Path("l.parquet").exists()
    assert not Path("l.csv").exists()
