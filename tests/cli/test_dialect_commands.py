"""Commands read CSV files of every dialect, from files and from pipes."""

from __future__ import annotations

from pathlib import Path

import pytest

import lwcs
from tests.cli.running import run
from tests.sources.test_dialects import ROWS


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


BUILD = ("build", "-", "--size", "9", "-o", "c.parquet", "--seed", "0", "--quiet")


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("a;b\n1,5;2\n3,25;-4\n1000;6\n", ["--delimiter", ";", "--decimal", ","]),
        ("1.5\t2\n3.25\t-4\n1000\t6\n", ["--delimiter", r"\t", "--no-header"]),
        ('a,b\n1.5,2\n3.25,-4\n"1,000",6\n', ["--thousands", ","]),
        ("ä,b\n1.5,2\n3.25,-4\n1000,6\n".encode("cp1252"), ["--encoding", "cp1252"]),
        ("5,6\n1.5,2\n3.25,-4\n1000,6\n", ["--header"]),
    ],
)
@pytest.mark.parametrize("piped", [True, False], ids=["pipe", "file"])
def test_commands_read_every_dialect_from_files_and_pipes(text, flags, piped):
    data = text if isinstance(text, bytes) else text.encode()
    Path("x.csv").write_bytes(data)
    if piped:
        code, _, said = run(*BUILD, "--format", "csv", *flags, stdin=data)
    else:
        code, _, said = run(*("x.csv" if part == "-" else part for part in BUILD), *flags)
    assert code == 0, said
    points = lwcs.load("c.parquet").points
    assert {tuple(row) for row in points.tolist()} <= set(map(tuple, ROWS))


@pytest.mark.usefixtures("inside")
def test_pipes_are_recognized_as_files_are():
    code, _, said = run(*BUILD[:-1], "--format", "csv", stdin=b"a;b\n1;2\n3;4\n")
    assert code == 0, said
    assert "Warning: standard input is read with" in said, said
    text = b"a,b,t\n" + b"1,2,word\n" * 40_000 + b"1,oops,word\n"
    code, _, said = run(*BUILD, "--format", "csv", "--columns", "a,b", stdin=text)
    assert code == 1
    assert "column 'b' holds numbers, but 'oops' in row 40000 of standard input" in said
    code, _, said = run(*BUILD, "--format", "arrow", "--no-header", stdin=b"")
    assert code == 2
    assert "is for CSV" in said
