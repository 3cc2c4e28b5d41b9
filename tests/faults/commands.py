"""Commands as processes that are killed, starved and watched from outside."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LWCS = [sys.executable, "-m", "lwcs"]


def write_rows(
    folder: Path, files: int, rows: int, columns: int, rows_per_group: int | None = None
) -> str:
    """Files of Gaussian rows, written one after the other."""
    folder.mkdir()
    for i in range(files):
        X = np.random.default_rng(i).standard_normal((rows, columns), dtype=np.float32)
        X[:: 1 + i] *= 3.0
        table = pa.table({f"x{j}": X[:, j] for j in range(columns)})
        pq.write_table(table, folder / f"{i:05}.parquet", row_group_size=rows_per_group)
    return str(folder)


def start(*arguments: str, most_bytes: int | None = None) -> subprocess.Popen[str]:
    """Run a command; with `most_bytes`, no file of it may grow beyond, as on a full disk."""

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.Popen(
        [*LWCS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def complete(*arguments: str) -> float:
    """Run a command to its end; return the seconds it took."""
    begun = time.monotonic()
    child = start(*arguments)
    _, said = child.communicate(timeout=600)
    assert child.returncode == 0, said
    return time.monotonic() - begun


def refusal(*arguments: str) -> str:
    """Run a command that refuses to work; return what it says."""
    child = start(*arguments)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 1, said
    return said


def refused(*arguments: str) -> int | None:
    """Run a command; return the limit in MB that it asks for, or None if it does its work."""
    child = start(*arguments)
    _, said = child.communicate(timeout=600)
    if child.returncode == 0:
        return None
    assert "pass --memory " in said, said
    return int(said.split("pass --memory ")[1].split("MB")[0].replace(",", ""))


def kill_at(moment: float, *arguments: str) -> bool:
    """Start a command and kill it after some seconds; tell whether it was still running."""
    child = start(*arguments)
    time.sleep(moment)
    running = child.poll() is None
    child.kill()
    child.communicate()
    return running


def peak_memory(*arguments: str) -> int:
    """Run a command to its end; return the most bytes it had resident, seen from outside."""
    child, peak = start(*arguments), 0
    status, command = Path(f"/proc/{child.pid}/status"), Path(f"/proc/{child.pid}/cmdline")
    while child.poll() is None:
        try:
            if command.read_bytes() == Path("/proc/self/cmdline").read_bytes():
                continue  # a copy of this process, with its memory, until the command is run
            lines = status.read_text().splitlines()
        except OSError:
            break
        marks = [line.split()[1] for line in lines if line.startswith("VmHWM")]
        peak = max([peak, *(1024 * int(mark) for mark in marks)])
        time.sleep(0.02)
    _, said = child.communicate()
    assert child.returncode == 0, said
    return peak
