"""A command that is told to end (SIGTERM, SIGHUP) leaves nothing behind, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = """
import os, signal, sys, time
from lwcs.cli import main
from lwcs.storage import atomic_write, persistence as storage

def slowly(table, path, access):
    with atomic_write.replacing(path, access) as temporary:
        temporary.write_bytes(b"half of it")
        try:
            print("writing", flush=True)
            time.sleep(60)
        finally:
            if "stubborn" in sys.argv[0]:
                print("cleaning", flush=True)
                time.sleep(60)

storage.write_table = slowly
sys.argv[0] = os.environ.get("MANNER", "")
main(prog_name="lwcs")
"""


def started(folder: Path, manner: str = "", **options: object) -> subprocess.Popen[str]:
    """A command that has begun to write its output."""
    rows = folder / "rows.csv"
    rows.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(50)))
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW, "build", str(rows), "--size", "5", "-o",
         str(folder / "out.parquet"), "-q"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"MANNER": manner}, **options,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "writing\n"
    return child


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_told_to_end_it_removes_its_temporary_file(number, code, tmp_path):
    child = started(tmp_path)
    assert len(list(tmp_path.glob(".lwcs-*.tmp"))) == 1
    child.send_signal(number)
    _, said = child.communicate(timeout=30)
    assert child.returncode == code
    assert "no incomplete output was left behind" in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_second_signal_ends_it_at_once(tmp_path):
    child = started(tmp_path, "stubborn")
    child.send_signal(signal.SIGTERM)
    assert child.stdout is not None
    assert child.stdout.readline() == "cleaning\n"
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == -signal.SIGTERM


def test_under_nohup_a_hangup_is_ignored(tmp_path):
    child = started(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    child.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == 143


# Waits at a point of the life of the process `lwcs`, and says so.
WAITING = """
import importlib.abc, os, sys, time
from lwcs.__main__ import run

def wait():
    print("waiting", flush=True)
    time.sleep(60)

class AtImport(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "lwcs.cli":
            wait()

if os.environ["POINT"] == "import":
    sys.meta_path.insert(0, AtImport())
elif os.environ["POINT"] == "arguments":
    import lwcs.cli
    lwcs.cli.main.make_context = lambda *_, **__: wait()
try:
    run()
finally:
    if os.environ["POINT"] == "end":
        wait()
"""


@pytest.mark.parametrize("point", ["import", "arguments", "end"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_before_a_command_and_after_it_the_exit_code_is_the_same(point, number, code, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(50)))
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING, "build", str(rows), "--size", "5", "-o",
         str(tmp_path / "out.parquet"), "-q"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"POINT": point},
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    child.send_signal(number)
    _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (code, "")
    assert (tmp_path / "out.parquet").exists() == (point == "end")


def test_under_nohup_a_hangup_is_ignored_while_it_starts(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING, "build", "no.csv"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"POINT": "import"},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    child.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == 143


def test_the_library_leaves_signals_alone():
    code = """
import signal, lwcs, lwcs.cli, lwcs.__main__
print({signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)} == {signal.SIG_DFL})
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True\n"
