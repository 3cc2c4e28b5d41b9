"""Where rows live: `scan` turns whatever holds them into a Source."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from lwcs.foundation.checks import check_choice, check_count
from lwcs.sources.base import PARTITION_ROWS, Block, LocalSource, ScaleName, Source, Task
from lwcs.sources.local import engine_of, is_path, is_query, is_stream, open_local
from lwcs.sources.partitioned import PartitionedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lwcs.sources.engine import EngineSource
    from lwcs.sources.sequence import SequenceSource

__all__ = [
    "PARTITION_ROWS",
    "Block",
    "LocalSource",
    "PartitionedSource",
    "Source",
    "Task",
    "scan",
]


def scan(
    data: Any,
    *,
    columns: Sequence[str] | str | None = None,
    weight: str | None = None,
    missing: Literal["error", "drop"] = "error",
    scale: ScaleName | None = None,
    batch_size: int | None = None,
    sample_weight: Any = None,
) -> Source:
    """Say what to read, and how; nothing is read yet.

    Parameters
    ----------
    data : array, sparse array, table, path, query, stream, or data of an engine
        - NumPy arrays, memory maps, scipy sparse arrays, lists of rows; pandas, polars and
          pyarrow tables. Arrays are not copied; sparse data is never made dense.
        - Paths of files, larger than memory: Parquet, Feather, CSV (also compressed), .npy and
          .npz; a file, a glob, a folder (hive partitions are columns), a URI, or a list.
        - Lazy queries: a polars LazyFrame, a DuckDB relation; run again for every pass.
        - Rows that come once: a pyarrow RecordBatchReader, a generator of arrays.
        - Rows on a cluster: a Dask array or DataFrame, a Spark DataFrame, a Ray Dataset. The
          work is done where they are, in the paper's two rounds.

        A Source is given back as it is.
    columns : list of str, optional
        The columns of a table to use, in this order; of files and queries also patterns such
        as ``"x*"``. Default: all but `weight`; of files, queries and engines, all that hold
        numbers (`Source.skipped` names the others), or the one column of vectors.
    weight : str, optional
        The column of a table that holds one weight >= 0 a row.
    missing : {"error", "drop"}
        What to do with rows of files, queries and engines' tables that have a null or NaN:
        refuse them by name, or leave them out and count them (`Coreset.details`).
    scale : {"standard"}, optional
        Measure distances in standard deviations of each column. Rows keep their units: a
        coreset holds rows of the data and its `scale`, and centers are in the data's units.
        Sparse data stays sparse. A build then makes two passes.
    batch_size : int, optional
        Rows that are read from a file at a time, if memory is tight. No result depends on it.
    sample_weight : array of shape (rows,), optional
        The weights, where they are not a column; of a Dask array, a Dask array too.

    Returns
    -------
    Source

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> lwcs.scan(np.zeros((100, 3)))
    ArraySource(100 × 3, 1 partition)
    """
    if scale is not None:
        check_choice(scale, "scale", ("standard",))
    if isinstance(data, Source):
        return _refuse_second_scan(data, columns, weight, scale, sample_weight)
    check_choice(missing, "missing", ("error", "drop"))
    if batch_size is not None:
        check_count(batch_size, "batch_size")
    engine = engine_of(data)
    if engine is not None:
        opened = _opener(engine)(data, columns, weight, sample_weight, drop=missing == "drop")
        opened.scale = scale
        return opened
    sequence = _open_sequence(data, columns, weight, batch_size, drop=missing == "drop")
    if sequence is not None:
        if sample_weight is not None:
            raise ValueError(
                "sample_weight is for rows in memory; name the column of weights with weight="
            )
        sequence.scale = scale
        return sequence
    if missing == "drop":
        raise ValueError(
            "missing='drop' is for files and queries; of rows in memory, drop those yourself: "
            "X[numpy.isfinite(X).all(axis=1)]"
        )
    if is_path(data):
        data = _open_array(data)
    source = open_local(data, columns, weight, sample_weight)
    if source.n_rows == 0 or source.n_features == 0:
        raise ValueError(
            f"data has shape ({source.n_rows}, {source.n_features}); "
            "at least one row and one column are needed"
        )
    source.scale = scale
    return source


def _opener(engine: str) -> Callable[..., EngineSource]:
    """What opens the data of an engine; only here is it imported."""
    try:
        module = import_module(f"lwcs.sources.{engine}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"data of {engine} needs packages that are not installed ({error}); "
            f"pip install 'lwcs[{engine}]'"
        ) from error
    opener: Callable[..., EngineSource] = module.open_engine
    return opener


def _open_sequence(
    data: Any,
    columns: Sequence[str] | str | None,
    weight: str | None,
    batch_size: int | None,
    *,
    drop: bool,
) -> SequenceSource | None:
    """Open files, queries and streams; None for rows in memory and for array files."""
    if is_path(data):
        from lwcs.sources.paths import find

        found = find(data)
        if found.kind in ("npy", "npz"):
            return None
        from lwcs.sources.files import FileSource

        return FileSource(found, columns, weight, drop=drop, batch_size=batch_size)
    if is_query(data):
        from lwcs.sources.streams import open_query

        return open_query(data, columns, weight, drop=drop)
    if not is_stream(data):
        return None
    from lwcs.sources.streams import BatchesSource

    if columns is not None or weight is not None:
        raise TypeError("columns= and weight= name columns, which arrays in a stream have not")
    return BatchesSource(data)


def _open_array(data: Any) -> Any:
    """Open .npy and .npz files; there can be only one."""
    from lwcs.sources.array_files import open_array_file
    from lwcs.sources.paths import find

    paths = find(data).paths
    if len(paths) > 1:
        raise ValueError(
            f"{len(paths)} array files are not one array; scan each as a part of a "
            "lwcs.PartitionedSource"
        )
    return open_array_file(paths[0])


def _refuse_second_scan(source: Source, *options: object) -> Source:
    if any(option is not None for option in options):
        raise ValueError(
            "this is a Source already, so its columns, weights and scale are fixed; "
            "pass these options to the lwcs.scan that made it"
        )
    return source
