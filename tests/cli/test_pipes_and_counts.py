"""Standard input, costs, counts of dropped rows, and what compare reads."""

from __future__ import annotations

import io
import json
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
from tests.cli.rows import ROWS, arrow_stream, numbers, rows_of
from tests.cli.running import run

LWCS = [sys.executable, "-m", "lwcs"]


# --- Standard input, costs and counts.


def written(path: str) -> tuple[pa.Table, dict[str, object]]:
    """What a file holds, without how long it took, and the checksum of all of it."""
    table = pq.read_table(path)
    known = json.loads(table.schema.metadata[b"lwcs"])
    return table, {name: known[name] for name in known if name not in ("timings", "checksum")}


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
        (first, known), (second, other) = map(written, ("a.parquet", "b.parquet"))
        assert first.equals(second)
        assert known == other


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


def test_the_format_of_a_file_without_an_ending_is_given(folder):
    Path("plain").write_bytes(Path("d.csv").read_bytes())
    code, _, said = run("build", "plain", "--size", "5", "-o", "c.parquet")
    assert (code, "name their format with --format" in said) == (1, True)
    for kind, file in (("csv", "d.csv"), ("parquet", "d.parquet")):
        Path("plain").write_bytes(Path(file).read_bytes())
        results = []
        for name, options in ((file, ()), ("plain", ("--format", kind))):
            arguments = ("--size", "50", "--seed", "0", "-o", "c.parquet", *options)
            assert run("build", name, *arguments)[0] == 0
            results.append(lwcs.load("c.parquet").points)
        np.testing.assert_array_equal(*results)
    code, _, said = run("build", "plain", "--format", "npy", "--size", "5", "-o", "c.parquet")
    assert (code, "cannot be read as an array of numbers" in said) == (1, True)


def test_storage_options_are_for_uris_and_are_nested_by_dots(folder):
    from lwcs.cli.inputs import access_of

    given = ["anon=true", "client_kwargs.endpoint_url=http://x", "client_kwargs.n=1"]
    nested = {"anon": True, "client_kwargs": {"endpoint_url": "http://x", "n": "1"}}
    assert access_of(given).storage_options == nested
    assert access_of([]).storage_options is None
    for given, words in (
        (["anon"], "'anon' is not KEY=VALUE"),
        (["a=1", "a.b=2"], "'a' is given a value, too"),
        (["a=1", "a=2"], "--storage-option a=… is given twice"),
        (["anon=true"], "--storage-option is for URIs"),
    ):
        flags = [f"--storage-option={each}" for each in given]
        code, _, said = run("build", "d.csv", *flags, "--size", "5", "-o", "c.parquet")
        assert (code != 0, words in said) == (True, True), said


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
    if polish == "0":
        assert (code, "by chance alone; by how much other rows cost more" in said) == (0, True)
    assert "biased" not in said


def test_the_message_of_a_fit_is_three_lines(folder):
    """What was found, how good it is, what was written."""
    options = ["-k", "3", "--columns", "x,y", "--seed", "1", "-o", "k.parquet"]
    code, _, said = run("fit", "d.parquet", *options)
    found, cost, wrote = said.splitlines()
    assert code == 0
    assert found.startswith(f"Found 3 clusters in {ROWS:,} rows in ")
    assert cost.endswith(" on all rows, which were all clustered.")
    assert wrote == "Wrote k.parquet."
    sampled = run("fit", "d.parquet", *options, "--size", "900", "--holdout", "0.5")[2].splitlines()
    assert len(sampled) == 3
    assert ", from 900 picked at random (method lightweight)." in sampled[0]
    facts = run("fit", "d.parquet", *options, "--size", "900", "--holdout", "0.5", "--json")[1]
    known = json.loads(facts)["cost_on_all_rows"]
    assert f"about {known['value']:.6g} ({known['low']:.4g} to {known['high']:.4g})" in sampled[1]
    assert known["low"] < lwcs.load("k.parquet").score(rows_of().select(["x", "y"])) * -1.0
    assert len(run("mixture", "d.parquet", "-n", *options[1:])[2].splitlines()) == 3


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
            if command != "compare":
                assert ("998 of 1,000 rows" in said) == (dropped == 2)
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


def test_inspect_reads_rows_whose_format_is_given(folder):
    content = b"a,b\n1,2\n3,4\n"
    (folder / "rows").write_bytes(content)
    for name in ("rows", "-"):
        code, out, said = run("inspect", name, "--format", "csv", "--json", stdin=content)
        assert code == 0, said
        assert json.loads(out)["rows"] == 2
