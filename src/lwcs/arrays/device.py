"""Arrays on a device and arrays of other libraries: conversion of input and of results.

Inside lwcs, rows are NumPy arrays, scipy CSR arrays, or a `DeviceArray`: a torch tensor with as
much of NumPy's interface as the layers above need. Code that does not know of devices sees a NumPy
array, through `__array__`: the result is correct, at the cost of a copy. torch is imported only if
a tensor or a device is passed.

Tensors in host memory are read as NumPy arrays, without a copy; with LWCS_KERNEL=device they are
treated like tensors on a device.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows


# Dtypes that are read as they are on a device; wider integers become float64.
_READ = ("float32", "float64", "float16", "bfloat16", "int8", "uint8")
# Copies up to this size go to the host by pinned memory, which torch keeps for the next ones.
_PINNED_BYTES = 2**23


class DeviceArray:
    """A torch tensor with the shape, dtype and indexing of a NumPy array."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every dimension."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self.tensor.numel())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of NumPy with the same name; for bfloat16 float32, as which it is copied."""
        return np.dtype(dtype_name(self.tensor).replace("bfloat16", "float32"))

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, at: Any) -> DeviceArray:
        """Some of the values; a slice is a view."""
        return DeviceArray(self.tensor[self._index(at)])

    def __setitem__(self, at: Any, values: Any) -> None:
        self.tensor[self._index(at)] = on_device(values, self.tensor)

    def _index(self, at: Any) -> Any:
        if isinstance(at, tuple):
            return tuple(map(self._index, at))
        if isinstance(at, DeviceArray):
            return at.tensor
        return on_device(at, self.tensor) if isinstance(at, np.ndarray | list) else at

    def copy(self) -> DeviceArray:
        """Copy the values, on the same device."""
        return DeviceArray(self.tensor.clone())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> DenseRows:
        """A copy on the host, for code that does not know of devices."""
        del copy
        values: DenseRows = _to_host(self.tensor)
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"DeviceArray({self.shape}, {self.dtype}, {self.tensor.device})"


def _to_host(tensor: Any) -> Any:
    import torch

    tensor = storable(tensor.detach())
    if tensor.is_cuda and tensor.numel() * tensor.element_size() < _PINNED_BYTES:
        # Several times as fast as a copy to memory that is not pinned.
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return pinned.copy_(tensor).numpy()
    return tensor.cpu().numpy()


def dtype_name(array: Any) -> str:
    """Name of the dtype of an array of NumPy or torch."""
    return str(array.dtype).removeprefix("torch.")


def bfloat16() -> np.dtype[Any]:
    """The dtype that ml_dtypes adds to NumPy."""
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(
            "bfloat16 in NumPy needs ml_dtypes, which is not installed; pip install ml_dtypes"
        ) from None
    return np.dtype(ml_dtypes.bfloat16)


def has_bfloat(rows: Any) -> bool:
    """Whether rows are an array of bfloat16, of NumPy or torch."""
    known = isinstance(rows, np.ndarray) or library_of(rows) == "torch"
    return known and dtype_name(rows) == "bfloat16"


def storable(rows: Any) -> Any:
    """Rows of bfloat16 in float32, as files have them; other rows as they are."""
    rows = rows.tensor if isinstance(rows, DeviceArray) else rows
    if not has_bfloat(rows):
        return rows
    return rows.astype(np.float32) if isinstance(rows, np.ndarray) else rows.float()


def on_device(values: Any, like: Any) -> Any:
    """Values as a tensor on the device of the tensor `like`, in their own dtype."""
    import torch

    if isinstance(values, DeviceArray):
        return values.tensor.to(like.device)
    if isinstance(values, torch.Tensor):
        return values.to(like.device)
    array = storable(np.asarray(values))
    # torch warns of read-only memory.
    array = array if array.flags.writeable and array.flags.c_contiguous else array.copy()
    tensor = torch.from_numpy(array)
    if like.device.type == "cuda":
        # From pinned memory, the copy does not wait for the work of the device.
        return tensor.pin_memory().to(like.device, non_blocking=True)
    return tensor.to(like.device)


def write(out: Any, at: slice, values: Any) -> None:
    """Write a tensor into an array of the host or of a device."""
    if isinstance(out, DeviceArray):
        out.tensor[at] = values.to(out.tensor.dtype)
    else:
        out[at] = values.cpu().numpy()


def joined(parts: Sequence[Any]) -> DeviceArray:
    """Concatenate rows, on the device of the first part."""
    import torch

    first = parts[0].tensor
    return DeviceArray(torch.cat([on_device(part, first) for part in parts]))


@contextmanager
def own_stream(array: Any) -> Iterator[None]:
    """Use a CUDA stream of its own on the device of an array, and wait for it at the end."""
    if not isinstance(array, DeviceArray) or array.tensor.device.type != "cuda":
        yield
        return
    import torch

    with torch.cuda.device(array.tensor.device):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                yield
        finally:
            stream.synchronize()


def library_of(data: object) -> str | None:
    """The library of an array that is not NumPy's: "torch", "cupy", another by its module, or None.

    It is told from the type, so nothing is imported.
    """
    homes = [kind.__module__.split(".")[0] for kind in type(data).__mro__]
    for known in ("torch", "cupy"):
        if known in homes:
            return known if hasattr(data, "__dlpack__") else None
    if "numpy" in homes or not hasattr(data, "__array_namespace__"):
        return None
    return homes[0]


def forces_device() -> bool:
    """Whether tensors in host memory are treated as tensors on a device (for tests)."""
    return os.environ.get("LWCS_KERNEL") == "device"


@dataclass(frozen=True, slots=True)
class ArrayOrigin:
    """The library and the device of X, in which results are returned."""

    library: str
    namespace: str
    """Name of the module with its functions: a module cannot be pickled with a model."""
    device: Any

    @classmethod
    def of(cls, data: Any) -> ArrayOrigin | None:
        """The origin of an array of a library other than NumPy; None for everything else."""
        library = library_of(data)
        if library is None:
            return None
        from array_api_compat import array_namespace, device

        return cls(library, array_namespace(data).__name__, device(data))

    def wrap(self, values: Any) -> Any:
        """Convert an array of NumPy, torch or lwcs to this library, on its device."""
        values = values.tensor if isinstance(values, DeviceArray) else values
        tensor = values if library_of(values) == "torch" else None
        if self.library == "torch":
            import torch

            if tensor is None:
                return on_device(np.array(values), torch.empty(0, device=self.device))
            return tensor.to(self.device)
        namespace = import_module(self.namespace)
        if self.library == "cupy":
            taken = namespace.asarray if tensor is None else namespace.from_dlpack
            with self.device:
                return taken(values)
        return namespace.asarray(np.array(values), device=self.device)


def followed(value: Any, like: ArrayOrigin | None) -> Any:
    """Convert an array to the library and the device of X; to NumPy if `like` is None."""
    if like is None:
        return copied(value)
    return like.wrap(value) if isinstance(value, np.ndarray | DeviceArray) else value


def rows_of(data: Any, name: str = "X") -> DenseRows | DeviceArray:
    """Convert an array of another library to NumPy if its memory is on the host, else to a tensor.

    Memory is shared where that is possible. Tensors that require gradients are refused.
    """
    library = library_of(data)
    if library not in ("torch", "cupy"):
        return _read_on_host(data, name)
    import torch

    tensor = data if library == "torch" else torch.from_dlpack(data)
    if getattr(tensor, "requires_grad", False):
        raise ValueError(
            f"{name} is a tensor that requires gradients, but no gradient flows through a "
            f"clustering; pass {name}.detach()"
        )
    if tensor.layout != torch.strided:
        raise TypeError(
            f"{name} is a sparse tensor of torch; pass a scipy sparse array or a dense tensor"
        )
    if tensor.dtype.is_complex:
        raise TypeError(f"{name} has dtype {tensor.dtype}; pass real numbers")
    if tensor.device.type == "cpu" and not forces_device():
        host = _shared_with_host(tensor)
        if host is not None:
            return host
    if tensor.device.type not in ("cuda", "cpu"):
        raise ValueError(
            f"{name} is on the device {str(tensor.device)!r}; pass a tensor on a CUDA device or on "
            f"the CPU, such as {name}.cpu()"
        )
    if tensor.dtype == torch.bool:
        tensor = tensor.contiguous().view(torch.uint8)
    if dtype_name(tensor) not in _READ:
        tensor = tensor.to(torch.float64)
    return DeviceArray(tensor.contiguous())


def _shared_with_host(tensor: Any) -> DenseRows | None:
    """A tensor in host memory as an array; None for bfloat16 without ml_dtypes.

    NumPy has no such type. Then the loops of torch read the tensor.
    """
    if dtype_name(tensor) != "bfloat16":
        return np.asarray(tensor.numpy())
    try:
        kind = bfloat16()
    except ImportError:
        return None
    import torch

    return np.asarray(tensor.view(torch.int16).numpy().view(kind))


def _read_on_host(data: Any, name: str) -> DenseRows:
    """Convert an array of a library other than torch and CuPy."""
    try:
        return np.asarray(data)
    except (RuntimeError, TypeError, ValueError) as error:
        like = ArrayOrigin.of(data)
        assert like is not None
        if like.library != "array_api_strict":
            raise TypeError(
                f"{name} is an array of {like.library} on the device {str(like.device)!r}, which "
                f"NumPy cannot read ({error}); pass an array in host memory, or a tensor of torch"
            ) from None
        strict = import_module(like.namespace)
        return np.asarray(data.to_device(strict.Device("CPU_DEVICE")))


def copied(rows: Any) -> Any:
    """Copy rows on a device to the host; return other rows as they are."""
    return np.asarray(rows) if isinstance(rows, DeviceArray) else rows


def on_host(values: Any, name: str) -> Any:
    """Convert an array of another library to NumPy; return everything else as it is."""
    return values if library_of(values) is None else np.asarray(rows_of(values, name))


P = ParamSpec("P")
R = TypeVar("R")

_INSTALL = 'pip install "lwcs[gpu]"'


def check_device_name(device: Any) -> None:
    """Check the type of `device`, which is the same on any machine."""
    if device is not None and not isinstance(device, str):
        raise TypeError(
            f"device={device!r} is of type {type(device).__name__}; pass a name such as 'cuda' or "
            "'cuda:1', or leave out device= to compute where the rows are"
        )


def check_device(device: Any) -> str | None:
    """Check that a device exists; return its name with its number, such as "cuda:0"."""
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
        parsed = torch.device(device)
    except RuntimeError:
        parsed = None
    if parsed is None or parsed.type not in ("cuda", "cpu"):
        raise ValueError(
            f"device={device!r} is not supported; pass 'cuda', 'cuda:1' and so on for a GPU, "
            "'cpu', or leave out device= to compute where the rows are"
        )
    if parsed.type == "cpu":
        return "cpu"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise ValueError(
            f"device={device!r} is not available: torch {torch.__version__} finds no CUDA device; "
            "leave out device= to compute on the CPU"
        )
    number = torch.cuda.current_device() if parsed.index is None else parsed.index
    if number >= count:
        names = ", ".join(f"'cuda:{i}'" for i in range(count))
        raise ValueError(f"device={device!r} is not available; this machine has {names}")
    return f"cuda:{number}"


def check_on_device(device: str, arrays: Iterable[Any], name: str) -> None:
    """Refuse rows on a device other than the one that was passed."""
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
    """Make a function explain what to lower if the memory of a device is full.

    The explained error is raised outside the `except` block: the original one is gone by then, with
    its frames and the tensors that these hold.
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
    """Whether torch has run out of memory."""
    torch = sys.modules.get("torch")
    full = () if torch is None else (torch.OutOfMemoryError,)
    return isinstance(error, (DeviceMemoryError, *full))


def _advice(error: BaseException) -> str:
    message = " ".join(str(error).split(". ")[0].split())
    return (
        f"the memory of the device is full{_memory_use()}; for rows on the device, pass a smaller "
        "coreset_size or fewer clusters, or keep X on the host and pass device='cuda', with "
        "lwcs.scan(…, memory_limit='512MB') to bound the blocks that go through the device "
        f"(torch says: {message or 'out of memory'})"
    )


def _memory_use() -> str:
    cuda = sys.modules["torch"].cuda
    if not cuda.is_available():
        return ""
    free, total = cuda.mem_get_info()
    return (
        f": {total / 1e9:.1f} GB in all, {cuda.memory_allocated() / 1e9:.1f} GB of them held by "
        f"tensors of this process, {free / 1e9:.1f} GB free"
    )


def _give_back() -> None:
    """Release the memory that torch caches."""
    cuda = sys.modules["torch"].cuda
    if cuda.is_available():
        cuda.empty_cache()
