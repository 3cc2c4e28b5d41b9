"""Amounts of memory, as users write them."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def parsed(text: str) -> int | None:
    """Turn 512MB into 512000000; None if it is not an amount of memory."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMG]?I?)B?", text.strip().upper())
    if match is None or match[2] not in _UNITS:
        return None
    return int(float(match[1]) * _UNITS[match[2]])


def as_bytes(memory_limit: Any) -> int | None:
    """Turn a number of bytes, or a text such as ``"512MB"``, into bytes."""
    if memory_limit is None:
        return None
    integer = isinstance(memory_limit, Integral) and not isinstance(memory_limit, bool)
    found = parsed(memory_limit) if isinstance(memory_limit, str) else None
    amount = int(memory_limit) if integer else found
    if amount is None or amount < 1:
        raise ValueError(
            f"memory_limit={memory_limit!r} is not an amount of memory; pass a number of bytes, or "
            "a text such as '512MB' or '2GB'"
        )
    return amount
