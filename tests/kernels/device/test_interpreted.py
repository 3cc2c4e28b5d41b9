"""The kernels in Triton by its interpreter, where there is no GPU: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.device.claims import torch

pytest.importorskip("triton")


@pytest.mark.skipif(torch.cuda.is_available(), reason="test_fused runs on the GPU")
def test_the_kernels_in_triton_do_what_those_in_torch_do():
    file = Path(__file__).with_name("test_fused.py")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-m", "", str(file)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[3]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert "skipped" not in done.stdout
