"""Columns that look like identifiers: told by their names, and by numbers that never repeat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

_LAST_WORDS = {"id", "uid", "uuid", "guid", "oid", "pk", "rowid"}
_WHOLE_NAMES = {"index", "idx", "row", "row_number", "rownumber", "rownum", "unnamed_0"}


def identifiers_among(numbers: Mapping[str, Any]) -> list[str]:
    """The columns of whole numbers that have the name of an identifier, or never repeat."""
    whole = {name: values for name, values in numbers.items() if _are_integers(values)}
    distinct = [name for name, values in whole.items() if _never_repeat(values)]
    # If all of them look like that, none of them is told apart by it.
    telling = distinct if len(distinct) < len(numbers) else []
    named = [n for n, v in whole.items() if named_like_identifier(n) and v.min() < v.max()]
    return [name for name in whole if name in telling or name in named]


def named_like_identifier(name: str) -> bool:
    """Whether a column has a name such as id, customer_id, customerId, uuid or index."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = [word for word in re.split(r"[^a-z0-9]+", apart.lower()) if word]
    if not words:
        # pandas writes its index without a name.
        return not name.strip()
    return words[-1] in _LAST_WORDS or words[0] == "id" or "_".join(words) in _WHOLE_NAMES


def _are_integers(values: Any) -> bool:
    with np.errstate(invalid="ignore"):
        # Most columns of other numbers are told by their first value.
        return (
            len(values) > 0
            and bool(values[0] == np.floor(values[0]))
            and np.array_equal(values, np.floor(values))
        )


def _never_repeat(values: Any) -> bool:
    """Whether values are all different: many of them, or a counter."""
    n = len(values)
    if n < 100 or len(np.unique(values)) < n:
        return False
    return n >= 1000 or float(values.max()) - float(values.min()) == n - 1
