"""Temporaries of killed runs are removed by the next run; those of a run that is alive never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lwcs
from lwcs.storage import atomic_write as temporaries

WRITER = """
import sys, time
from lwcs.storage.atomic_write import temporary_{kind}
with temporary_{kind}(sys.argv[1]) as path:
    print(path, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _another_run(monkeypatch):
    """As if no folder had been looked into by this process."""
    monkeypatch.setattr(temporaries, "_SWEPT", set())


def writer(folder: Path, kind: str) -> tuple[subprocess.Popen[str], Path]:
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER.format(kind=kind), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    return child, Path(child.stdout.readline().strip())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_that_of_a_killed_run_goes_and_that_of_a_live_one_stays(kind, tmp_path):
    dead, left = writer(tmp_path, kind)
    live, kept = writer(tmp_path, kind)
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert left.exists()
    if kind == "folder":
        (left / "half.parquet").write_text("x")
    lwcs.Coreset.from_arrays([[0.0], [1.0]], [1.0, 1.0]).save(tmp_path / "c.parquet")
    assert not left.exists()
    assert kept.exists()
    live.terminate()
    live.communicate()


@pytest.mark.parametrize(
    "name", [".lwcs-00000000-0123456789abcdef.tmp", ".lwcs-0123456789abcdef.tmp"]
)
def test_those_of_other_machines_stay_for_a_day(name, tmp_path):
    """Their locks may not be seen here."""
    left = tmp_path / name
    left.touch()
    with temporaries.temporary_file(tmp_path):
        assert left.exists()
    temporaries._SWEPT.clear()
    yesterday = time.time() - 25 * 3600
    os.utime(left, (yesterday, yesterday))
    with temporaries.temporary_file(tmp_path):
        assert not left.exists()


def test_other_files_are_not_touched(tmp_path):
    names = [".lwcs-notes.tmp", "lwcs-0123456789abcdef.tmp", ".lwcs-0123456789abcdef.parquet"]
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    with temporaries.temporary_file(tmp_path):
        pass
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_one_that_another_run_took_for_dead_is_made_again(tmp_path, monkeypatch):
    """Between its making and its lock, it looks like one that was left behind."""
    whole, removed = temporaries._open, []

    def raced(path: Path) -> int:
        handle = whole(path)
        if not removed:
            removed.append(path)
            path.unlink()
        return handle

    monkeypatch.setattr(temporaries, "_open", raced)
    with temporaries.temporary_file(tmp_path) as path:
        assert path != removed[0]
        assert path.exists()
    assert os.listdir(tmp_path) == []


def test_where_there_are_no_locks_nothing_is_removed(tmp_path, monkeypatch):
    left = tmp_path / f".lwcs-{temporaries._machine()}-0123456789abcdef.tmp"
    left.touch()

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(temporaries.fcntl, "flock", unsupported)
    with temporaries.temporary_file(tmp_path) as path:
        assert path.exists()
        assert left.exists()
    assert not path.exists()
