"""The kernels in Triton: on a GPU where there is one, or by Triton's interpreter on the CPU.

The interpreter has to be asked for before Triton is imported, so `test_interpreted` runs this
file once more, in a process of its own.
"""

from __future__ import annotations

import pytest

from tests.kernels.device.claims import INTERPRETED, Claims, torch

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.gpu,
    # NumPy, by which the interpreter computes, warns of NaN and infinity.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.skipif(
    not (torch.cuda.is_available() or INTERPRETED),
    reason="needs a GPU, or TRITON_INTERPRET=1 in the environment",
)
class TestFused(Claims):
    device = "cpu" if INTERPRETED else "cuda"

    @property
    def kernels(self):
        from lwcs.kernels.torch import operations as device

        return device

    def test_these_are_the_kernels_in_triton(self):
        from lwcs.kernels.torch import operations as device

        name = device._kernels(torch.zeros((3, 2), device=self.device)).__name__
        assert name == "lwcs.kernels.torch.fused"
