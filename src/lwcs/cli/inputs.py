"""Stores that a command reads from and writes to: the options that reach them."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click

from lwcs.cli.errors import STAND_INS
from lwcs.sources.files.unclosed_quotes import Chained
from lwcs.storage.atomic_write import explaining, temporary_folder
from lwcs.storage.locations import Access, is_uri

if TYPE_CHECKING:
    from collections.abc import Sequence


_NAME = "storage_option"

STORAGE_OPTION = click.option(
    "--storage-option",
    _NAME,
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of fsspec for URIs, such as anon=true or client_kwargs.endpoint_url=URL; can be "
    'given several times. true, false, {…}, […] and "…" are read as JSON, all other values are '
    "text.",
)


def access_of(storage_option: Sequence[str]) -> Access:
    """The access that KEY=VALUE describe, with dots for nested keys."""
    options: dict[str, Any] = {}
    for one in storage_option:
        key, equals, value = one.partition("=")
        *folders, last = key.split(".")
        if not equals or not all([*folders, last]):
            raise click.UsageError(
                f"--storage-option {one!r} is not KEY=VALUE; pass, for example, anon=true"
            )
        inner = options
        for folder in folders:
            inner = inner.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise click.UsageError(
                    f"--storage-option {one!r}: {folder!r} is given a value, too; leave out one"
                )
        if last in inner:
            raise click.UsageError(f"--storage-option {key}=… is given twice; pass it once")
        inner[last] = _value(value)
    return Access(storage_options=options or None)


def _value(text: str) -> Any:
    """Text, unless it can be nothing but JSON: keys and tokens may be digits, or null."""
    if text not in ("true", "false") and not text.startswith(("{", "[", '"')):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def refuse_unused() -> None:
    """Refuse options for URIs that are not any, or if no input and no output is a URI."""
    params = click.get_current_context().params
    access_of(params.get(_NAME, ()))
    names = [params.get(name) for name in ("output", "model", "file", "report")]
    if params.get(_NAME) and not any(
        is_uri(one) for one in (*names, *params.get("data", ())) if one
    ):
        raise click.UsageError(
            "--storage-option is for URIs such as s3://bucket/name, but all inputs and outputs are "
            "on this machine; leave it out"
        )


def access_to(path: str) -> Access:
    """The access of the running command to a path: options are for URIs."""
    context = click.get_current_context(silent=True)
    given = () if context is None else context.params.get(_NAME, ())
    return access_of(given) if is_uri(path) else Access()


def keywords(path: str) -> dict[str, Any]:
    """The same as keywords of `save` and `load`."""
    options = access_to(path).storage_options
    return {"storage_options": options} if options else {}


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
