"""Standard input of a command: Parquet and Arrow are recognized by their first bytes.

Rows in CSV and in an Arrow stream are read once, as they arrive. Parquet and Arrow files cannot be
read from the front, so they are copied to a temporary file, and can be read several times.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, Any

import click

from lwcs.cli.errors import STAND_INS
from lwcs.foundation.replacing import explaining
from lwcs.foundation.temporaries import temporary_folder
from lwcs.sources.watched import Chained

FORMATS = ("csv", "tsv", "arrow", "parquet", "feather", "npy", "npz", "hdf5", "zarr")
"""Names of formats; those of arrays are for files alone."""
_PIPED = FORMATS[:5]
NAME = "standard input"
_KEY = "standard_input"
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class Piped:
    """What standard input holds."""

    kind: str
    """csv, tsv or arrow, for a stream."""
    file: Any = None
    """The stream, if rows are read as they arrive."""
    path: str | None = None
    """The temporary file, if there is one."""


def standard_input(kind: str | None) -> Piped:
    """Recognize standard input, if `kind` does not name its format; once per command."""
    meta = click.get_current_context().meta
    if _KEY not in meta:
        meta[_KEY] = _open(sys.stdin.buffer, kind)
    return meta[_KEY]


def _open(file: Any, kind: str | None) -> Piped:
    if kind == "parquet":
        return _copied(file, ".parquet")
    if kind == "feather":
        return _copied(file, ".arrow")
    if kind is not None and kind not in _PIPED:
        raise click.UsageError(
            f"--format {kind} cannot be read from {NAME}; pass a file, or one of "
            f"{', '.join(_PIPED)}"
        )
    if kind is not None:
        return Piped(kind, file)
    head = file.read(len(_ARROW_FILE))
    if not head:
        raise click.UsageError(f"{NAME} is empty; pipe rows or a saved coreset into this command")
    whole = Chained(head, file)
    if head.startswith(_PARQUET):
        return _copied(whole, ".parquet")
    if head.startswith(_ARROW_FILE):
        return _copied(whole, ".arrow")
    if head.startswith(_ARROW_STREAM):
        return Piped("arrow", whole)
    raise click.UsageError(
        f"--format is missing; {NAME} is neither Parquet nor Arrow, so pass --format csv or "
        "--format tsv"
    )


def saved_file(name: str) -> str:
    """The path of a file that is loaded; standard input is copied to one."""
    if name != "-":
        return name
    path = standard_input(None).path
    if path is None:
        raise click.UsageError(f"{NAME} is not Parquet; pass a file that lwcs wrote")
    return path


def _copied(file: IO[bytes] | Chained, ending: str) -> Piped:
    context = click.get_current_context()
    folder = context.with_resource(temporary_folder(tempfile.gettempdir(), 0o700))
    path = str(folder / f"rows{ending}")
    with explaining(f"a copy of {NAME}", is_copy=True), open(path, "wb") as copy:
        shutil.copyfileobj(file, copy, 2**20)
    context.meta.setdefault(STAND_INS, {})[path] = NAME
    return Piped(ending[1:], path=path)
