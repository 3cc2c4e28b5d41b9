"""Formats of tables that commands write, and a table that is written piece by piece."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import click

from lwcs.sources.options import PACKED
from lwcs.storage.atomic_write import explaining

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from lwcs.storage.locations import Place

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
    """A format of tables, the compression if it is text, and the ending of names that have it."""

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

        own = field.type
        if self.kind in _TEXT and (pa.types.is_fixed_size_binary(own) or _is_bytes(own)):
            # pyarrow writes those bytes that happen to be text.
            return False
        gap = pa.table([pa.nulls(1, own)], names=[field.name])
        try:
            with self.writer(BytesIO(), gap.schema) as writer:
                writer.write_table(gap)
        except pa.ArrowException:
            return False
        return True

    def writer(self, sink: Any, schema: pa.Schema) -> Any:
        """What writes tables of one schema to a file."""
        import pyarrow as pa

        if self.kind in _TEXT:
            from pyarrow import csv

            options = csv.WriteOptions(delimiter="\t" if self.kind == "tsv" else ",")
            return csv.CSVWriter(sink, schema, write_options=options)
        if self.kind == "ipc":
            return pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        import pyarrow.parquet as pq

        return pq.ParquetWriter(sink, schema, compression="zstd")


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


class TableFile:
    """A table that is written to a file piece by piece; errors name the output.

    Left by an error, it is closed without another one about what is given up anyway.
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
