"""torch is loaded where a tensor is given, and nowhere else."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

LIBRARIES = {"torch", "triton", "cupy"}


def loaded_after(code: str) -> set[str]:
    script = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "code",
    [
        "import lwcs",
        "import lwcs.cli",
        "import lwcs, numpy; lwcs.build(numpy.eye(9), 3)",
        "import lwcs, numpy; lwcs.CoresetKMeans(2, coreset_size=5).fit(numpy.eye(9))",
    ],
)
def test_nothing_of_torch_is_loaded_without_a_tensor(code):
    assert not loaded_after(code) & LIBRARIES


def test_loading_torch_would_be_seen():
    assert "torch" in loaded_after("import torch")
