"""Rows in memory of which those with a missing value are dropped.

They keep their numbers, with weight 0: so they are never drawn, and get no label.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import refuse_masked
from lwcs.arrays.device import ArrayOrigin, DeviceArray, library_of, rows_of
from lwcs.arrays.rows import is_missing, is_sparse, with_ones
from lwcs.sources.base import Source, check_dtype, check_shape
from lwcs.sources.memory.in_process import LocalSource
from lwcs.sources.scan_options import ScanOptions
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, IntArray, Mask, Rows
    from lwcs.sources.base import Block


class DroppingSource(LocalSource):
    """The rows of another source, without those that have a missing value."""

    def __init__(self, whole: LocalSource) -> None:
        self.whole = whole
        self.n_rows, self.n_features = whole.n_rows, whole.n_features
        self.feature_names, self.skipped = whole.feature_names, whole.skipped
        self.weighted, self.gone = whole.weighted, missing_rows(whole)
        self.dropped = int(self.gone.sum())
        ones = np.ones(self.n_rows) if whole.weights is None else whole.weights
        self.weights = np.where(self.gone, 0.0, ones)

    @property
    def block_rows(self) -> int:
        """As many as there were."""
        return self.whole.block_rows

    def estimate_values(self) -> int:
        """As many as there were."""
        return self.whole.estimate_values()

    def row_bytes(self) -> float:
        """As many as there were."""
        return self.whole.row_bytes()

    def limit_memory(self, limit: int) -> None:
        """As the other source limits it."""
        self.whole.limit_memory(limit)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start … stop, with ones in those that are dropped."""
        return with_ones(self.whole.read(start, stop), self.gone[start:stop])

    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows."""
        return with_ones(self.whole.take(rows), self.gone[rows])

    def _block(self, piece: slice, first: int) -> Block:
        gone = self.gone[first + piece.start : first + piece.stop]
        return replace(super()._block(piece, first), dropped=gone if gone.any() else None)


def missing_rows(source: LocalSource) -> Mask:
    """The rows of a source that have a null or NaN."""
    if hasattr(source, "missing_rows"):
        found: Mask = source.missing_rows()
        return found
    parts = list(source.each_block(lambda block: is_missing(block.points)))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def without_missing(source: LocalSource) -> LocalSource:
    """A source without the rows that have a missing value; itself, if there are none."""
    found = DroppingSource(source)
    return found if found.dropped else source


class ArraySource(LocalSource):
    """A two-dimensional array; blocks are views of it."""

    feature_names = None

    def __init__(self, array: DenseRows) -> None:
        self.array = array
        self.dtype = array.dtype.newbyteorder("=")
        self.n_rows, self.n_features = array.shape
        computable = array.dtype in (np.float32, np.float64) and array.dtype.isnative
        self.gives_views = computable and array.flags.c_contiguous

    def read(self, start: int, stop: int) -> DenseRows:
        """Return a view; a copy only if the byte order is not native."""
        return self.array[start:stop].astype(self.dtype, copy=False)

    def take(self, rows: IntArray) -> DenseRows:
        """Copy the requested rows."""
        if self.gives_views:
            # Faster than an index; other arrays would be copied as a whole.
            return np.asarray(self.array).take(rows, axis=0)
        return np.ascontiguousarray(self.array[rows], dtype=self.dtype)


def as_table_of_numbers(data: object) -> DenseRows:
    """Turn an array-like into a two-dimensional array of real numbers, or refuse it."""
    refuse_masked(data, "data")
    try:
        array = np.asarray(data)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                "rows have different lengths; every row must have the same number of columns"
            ) from None
        raise
    if array.dtype == object and array.ndim == 2 and all(_is_number(value) for value in array.flat):
        # Columns of different types, as df.to_numpy() returns them; fit takes them, too.
        array = array.astype(np.float64)
    check_dtype(array.dtype, f" (type {type(data).__name__})")
    check_shape(array.shape)
    return array.view(np.uint8) if array.dtype.kind == "b" else array


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float | np.bool_ | np.integer | np.floating)


_TABLE_LIBRARIES = {"pandas", "polars", "pyarrow", "modin", "cudf"}
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

        return without_missing(source)
    return source


def _open(data: Any, options: ScanOptions) -> LocalSource:
    if isinstance(data, Tabular):
        raise data._refused_as_rows()
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
        from lwcs.sources.memory.dataframes import TableSource

        table = TableSource(data, options)
        if weight is not None:
            return _weighted(table, table.weight_values, f"weight column {weight!r}")
        return _weighted(table, given, "sample_weight")
    options.refuse_columns(f"data of type {type(data).__name__}")
    if isinstance(data, DeviceArray) or library_of(data) is not None:
        return _weighted(_open_foreign(data), given, "sample_weight")
    if is_sparse(data):
        from lwcs.sources.memory.sparse import SparseSource

        return _weighted(SparseSource(data), given, "sample_weight")
    return _weighted(ArraySource(as_table_of_numbers(data)), given, "sample_weight")


def _open_foreign(data: Any) -> LocalSource:
    """Open an array of another library: where it is, unless that is the host."""
    rows = data if isinstance(data, DeviceArray) else rows_of(data)
    source: LocalSource
    if isinstance(rows, DeviceArray):
        from lwcs.sources.memory.tensors import DeviceSource

        source = DeviceSource(rows)
    else:
        source = ArraySource(as_table_of_numbers(rows))
    source.like = ArrayOrigin.of(rows.tensor if data is rows else data)
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
    """The module that opens a dataset, or a table with versions; None for other data."""
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
