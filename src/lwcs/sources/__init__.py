"""Where rows live: `scan` turns whatever holds them into a Source.

What opens one kind of data is imported when such data is opened, so that no fit loads the readers
of another kind.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs.arrays.checks import check_choice, check_count, check_memory_limit
from lwcs.arrays.device import library_of
from lwcs.sources.base import PARTITION_ROWS, Block, ScaleName, Source, Task
from lwcs.sources.kinds import engine_of, is_chunked, is_path, is_query, is_stream, is_table
from lwcs.sources.memory.local import LocalSource, open_rows
from lwcs.sources.scan_options import Dialect, Fitted, ScanOptions, read_as
from lwcs.storage.locations import Access

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "PARTITION_ROWS",
    "Block",
    "LocalSource",
    "ScanOptions",
    "Source",
    "Task",
    "needs_scan",
    "scan",
]


def scan(
    data: Any,
    *,
    columns: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    weight: Any = None,
    missing: Literal["error", "drop"] = "error",
    dates: Literal["days"] | None = None,
    scale: ScaleName | float | Sequence[float] | None = None,
    batch_size: int | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    format: str | None = None,  # noqa: A002
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    memory_limit: int | str | None = None,
) -> Source:
    """Describe what to read and how. Rows are read later, by the functions that take a Source.

    Parameters
    ----------
    data : array, sparse array, table, path, query, stream, or data of an engine
        - NumPy arrays, memory maps, scipy sparse arrays, lists of rows; pandas, polars and
          pyarrow tables. Arrays are not copied; sparse data is never made dense. A list of
          two-dimensional arrays or tables is a list of partitions, as in `PartitionedSource`.
        - Paths of files, which may be larger than memory: Parquet, Feather, CSV (also compressed),
          .npy, .npz, HDF5 and zarr; a file, a glob, a folder, a URI, or a list of these. Several
          files are one sequence of rows. Columns from the names of folders (hive partitions) are
          left out, with a warning, unless `columns` names them.
        - Tables with versions: the folder of a Delta table, a deltalake DeltaTable, a pyiceberg
          Table or DataScan. All passes see the version at the time of the scan, which is noted in
          ``Coreset.details["table_version"]``.
        - Datasets and Scanners of pyarrow, with their filters and projections.
        - Datasets of h5py and arrays of zarr, which are read block by block.
        - Lazy queries: a polars LazyFrame, a DuckDB relation; executed again for every pass.
        - Rows that can be read only once: a pyarrow RecordBatchReader, a generator of arrays.
        - Rows on a cluster: a Dask array, DataFrame or list of Delayed, a Spark DataFrame, a Ray
          Dataset. The computation runs on the cluster, in the two rounds of the paper.
        - Objects that a registered subclass of `Source` accepts (see `Source`).

        A Source is returned unchanged.
    columns : str or list of str, optional
        The columns of a table to use, in this order, by name or by patterns such as ``"x*"``. By
        default, these are all columns of numbers and booleans except `weight`; or, if there is a
        column that holds vectors (lists of one length), that column alone. A `ColumnWarning`
        names the columns that are left out, and those that look like identifiers.
    exclude : str or list of str, optional
        Columns that are not used, by name or pattern. No warning is given about these.
    weight : str or array of shape (n_rows,), optional
        One weight >= 0 per row: the name of the column of a table that holds the weights, or the
        weights themselves, for rows in memory and on Dask (for a Dask array, a Dask array; for a
        Dask DataFrame, a Dask Series).
    missing : {"error", "drop"}
        What to do with rows that have a null or NaN: raise an error that names the row, or drop
        them. Dropped rows keep their numbers, have the label −1, and are counted in
        ``Coreset.details["dropped"]``.
    dates : {"days"}, optional
        Use columns of dates as numbers: days since the first of January 1970, with the time of day
        (of UTC) as a fraction. In CSV files, these are dates such as 2024-01-31, also with a time,
        31.01.2024, and 31/01/2024 or 01/31/2024 where the first rows tell which. By default, dates
        are left out.
    scale : {"standard"}, float or array of shape (n_features,), optional
        - "standard": measure distances in standard deviations of each column. Rows keep their
          units: a coreset holds rows of the data and the `scale`, and centers are in the units of
          the data. Sparse data stays sparse. A build then makes two passes.
        - One number > 0, or one per column: the rows were quantized, and stand for X·scale. They
          are multiplied block by block as they are read, in float32 if X is of float16, bfloat16,
          int8 or uint8; on a device as a whole. Coresets and centers are in the units of X·scale.
          Pass rows to `predict` in the same way.
    batch_size : int, optional
        Number of rows that are read from a file at a time, for when memory is tight. Results do
        not depend on it.
    delimiter, decimal, thousands, encoding : str, optional
        How CSV files are written: the characters between values, before decimals and between
        thousands, and the encoding. By default, these are recognized from the first lines, except
        for separators between thousands, which must be given.
    header : bool, optional
        Whether the first line of CSV files holds the names of the columns; by default, that is
        recognized, too.
    format : {"parquet", "feather", "csv", "tsv", "npy", "npz", "hdf5", "zarr"}, optional
        Format of files whose names do not say it, such as presigned URLs.
    filesystem : file system of pyarrow or fsspec, optional
        Where files are; their names are then paths on it. By default, URIs say where files are.
    storage_options : dict, optional
        Options of fsspec for the file system that a URI names, as in pandas: credentials, an
        endpoint, and so on.
    memory_limit : int or str, optional
        Maximum memory for rows that are being read from files and streams, in bytes or as
        ``"512MB"``: on top of what Python, its libraries and the result take. By default, 1 GB,
        or 256 MB per core. With less, fewer rows are read ahead and fewer threads are busy;
        results do not depend on it. Rows in memory are not copied, whatever the limit. What a
        query, a Scanner or an Iceberg table takes by itself comes on top.

    Returns
    -------
    Source

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> lwcs.scan(np.zeros((100, 3)))
    ArraySource(100 × 3, 1 partition)
    """
    if isinstance(scale, str | bool):
        check_choice(str(scale), "scale", ("standard",))
    if isinstance(data, Source):
        given = {
            "columns": columns, "exclude": exclude, "weight": weight, "scale": scale,
            "dates": dates, "format": format, "filesystem": filesystem,
            "storage_options": storage_options, "memory_limit": memory_limit,
        }  # fmt: skip
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name}= is given, but data is a Source already, whose options are fixed; "
                    "pass it to the lwcs.scan that creates the Source"
                )
        return data
    check_choice(missing, "missing", ("error", "drop"))
    if dates is not None:
        check_choice(dates, "dates", ("days",))
    if isinstance(columns, Fitted):
        # Whatever table the dates of a model are in now; rows are left out of files alone.
        dates = columns.reading.get("dates", dates)
        missing = columns.reading.get("missing", missing) if is_path(data) else missing
    if batch_size is not None:
        check_count(batch_size, "batch_size")
    dialect = Dialect(delimiter, decimal, thousands, header, encoding)
    if format is not None:
        from lwcs.sources.remote.paths import FORMATS

        check_choice(format, "format", FORMATS)
    options = ScanOptions(
        columns, exclude, weight, missing, batch_size, dialect,
        Access(filesystem, storage_options), format, check_memory_limit(memory_limit), dates,
        None if isinstance(scale, str) else scale,
    )  # fmt: skip
    source = _open(data, options)
    source.scale = scale if isinstance(scale, str) else None
    source.reading = read_as(options.text, missing if is_path(data) else "error", dates)
    if options.memory_limit is not None:
        source.limit_memory(options.memory_limit)
    return source


def needs_scan(data: Any) -> bool:
    """Whether `scan` opens such data, but scikit-learn would copy or refuse it."""
    # scikit-learn takes bfloat16, whose kind is V, for text.
    own = isinstance(data, np.ndarray) and data.dtype.kind == "V"
    foreign = own or library_of(data) is not None
    return foreign or _registered_for(data) is not None or is_chunked(data) or _is_parts(data)


def _open(data: Any, options: ScanOptions) -> Source:
    """Open data: registered source types first, then the kinds of this library."""
    if (registered := _registered_for(data)) is not None:
        options.refuse_factors(f"that {registered.__name__} opens")
        return registered.open(data, options)
    if is_path(data):
        return _open_files(data, options)
    options.refuse_dialect(f"of type {type(data).__name__}")
    options.refuse_access(f"of type {type(data).__name__}")
    if (engine := engine_of(data)) is not None:
        options.refuse_factors(f"of {engine}")
        return _open_engine(engine, data, options)
    if is_chunked(data):
        from lwcs.sources.files.chunked import open_chunked

        return open_rows(open_chunked(data), options)
    if _is_parts(data):
        from lwcs.sources.memory.partitioned import open_partitions

        return open_partitions(data, options)
    if is_query(data):
        from lwcs.sources.streams import open_query

        return open_query(data, options)
    if is_stream(data):
        from lwcs.sources.streams import open_stream

        return open_stream(data, options)
    return open_rows(data, options)


def _registered_for(data: Any) -> type[Source] | None:
    """The class, registered from outside of this library, that accepts data."""
    return next((source for source in Source.registered if source.accepts(data)), None)


def _is_parts(data: Any) -> bool:
    """Whether data is a list of arrays or tables, each of which holds rows, rather than of rows."""
    return isinstance(data, (list, tuple)) and bool(data) and all(map(_holds_rows, data))


def _holds_rows(data: Any) -> bool:
    if isinstance(data, LocalSource) or is_table(data):
        return True
    shape = getattr(data, "shape", None)
    return engine_of(data) is None and isinstance(shape, tuple) and len(shape) == 2


def _open_engine(engine: str, data: Any, options: ScanOptions) -> Source:
    try:
        module = import_module(f"lwcs.sources.engines.{engine}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"data of {engine} requires packages that are not installed ({error}); "
            f"pip install 'lwcs[{engine}]'"
        ) from error
    source: Source = module.open_engine(data, options)
    return source


def _open_files(paths: Any, options: ScanOptions) -> Source:
    from lwcs.sources.remote.paths import find

    found = find(paths, options.access, options.format)
    from lwcs.sources.files.array_files import KINDS, open_array_files

    if found.kind != "csv":
        options.refuse_dialect(f"in the file {found.paths[0]!r}")
    if found.kind == "delta":
        from lwcs.sources.tables.table_formats import open_folder

        return open_folder(found, options)
    if found.kind in KINDS:
        return open_rows(open_array_files(found), options)
    options.refuse_weight_array()
    from lwcs.sources.files.files import FileSource

    return FileSource(found, options)
