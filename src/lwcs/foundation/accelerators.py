"""Devices that are asked for: whether they are there, and what to do where their memory is full."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lwcs.foundation.device import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

P = ParamSpec("P")
R = TypeVar("R")

_INSTALL = 'pip install "lwcs[gpu]"'


def check_device_name(device: Any) -> None:
    """Check what can be said of `device` on any machine."""
    if device is not None and not isinstance(device, str):
        raise TypeError(
            f"device={device!r} is of type {type(device).__name__}; pass a name such as 'cuda' or "
            "'cuda:1', or leave out device= to compute where the rows are"
        )


def check_device(device: Any) -> str | None:
    """Check that a device is there; return its name with its number, such as "cuda:0"."""
    check_device_name(device)
    if device is None:
        return None
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"device={device!r} needs torch, which is not installed; {_INSTALL}, or leave out "
            "device="
        ) from None
    try:
        asked = torch.device(device)
    except RuntimeError:
        asked = None
    if asked is None or asked.type not in ("cuda", "cpu"):
        raise ValueError(
            f"device={device!r} is not supported; pass 'cuda', 'cuda:1' and so on for a GPU, "
            "'cpu', or leave out device= to compute where the rows are"
        )
    if asked.type == "cpu":
        return "cpu"
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not there:
        raise ValueError(
            f"device={device!r} is not there: torch {torch.__version__} finds no CUDA device; "
            "leave out device= to compute on the CPU"
        )
    number = torch.cuda.current_device() if asked.index is None else asked.index
    if number >= there:
        names = ", ".join(f"'cuda:{i}'" for i in range(there))
        raise ValueError(f"device={device!r} is not there; this machine has {names}")
    return f"cuda:{number}"


def check_on_device(device: str, arrays: Iterable[Any], name: str) -> None:
    """Refuse rows that are on another device than the one that was asked for."""
    for array in arrays:
        if isinstance(array, DeviceArray) and str(array.tensor.device) != device:
            own = str(array.tensor.device)
            raise ValueError(
                f"{name} is on the device {own!r}, but device={device!r}; leave out device=, so "
                f"that it is computed where it is, or pass {name}.to({device!r})"
            )


class DeviceMemoryError(MemoryError):
    """The memory of a device is full."""


def with_explained_memory(function: Callable[P, R]) -> Callable[P, R]:
    """Say, for a function, what to lower where the memory of a device is full.

    Nothing of lwcs stays in it: the error is raised once the first one is gone, with its frames and
    the tensors that these hold.
    """

    @wraps(function)
    def explained(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except (RuntimeError, DeviceMemoryError) as error:
            if not _is_full(error):
                raise
            full = str(error) if isinstance(error, DeviceMemoryError) else _advice(error)
        _give_back()
        raise DeviceMemoryError(full)

    return explained


def _is_full(error: BaseException) -> bool:
    """Whether torch has run out of memory; it can only where it was imported."""
    torch = sys.modules.get("torch")
    full = () if torch is None else (torch.OutOfMemoryError,)
    return isinstance(error, (DeviceMemoryError, *full))


def _advice(error: BaseException) -> str:
    said = " ".join(str(error).split(". ")[0].split())
    return (
        f"the memory of the device is full{_amounts()}; for rows on the device, pass a smaller "
        "coreset_size or fewer clusters, or keep X on the host and pass device='cuda', with "
        "lwcs.scan(…, memory_limit='512MB') to bound the blocks that go through the device "
        f"(torch says: {said or 'out of memory'})"
    )


def _amounts() -> str:
    cuda = sys.modules["torch"].cuda
    if not cuda.is_available():
        return ""
    free, total = cuda.mem_get_info()
    return (
        f": {total / 1e9:.1f} GB in all, {cuda.memory_allocated() / 1e9:.1f} GB of them held by "
        f"tensors of this process, {free / 1e9:.1f} GB free"
    )


def _give_back() -> None:
    """Give memory that torch keeps for later back to the device."""
    cuda = sys.modules["torch"].cuda
    if cuda.is_available():
        cuda.empty_cache()
