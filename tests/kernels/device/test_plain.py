"""The kernels in plain torch, on the CPU."""

from __future__ import annotations

from tests.kernels.device.claims import Claims


class TestPlain(Claims):
    @property
    def kernels(self):
        from lwcs.kernels import device

        return device
