"""`python -m lwcs` is the command lwcs, by its name, in usage and in errors."""

from __future__ import annotations

import subprocess
import sys

import lwcs


def run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "lwcs", *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_version_is_printed():
    assert run("--version") == (0, f"lwcs, version {lwcs.__version__}\n", "")


def test_usage_and_errors_call_it_lwcs():
    code, out, _ = run("fit", "--help")
    assert code == 0
    assert out.startswith("Usage: lwcs fit ")
    code, out, said = run("fit", "no.parquet", "-k", "2")
    assert (code, out) == (2, "")
    assert said.startswith("Usage: lwcs fit ")
    assert "__main__" not in said
