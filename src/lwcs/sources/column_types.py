"""Types of columns, as Arrow has them: numbers, vectors, and names and advice for all others.

Columns that look like identifiers are recognized by their names, and by numbers that never repeat.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_LAST_WORDS = {"id", "uid", "uuid", "guid", "oid", "pk", "rowid"}
# Largest distance of the distribution of identifiers from a uniform one. Amounts with a normal
# distribution are off by 0.2 and more, those with a skew by more than that.
_EVENLY = 0.1
_WHOLE_NAMES = {"index", "idx", "row", "row_number", "rownumber", "rownum", "unnamed_0"}


def identifiers_among(numbers: Mapping[str, Any]) -> list[str]:
    """The columns of whole numbers that have the name of an identifier, or never repeat."""
    whole = {name: values for name, values in numbers.items() if _are_integers(values)}
    distinct = [name for name, values in whole.items() if _never_repeat(values)]
    # If all columns look like that, it says nothing about any of them.
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
        # The first value rules out most columns of other numbers.
        return (
            len(values) > 0
            and bool(values[0] == np.floor(values[0]))
            and np.array_equal(values, np.floor(values))
        )


def _never_repeat(values: Any) -> bool:
    """Whether values never repeat, and are spread evenly, as numbers that were assigned are.

    Amounts that never repeat are denser in some parts of their range than in others.
    """
    distinct, n = np.unique(values).astype(np.float64), len(values)
    if n < 100 or len(distinct) < n:
        return False
    places = (distinct - distinct[0]) / (distinct[-1] - distinct[0])
    evenly = np.abs(places - np.arange(n) / (n - 1)).max() < _EVENLY
    return bool(evenly) and (n >= 1000 or float(distinct[-1]) - float(distinct[0]) == n - 1)


_PANDAS = b"pandas"
_INDEX_LEVEL = re.compile(r"__index_level_\d+__")


def pandas_index(schema: pa.Schema) -> list[str]:
    """The columns that hold the index of a pandas table.

    pandas names them in the metadata of a file. Where these were lost, as in queries and on
    engines, the names that pandas gives to an index without a name tell.
    """
    levels: list[Any] = []
    with suppress(ValueError, AttributeError):
        levels = json.loads((schema.metadata or {}).get(_PANDAS, b"{}")).get("index_columns") or []
    named = {level for level in levels if isinstance(level, str)}
    return [name for name in schema.names if name in named or _INDEX_LEVEL.fullmatch(name)]


def with_pandas_index(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """The schema, with metadata which says that these columns are the index of a pandas table."""
    index = {"index_columns": list(dict.fromkeys(names))}
    return schema.with_metadata({_PANDAS: json.dumps(index)} if index["index_columns"] else None)


LOST = b"lwcs.lost"
"""Key in the metadata of a field whose whole numbers are not the same in float64."""
WHY = b"lwcs.why"
"""Key of the metadata of a field: why a column that might hold numbers is text."""
SPARSE = 0
"""The type of a Spark vector that is sparse."""

AS_DAYS = "read them as days since 1970 with lwcs.scan(…, dates='days')"

_OTHERS = (
    (
        ("string", "large_string", "string_view"),
        "text",
        "encode it as numbers in memory first, for example with skrub.TableVectorizer",
    ),
    (
        ("dictionary",),
        "categories",
        "encode them as numbers in memory first, for example with skrub.TableVectorizer",
    ),
    (
        ("timestamp", "date"),
        "dates",
        AS_DAYS,
    ),
    (("time",), "times of day", "turn them into numbers, for example seconds"),
    (
        ("duration",),
        "durations",
        "turn them into numbers, for example seconds (dt.total_seconds())",
    ),
    (
        ("binary", "large_binary", "fixed_size_binary", "binary_view"),
        "bytes",
        "decode them into numbers",
    ),
    (("null",), "no values", "fill it with numbers"),
    (("struct",), "records", "select fields of them as columns"),
)
"""Types that are not numbers: what such a column holds, and how to turn it into numbers."""


def _is_any(kind: pa.DataType, names: tuple[str, ...]) -> bool:
    """Whether a type is one of those that `pyarrow.types` has predicates for."""
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column holds numbers or booleans."""
    return _is_any(kind, ("integer", "floating", "boolean", "decimal"))


def is_date(kind: pa.DataType) -> bool:
    """Whether a column holds dates, with or without a time of day."""
    return _is_any(kind, ("timestamp", "date"))


def days_of(column: pa.Array) -> pa.Array:
    """Dates as days since the first of January 1970; times of day are fractions (of UTC)."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32()).cast(pa.float64())
    per_day = (
        86_400
        * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[
            "ms" if pa.types.is_date64(column.type) else column.type.unit
        ]
    )
    return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), float(per_day))


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column (of a `plain_type`) holds vectors of numbers."""
    return bool(pa.types.is_fixed_size_list(kind) and is_number(kind.value_type))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists whose length is not part of the type."""
    return _is_any(kind, ("list", "large_list", "list_view", "large_list_view"))


def is_spark_vector(kind: pa.DataType) -> bool:
    """Whether a column holds vectors of Spark ML: structs of a type, a size, indices, values."""
    wanted = {"type", "size", "indices", "values"}
    return pa.types.is_struct(kind) and {field.name for field in kind} == wanted


def plain_type(kind: pa.DataType) -> pa.DataType:
    """A type of vectors as a list of a fixed size, which is 0 where it is not part of the type."""
    if is_spark_vector(kind):
        return pa.list_(pa.float64(), 0)
    if isinstance(kind, pa.FixedShapeTensorType) and len(kind.shape) != 1:
        return pa.list_(pa.list_(kind.value_type, 0), 0)
    if isinstance(kind, pa.BaseExtensionType) and hasattr(kind, "shape"):
        values = getattr(kind.storage_type, "value_type", pa.float64())
        known = kind.shape is not None and len(kind.shape) == 1 and kind.shape[0]
        return pa.list_(values, int(kind.shape[0]) if known else 0)
    if is_list(kind):
        return pa.list_(kind.value_type, 0)
    return kind


def shape_of(vector: Any, name: str) -> tuple[int, bool]:
    """Length of a vector, and whether it is a sparse one of Spark."""
    if isinstance(vector, dict):
        sparse = vector["type"] == SPARSE
        return (vector["size"] if sparse else len(vector["values"])), sparse
    shape = np.shape(vector)
    if len(shape) != 1:
        raise ValueError(
            f"column {name!r} holds arrays of shape {shape}; pass vectors of shape (n_features,)"
        )
    return shape[0], False


def _is_some_list(kind: pa.DataType) -> bool:
    return is_list(kind) or pa.types.is_fixed_size_list(kind)


def content_of(kind: pa.DataType) -> str:
    """Describe in words what a column that is not numeric holds."""
    if _is_some_list(kind):
        inner = kind.value_type
        return f"lists of {'numbers' if is_number(inner) else content_of(inner)}"
    return next((words for names, words, _ in _OTHERS if _is_any(kind, names)), str(kind))


def advice_for(kind: pa.DataType) -> str:
    """Advice on how to turn a column that is not numeric into numbers."""
    if _is_some_list(kind):
        return "turn them into lists of numbers, all of one length"
    advice = (advice for names, _, advice in _OTHERS if _is_any(kind, names))
    return next(advice, "turn it into numbers")


def content_and_advice(kind: pa.DataType) -> str:
    """Describe what a column that is left out holds, and how to turn it into numbers.

    Text, which most tables have beside their numbers, gets no advice.
    """
    words = content_of(kind)
    return words if words == "text" else f"{words}; {advice_for(kind)}"


def numpy_type(kind: pa.DataType, name: str, why: str = "") -> np.dtype[Any]:
    """The dtype of a column of numbers; any other column is refused."""
    if not is_number(kind):
        words = content_of(kind)
        plain = words == str(kind) or pa.types.is_fixed_size_list(kind)
        exact = "" if plain else f" ({kind})"
        raise TypeError(
            f"column {name!r} holds {why or f'{words}{exact}, not numbers; {advice_for(kind)}'}, "
            "or select other columns with columns=[…]"
        )
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    return np.dtype(np.uint8 if pa.types.is_boolean(kind) else kind.to_pandas_dtype())


def numbers_of(column: pa.Array) -> np.ndarray[Any, Any]:
    """The values of a column of numbers, each the nearest float64 for decimals; 0 for nulls."""
    if column.null_count:
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    if pa.types.is_decimal(column.type):
        # A cast from decimals is off by one unit in the last place for a third of all values;
        # the text of a number is parsed to the nearest one.
        column = column.cast(pa.string()).cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))
