"""Kinds of data, recognized by their type: paths, tables, queries, streams, data of engines.

Neither an engine nor a table library is imported to find out, and no data is read.
"""

from __future__ import annotations

import os

from lwcs.storage.persistence import Tabular

_TABLE_LIBRARIES = {"pandas", "polars", "pyarrow", "modin", "cudf"}
_CHUNKED_LIBRARIES = {"h5py", "zarr"}
_ENGINES = {"dask": "dask", "pyspark": "spark", "ray": "ray"}
_TABLES = {
    ("pyarrow", "Dataset"): "datasets",
    ("pyarrow", "Scanner"): "datasets",
    ("deltalake", "DeltaTable"): "table_formats",
    ("pyiceberg", "Table"): "table_formats",
    ("pyiceberg", "TableScan"): "table_formats",
    ("pyiceberg", "BaseScan"): "table_formats",
}
"""Libraries and names of types, and the module of sources.tables that opens them."""


def _libraries_of(data: object) -> set[str]:
    """The libraries that define the type of data, or one that it inherits from."""
    return {base.__module__.split(".")[0] for base in type(data).__mro__}


def is_path(data: object) -> bool:
    """Whether data is a path, or a list of paths, rather than rows."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(is_path(one) for one in data)
    return isinstance(data, (str, os.PathLike))


def engine_of(data: object) -> str | None:
    """The engine that data belongs to, or None."""
    if isinstance(data, (list, tuple)):
        # A list of Delayed is one table, whose parts are still to be computed.
        delayed = bool(data) and all(type(part).__name__ == "Delayed" for part in data)
        return engine_of(data[0]) if delayed else None
    return next((_ENGINES[name] for name in _libraries_of(data) if name in _ENGINES), None)


def is_table(data: object) -> bool:
    """Whether data is a table in memory."""
    libraries = _libraries_of(data)
    if "pyarrow" in libraries:
        return type(data).__name__ in ("Table", "RecordBatch")
    return bool(libraries & _TABLE_LIBRARIES)


def is_chunked(data: object) -> bool:
    """Whether data is a dataset of h5py or an array of zarr, or a group of these."""
    return bool(_libraries_of(data) & _CHUNKED_LIBRARIES)


def library_of_table(data: object) -> str | None:
    """The module that opens a dataset, or a table with versions; None for other data."""
    known = [(base.__module__.split(".")[0], base.__name__) for base in type(data).__mro__]
    return next((_TABLES[each] for each in known if each in _TABLES), None)


def is_query(data: object) -> bool:
    """Whether data hands over record batches: a lazy frame, a relation, a reader, a dataset."""
    if library_of_table(data) is not None:
        return True
    if {base.__name__ for base in type(data).__mro__} & {"LazyFrame", "RecordBatchReader"}:
        return True
    if engine_of(data) is not None or isinstance(data, Tabular):
        return False
    in_memory = type(data).__module__.split(".")[0] in {*_TABLE_LIBRARIES, "numpy"}
    return not in_memory and hasattr(data, "__arrow_c_stream__")


def is_stream(data: object) -> bool:
    """Whether data is an iterator or an iterable, but not a container of rows."""
    if hasattr(data, "__next__"):
        return True
    if engine_of(data) is not None:
        return False
    container = any(hasattr(data, name) for name in ("__len__", "__array__", "shape"))
    return hasattr(data, "__iter__") and not container and not is_table(data)
