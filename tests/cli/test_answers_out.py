"""What commands write and where: no input is overwritten, names mean formats, columns are kept."""

from __future__ import annotations

import io
import json
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
from click.testing import CliRunner

import lwcs
from lwcs.cli import main
from tests.cli.running import run

LWCS = [sys.executable, "-c", "from lwcs.cli import main; main(prog_name='lwcs')"]
ROWS = 1_000


def rows_of(n: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) + 10 * rng.integers(0, 3, (n, 1))
    return pa.table(
        {
            "id": 2**60 + np.arange(n),
            "x": X[:, 0],
            "name": [f"n{i}" for i in range(n)],
            "y": X[:, 1],
        }
    )


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


def numbers(path: str) -> lwcs.Source:
    return lwcs.scan(path, columns=["x", "y"])


def arrow_stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    return sink.getvalue()


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


# --- Standard input, costs and counts.


def test_a_coreset_goes_through_a_pipe_to_fit_and_mixture(folder):
    arguments = ["build", "d.parquet", "--columns", "x,y", "--size", "200", "--seed", "1", "-o"]
    made = CliRunner().invoke(main, [*arguments, "-"])
    assert made.exit_code == 0
    assert run(*arguments, "c.parquet")[0] == 0
    for command in (["fit", "-k", "3"], ["mixture", "-n", "2"]):
        options = [*command[1:], "--seed", "2", "-q"]
        done = run(command[0], "-", *options, "-o", "a.parquet", stdin=made.stdout_bytes)
        assert done == (0, "", "")
        assert run(command[0], "c.parquet", *options, "-o", "b.parquet")[0] == 0
        assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes()


def test_parquet_and_arrow_are_recognized_on_standard_input(folder):
    table = rows_of().drop_columns("id")
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, "rows.parquet")
    expected = lwcs.build(numbers("rows.parquet"), 50, random_state=1)
    inputs = {
        "parquet": Path("rows.parquet").read_bytes(),
        "file": sink.getvalue(),
        "stream": arrow_stream(table),
    }
    for kind, content in inputs.items():
        arguments = ["build", "-", "--columns", "x,y", "--size", "50", "--seed", "1"]
        assert run(*arguments, "-o", "c.parquet", stdin=content)[0] == 0
        found = lwcs.load("c.parquet")
        assert found.n_samples == ROWS
        assert (found == expected) == (kind != "stream"), "a stream is read once"
    # Read several times, from a copy.
    options = ["-k", "3", "--size", "50", "--cost", "--polish", "1", "--json", "-o", "k.parquet"]
    code, out, _ = run("fit", "-", *options, stdin=inputs["parquet"])
    assert (code, json.loads(out)["cost_of"]) == (0, "all rows")


def test_errors_call_standard_input_by_its_name(folder):
    content = Path("d.parquet").read_bytes()
    arguments = ["build", "-", "--size", "5", "-o", "c.parquet"]
    code, _, said = run(*arguments, stdin=content[:900])
    assert code == 1
    assert "standard input cannot be read" in said
    assert "/tmp" not in said
    code, _, said = run(*arguments, "--columns", "xx", stdin=content)
    assert (code, "did you mean 'x'" in said) == (1, True)


@pytest.mark.parametrize("option", [["--cost"], ["--polish", "1"]])
def test_further_passes_over_a_pipe_are_refused_before_it_is_read(folder, option):
    for kind, content in (("csv", b"not,\xff"), ("arrow", b"nor this")):
        arguments = ["fit", "-", "--format", kind, "-k", "2", *option, "-o", "k.parquet"]
        code, _, said = run(*arguments, stdin=content)
        assert code == 2
        said = " ".join(said.split())
        assert f"{option[0]} needs further passes" in said
        assert "write the rows to a file first" in said


@pytest.mark.parametrize(
    "option",
    [
        *("--cost", "--polish=1", "--exclude=x", "--missing=drop", "--delimiter=;", "--no-header"),
        *("--size=20", "--method=uniform", "--memory=1GB", "--standardize"),
    ],
)
def test_what_a_coreset_cannot_do_any_more_is_not_ignored(folder, option):
    lwcs.build(numbers("d.parquet"), 50).save("c.parquet")
    code, _, said = run("fit", "c.parquet", "-k", "2", option, "-o", "k.parquet")
    assert (code, f"leave out {option.split('=')[0]}" in said) == (2, True)


def test_the_format_of_standard_input_is_not_that_of_a_file(folder):
    code, _, said = run("build", "d.csv", "--format", "tsv", "--size", "5", "-o", "c.parquet")
    assert (code, "--format tsv is for standard input" in said) == (2, True)


@pytest.mark.parametrize("polish", ["0", "2"])
def test_a_cost_of_all_rows_is_not_called_biased(folder, polish):
    options = ["-k", "9", "--columns", "x,y", "--seed", "1", "--polish", polish, "-o", "k.parquet"]
    # Stopped early, so that polishing moves the centers.
    early = ["--size", "1000", "--max-iter", "1", "--tol", "0", "--json"]
    facts = json.loads(run("fit", "d.parquet", *options, *early)[1])
    assert facts["cost_of"] == "all rows"
    rows = pq.read_table("d.parquet", columns=["x", "y"])
    assert facts["cost"] == pytest.approx(-lwcs.load("k.parquet").score(rows))
    code, _, said = run("fit", "d.parquet", *options, "--size", "100")
    words = "on the coreset, biased low;"
    assert (code, words in said) == (0, True)


def test_inspect_counts_the_rows_of_any_file(folder):
    pf.write_feather(rows_of(), "d.feather")
    for file in ("d.csv", "d.feather", "d.parquet"):
        assert json.loads(run("inspect", file, "--json")[1])["rows"] == ROWS


def test_a_checkpoint_of_a_stream_is_taken_for_its_coreset(folder):
    stream = lwcs.StreamingCoreset(100, random_state=0)
    stream.update(rows_of().select(["x", "y"]))
    stream.save("s.parquet")
    assert run("fit", "s.parquet", "-k", "3", "--seed", "1", "-o", "k.parquet")[0] == 0
    expected = lwcs.CoresetKMeans(3, random_state=1).fit(stream.coreset())
    found = lwcs.load("k.parquet")
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert run("mixture", "s.parquet", "-n", "2", "-o", "k.parquet")[0] == 0


def test_every_command_counts_the_rows_that_it_dropped(folder):
    table = rows_of().drop_columns("id")
    gaps = [None if i in (3, 8) else v for i, v in enumerate(table["x"].to_pylist())]
    pq.write_table(table.set_column(0, "x", pa.array(gaps)), "g.parquet")
    compared = ["--sizes", "20", "--repeats", "1", "--full-repeats", "1", "--methods", "full"]
    commands = [
        ["build", "--size", "50", "-o", "o.parquet"],
        ["fit", "-k", "2", "--size", "50", "-o", "o.parquet"],
        ["mixture", "-n", "2", "--size", "50", "-o", "o.parquet"],
        ["assign", "m.parquet", "-o", "l.parquet"],
        ["compare", "-k", "2", *compared, "-o", "out"],
    ]
    for command, *rest in commands:
        for data, dropped in (("g.parquet", 2), ("d.parquet", 0)):
            options = ["--columns", "x,y", "--missing", "drop"]
            code, out, said = run(command, data, *rest, *options, "--json")
            assert code == 0, said
            facts = json.loads(out)
            assert (facts[0] if command == "compare" else facts)["dropped"] == dropped
            code, _, said = run(command, data, *rest, *options)
            assert ("2 rows with missing values were dropped" in said) == (dropped == 2)
    # A coreset remembers, and so does a union.
    assert run("build", "g.parquet", *commands[0][1:], *options)[0] == 0
    code, out, _ = run("fit", "o.parquet", "o.parquet", "-k", "2", "-o", "k.parquet", "--json")
    assert (code, json.loads(out)["dropped"]) == (0, 4)


def test_compare_reads_what_other_commands_read(folder):
    table = rows_of()
    pc.write_csv(table.append_column("w", pa.array(np.arange(ROWS) % 3)), "w.csv")
    options = ["--sizes", "20", "--repeats", "1", "--full-repeats", "1", "--methods", "full"]
    reading = ["--columns", "x,y", "--weight", "w"]
    code, out, said = run("compare", "w.csv", "-k", "2", *options, *reading, "-o", "o", "--json")
    assert code == 0, said
    assert "w: 1,000 × 2" in said
    expected = lwcs.compare(
        table.select(["x", "y"]), 2, sizes=[20], repeats=1, full_repeats=1, methods=["full"],
        sample_weight=np.arange(ROWS) % 3,
    )  # fmt: skip
    assert json.loads(out)[0]["cost"] == pytest.approx(expected.trials[0].cost)
    for data, name in (("events", "events"), ("events/*.parquet", "events")):
        arguments = [data, "-k", "2", *options, "--columns", "x,y", "-o", f"o-{len(data)}", "-q"]
        assert run("compare", *arguments) == (0, "", "")
        assert Path(f"o-{len(data)}/{name}.parquet").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "ful"], "did you mean 'full'"),
        (["--methods", "uniform"], "add 'full' or 'full-sklearn'"),
        (["--sizes", "0"], "--sizes 0 is too small"),
        (["--seed", str(2**32)], "too large for other libraries"),
    ],
)
def test_compare_checks_its_options_before_it_reads(folder, options, message):
    code, _, said = run("compare", "nowhere.parquet", "-k", "2", *options, "-o", "o")
    assert (code, message in said) == (1, True), said
    assert not Path("o").exists()


def test_compare_finds_all_data_before_it_begins(folder):
    code, _, said = run("compare", "d.parquet", "nowhere.parquet", "-k", "2", "-o", "o")
    assert (code, "'nowhere.parquet' does not exist" in said) == (1, True)
    assert not Path("o").exists()
    code, _, said = run("compare", "d.parquet", "d.csv", "-k", "2", "-o", "o")
    assert (code, "two data sets called 'd'" in said) == (2, True)
    code, _, said = run("compare", "--paper", "CSN=d.parquet", "--columns", "x", "-o", "o")
    assert (code, "leave out --columns or --paper" in said) == (2, True)


# --- Weights.


def test_large_integers_are_weights_in_memory_and_in_files(folder):
    weights = np.array([2**53 + 1, 2**62, 1] * 10, dtype=np.int64)
    table = rows_of(30).select(["x", "y"])
    for kind in (pa.int64(), pa.uint64()):
        pq.write_table(table.append_column("w", pa.array(weights, kind)), "w.parquet")
        from_file = lwcs.build(lwcs.scan("w.parquet", weight="w"), 20, random_state=0)
        in_memory = lwcs.build(table, 20, sample_weight=weights, passes=2, random_state=0)
        assert from_file == in_memory
