"""A run that is killed leaves one file or folder, whose name says what it is; nothing reads it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lwcs
from lwcs.storage import atomic_write

WRITER = """
import sys, time
from lwcs.storage.atomic_write import temporary_{kind}
with temporary_{kind}(sys.argv[1]) as path:
    print(path, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_run_leaves_says_what_it_is_and_is_no_data(kind, tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER.format(kind=kind), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    left = Path(child.stdout.readline().strip())
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert os.listdir(tmp_path) == [left.name]
    assert left.name.startswith(".lwcs-incomplete-")
    (left if kind == "file" else left / "half.csv").write_text("x\n1\n")
    (tmp_path / "rows.csv").write_text("x\n1\n2\n")
    assert lwcs.scan(tmp_path).feature_names == ("x",)
    assert lwcs.build(tmp_path, 5, random_state=0).n_samples == 2
    lwcs.Coreset.from_arrays([[0.0], [1.0]], [1.0, 1.0]).save(tmp_path / "c.parquet")
    assert sorted(os.listdir(tmp_path)) == [left.name, "c.parquet", "rows.csv"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_run_that_fails_leaves_nothing(kind, tmp_path):
    make = getattr(atomic_write, f"temporary_{kind}")
    with pytest.raises(KeyboardInterrupt), make(tmp_path) as path:  # noqa: PT012
        (path if kind == "file" else path / "half").write_text("x")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
