"""Inputs of commands: rows, coresets and models in files, on stores and from standard input.

Options of file systems (``--storage-option``) are here too; outputs use them as well.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import lwcs
from lwcs.cli.errors import STAND_INS, is_reading
from lwcs.storage.atomic_write import explaining, temporary_folder
from lwcs.storage.locations import Access, is_uri
from lwcs.storage.path_errors import is_pipe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lwcs.coreset.coreset import Coreset
    from lwcs.sources import Source
    from lwcs.sources.files.csv import Chained


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
    """The value as text, unless it must be JSON: keys and tokens may be digits, or null."""
    if text not in ("true", "false") and not text.startswith(("{", "[", '"')):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def refuse_unused() -> None:
    """Refuse options that are not KEY=VALUE, or any if no input and no output is a URI."""
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
    """The access of the running command to a path; its options are for URIs only."""
    context = click.get_current_context(silent=True)
    given = () if context is None else context.params.get(_NAME, ())
    return access_of(given) if is_uri(path) else Access()


def keywords(path: str) -> dict[str, Any]:
    """The access of the running command to a path, as keywords of `save` and `load`."""
    options = access_to(path).storage_options
    return {"storage_options": options} if options else {}


FORMATS = ("csv", "tsv", "arrow", "parquet", "feather", "npy", "npz", "hdf5", "zarr")
"""Names of formats; those of arrays are for files alone."""
_PIPED = FORMATS[:5]
_COPIED = {"parquet": ".parquet", "feather": ".arrow"}
"""Formats of standard input that are read from a temporary file, and its endings."""
_FIRST_BYTES = {b"PAR1": "parquet", b"ARROW1": "feather", b"\xff\xff\xff\xff": "arrow"}
NAME = "standard input"
_KEY = "standard_input"
_PIPE = "pipe"
"""Keys of the context's meta: what standard input has, and the pipe that is read in its place."""


@dataclass(frozen=True, slots=True)
class Piped:
    """The contents of standard input."""

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
        meta[_KEY] = _open(_opened_pipe(meta[_PIPE]) if _PIPE in meta else sys.stdin.buffer, kind)
    return meta[_KEY]


def _opened_pipe(path: str) -> IO[bytes]:
    """Open a pipe by Python, so that a signal ends the wait for its writer."""
    pipe = open(path, "rb")  # noqa: SIM115  # closed with the command

    def close() -> None:
        # Closing would wait for the thread that is reading the pipe.
        if not is_reading():
            pipe.close()

    click.get_current_context().call_on_close(close)
    return pipe


def pipe_as_input(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Replace the path of a pipe by -: it is read once, as standard input is."""
    del param
    words = value if isinstance(value, tuple) else (value,)
    for word in filter(is_pipe, words):
        if _PIPE in ctx.meta:
            raise click.UsageError(
                f"{ctx.meta[_PIPE]!r} and {word!r} are both pipes, of which a command reads one; "
                "write one of them to a file first"
            )
        ctx.meta[_PIPE] = word
        words = tuple("-" if each == word else each for each in words)
    return words if isinstance(value, tuple) else words[0]


def _name_of_input() -> str:
    """Standard input, or the pipe that was given for it by its path."""
    ctx = click.get_current_context(silent=True)
    return NAME if ctx is None or _PIPE not in ctx.meta else repr(ctx.meta[_PIPE])


def _open(file: Any, kind: str | None) -> Piped:
    if kind is None:
        head = file.read(max(map(len, _FIRST_BYTES)))
        if not head:
            raise click.UsageError(
                f"{_name_of_input()} is empty; pipe rows or a saved coreset into this command"
            )
        kind = next((name for first, name in _FIRST_BYTES.items() if head.startswith(first)), None)
        if kind is None:
            raise click.UsageError(
                f"--format is missing; {_name_of_input()} is neither Parquet nor Arrow, so pass "
                "--format csv or --format tsv"
            )
        from lwcs.sources.files.csv import Chained

        file = Chained(head, file)
    if kind not in _PIPED:
        raise click.UsageError(
            f"--format {kind} cannot be read from {NAME}; pass a file, or one of "
            f"{', '.join(_PIPED)}"
        )
    return _copied(file, _COPIED[kind]) if kind in _COPIED else Piped(kind, file)


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


def open_rows(
    data: tuple[str, ...],
    *,
    columns: Sequence[str] | None,
    weight: str | None,
    missing: str,
    dates: str | None = None,
    format: str | None = None,  # noqa: A002
    exclude: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    standardize: bool = False,
    memory: int | None = None,
    storage_option: Sequence[str] = (),
    **dialect: Any,
) -> Source:
    """Open the DATA of a command: files or standard input; `keep` columns beside the rows."""
    options: dict[str, Any] = {
        "columns": columns,
        "exclude": exclude,
        "weight": weight,
        "missing": missing,
        "dates": dates,
        "scale": "standard" if standardize else None,
        "memory_limit": memory,
    }
    # What is kept counts as well: the limit is checked once that is known.
    limit = options.pop("memory_limit") if keep else None
    refuse_unused()
    # A copy of standard input has an ending, which says its format.
    given = None if "-" in data else "feather" if format == "arrow" else format
    data = in_files(data, format)
    if len(data) > 1 and "-" in data:
        raise click.UsageError("DATA mixes - (standard input) with files; pass either - or files")
    if data == ("-",):
        from lwcs.sources.scan_options import Dialect, Fitted, read_as
        from lwcs.sources.streams import open_pipe

        piped = standard_input(format)
        as_text = _kept_alone(keep, options["columns"], weight)
        if piped.kind == "arrow" and (given_dialect := given_flags(dialect)):
            raise click.UsageError(f"{given_dialect[0]} is for CSV, not for Arrow; leave it out")
        known = columns.reading if isinstance(columns, Fitted) else {}
        written = Dialect(**dialect).completed(columns)
        as_days = (dates or known.get("dates")) is not None
        reader = open_pipe(piped.file, piped.kind, written, as_text, dates=as_days)
        source = lwcs.scan(reader, **options)
        source.reading = read_as(written, missing, dates)
    elif not data:
        raise click.UsageError(
            "DATA is missing; pass files, a folder, a glob pattern, or - for standard input"
        )
    else:
        files = data[0] if len(data) == 1 else list(data)
        # Without a URI in DATA, the options are for the output.
        store = access_of(storage_option) if any(map(is_uri, data)) else Access()
        options |= {"format": given, "storage_options": store.storage_options}
        source = lwcs.scan(files, **options, **dialect)
    if keep:
        _keep(source, keep)
        if limit is not None:
            source.limit_memory(limit)
    return source


def in_files(data: tuple[str, ...], kind: str | None) -> tuple[str, ...]:
    """DATA, with standard input as a temporary file where it has one; else it is read once."""
    if data != ("-",):
        return data
    path = standard_input(kind).path
    return data if path is None else (path,)


def _keep(source: Source, columns: Sequence[str]) -> None:
    from lwcs.sources.sequence import SequenceSource

    if not isinstance(source, SequenceSource):
        raise click.UsageError(
            f"--keep {','.join(columns)} names columns, but DATA has no column names; leave it out"
        )
    source.keep(columns)


def _kept_alone(
    keep: Sequence[str], columns: Sequence[str] | None, weight: str | None
) -> Callable[[list[str]], list[str]]:
    """Which columns of CSV are kept and neither features nor weights, so that they stay text."""
    from lwcs.sources.columns import matched, named

    def find(names: list[str]) -> list[str]:
        if not keep or columns is None:
            return []
        used = {*named(columns, names, weight), weight}
        return [name for name in matched(keep, names, "keep") if name not in used]

    return find


def given_flags(names: Collection[str]) -> list[str]:
    """The flags of these options that were given on the command line, as they were written."""
    ctx = click.get_current_context()
    flags = []
    for option in ctx.command.params:
        if (
            isinstance(option, click.Option)
            and option.name in names
            and ctx.get_parameter_source(option.name) == ParameterSource.COMMANDLINE
        ):
            off = option.secondary_opts and ctx.params.get(option.name) is False
            flags.append((option.secondary_opts if off else option.opts)[-1])
    return flags


_ALWAYS = {"format", "storage_option"}
_FIXED = ("size", "target_error", "method", "standardize", "memory")
ON_ALL_ROWS = ("polish", "cost")


def coreset_of(data: tuple[str, ...], options: dict[str, Any]) -> Coreset | None:
    """Return the union of DATA if they are coresets or streams, and None if they are not.

    Options that a coreset fixes are refused; `options` are those for reading rows.
    """
    from lwcs.storage.persistence import is_ours

    data = in_files(data, options["format"])
    if not data or not all(is_ours(one, access_to(one)) for one in data):
        return None
    found = []
    for name in data:
        one = lwcs.load(name, **keywords(name))
        if isinstance(one, lwcs.StreamingCoreset):
            if not one.n_samples:
                raise ValueError(f"{name!r} is a saved stream that has no rows yet; pass another")
            one = one.coreset()
        if not isinstance(one, lwcs.Coreset):
            raise ValueError(
                f"{name!r} is a saved {type(one).__name__}, not rows or a coreset; pass data "
                "files, coresets that `lwcs build` wrote, or saved streams"
            )
        found.append(one)
    whole = found[0]
    for one in found[1:]:
        whole = whole + one
    if given := given_flags({*options, *_FIXED, *ON_ALL_ROWS} - _ALWAYS):
        raise click.UsageError(
            "DATA is a coreset, whose size, columns, weights and scale are fixed and whose "
            f"original rows are not available; leave out {', '.join(given)}"
        )
    return whole
