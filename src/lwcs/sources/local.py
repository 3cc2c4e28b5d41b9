"""Which local source fits a piece of data, told by its type; its weights, checked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lwcs.foundation.checks import check_weights
from lwcs.foundation.types import is_sparse
from lwcs.sources.arrays import ArraySource, as_table_of_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.sources.base import LocalSource

_TABLE_LIBRARIES = {"pandas", "polars", "pyarrow", "modin", "cudf"}
_ENGINES = {"dask": "dask", "pyspark": "spark", "ray": "ray"}


def open_local(
    data: Any,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    sample_weight: Any = None,
) -> LocalSource:
    """Open rows that are in this process; they may be none at all."""
    if weight is not None and sample_weight is not None:
        raise ValueError(
            f"weights are given twice, by weight={weight!r} and by sample_weight; pass one of them"
        )
    if not is_table(data) and not is_sparse(data) and _speaks_arrow(data):
        import pyarrow as pa

        # A record batch is an array to Arrow, and a table to everybody else.
        data = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else pa.table(data)
    if is_table(data):
        from lwcs.sources.tables import TableSource

        table = TableSource(data, columns, weight)
        if weight is not None:
            return _weighted(table, table.weight_values, f"weight column {weight!r}")
        return _weighted(table, sample_weight, "sample_weight")
    if columns is not None or weight is not None:
        raise TypeError(
            f"columns= and weight= name columns, which {type(data).__name__} data has not; "
            "index the array, and pass weights as sample_weight="
        )
    if is_sparse(data):
        from lwcs.sources.sparse import SparseSource

        return _weighted(SparseSource(data), sample_weight, "sample_weight")
    return _weighted(ArraySource(as_table_of_numbers(data)), sample_weight, "sample_weight")


def is_path(data: object) -> bool:
    """Whether data is the name of files rather than rows."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(is_path(one) for one in data)
    return isinstance(data, (str, os.PathLike))


def engine_of(data: object) -> str | None:
    """Which engine's data this is, if it is; told by its type, so that none is imported."""
    homes = [base.__module__.split(".")[0] for base in type(data).__mro__]
    return next((_ENGINES[home] for home in homes if home in _ENGINES), None)


def is_stream(data: object) -> bool:
    """Whether data is an iterator, or something that makes them, and no container of rows."""
    if hasattr(data, "__next__"):
        return True
    if engine_of(data) is not None:
        return False
    container = any(hasattr(data, name) for name in ("__len__", "__array__", "shape"))
    return hasattr(data, "__iter__") and not container and not is_table(data)


def is_query(data: object) -> bool:
    """Whether data hands itself over in batches: a lazy frame, a relation, a reader."""
    home = type(data).__module__.split(".")[0]
    if {base.__name__ for base in type(data).__mro__} & {"LazyFrame", "RecordBatchReader"}:
        return True
    if engine_of(data) is not None:
        return False
    known = ("pandas", "pyarrow", "polars", "numpy", "modin", "cudf")
    return home not in known and hasattr(data, "__arrow_c_stream__")


def _weighted(source: LocalSource, weights: Any, name: str) -> LocalSource:
    if weights is not None:
        source.weights = check_weights(weights, source.n_rows, name)
        source.weighted = True
    return source


def _speaks_arrow(data: object) -> bool:
    """Whether `data` hands itself over through the Arrow C interface (DuckDB, readers …)."""
    return hasattr(data, "__arrow_c_stream__") or type(data).__name__ == "RecordBatch"


def is_table(data: object) -> bool:
    """Whether a table library made `data`; told by its type, so that none is imported."""
    homes = {base.__module__.split(".")[0] for base in type(data).__mro__}
    if "pyarrow" in homes:
        return type(data).__name__ == "Table"
    return bool(homes & _TABLE_LIBRARIES)
