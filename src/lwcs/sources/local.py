"""What kind of data an object is, told by its type; sources for rows in this process."""

from __future__ import annotations

import os
from typing import Any

from lwcs.foundation.device import DeviceArray, Like, library_of, rows_of
from lwcs.foundation.tabular import Tabular, refuse_results
from lwcs.foundation.types import is_sparse
from lwcs.sources.arrays import ArraySource, as_table_of_numbers
from lwcs.sources.base import Source
from lwcs.sources.in_process import LocalSource
from lwcs.sources.options import ScanOptions

_TABLE_LIBRARIES = {"pandas", "polars", "pyarrow", "modin", "cudf"}
_ENGINES = {"dask": "dask", "pyspark": "spark", "ray": "ray"}
_TABLES = {
    ("pyarrow", "Dataset"): "datasets",
    ("pyarrow", "Scanner"): "datasets",
    ("deltalake", "DeltaTable"): "delta",
    ("pyiceberg", "Table"): "iceberg",
    ("pyiceberg", "TableScan"): "iceberg",
    ("pyiceberg", "BaseScan"): "iceberg",
}
"""Libraries and names of types, and the module of this package that opens them."""


_DEFAULT = ScanOptions()


def open_local(data: Any, options: ScanOptions = _DEFAULT) -> LocalSource:
    """Open rows that are in this process, or opened already; there may be no rows at all."""
    source = _open(data, options)
    if options.drop and source.n_rows:
        if isinstance(getattr(source, "array", None), DeviceArray):
            raise ValueError(
                "missing='drop' is not possible for rows on a device; drop them beforehand: "
                f"{source.dropping}"
            )
        from lwcs.sources.dropping import without_missing

        return without_missing(source)
    return source


def _open(data: Any, options: ScanOptions) -> LocalSource:
    refuse_results(data)
    _refuse_elsewhere(data)
    weight, given = options.weight_column, options.weight_array
    if isinstance(data, LocalSource):
        options.refuse_columns("an array")
        return _weighted(data, given, "sample_weight")
    if not is_table(data) and not is_sparse(data) and hasattr(data, "__arrow_c_stream__"):
        import pyarrow as pa

        try:
            data = pa.table(data)
        except pa.ArrowInvalid as error:
            raise TypeError(
                f"data of type {type(data).__name__} is not a table: {error}; pass a table"
            ) from None
    if is_table(data):
        from lwcs.sources.tables import TableSource

        table = TableSource(data, options)
        if weight is not None:
            return _weighted(table, table.weight_values, f"weight column {weight!r}")
        return _weighted(table, given, "sample_weight")
    options.refuse_columns(f"data of type {type(data).__name__}")
    if isinstance(data, DeviceArray) or library_of(data) is not None:
        return _weighted(_open_foreign(data), given, "sample_weight")
    if is_sparse(data):
        from lwcs.sources.sparse import SparseSource

        return _weighted(SparseSource(data), given, "sample_weight")
    return _weighted(ArraySource(as_table_of_numbers(data)), given, "sample_weight")


def _open_foreign(data: Any) -> LocalSource:
    """Open an array of another library: where it is, unless that is the host."""
    rows = data if isinstance(data, DeviceArray) else rows_of(data)
    source: LocalSource
    if isinstance(rows, DeviceArray):
        from lwcs.sources.device import DeviceSource

        source = DeviceSource(rows)
    else:
        source = ArraySource(as_table_of_numbers(rows))
    source.like = Like.of(rows.tensor if data is rows else data)
    return source


def is_path(data: object) -> bool:
    """Whether data is a path, or a list of paths, rather than rows."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(is_path(one) for one in data)
    return isinstance(data, (str, os.PathLike))


def _refuse_elsewhere(data: object) -> None:
    """Refuse data that is not in this process where its rows are meant: it may be larger."""
    path = isinstance(data, (str, os.PathLike))
    if isinstance(data, LocalSource) or not (
        engine_of(data) or path or is_query(data) or isinstance(data, Source)
    ):
        return
    kind = "a path" if path else f"of type {type(data).__module__}.{type(data).__name__}"
    raise TypeError(
        f"data is {kind}, whose rows are not in memory, as is expected here; pass its parts one "
        "after the other, or a coreset of it: stream.update(lwcs.build(data, size))"
    )


def engine_of(data: object) -> str | None:
    """The engine that data belongs to, or None; told by its type, so that none is imported."""
    if isinstance(data, (list, tuple)):
        # One part after the other, each still to be computed.
        delayed = bool(data) and all(type(part).__name__ == "Delayed" for part in data)
        return engine_of(data[0]) if delayed else None
    homes = [base.__module__.split(".")[0] for base in type(data).__mro__]
    return next((_ENGINES[home] for home in homes if home in _ENGINES), None)


def is_stream(data: object) -> bool:
    """Whether data is an iterator or an iterable, but not a container of rows."""
    if hasattr(data, "__next__"):
        return True
    if engine_of(data) is not None:
        return False
    container = any(hasattr(data, name) for name in ("__len__", "__array__", "shape"))
    return hasattr(data, "__iter__") and not container and not is_table(data)


def library_of_table(data: object) -> str | None:
    """What opens a dataset, or a table with versions: "datasets", "delta" or "iceberg", or None."""
    known = [(base.__module__.split(".")[0], base.__name__) for base in type(data).__mro__]
    return next((_TABLES[each] for each in known if each in _TABLES), None)


def is_query(data: object) -> bool:
    """Whether data hands over record batches: a lazy frame, a relation, a reader, a dataset."""
    if library_of_table(data) is not None:
        return True
    home = type(data).__module__.split(".")[0]
    if {base.__name__ for base in type(data).__mro__} & {"LazyFrame", "RecordBatchReader"}:
        return True
    if engine_of(data) is not None or isinstance(data, Tabular):
        return False
    known = ("pandas", "pyarrow", "polars", "numpy", "modin", "cudf")
    return home not in known and hasattr(data, "__arrow_c_stream__")


def _weighted(source: LocalSource, weights: Any, name: str) -> LocalSource:
    if weights is not None:
        source.set_weights(weights, name)
    return source


def is_table(data: object) -> bool:
    """Whether data is a table in memory; told by its type, so that no library is imported."""
    homes = {base.__module__.split(".")[0] for base in type(data).__mro__}
    if "pyarrow" in homes:
        return type(data).__name__ in ("Table", "RecordBatch")
    return bool(homes & _TABLE_LIBRARIES)
