"""Outputs of commands: formats by the endings of names, files, and standard output.

A name is checked before any work is done: that it can be written, and that it is neither an input
of the command nor would be one when the command runs again.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import click

from lwcs.cli.inputs import access_to, keywords, refuse_unused
from lwcs.cli.logs import is_set
from lwcs.sources.scan_options import PACKED
from lwcs.storage.atomic_write import (
    STANDARD_OUTPUT,
    check_target,
    explaining,
    replacing,
    temporary_folder,
)
from lwcs.storage.locations import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from lwcs.storage.locations import Access


def check_output(output: str, inputs: Iterable[str]) -> None:
    """Check where a coreset or a model is written to, before any work is done."""
    Format.of(output, MODELS)
    _check_place(output, inputs)


@dataclass(frozen=True, slots=True)
class TableOutput:
    """A file that a table is written to, or standard output."""

    path: str
    format: Format

    @classmethod
    def of(cls, output: str, inputs: Iterable[str]) -> TableOutput:
        """Check where a table is written to, before any work is done."""
        form = Format.of(output)
        _check_place(output, inputs)
        return cls(output, Format("csv", None, ".csv") if output == "-" else form)

    @contextmanager
    def writing(self, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
        """Give a function that appends a table to the file, which appears once it is complete."""
        if self.path == "-":
            with TableFile(sys.stdout.buffer, self.format, schema, STANDARD_OUTPUT) as file:
                yield file.write
            _flush()
            return
        access = access_to(self.path)
        with (
            replacing(self.path, access) as temporary,
            TableFile(temporary, self.format, schema, access.place(self.path)) as file,
        ):
            yield file.write


def write_to(path: str, save: Callable[..., None]) -> None:
    """Save to a file, or to standard output if `path` is ``-``."""
    if path != "-":
        save(path, **keywords(path))
        return
    with temporary_folder(tempfile.gettempdir(), 0o700) as folder:
        save(folder / "out.parquet")
        with (folder / "out.parquet").open("rb") as saved, explaining(STANDARD_OUTPUT):
            shutil.copyfileobj(saved, sys.stdout.buffer)
        _flush()


def _flush() -> None:
    """Flush standard output while an error can still be reported."""
    with explaining(STANDARD_OUTPUT):
        sys.stdout.buffer.flush()


def _check_place(output: str, inputs: Iterable[str]) -> None:
    """Refuse a path that cannot be written, a terminal, and the inputs of the command."""
    if output == "-":
        if is_set("as_json"):
            raise click.UsageError(
                "--json and --output - both write to standard output; leave out --json, or pass "
                "the name of a file"
            )
        if sys.stdout.isatty():
            raise click.UsageError(
                "--output - is standard output, which is a terminal; redirect it to a file or to "
                "another command, or pass the name of a file"
            )
        return
    check_with(check_target, output)
    refuse_input(output, inputs)


def check_with(check: Callable[[str, Access], Place], output: str) -> Place:
    """Check where a command writes; an error is one of usage, unless a store is at fault."""
    refuse_unused()
    try:
        return check(output, access_to(output))
    except (ValueError, OSError, ImportError) as error:
        if getattr(error, "errno", None) not in (None, errno.EROFS):
            raise
        raise click.UsageError(getattr(error, "strerror", None) or str(error)) from error


def refuse_input(output: str, inputs: Iterable[str], flag: str = "--output") -> None:
    """Refuse to overwrite a file that the command reads, or would read the next time."""
    inputs, target = list(inputs), access_to(output).place(output)
    refuse_within(output, inputs, flag)
    if not target.exists():
        return
    for one in inputs:
        if any(_same(file, target) for file in _files(one)):
            through = "" if one == output else f" (through {one!r})"
            raise click.UsageError(
                f"{flag} {output!r} is also an input of this command{through} and would be "
                "overwritten; pass another name"
            )


def refuse_within(output: str, inputs: Iterable[str], flag: str = "--output") -> None:
    """Refuse an output that would be a part of the inputs when the command runs again."""
    target = access_to(output).place(output)
    for one in inputs:
        if one != "-" and _stands_for(access_to(one).place(one), target):
            raise click.UsageError(
                f"{flag} {output!r} would be a part of DATA, by {one!r}, when the command runs "
                "again; write it to another folder"
            )


def _stands_for(given: Place, target: Place) -> bool:
    """Whether a folder or a pattern would include an output that is not a file yet."""
    from pyarrow import fs

    is_file = target.filesystem.get_file_info(target.path).type == fs.FileType.File
    if is_file or not given.filesystem.equals(target.filesystem):
        return False
    pattern, path = given.path, target.path
    if given.is_local:
        pattern, path = os.path.abspath(pattern), os.path.abspath(path)
    if any(part.startswith((".", "_")) for part in path.removeprefix(pattern).split("/")):
        return False
    return fnmatchcase(path, pattern) or path.startswith(f"{pattern.rstrip('/')}/")


def _files(one: str) -> list[Any]:
    """The files that an input stands for: places, or the descriptor of an open file."""
    from lwcs.sources.remote.paths import find

    if one == "-":
        with suppress(OSError, ValueError, AttributeError):
            return [sys.stdin.fileno()]
        return []
    place = access_to(one).place(one)
    if place.is_local and os.path.isfile(place.path):
        return [place]
    # The reader reports what cannot be found.
    with suppress(OSError, ValueError):
        found = find(one, access_to(one))
        return [Place(found.filesystem, path, path) for path in found.paths]
    return [place]


def _same(file: Any, target: Place) -> bool:
    if isinstance(file, int) or (file.is_local and target.is_local):
        with suppress(OSError):
            opened = os.stat(file if isinstance(file, int) else file.path)
            return target.is_local and os.path.samestat(opened, os.stat(target.path))
        return False
    return file.path == target.path and bool(file.filesystem.equals(target.filesystem))


MODELS = {".parquet": "parquet", ".pq": "parquet"}
TABLES = {
    **MODELS,
    ".feather": "ipc",
    ".arrow": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "tsv",
}
_TEXT = ("csv", "tsv")


@dataclass(frozen=True, slots=True)
class Format:
    """A format of tables, its compression if it is text, and the ending of names of such files."""

    kind: str = "parquet"
    codec: str | None = None
    ending: str = ".parquet"

    @classmethod
    def of(cls, output: str, known: dict[str, str] = TABLES) -> Format:
        """The format that a name stands for; without an ending, Parquet."""
        name = PurePosixPath(output.replace("\\", "/")).name.lower()
        packed = next((end for end in PACKED if name.endswith(end)), "")
        suffix = PurePosixPath(name.removesuffix(packed)).suffix
        if not suffix and not packed:
            return cls()
        kind = known.get(suffix)
        if kind is None or (packed and kind not in _TEXT):
            *most, last = known
            endings = f"{', '.join(most)} or {last}"
            if "csv" in known.values():
                endings += f" (.csv and .tsv also compressed: {', '.join(PACKED)})"
            raise click.UsageError(
                f"--output {output!r} has an ending that this command does not write; pass a name "
                f"that ends in {endings}"
            )
        return cls(kind, PACKED.get(packed), suffix + packed)

    def check(self, columns: pa.Schema) -> None:
        """Refuse columns that the format has no place for."""
        for field in columns:
            if not self._holds(field):
                raise click.UsageError(
                    f"--keep {field.name}: the column holds {field.type}, which cannot be written "
                    f"as {self.kind.upper()}; leave it out, or write to a name that ends in "
                    ".parquet or .feather"
                )

    def _holds(self, field: pa.Field) -> bool:
        import pyarrow as pa

        is_bytes = (pa.types.is_fixed_size_binary, pa.types.is_binary, pa.types.is_large_binary)
        if self.kind in _TEXT and any(test(field.type) for test in is_bytes):
            # pyarrow would write those values that happen to be valid text.
            return False
        null = pa.table([pa.nulls(1, field.type)], names=[field.name])
        with suppress(pa.ArrowException), self.writer(BytesIO(), null.schema) as writer:
            writer.write_table(null)
            return True
        return False

    def writer(self, sink: Any, schema: pa.Schema) -> Any:
        """A writer of tables of one schema."""
        import pyarrow as pa

        if self.kind in _TEXT:
            from pyarrow import csv

            options = csv.WriteOptions(delimiter="\t" if self.kind == "tsv" else ",")
            return csv.CSVWriter(sink, schema, write_options=options)
        if self.kind == "ipc":
            return pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        import pyarrow.parquet as pq

        return pq.ParquetWriter(sink, schema, compression="zstd")


class TableFile:
    """A table that is written to a file piece by piece; errors name the output.

    After an error, errors of closing the file are ignored.
    """

    def __init__(
        self, file: Path | IO[bytes], form: Format, schema: pa.Schema, output: Place | str
    ) -> None:
        import pyarrow as pa

        self._output, self._stack = output, ExitStack()
        sink: Any = file if hasattr(file, "write") else str(file)
        with explaining(output):
            if form.codec is not None:
                sink = self._stack.enter_context(pa.CompressedOutputStream(sink, form.codec))
            self._writer = self._stack.enter_context(form.writer(sink, schema))

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        with explaining(self._output):
            self._writer.write_table(table)

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            with explaining(self._output):
                self._stack.close()
        else:
            with suppress(OSError):
                self._stack.close()
