"""Folders that a table is written to: partitioned by columns, or one file per input file.

The folder appears once it is complete, as a file does. Rows are dealt to partitions here: with 26
million rows in 100 partitions, `pyarrow.dataset.write_dataset` held 0.7 GB, since what it queues
has no limit in bytes, where this takes 0.1 GB; or, without a minimum of rows per row group, its
files were three times as large.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click
import pyarrow as pa
import pyarrow.compute as pc

from lwcs.cli.inputs import access_to
from lwcs.cli.outputs import Format, TableFile, check_with, refuse_within
from lwcs.sources.scan_options import PACKED
from lwcs.storage.atomic_write import check_folder, explaining, filling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.storage.locations import Place

MOST_PARTITIONS = 10_000
# A process may have about a thousand files open.
_OPEN_FILES = 200
# Rows wait until they have this many bytes, so that row groups are not tiny.
_WAITING_BYTES = 2**26
# Hive's name for a missing value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PARTITION_TYPES = (
    *(pa.types.is_integer, pa.types.is_boolean, pa.types.is_temporal),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary),
)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A folder with a folder for each value of some columns, such as label=3/part-0.parquet."""

    path: str
    format: Format
    columns: Sequence[str]

    @classmethod
    def of(cls, output: str, columns: Sequence[str], data: Sequence[str]) -> Partitioned:
        """Check where the folder is, before any work is done."""
        found = _checked(output, "--partition-by", data)
        if len(set(columns)) < len(columns):
            raise click.UsageError(f"--partition-by {','.join(columns)} names a column twice")
        return cls(output, found, columns)

    @contextmanager
    def writing(self, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
        """Give a function that writes a table to the folders of its values."""
        self._check(schema)
        access = access_to(self.path)
        with filling(self.path, access) as folder, ExitStack() as stack:
            partitions = _Partitions(self, folder, schema, access.place(self.path))
            stack.push(partitions.close)
            yield partitions.add
            partitions.write()

    def _check(self, schema: pa.Schema) -> None:
        row = schema.names[0]
        for name in self.columns:
            if name not in schema.names:
                raise click.UsageError(
                    f"--partition-by {name}: the output has no such column; its columns are "
                    f"{', '.join(schema.names)}, and --keep adds columns of DATA"
                )
            kind = schema.field(name).type
            if name == row or not any(test(kind) for test in _PARTITION_TYPES):
                why = "has a value of its own in every row" if name == row else f"holds {kind}"
                raise click.UsageError(
                    f"--partition-by {name}: the column {why}; pass columns of text, integers, "
                    "dates or true and false"
                )


class _Partitions:
    """The files of partitions, some of which are open, and rows that wait to be written."""

    def __init__(self, output: Partitioned, folder: Path, schema: pa.Schema, place: Place) -> None:
        self._output, self._folder, self._place = output, folder, place
        self._kept = pa.schema([each for each in schema if each.name not in output.columns])
        self._waiting: dict[tuple[Any, ...], list[pa.Table]] = {}
        self._bytes = 0
        self._open: dict[tuple[Any, ...], TableFile] = {}
        self._files: dict[tuple[Any, ...], int] = {}
        """How many files each partition has."""

    def add(self, table: pa.Table) -> None:
        """Deal rows to their partitions, in order."""
        columns, kept = list(self._output.columns), table.select(self._kept.names)
        keys = table.select(columns).append_column("", pa.array(range(len(table))))
        groups = keys.group_by(columns, use_threads=False).aggregate([("", "list")])
        for group in groups.to_pylist():
            rows = kept.take(pa.array(group.pop("_list")))
            key = tuple(group[name] for name in columns)
            self._waiting.setdefault(key, []).append(rows)
            self._bytes += rows.nbytes
        if len(self._waiting.keys() | self._files.keys()) > MOST_PARTITIONS:
            raise ValueError(
                f"--partition-by {','.join(columns)} gives more than {MOST_PARTITIONS:,} folders; "
                "pass columns with fewer values"
            )
        if self._bytes > _WAITING_BYTES:
            self.write()

    def write(self) -> None:
        """Write the rows that wait."""
        for key, tables in self._waiting.items():
            self._file(key).write(pa.concat_tables(tables))
        self._waiting, self._bytes = {}, 0

    def _file(self, key: tuple[Any, ...]) -> TableFile:
        if key in self._open:
            return self._open[key]
        if len(self._open) == _OPEN_FILES:
            # Parquet cannot be appended to: later rows of this partition get another file.
            self._open.pop(next(iter(self._open))).__exit__(None)
        pairs = zip(self._output.columns, key, strict=True)
        folder = self._folder.joinpath(*(f"{quote(n, '')}={_named(v)}" for n, v in pairs))
        with explaining(self._place):
            folder.mkdir(parents=True, exist_ok=True)
        number = self._files.get(key, 0)
        self._files[key] = number + 1
        form = self._output.format
        path = folder / f"part-{number}{form.ending}"
        self._open[key] = TableFile(path, form, self._kept, self._place)
        return self._open[key]

    def close(self, failed: type[BaseException] | None, *_: object) -> None:
        """Close all files; after an error, without another one."""
        for file in self._open.values():
            file.__exit__(failed)


def _named(value: Any) -> str:
    """The name of a folder for a value."""
    if value is None:
        return _NO_VALUE
    return quote(str(value).lower() if isinstance(value, bool) else str(value), " ")


@dataclass(frozen=True, slots=True)
class PerFile:
    """A folder with one file for each file of DATA, of the same name and in the same subfolder."""

    path: str
    format: Format

    @classmethod
    def of(cls, output: str, data: Sequence[str]) -> PerFile:
        """Check where the folder is, before any work is done."""
        if "-" in data:
            raise click.UsageError("--per-file needs files, but DATA is standard input")
        return cls(output, _checked(output, "--per-file", data))

    @contextmanager
    def writing(self, schema: pa.Schema, source: Any) -> Iterator[Callable[[pa.Table], None]]:
        """Give a function that writes a table to the files that its rows came from."""
        names = self._names(source)
        access = access_to(self.path)
        place = access.place(self.path)
        with filling(self.path, access) as folder, ExitStack() as stack:
            files: dict[str, TableFile] = {}

            def opened(path: str) -> TableFile:
                # Rows come file by file, so that the file before is complete.
                stack.close()
                target = folder / names[path]
                with explaining(place):
                    target.parent.mkdir(parents=True, exist_ok=True)
                files[path] = stack.enter_context(TableFile(target, self.format, schema, place))
                return files[path]

            def write(table: pa.Table) -> None:
                first = table["row"][0].as_py()
                for path, start, stop, before in source.origins(first, first + len(table)):
                    rows = table.slice(start - first, stop - start)
                    numbers = pc.subtract(rows["row"], before)
                    rows = rows.set_column(0, schema.field(0), numbers)
                    (files.get(path) or opened(path)).write(rows)

            yield write
            for path in names:
                if path not in files:
                    opened(path)

    def _names(self, source: Any) -> dict[str, Path]:
        """The output of every file, below the folder; two of one name are refused."""
        found = getattr(source, "found", None)
        if found is None:
            raise click.UsageError(
                "--per-file is for Parquet, Feather and CSV files, but DATA is of another format; "
                "leave it out"
            )
        folders = [PurePosixPath(path).parent.parts for path in found.paths]
        common = takewhile(lambda same: len(set(same)) == 1, zip(*folders, strict=False))
        base = PurePosixPath(found.base).parts if found.base else tuple(common)
        names: dict[Path, str] = {}
        for path in found.paths:
            below = PurePosixPath(path).parts[len(base) :]
            name = Path(*below[:-1], _stem(below[-1]) + self.format.ending)
            if name in names:
                raise click.UsageError(
                    f"--per-file: {names[name]!r} and {path!r} would both be written to "
                    f"{str(name)!r}; assign them one after the other, to folders of their own"
                )
            names[name] = path
        return {path: name for name, path in names.items()}


def _stem(name: str) -> str:
    """The name of a file without the endings of its format and compression."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).stem if path.suffix.lower() in PACKED else path.stem


def _checked(output: str, flag: str, data: Sequence[str]) -> Format:
    if output == "-":
        raise click.UsageError(f"{flag} writes a folder, not standard output; pass its name")
    found = Format.of(output.rstrip("/"))
    check_with(check_folder, output)
    refuse_within(output, data)
    return found
