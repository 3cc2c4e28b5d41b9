"""Tables with a log: Delta and Iceberg, which are opened by it, and Hudi, which is refused.

The log says which files and rows are part of the table. Read as plain files, its folder would bring
back rows that were deleted or replaced, so paths inside of it are refused. deltalake gives a
dataset of pyarrow; pyiceberg has none, and gives record batches. A table is pinned to its version
when it is opened, so that all passes see the same rows.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from lwcs.runtime.warnings import warn
from lwcs.sources.base import NO_ROWS
from lwcs.sources.streams import Query, QuerySource
from lwcs.storage.locations import Access, Place, explaining, first_line, is_local, is_uri, reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.sources.blocks import Budget
    from lwcs.sources.remote.paths import Found
    from lwcs.sources.scan_options import ScanOptions

_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi", "metadata": "Iceberg"}
"""Names of the folders of logs, and what they are the log of."""
_METADATA = re.compile(r"(v\d+|\d+-[0-9a-f-]{36})(\.gz)?\.metadata\.json(\.gz)?")
"""Names of files in the metadata of Iceberg, which no other folder of that name has."""
_PARTITION = re.compile(r".*=.*|\d+|\w\w|[_.].*")
"""Names of folders inside of tables: partitions, dates, random prefixes, logs."""
_HUDI_PARTITION = ".hoodie_partition_metadata"
"""A file in every partition of Hudi, whatever its name."""
_ADVICE = {
    "Delta": (
        "pass the folder of the table, {folder!r}, which is read by its log, or, in Python, some "
        "of its rows: lwcs.scan(DeltaTable({folder!r}).to_pyarrow_dataset().filter(…))"
    ),
    "Iceberg": (
        "open the table with pyiceberg, in Python, and pass it: "
        "lwcs.scan(catalog.load_table('namespace.name')), or without a catalog "
        "lwcs.scan(StaticTable.from_metadata('….metadata.json'))"
    ),
    "Hudi": (
        "open the table with Spark, in Python, and pass the DataFrame: "
        "lwcs.scan(spark.read.format('hudi').load({folder!r}))"
    ),
}


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """A table with a log."""

    kind: str
    folder: str

    def refused(self, name: str, whole: bool = False) -> ValueError:
        """The error for a path to files of the table, or to the `whole` of it."""
        article = "an" if self.kind == "Iceberg" else "a"
        which = (
            f"is {article} {self.kind} table"
            if whole
            else f"stands for files of the {self.kind} table {self._folder_as(name)!r}"
        )
        return ValueError(
            f"{name!r} {which}: its log says which files and rows are part of it, and to read all "
            f"files would bring back deleted rows; {self._advice(name)}"
        )

    def _folder_as(self, name: str) -> str:
        """The folder, as a URI if the given name is one."""
        return f"{name.split('://')[0]}://{self.folder}" if is_uri(name) else self.folder

    def _advice(self, name: str) -> str:
        return _ADVICE[self.kind].format(folder=self._folder_as(name))

    def alone(self, names: list[str], format_: str | None) -> str:
        """The kind of the table, which must be the only path that is read."""
        if len(names) > 1:
            raise ValueError(
                f"{self.folder!r} is a {self.kind} table, which cannot be read together with other "
                "files; pass it alone"
            )
        if format_ is not None:
            raise ValueError(
                f"format={format_!r} is given, but {names[0]!r} is a {self.kind} table; leave it "
                "out"
            )
        return self.kind.lower()

    def warn(self, name: str) -> None:
        """Warn about a file of the table that is named itself, and so is read."""
        warn(
            f"{name!r} is a file of the {self.kind} table {self._folder_as(name)!r}, and may hold "
            "rows that the table has no longer; to read the rows of the table, "
            f"{self._advice(name)}",
            UserWarning,
        )


class TableDetector:
    """Finds tables with a log on one file system, while files are being found there."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem
        self._known: dict[str, LoggedTable | None] = {}
        """The tables that folders are, None for folders that are none."""
        self._logs: list[str] = []
        self._warned: set[LoggedTable] = set()
        self.table: LoggedTable | None = None
        """The table that a path names as a whole, if lwcs opens it."""

    def is_table(self, name: str, path: str, kind: fs.FileType) -> bool:
        """Whether a path is a table to be opened by its log; paths inside of one are refused.

        A file is allowed, with a warning. What does not exist is a pattern, or a mistake.
        """
        table = self._table_around(_folder_of(path, kind))
        if table is None or (kind == fs.FileType.NotFound and not _is_pattern(path)):
            return False
        if kind == fs.FileType.File:
            if table not in self._warned:
                table.warn(name)
            self._warned.add(table)
            return False
        whole = kind == fs.FileType.Directory and table.folder == self._real(path)
        if not whole or table.kind != "Delta":
            raise table.refused(name, whole)
        self.table = table
        return True

    def note(self, path: str) -> None:
        """Note a path of a listing, if it may be a log."""
        name = path.rpartition("/")[2]
        if name in _LOGS or name.startswith(_HUDI_PARTITION):
            self._logs.append(path)

    def refuse(self, name: str, files: list[str]) -> None:
        """Refuse files that were listed, if one of them is in a table whose log was noted."""
        logs, self._logs = self._logs, []
        for folder in sorted({log.rpartition("/")[0] for log in logs}):
            if any(file.startswith(f"{folder}/") for file in files):
                for table in self._tables_in([folder, *_above(folder)]):
                    raise table.refused(name)

    def _real(self, path: str) -> str:
        return os.path.realpath(path) if is_local(self._filesystem) else path.rstrip("/")

    def _table_around(self, folder: str) -> LoggedTable | None:
        """The table that a folder is, or is inside of; only names are looked up."""
        local = is_local(self._filesystem)
        if "http" in self._filesystem.type_name or not (folder or local):
            # An HTTP server lists no folders, and a store has none above its buckets.
            return None
        folder = self._real(folder)
        folders = [folder, *(_above(folder) if local else _likely_above(folder))]
        self._look_up([each for each in folders if each not in self._known])
        return next(filter(None, (self._known[each] for each in folders)), None)

    def _look_up(self, folders: list[str]) -> None:
        """Learn which folders are tables, by one look at all of them."""
        try:
            tables = {table.folder: table for table in self._tables_in(folders)}
        except (OSError, UnicodeEncodeError):
            # One may be allowed to read a folder, but not to look at those above; nor can pyarrow
            # look at one whose name is not UTF-8.
            tables = {}
            if len(folders) > 1:
                for folder in folders:
                    self._look_up([folder])
                return
        self._known |= {folder: tables.get(folder or "/") for folder in folders}

    def _tables_in(self, folders: list[str]) -> Iterator[LoggedTable]:
        """The folders that are tables, in order."""
        places = [(folder, log) for folder in folders for log in _LOGS]
        infos = self._filesystem.get_file_info([f"{folder}/{log}" for folder, log in places])
        for (folder, log), info in zip(places, infos, strict=True):
            if info.type == fs.FileType.Directory and self._is_log(info.path, _LOGS[log]):
                yield LoggedTable(_LOGS[log], folder or "/")

    def _is_log(self, path: str, kind: str) -> bool:
        if kind != "Iceberg":
            return True
        files = self._filesystem.get_file_info(fs.FileSelector(path))
        return any(_METADATA.fullmatch(info.base_name) for info in files)


def _folder_of(path: str, kind: fs.FileType) -> str:
    """The folder itself, that of a file, or that which a pattern begins with."""
    if kind == fs.FileType.Directory:
        return path
    if kind == fs.FileType.File:
        return path.rpartition("/")[0]
    return "/".join(takewhile(lambda part: not _is_pattern(part), path.split("/")))


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def _above(folder: str) -> Iterator[str]:
    """All folders above, the nearest first."""
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _likely_above(folder: str) -> Iterator[str]:
    """Folders above whose log may be about this one; every look at a store takes a request."""
    is_partition = True
    for above in _above(folder):
        name = folder[len(above) + 1 :].partition("/")[0]
        is_partition = is_partition and _PARTITION.fullmatch(name) is not None
        if is_partition or name in ("data", "metadata"):
            yield above


_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint\..*parquet|checkpoint\.[\w-]+\.json)")
"""Names of the files of a log: commits, checkpoints and parts of checkpoints of a version."""
_BY_POLARS = "read it with polars.scan_delta or Spark, and pass the LazyFrame or the DataFrame"
_BY_DELTALAKE = (
    "read it with Spark and pass the DataFrame, or pass DeltaTable(…).scan(), which is read once"
)


def query_of(data: Any, options: ScanOptions) -> Query:
    """Open a table of deltalake at its present version, or a table or a scan of pyiceberg."""
    return (_delta_query if hasattr(data, "table_uri") else _iceberg_query)(data, options)


def _delta_query(table: Any, options: ScanOptions) -> Query:
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
    """A folder on this machine that has the log of a table.

    The log of a table on a store is copied, so that deltalake needs no credentials of its own, and
    any file system will do.
    """
    if is_local(filesystem):
        yield folder
        return
    from lwcs.storage.atomic_write import temporary_folder

    log = f"{folder.rstrip('/')}/_delta_log"
    with temporary_folder(gettempdir(), 0o700) as here:
        for path in _entries(filesystem, log):
            copy = here / "_delta_log" / path.rpartition("/_delta_log/")[2]
            copy.parent.mkdir(parents=True, exist_ok=True)
            with reaching(path), filesystem.open_input_stream(path) as file:
                content = file.read()
            copy.write_bytes(content)
        yield str(here)


def _entries(filesystem: fs.FileSystem, log: str) -> list[str]:
    """Files of a log, from its last checkpoint on."""
    with reaching(log):
        infos = filesystem.get_file_info(fs.FileSelector(log))
        # Parts of checkpoints that have names of their own.
        parts = filesystem.get_file_info(fs.FileSelector(f"{log}/_sidecars", allow_not_found=True))
    entries = [(info.path, _ENTRY.fullmatch(info.base_name)) for info in infos]
    versions = {path: int(entry[1]) for path, entry in entries if entry}
    checkpoints = (versions[path] for path, entry in entries if entry and entry[2] != "json")
    first = max(checkpoints, default=0)
    own = [path for path, version in versions.items() if version >= first]
    return own + [info.path for info in parts]


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
    """The rows of a table, whose files are at a place, or where deltalake finds them if None."""
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
    from lwcs.sources.tables.datasets import of_dataset

    return of_dataset(dataset, options, name, version=version)


def _at(place: Place, dataset: Any, name: str) -> Any:
    """The dataset of a table with files at a place; their paths are relative to the folder."""
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


def _iceberg_query(data: Any, options: ScanOptions) -> Query:
    """Open a table at its present snapshot, or a scan with its filters and columns."""
    del options
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    scan = data.scan() if hasattr(data, "scan") else data
    snapshot = scan.snapshot() if hasattr(scan, "snapshot") else None
    version = None if snapshot is None else str(snapshot.snapshot_id)
    named = getattr(scan, "table_identifier", None) or (data.name() if scan is not data else ())
    at = "" if version is None else f" (snapshot {version})"
    name = f"the Iceberg table {'.'.join(named)!r}{at}"
    with explaining(name):
        whole, tasks = scan.projection(), list(scan.plan_files())
    schema = schema_to_pyarrow(whole, include_field_ids=False)

    def run(columns: list[str], _: Budget) -> Iterator[pa.RecordBatch]:
        wanted, left = pa.schema([schema.field(column) for column in columns]), scan.limit
        reader = ArrowScan(
            scan.table_metadata, scan.io, whole.select(*columns), scan.row_filter,
            scan.case_sensitive,
        )  # fmt: skip
        with explaining(name):
            for task in tasks:
                for batch in reader.to_record_batches([task]):
                    batch = batch.slice(0, left)
                    yield batch.select(columns).cast(wanted)
                    left = None if left is None else left - batch.num_rows
                if left == 0:
                    return

    return Query(run, schema, n_rows=_n_rows(scan, tasks), version=version, name=name)


def _n_rows(scan: Any, tasks: list[Any]) -> int | None:
    """The number of rows, if that is known without reading them."""
    from pyiceberg.expressions import AlwaysTrue

    filtered = scan.row_filter != AlwaysTrue() or scan.limit is not None
    if tasks and (filtered or any(task.delete_files for task in tasks)):
        return None
    return sum(task.file.record_count for task in tasks)
