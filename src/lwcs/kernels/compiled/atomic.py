"""Atomic numbers, by which threads inside of compiled code hand out work among themselves.

numba has them for GPUs only; LLVM has them for every processor. A read acquires and a change
releases: whoever sees the new number also sees everything that was written before it.
"""

from __future__ import annotations

from typing import Any

from numba import extending, types
from numba.core import cgutils

_BYTES = 8
# Typed by what they generate, not by what they are.
_intrinsic: Any = extending.intrinsic
_item: Any = cgutils.get_item_pointer


def _address(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Where numbers[at] is."""
    array = context.make_array(signature.args[0])(context, builder, values[0])
    return _item(context, builder, signature.args[0], array, [values[1]], wraparound=False)


@_intrinsic
def read(typing, numbers, at):  # type: ignore[no-untyped-def]
    """numbers[at]."""
    del typing, at

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, values)
        return builder.load_atomic(address, "acquire", _BYTES)

    return types.int64(numbers, types.intp), generate


@_intrinsic
def add(typing, numbers, at, step):  # type: ignore[no-untyped-def]
    """numbers[at] += step; returns what was there before."""
    del typing, at, step

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, values)
        return builder.atomic_rmw("add", address, values[2], "acq_rel")

    return types.int64(numbers, types.intp, types.int64), generate


@_intrinsic
def replace(typing, numbers, at, old, new):  # type: ignore[no-untyped-def]
    """If numbers[at] == old, numbers[at] = new; returns whether it was."""
    del typing, at, old, new

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, values)
        pair = builder.cmpxchg(address, values[2], values[3], "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(numbers, types.intp, types.int64, types.int64), generate
