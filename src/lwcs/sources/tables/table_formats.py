"""Folders that are tables with a log: Delta, Iceberg and Hudi.

Such a log says which files and rows are part of the table. Read as plain files, the folder would
bring back rows that were deleted or replaced, so whatever is asked for inside of it is refused, and
the table is opened by its log.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from pyarrow import fs

from lwcs.runtime.warnings import warn
from lwcs.storage.locations import is_local, is_uri

if TYPE_CHECKING:
    from collections.abc import Iterator

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
