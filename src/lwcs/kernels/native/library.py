"""The shared library of the native kernels: which one is loaded, and how its functions are called.

It has a plain C interface, is called through ctypes, and knows nothing of Python: one wheel serves
every version of Python on a platform, free-threaded ones too, and ctypes lets go of the GIL. A call
takes some 5 µs, most of it for the checks of its arrays; nanobind would take 1 µs, and a wheel per
version for the sake of calls that each work on thousands of rows.

The same sources are compiled several times, for the instruction sets that processors have, and the
library itself tells which is the largest here. For tests, ``LWCS_ISA`` names another one, and
``LWCS_NATIVE`` the folder of libraries that were built otherwise.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lwcs.arrays.checks import check_choice

INSTRUCTION_SETS = {0: "baseline", 2: "avx2", 3: "avx512"}
"""By what `lwcs_instruction_set` returns."""

_INTERFACE = 2
"""That of `lwcs_interface`: raised with every change of a function's arguments."""

# What numbers of `Dtype` in `core/rows.hpp` stand for.
DTYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "uint8": 4, "bfloat16": 5}

# The arguments of every function: an integer by its name alone, `:i` for one of 32 bits, `:f` for a
# double, and arrays by dtype (`*` for any, `?` if it may be None) and the dimensions that they must
# at least have room for.
_FUNCTIONS = """
scan: dtype:i rows:*(n,d) weights:?f8(n) pivot:f8(d) scale:?f8(d) n d shift:f8(d) cost:f8(1)
    out:f8(n)
scan_cells: dtype:i rows:*(n,d) weights:?f8(n) pivot:f8(d) scale:?f8(d) n d block cell
    shifts:f8(d) costs:f8(1) cells:f8(1) team:t
moments: dtype:i rows:*(n,d) weights:f8(n) n d weight:f8(1) mean:f8(d) scatter:f8(d)
hit_rows: dtype:i rows:*(d) weights:?f8(1) pivot:f8(d) mean:f8(d) scale:?f8(d) factor:f floor:f d
    n_runs starts:i8(n_runs) stops:i8(n_runs) targets:f8(n_runs) hits:i8(n_runs) bounds:f8(n_runs)
    distances:f8(n_runs)
closer: dtype:i rows:*(n,d) weights:?f8(n) center:f8(d) scale:?f8(d) n d label reach:?f8(1)
    closest:f8(n) labels:i8(n) cost:f8(1) spared:i8(1)
own_distances: dtype:i rows:*(n,d) centers:f8(d) labels:i8(n) scale:?f8(d) n d out:f8(n) team:t
cluster_sums: dtype:i rows:*(n,d) weights:f8(n) labels:i8(n) wanted:b1(k) around:f8(k,d) n d k
    totals:f8(k) sums:f8(k,d) team:t
nearest: dtype:i wide:i rows:*(n,d) n d origin:*(d) factor:?*(d) matrix:*(k,d) sizes:f8(k) k
    clear:f tiny:f large:f rounding:f centers:f8(k,d) scale:?f8(d) labels:i4(n) unclear:b1(n)
    distances:?f8(n) n_unclear:i8(1) team:t
pack: dtype:i wide:i rows:*(n,d) n d origin:*(d) factor:?*(d) tiles:*(n,d) norms:*(n) team:t
assign: wide:i tiles:*(n,d) n d matrix:*(k,d) k moved:i8(n_moved) n_moved place:i8(k) labels:i8(n)
    scores:*(n) others:*(n) old:i8(n) heights:*(n) least:*(n) changed:b1(k) unknown:b1(n)
    n_unknown:i8(1) team:t
seed_distances: wide:i tiles:*(n,d) heights:*(n) n d dtype:i rows:?*(n,d) scale:?f8(d) unit:f
    chosen:i8(many) many out:*(many,n) team:t
seed_closest: wide:i tiles:*(n,d) heights:*(n) n d dtype:i rows:?*(n,d) scale:?f8(d) unit:f
    chosen:i8(many) many closest:*(n) team:t
seed: wide:i tiles:*(n,d) heights:*(n) n d dtype:i rows:?*(n,d) scale:?f8(d) unit:f weights:*(n)
    uniforms:f8(k,many) k many stop_at:f candidates:i8(many) closest:*(n) reached:*(n,many)
    sums:f8(many) chosen:i8(k) counts:i8(3) at_most team:t
try_swaps: wide:i distances:*(many,n) n first many nearest:*(n) second:*(n) weights:f8(n)
    labels:i8(n)
    losses:f8(k) k cancelled:f least_gain:f found:i8(2)
scan_sparse: CSR weights:f8(n) columns:f8(d) precision:?f8(d) rest:f coarse:f shift:f8(d)
    cost:f8(1) out:f8(n)
distances_sparse: CSR columns:f8(d) precision:?f8(d) rest:f coarse:f out:f8(n)
hit_rows_sparse: CSR weights:?f8(n) columns:f8(d) precision:?f8(d) rest:f coarse:f
    mean_columns:f8(d) mean_rest:f mean_coarse:f factor:f floor:f n_runs starts:i8(n_runs)
    stops:i8(n_runs) targets:f8(n_runs) hits:i8(n_runs) bounds:f8(n_runs) distances:f8(n_runs)
moments_sparse: CSR weights:f8(n) weight:f8(1) mean:f8(d) scatter:f8(d)
cluster_sums_sparse: CSR weights:f8(n) labels:i8(n) wanted:b1(k) around:f8(k,d) k totals:f8(k)
    sums:f8(k,d) team:t
best_scores_sparse: CSR matrix:f8(d,k) offsets:f8(k) k labels:i8(n) best:f8(n) second:f8(n)
as_rows: wide:i columns:i8(d) n d out:*(n,d)
hash_sums: bytes:i words:*(n,d) factors:u8(d) more:?u8(n) place:u n d sums:u8(2)
"""
_CSR = "dtype:i long_indices:i long_starts:i data:* indices:* indptr:*(n) n d"
_NUMBERS: dict[str, Any] = {
    "": ctypes.c_int64, "i": ctypes.c_int32, "f": ctypes.c_double, "u": ctypes.c_uint64,
}  # fmt: skip


class _Array(NamedTuple):
    """What an argument that is an array must be."""

    position: int
    name: str
    optional: bool
    dtype: np.dtype[Any] | None
    """None for any."""
    size: tuple[int, ...]
    """Positions of the arguments that are its dimensions."""


class _Function:
    """One function of the library, which checks its arrays before it is called."""

    def __init__(self, library: ctypes.CDLL, name: str, arguments: str) -> None:
        parts = [each.partition(":")[::2] for each in arguments.replace("CSR", _CSR).split()]
        names = [name for name, _ in parts]
        self._call, self._name = getattr(library, f"lwcs_{name}"), name
        self._call.restype = ctypes.c_int32
        self._call.argtypes = [_NUMBERS.get(kind, ctypes.c_void_p) for _, kind in parts]
        self._arrays: list[_Array] = []
        for position, (own, kind) in enumerate(parts):
            if kind in _NUMBERS or kind == "t":
                continue
            dtype, _, size = kind.removeprefix("?").partition("(")
            dimensions = [each for each in size.rstrip(")").split(",") if each in names]
            at = tuple(names.index(each) for each in dimensions)
            fixed = None if dtype == "*" else np.dtype(dtype)
            self._arrays.append(_Array(position, own, kind.startswith("?"), fixed, at))

    def __call__(self, *arguments: Any) -> None:
        given = list(arguments)
        for position, name, optional, dtype, size in self._arrays:
            array = given[position]
            if array is None and optional:
                continue
            kind, flags = array.dtype, array.flags
            if (
                not (flags.c_contiguous and flags.aligned and kind.isnative)
                or array.size < (prod([given[each] for each in size]) if size else 0)
                or (dtype is not None and kind != dtype)
            ):
                raise AssertionError(
                    f"{self._name}: {name} is {kind!r} {array.shape}, {flags.c_contiguous=}, "
                    f"{flags.aligned=}"
                )
            given[position] = array.ctypes.data
        status = self._call(*given)
        if status == 1:
            raise MemoryError(f"not enough memory in {self._name}")
        assert status == 0, self._name


class Library:
    """The functions of the library as attributes."""

    def __init__(self, path: Path, instruction_set: str) -> None:
        self.path, self.instruction_set = path, instruction_set
        loaded = ctypes.CDLL(str(path))
        if getattr(loaded, "lwcs_interface", lambda: 0)() != _INTERFACE:
            raise RuntimeError(
                f"{path} was built for another version of lwcs; install lwcs again, or run make in "
                "a checkout"
            )
        self._new, self._delete = loaded.lwcs_team_new, loaded.lwcs_team_delete
        self._new.argtypes = [ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)]
        self._delete.argtypes, self._delete.restype = [ctypes.c_void_p], None
        for line in _FUNCTIONS.strip().replace("\n    ", " ").splitlines():
            name, _, arguments = line.partition(": ")
            setattr(self, name, _Function(loaded, name, arguments))

    def __getattr__(self, name: str) -> _Function:
        raise AttributeError(name)  # for mypy: functions are set when the library is loaded

    def new_team(self, threads: int) -> int:
        """Threads that share the work of calls, until `delete_team`."""
        team = ctypes.c_void_p()
        if self._new(threads, ctypes.byref(team)):
            raise MemoryError("not enough memory for threads")
        assert team.value is not None
        return team.value

    def delete_team(self, team: int) -> None:
        """End these threads."""
        self._delete(team)


def _path(instruction_set: str) -> Path:
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    folder = os.environ.get("LWCS_NATIVE") or Path(__file__).parent / "lib"
    return Path(folder) / f"lwcs_{instruction_set}{suffix}"


@cache
def load() -> Library | None:
    """Load the library for this processor; None if none was built for this platform."""
    baseline = _path("baseline")
    if not baseline.exists():
        return None
    try:
        best = INSTRUCTION_SETS[ctypes.CDLL(str(baseline)).lwcs_instruction_set()]
    except OSError:  # built for another platform
        return None
    wanted = os.environ.get("LWCS_ISA") or best
    check_choice(wanted, "LWCS_ISA", tuple(INSTRUCTION_SETS.values()))
    path = _path(wanted)
    return Library(path, wanted) if path.exists() else Library(baseline, "baseline")
