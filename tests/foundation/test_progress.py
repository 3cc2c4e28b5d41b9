"""The progress bar: there on a terminal if asked for, and only then."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

SCRIPT = """
import numpy, lwcs
X = numpy.random.default_rng(0).normal(size=(300_000, 4))
lwcs.build(X, 100, random_state=0, passes={passes}, progress={progress})
"""


def on_a_terminal(script: str) -> str:
    """What a real process writes to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait() == 0
    return seen.decode()


@pytest.mark.parametrize(
    ("passes", "labels"), [(1, ["reading"]), (2, ["first pass", "second pass"])]
)
def test_every_pass_has_its_bar_on_a_terminal(passes, labels):
    seen = on_a_terminal(SCRIPT.format(passes=passes, progress=True))
    for label in labels:
        assert label in seen


def test_nothing_is_drawn_unasked():
    assert on_a_terminal(SCRIPT.format(passes=1, progress=False)) == ""


def test_nothing_is_drawn_where_there_is_no_terminal():
    script = SCRIPT.format(passes=1, progress=True)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
