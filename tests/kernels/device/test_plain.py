"""The kernels in plain torch, on the CPU."""

from __future__ import annotations

import os

import pytest

from tests.kernels.device.claims import Claims

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1",
    reason="plain torch needs no interpreter",
)


class TestPlain(Claims):
    @property
    def kernels(self):
        from lwcs.kernels.torch import operations as device

        return device
