"""The threads that share native calls: each lot runs once, and none outlives its use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lwcs.kernels import native

COMPILER = shutil.which("c++")
CORE = Path(native.__file__).parent / "core"


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_every_lot_of_a_round_runs_once(tmp_path):
    # Without the order of stores in `Team.each`, some 10 of a million rounds went wrong.
    program, source = tmp_path / "team", Path(__file__).with_name("team.cpp")
    flags = ("-std=c++20", "-O2", "-pthread", f"-I{CORE}")
    subprocess.run([str(COMPILER), *flags, str(source), "-o", str(program)], check=True)
    for threads in ("2", "3"):
        done = subprocess.run([str(program), threads, "1500"], capture_output=True, check=True)
        assert int(done.stdout) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif("LWCS_NATIVE" in os.environ, reason="sanitizers lock while a thread starts")
def test_a_child_process_has_a_team_of_its_own():
    program = """
import os
import numpy as np
from lwcs.kernels import native
from lwcs.kernels.native import teams
with native.team(3):
    child = os.fork()
    assert child or teams.CURRENT.team is None
    with native.team(3):
        own = np.zeros(9999, dtype=int)
        found = native.own_distances(np.ones((9999, 3)), np.zeros((1, 3)), own, None)
        assert (found == 3.0).all()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)
