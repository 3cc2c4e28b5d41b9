"""Spellings on the command line and ends of commands: file names, pipes, terminals, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class
from rich.table import Table
from rich.text import Text

import lwcs
from lwcs.cli import main
from lwcs.cli.terminal import Terminal
from tests.cli.running import run

LWCS = [sys.executable, "-m", "lwcs"]


@pytest.fixture
def pipe():
    """Write bytes to a pipe, and give its path, as a shell does for <(…)."""
    opened = []

    def piped(content: bytes) -> str:
        ends = os.pipe()
        writer = threading.Thread(target=lambda: (os.write(ends[1], content), os.close(ends[1])))
        writer.start()
        opened.append((writer, ends[0]))
        return f"/dev/fd/{ends[0]}"

    yield piped
    for writer, end in opened:
        os.close(end)
        writer.join()


def test_rows_and_models_are_read_from_pipes(folder, pipe):
    csv, model = Path("d.csv").read_bytes()[:20_000], Path("m.parquet").read_bytes()
    text = csv[: csv.rindex(b"\n") + 1]
    Path("part.csv").write_bytes(text)
    options = ("--format", "csv", "--columns", "x,y", "--seed", "0")
    for command in (["fit", "-k", "2", "-o", "p.parquet"], ["build", "--size", "9", "-o", "c"]):
        name, *rest = command
        assert run(name, pipe(text), *options, *rest)[0] == 0
        piped = lwcs.load(command[-1])
        assert run(name, "part.csv", *options, *rest)[0] == 0
        assert repr(lwcs.load(command[-1])) == repr(piped)
    usual = run("certify", "part.csv", "m.parquet")
    assert run("certify", pipe(text), "m.parquet", "--format", "csv")[:2] == usual[:2]
    assert run("certify", "part.csv", pipe(model))[:2] == usual[:2]
    assert run("inspect", pipe(model))[0] == 0


def test_what_a_pipe_is_not_for_is_said(folder, pipe):
    one, other = pipe(b""), pipe(b"")
    code, _, said = run("certify", one, other)
    assert (code, "are both pipes, of which a command reads one" in said) == (2, True)
    code, _, said = run("build", one, "d.csv", "--size", "5", "-o", "c")
    assert (code, "DATA mixes" in said) == (2, True)
    text = pipe(b"a,b\n1,2\n")
    code, _, said = run("fit", text, "-k", "2", "-o", "p.parquet")
    assert (code, f"{text!r} is neither Parquet nor Arrow" in said) == (2, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_that_nobody_writes_to_is_left_on_a_signal(folder):
    os.mkfifo("f.csv")
    fit = [*LWCS, "fit", "f.csv", "-k", "2", "-o", "p.parquet", "--format", "csv"]
    process = subprocess.Popen(fit, stderr=subprocess.PIPE, env=os.environ | {"LC_ALL": "C.UTF-8"})
    # It waits for a writer when somebody who opens the pipe need not wait for a reader.
    while True:
        try:
            writer = os.open("f.csv", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert process.poll() is None
            time.sleep(0.02)
        else:
            break
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == 143
    assert b"Interrupted" in said


def test_a_wrong_name_is_told_with_the_one_that_is_next_to_it(folder):
    Path("data").mkdir()
    Path("data/customers.csv").write_text("a\n1\n")
    for wrong, right in (
        ("d.cvs", "'d.cvs' does not exist; did you mean 'd.csv'?"),
        ("data/customer.csv", "did you mean 'data/customers.csv'?"),
        ("dat/customers.csv", "there is no folder 'dat'; did you mean 'data'?"),
        ("dat/*.csv", "'dat' does not exist; did you mean 'data'?"),
    ):
        code, _, said = run("build", wrong, "--size", "5", "-o", "c")
        assert (code, right in said) == (1, True)
    assert "did you mean 'm.parquet'?" in run("certify", "d.csv", "n.parquet")[2]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["build", "--size", "5", "--method", "lightwight"], "lightweight"),
        (["fit", "-k", "2", "--divergence", "itakura"], "itakura_saito"),
        (["mixture", "-k", "2", "--family", "Gausian"], "gaussian"),
        (["mixture", "-k", "2", "--covariance", "diagonal"], "diag"),
        (["choose-k", "--model", "mixtures"], "mixture"),
        (["fit", "-k", "2", "--format", "parket"], "parquet"),
    ],
)
def test_a_wrong_choice_is_told_with_the_nearest_one(folder, words, near):
    output = [] if words[0] == "choose-k" else ["-o", "o.parquet"]
    code, _, said = run(*words, "d.csv", *output)
    assert (code, f"Did you mean '{near}'?" in said) == (2, True)


def test_k_has_one_spelling_and_others_give_a_hint(folder):
    options = ("d.csv", "--columns", "x,y", "--seed", "0", "--json")
    fast = (*options, "--bootstrap", "0", "--size", "300")
    assert "Hint" not in run("choose-k", "-k", "2,3", *fast)[2]
    for spelled in (("--k", "2,3"), ("--k=2,3",), ("--n-clusters", "2,3")):
        code, out, said = run("choose-k", *spelled, *fast)
        assert (code, '"k": ' in out) == (0, True)
        assert f"Hint: {spelled[0].partition('=')[0]} is spelled -k" in said
    code, _, said = run("fit", "--k", "2", *options, "-o", "o.parquet", "-q")
    assert (code, said) == (0, "")
    code, _, said = run("build", "--", "--k", "--size")
    assert "Hint" not in said


def test_k_above_the_rows_is_refused(folder):
    for command in (["fit", "-o", "o.parquet"], ["fit", "--size", "2000", "-o", "o.parquet"]):
        code, _, said = run(*command, "d.csv", "--columns", "x,y", "-k", "1001")
        assert (code, "should be >= -k 1001; pass more rows, or a smaller -k" in said) == (1, True)


@pytest.mark.parametrize(
    "words", [["--help"], ["inspect", "m.parquet"], ["assign", "d.csv", "m.parquet", "-o", "-"]]
)
def test_a_reader_that_leaves_ends_a_command_as_by_sigpipe(folder, words):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run([*LWCS, *words], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert process.returncode == 141
    assert b"Error" not in process.stderr
    assert b"BrokenPipe" not in process.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    "words", ["fit", "certify d.csv", "fit d.csv -o", "inspect", "fit --report"]
)
def test_shells_complete_the_names_of_files(shell, words):
    complete = get_completion_class(shell)(main, {}, "lwcs", "_LWCS_COMPLETE")
    (found,) = complete.get_completions(words.split(), "d")
    assert (found.type, found.value) == ("file", "d")
    # What the script of the shell leaves to the shell itself.
    assert complete.format_completion(found).startswith("file")


def wide() -> Table:
    table = Table(title="Results", caption="errors")
    for heading in ("method", "Davies–\nBouldin", "none", "a long heading of a column"):
        table.add_column(heading, no_wrap=True)
    table.add_row("one\n[b]", "0.123", "\n", Text("[c]"), style="bold")
    return table


def test_a_table_that_is_too_wide_has_one_line_per_field(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    Terminal().show(wide())
    said = capsys.readouterr().out
    assert said.splitlines() == [
        "Results",
        "method: one, [b]",
        "  Davies–Bouldin: 0.123",
        "  a long heading of a column: [c]",
        "errors",
    ]
    monkeypatch.setenv("COLUMNS", "80")
    Terminal().show(wide())
    assert "a long heading of a column" in capsys.readouterr().out.splitlines()[3]


def test_a_file_has_no_width(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table = wide()
    table.add_column("x" * 100)
    Terminal().show(table)
    assert "x" * 100 in capsys.readouterr().out


def test_an_interrupted_comparison_says_what_it_keeps(folder, monkeypatch):
    import lwcs.comparing as comparing

    solve, calls = comparing.solutions, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return solve(*arguments)

    monkeypatch.setattr(comparing, "solutions", interrupted)
    options = ("--columns", "x,y", "-k", "2", "--sizes", "50", "--methods", "full,uniform")
    code, _, said = run("compare", "d.csv", *options, "--repeats", "2", "--full-repeats", "2")
    assert code == 130
    assert "the solutions found so far are kept in comparison/d.parquet, so that the same" in said
    assert lwcs.load("comparison/d.parquet").trials
