"""Delta tables, by their log, through deltalake: one version of the table for all passes.

The log is read once, when a table is opened; its files never change, so that whatever is written
to the table meanwhile is not seen. A folder is reached by the file system that it was found on: its
log is copied to this machine, and its files are read like any others.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from lwcs.sources.base import NO_ROWS
from lwcs.sources.streams import Query, QuerySource
from lwcs.sources.tables.datasets import of_dataset
from lwcs.storage.atomic_write import temporary_folder
from lwcs.storage.failures import first_line, reaching
from lwcs.storage.locations import Access, Place, is_local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.sources.options import ScanOptions
    from lwcs.sources.remote.paths import Found

_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint\..*parquet|checkpoint\.[\w-]+\.json)")
"""Names of the files of a log: a commit, or a checkpoint or a part of one, of a version."""
_BY_POLARS = "read it with polars.scan_delta or Spark, and pass the LazyFrame or the DataFrame"
_BY_DELTALAKE = (
    "read it with Spark and pass the DataFrame, or pass DeltaTable(…).scan(), which is read once"
)


def query_of(table: Any, options: ScanOptions) -> Query:
    """Open a deltalake.DeltaTable at its present version."""
    uri = table.table_uri
    place = Access().place(uri) if uri.startswith("file://") else None
    return _query(table, place, options, f"the Delta table {uri!r}")


def open_folder(found: Found, options: ScanOptions) -> QuerySource:
    """Open the latest version of the table in a folder."""
    options.refuse_weight_array()
    folder = found.paths[0]
    name = f"the Delta table {folder!r}"
    with _log(found.filesystem, folder) as here:
        table = _opened(here, name)
        query = _query(table, Place(found.filesystem, folder, folder), options, name)
    return QuerySource(query, options)


@contextmanager
def _log(filesystem: fs.FileSystem, folder: str) -> Iterator[str]:
    """A folder on this machine that has the log of a table."""
    if is_local(filesystem):
        yield folder
        return
    with temporary_folder(gettempdir(), 0o700) as here:
        log = here / "_delta_log"
        log.mkdir()
        for path, below in _entries(filesystem, f"{folder.rstrip('/')}/_delta_log"):
            (log / below).parent.mkdir(exist_ok=True)
            with reaching(path), filesystem.open_input_stream(path) as file:
                content = file.read()
            (log / below).write_bytes(content)
        yield str(here)


def _entries(filesystem: fs.FileSystem, log: str) -> Iterator[tuple[str, str]]:
    """Files of a log, from its last checkpoint on: their paths, and their paths in the log."""
    found = []
    checkpoint = 0
    with reaching(log):
        infos = filesystem.get_file_info(fs.FileSelector(log))
        # Parts of checkpoints that have names of their own.
        more = filesystem.get_file_info(fs.FileSelector(f"{log}/_sidecars", allow_not_found=True))
    for info in infos:
        if entry := _ENTRY.fullmatch(info.base_name):
            found.append((int(entry[1]), info))
            if entry[2] != "json":
                checkpoint = max(checkpoint, int(entry[1]))
    for version, info in found:
        if version >= checkpoint:
            yield info.path, info.base_name
    for info in more:
        yield info.path, f"_sidecars/{info.base_name}"


def _opened(folder: str, name: str) -> Any:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise ImportError(
            f"{name[4:]} is read by its log, which requires deltalake; pip install 'lwcs[delta]', "
            f"or {_BY_POLARS}"
        ) from error
    try:
        return DeltaTable(folder)
    except (DeltaError, OSError, ValueError) as error:
        raise ValueError(f"{name} cannot be opened: {first_line(error)}") from error


def _query(table: Any, place: Place | None, options: ScanOptions, name: str) -> Query:
    """The rows of a table, whose files are at a place, or else where deltalake finds them."""
    from deltalake.exceptions import DeltaProtocolError

    version = str(table.version())
    name = f"{name} (version {version})"
    # deltalake itself would find no column by its name, and give nulls.
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise ValueError(
            f"{name} uses column mapping, which deltalake does not read through pyarrow; "
            f"{_BY_DELTALAKE}"
        )
    try:
        dataset = table.to_pyarrow_dataset(filesystem=place and place.filesystem)
    except DeltaProtocolError as error:
        features = table.protocol().reader_features or [first_line(error)]
        raise ValueError(
            f"{name} uses features that deltalake does not read through pyarrow "
            f"({', '.join(features)}); {_BY_POLARS}"
        ) from error
    if not dataset.files:
        raise ValueError(f"{NO_ROWS} (in {name})")
    if place is not None:
        dataset = _at(place, dataset, name)
    return of_dataset(dataset, options, name, version=version)


def _at(place: Place, dataset: Any, name: str) -> Any:
    """The files of a table, whose paths are relative to its folder, at their place."""
    if away := [file for file in dataset.files if "://" in file or file.startswith("/")]:
        raise ValueError(
            f"{name} has files in other places, such as {away[0]!r} (it is a shallow clone); "
            f"{_BY_POLARS}"
        )
    files = [
        dataset.format.make_fragment(
            f"{place.path.rstrip('/')}/{each.path}", place.filesystem, each.partition_expression
        )
        for each in dataset.get_fragments()
    ]
    return type(dataset)(files, dataset.schema, dataset.format, place.filesystem)
