"""`lwcs demo` as a person runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "lwcs"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        env={"COLUMNS": "120", "PATH": "", "PYTHONIOENCODING": "utf-8", "HOME": "/nonexistent"},
    )


def test_demo_shows_estimates_close_to_the_full_cost():
    done = run("demo", "--rows", "50000", "--size", "5000")
    assert done.returncode == 0, done.stderr
    assert "50,000 × 16" in done.stdout
    rows = [line for line in done.stdout.splitlines() if "random rows" in line or "good" in line]
    assert len(rows) == 4
    for row in rows:
        coreset, uniform = map(float, re.findall(r"(\d+\.\d) %", row))
        assert coreset < 10.0
    assert uniform > 2 * coreset, "heavy tails are where uniform samples fail"


def test_version_and_help():
    assert run("--version").stdout.startswith("lwcs, version ")
    assert "demo" in run("-h").stdout


def test_a_typo_is_named():
    done = run("dmeo")
    assert done.returncode == 2
    assert "dmeo" in done.stderr
