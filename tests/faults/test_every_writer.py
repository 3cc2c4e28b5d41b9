"""Every writer that is told to end, or whose disk is full, leaves nothing half done behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.cli.outputs import Format, TableFile
from tests.faults.commands import start

ENDINGS = ("parquet", "feather", "csv", "tsv", "csv.gz", "tsv.zst")


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("writers")
    (folder / "rows").mkdir()
    X = np.random.default_rng(0).standard_normal((4000, 2))
    for i, part in enumerate(np.split(X, 2)):
        pq.write_table(pa.table({"x": part[:, 0], "y": part[:, 1]}), folder / f"rows/{i}.parquet")
    lwcs.CoresetKMeans(3, coreset_size=100, random_state=0).fit(X).save(folder / "m.parquet")
    return folder


def commands(work: Path) -> dict[str, tuple[str, list[str]]]:
    """Every command that writes: where it is to stop, and its arguments without the output."""
    rows, model = str(work / "rows"), str(work / "m.parquet")
    assign = ["assign", rows, model]
    found = {
        "c.parquet": ("sync", ["build", rows, "--size", "50"]),
        "k.parquet": ("sync", ["fit", rows, "-k", "2", "--size", "50"]),
        "mix.parquet": ("sync", ["mixture", rows, "-n", "2", "--size", "50"]),
        "comparison": ("sync", ["compare", rows, "-k", "2", "--sizes", "50", "--methods",
                                "full,lightweight", "--repeats", "1"]),
        "by-label": ("write", [*assign, "--partition-by", "label"]),
        "by-label.csv": ("sync", [*assign, "--partition-by", "label"]),
        "per-file": ("write", [*assign, "--per-file"]),
        "per-file.feather": ("sync", [*assign, "--per-file"]),
    }  # fmt: skip
    for ending in ENDINGS:
        found[f"write.{ending}"] = "write", assign
        found[f"sync.{ending}"] = "sync", assign
    return found


def begun(stop: str, arguments: list[str], temporary: Path, **options: object):
    """A command that has stopped in the middle of its writing."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.slowly", stop, *arguments, "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporary)},
        **options,
    )


def ended(child: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> str:
    """Tell a command to end, once it writes; return what it says."""
    assert child.stderr is not None
    assert child.stderr.readline() == b"writing\n"
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 128 + number, said.decode()
    return said.decode()


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "group",
    [
        *("models", "folders"),
        *(pytest.param(each, marks=pytest.mark.soak) for each in ("write", "sync")),
    ],
)
def test_told_to_end_every_writer_leaves_nothing(work, group, tmp_path):
    groups = {
        "models": lambda name: name in ("c.parquet", "k.parquet", "mix.parquet", "comparison"),
        "folders": lambda name: name.startswith(("by-label", "per-file")),
        "write": lambda name: name.startswith("write"),
        "sync": lambda name: name.startswith("sync"),
    }
    temporary, out = tmp_path / "tmp", tmp_path / "out"
    temporary.mkdir()
    out.mkdir()
    children = [
        begun(stop, [*arguments, "-o", str(out / name)], temporary)
        for name, (stop, arguments) in commands(work).items()
        if groups[group](name)
    ]
    for child in children:
        said = ended(child)
        assert "no incomplete output was left behind" in said
        assert "Traceback" not in said
    # The folder of a comparison is made first, and keeps what is complete.
    assert everything_in(out) == (["comparison"] if group == "models" else [])
    assert everything_in(temporary) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_other_signals_do_the_same(work, number, tmp_path):
    arguments = ["assign", str(work / "rows"), str(work / "m.parquet"), "--partition-by", "label"]
    ended(begun("write", [*arguments, "-o", str(tmp_path / "out")], tmp_path), number)
    assert everything_in(tmp_path) == []


def test_a_copy_of_standard_input_is_removed(work, tmp_path):
    with (work / "rows/0.parquet").open("rb") as rows:
        arguments = ["build", "-", "--size", "5", "-o", str(tmp_path / "c.parquet")]
        ended(begun("copy", arguments, tmp_path, stdin=rows))
    assert everything_in(tmp_path) == []


def test_what_goes_to_standard_output_is_removed(work, tmp_path):
    arguments = ["build", str(work / "rows"), "--size", "5", "-o", "-"]
    ended(begun("sync", arguments, tmp_path))
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("name", ["c.parquet", "by-label", "write.csv.gz"])
def test_a_full_disk_is_named_with_the_file(work, name, tmp_path):
    out = tmp_path / name
    child = start(*commands(work)[name][1], "-o", str(out), most_bytes=1_000)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 1, said
    words = said.strip().splitlines()[-1]
    assert words.startswith(f"Error: cannot write '{out}': File too large; free some space, or")
    assert everything_in(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is of Linux")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_named_in_every_format(ending):
    table = pa.table({"x": np.random.default_rng(0).standard_normal(100_000)})

    def fill() -> None:
        with TableFile(Path("/dev/full"), Format.of(f"x.{ending}"), table.schema, "it") as file:
            file.write(table)

    with pytest.raises(OSError, match="cannot write it: No space left on device; free") as full:
        fill()
    assert full.value.errno == errno.ENOSPC


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is of Linux")
@pytest.mark.parametrize("name", ["c.parquet", "write.csv"])
def test_a_full_standard_output_is_named(work, name):
    with open("/dev/full", "wb") as full:
        child = subprocess.run(
            [sys.executable, "-m", "lwcs", *commands(work)[name][1], "-o", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert child.returncode == 1, child.stderr
    assert "Error: cannot write standard output: No space left on device; free" in child.stderr
    assert "Traceback" not in child.stderr
