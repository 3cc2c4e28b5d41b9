"""Folders that are tables with a log: Delta, Iceberg and Hudi.

Such a log says which files and rows are part of the table. Read as plain files, the folder would
bring back rows that were deleted or replaced, so whatever is asked for inside of it is refused, and
the table is opened by its log.
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
"""Names of the files that tell the metadata of Iceberg from any other folder of that name."""
_PARTITION = re.compile(r".*=.*|\d+|\w\w|[_.].*")
"""Names of folders inside of tables: partitions, dates, random prefixes, logs."""
_HUDI_PARTITION = ".hoodie_partition_metadata"
"""A file in every partition of Hudi, whatever its name."""
_WAYS = {
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
class Lake:
    """A table with a log."""

    kind: str
    folder: str

    def refuse(self, wish: str, whole: bool = False) -> ValueError:
        """The error for a wish that stands for files of the table, or for all of it."""
        article = "an" if self.kind == "Iceberg" else "a"
        which = (
            f"is {article} {self.kind} table"
            if whole
            else f"stands for files of the {self.kind} table {self._like(wish)!r}"
        )
        return ValueError(
            f"{wish!r} {which}: its log says which files and rows are part of it, and to read all "
            f"files would bring back deleted rows; {self._way(wish)}"
        )

    def _like(self, wish: str) -> str:
        """The folder, named as the wish is: by a URI, or by a path."""
        return f"{wish.split('://')[0]}://{self.folder}" if is_uri(wish) else self.folder

    def _way(self, wish: str) -> str:
        return _WAYS[self.kind].format(folder=self._like(wish))

    def alone(self, wishes: list[str], format_: str | None) -> str:
        """The kind of a table that is all that was asked for; its log says where its rows are."""
        if len(wishes) > 1:
            raise ValueError(
                f"{self.folder!r} is a {self.kind} table, which cannot be read together with other "
                "files; pass it alone"
            )
        if format_ is not None:
            raise ValueError(
                f"format={format_!r} is given, but {wishes[0]!r} is a {self.kind} table; leave it "
                "out"
            )
        return self.kind.lower()

    def warn(self, wish: str) -> None:
        """Warn about a file of the table that was named: whoever names it may know it."""
        warn(
            f"{wish!r} is a file of the {self.kind} table {self._like(wish)!r}, and may hold rows "
            f"that the table has no longer; to read the rows of the table, {self._way(wish)}",
            UserWarning,
        )


class Lakes:
    """What is known of tables with a log, while files are being found on one file system."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem
        self._known: dict[str, Lake | None] = {}
        """The tables that folders are, if they are one."""
        self._logs: list[str] = []
        self._warned: set[Lake] = set()
        self.table: Lake | None = None
        """The table that was asked for as a whole, if there was one that lwcs opens."""

    def is_table(self, wish: str, path: str, kind: fs.FileType) -> bool:
        """Whether a path is a table to be opened by its log; paths inside of one are refused.

        A file is allowed, with a warning. What does not exist is a pattern, or a mistake.
        """
        lake = self._lake_around(_folder_of(path, kind))
        if lake is None or (kind == fs.FileType.NotFound and not _is_pattern(path)):
            return False
        if kind == fs.FileType.File:
            if lake not in self._warned:
                lake.warn(wish)
            self._warned.add(lake)
            return False
        whole = kind == fs.FileType.Directory and lake.folder == self._real(path)
        if not whole or lake.kind != "Delta":
            raise lake.refuse(wish, whole)
        self.table = lake
        return True

    def note(self, path: str) -> None:
        """Note what a listing comes upon, if it may be a log."""
        name = path.rpartition("/")[2]
        if name in _LOGS or name.startswith(_HUDI_PARTITION):
            self._logs.append(path)

    def refuse(self, wish: str, files: list[str]) -> None:
        """Refuse files that were listed, if one of them is in a table whose log was noted."""
        logs, self._logs = self._logs, []
        for folder in sorted({log.rpartition("/")[0] for log in logs}):
            if any(file.startswith(f"{folder}/") for file in files):
                for lake in self._lakes([folder, *_above(folder)]):
                    raise lake.refuse(wish)

    def _real(self, path: str) -> str:
        return os.path.realpath(path) if is_local(self._filesystem) else path.rstrip("/")

    def _lake_around(self, folder: str) -> Lake | None:
        """The table that a folder is, or is inside of; only names are looked up."""
        if "http" in self._filesystem.type_name or not (folder or is_local(self._filesystem)):
            # A server of files has no folders to look into, and a store no folder of buckets.
            return None
        folder = self._real(folder)
        above = _above(folder) if is_local(self._filesystem) else _likely_above(folder)
        folders = [folder, *above]
        self._look_up([each for each in folders if each not in self._known])
        return next(filter(None, (self._known[each] for each in folders)), None)

    def _look_up(self, folders: list[str]) -> None:
        """Learn which folders are tables, all at once."""
        try:
            found = {lake.folder: lake for lake in self._lakes(folders)}
        except OSError:
            # Somebody may be allowed to read a folder, but not to look around it.
            found = {}
            if len(folders) > 1:
                for folder in folders:
                    self._look_up([folder])
                return
        self._known |= {folder: found.get(folder or "/") for folder in folders}

    def _lakes(self, folders: list[str]) -> Iterator[Lake]:
        """The folders that are tables, in order."""
        places = [(folder, log) for folder in folders for log in _LOGS]
        infos = self._filesystem.get_file_info([f"{folder}/{log}" for folder, log in places])
        for (folder, log), info in zip(places, infos, strict=True):
            if info.type == fs.FileType.Directory and self._is_log(info.path, _LOGS[log]):
                yield Lake(_LOGS[log], folder or "/")

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
    """Those that tables with such folders have their log in: every look at a store takes time."""
    parts = True
    for above in _above(folder):
        name = folder[len(above) + 1 :].partition("/")[0]
        parts = parts and _PARTITION.fullmatch(name) is not None
        if parts or name in ("data", "metadata"):
            yield above


_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint\..*parquet|checkpoint\.[\w-]+\.json)")
"""Names of the files of a log: a commit, or a checkpoint or a part of one, of a version."""
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
    """A folder on this machine that has the log of a table."""
    if is_local(filesystem):
        yield folder
        return
    from lwcs.storage.atomic_write import temporary_folder

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
    from lwcs.sources.tables.datasets import of_dataset

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
