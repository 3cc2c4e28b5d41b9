"""How many programs a kernel is launched with."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from lwcs.kernels.device.forms import Tensor


@cache
def _multiprocessors(index: int) -> int:
    return int(torch.cuda.get_device_properties(index).multi_processor_count)


def programs(X: Tensor, each: int) -> int:
    """`each` for every multiprocessor; a few in the interpreter, which runs on the CPU."""
    return each * _multiprocessors(X.device.index) if X.is_cuda else 3
