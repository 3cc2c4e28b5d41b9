"""Where commands write: the format that a name stands for, and names that are refused."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_MODELS = {".parquet": "parquet", ".pq": "parquet"}
_TABLES = {
    **_MODELS,
    ".feather": "ipc",
    ".arrow": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "tsv",
}
_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4", ".br": "brotli"}
_TEXT = ("csv", "tsv")


def check_output(output: str, inputs: Iterable[str]) -> None:
    """Check where a coreset or a model is written to, before any work is done."""
    _check_ending(output, _MODELS)
    _check_place(output, inputs)


@dataclass(frozen=True, slots=True)
class TableOutput:
    """A file that a table is written to, or standard output."""

    path: str
    kind: str
    codec: str | None = None

    @classmethod
    def of(cls, output: str, inputs: Iterable[str]) -> TableOutput:
        """Check where a table is written to, before any work is done."""
        kind, codec = _check_ending(output, _TABLES)
        _check_place(output, inputs)
        return cls(output, "csv" if output == "-" else kind, codec)

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

        own = field.type
        if self.kind in _TEXT and (pa.types.is_fixed_size_binary(own) or _is_bytes(own)):
            # pyarrow writes those bytes that happen to be text.
            return False
        gap = pa.table([pa.nulls(1, own)], names=[field.name])
        try:
            with _writer(self.kind, BytesIO(), gap.schema) as writer:
                writer.write_table(gap)
        except pa.ArrowException:
            return False
        return True

    @contextmanager
    def writing(self, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
        """Give a function that appends a table to the file, which appears once it is complete."""
        import pyarrow as pa

        from lwcs.foundation.storage import replacing

        with ExitStack() as stack:
            sink: Any = sys.stdout.buffer
            if self.path != "-":
                sink = str(stack.enter_context(replacing(self.path)))
            if self.codec is not None:
                sink = stack.enter_context(pa.CompressedOutputStream(sink, self.codec))
            writer = stack.enter_context(_writer(self.kind, sink, schema))
            yield writer.write_table


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _writer(kind: str, sink: Any, schema: pa.Schema) -> Any:
    if kind in _TEXT:
        from pyarrow import csv

        options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
        return csv.CSVWriter(sink, schema, write_options=options)
    if kind == "ipc":
        import pyarrow as pa

        return pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema, compression="zstd")


def write_to(path: str, write: Callable[[str], None]) -> None:
    """Write to a file, or to standard output if `path` is ``-``."""
    if path != "-":
        write(path)
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "out.parquet")
        write(file)
        stdout = sys.stdout.buffer
        with open(file, "rb") as made:
            while part := made.read(2**20):
                stdout.write(part)


def _check_ending(output: str, known: dict[str, str]) -> tuple[str, str | None]:
    """The format and the compression that a name stands for; without an ending, Parquet."""
    name = Path(output).name.lower()
    packed = next((end for end in _CODECS if name.endswith(end)), "")
    suffix = Path(name.removesuffix(packed)).suffix
    kind = known.get(suffix) if suffix or packed else "parquet"
    if kind is None or (packed and kind not in _TEXT):
        *most, last = known
        endings = f"{', '.join(most)} or {last}"
        if "csv" in known.values():
            endings += f" (.csv and .tsv also compressed: {', '.join(_CODECS)})"
        raise click.UsageError(
            f"--output {output!r} has an ending that this command does not write; pass a name that "
            f"ends in {endings}"
        )
    return kind, _CODECS.get(packed)


def _check_place(output: str, inputs: Iterable[str]) -> None:
    """Refuse a path that cannot be written, a terminal, and the command's own inputs."""
    from lwcs.foundation.storage import check_target

    if output == "-":
        if click.get_current_context().params.get("as_json"):
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
    try:
        check_target(output)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    refuse_input(output, inputs)


def refuse_input(output: str | os.PathLike[str], inputs: Iterable[str]) -> None:
    """Refuse to overwrite a file that the command reads, by whatever name it is given."""
    if not os.path.exists(output):
        return
    for one in inputs:
        if any(_same(file, output) for file in _files(one)):
            through = "" if one == str(output) else f" (through {one!r})"
            raise click.UsageError(
                f"--output {str(output)!r} is also an input of this command{through} and would be "
                "overwritten; pass another name"
            )


def _files(one: str) -> list[Any]:
    """The files on this machine that one input stands for."""
    from pyarrow import fs

    from lwcs.sources.paths import find

    if one == "-":
        with suppress(OSError, ValueError, AttributeError):
            return [sys.stdin.fileno()]
        return []
    if os.path.isfile(one):
        return [one]
    # What cannot be found is reported by the reader.
    with suppress(OSError, ValueError):
        found = find(one)
        if isinstance(found.filesystem, fs.LocalFileSystem):
            return list(found.paths)
    return []


def _same(file: Any, output: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.stat(output))
    except OSError:
        return False
