"""Options that commands share, and what they mean: which rows, how to read them, what to say."""

from __future__ import annotations

import json
import re
import sys
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lwcs.divergences import Mahalanobis, SquaredEuclidean, available
from lwcs.samplers import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.coreset import Coreset
    from lwcs.divergences import Divergence
    from lwcs.sources import Source

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}
DIVERGENCES = tuple(name for name in available() if name != Mahalanobis.name)
STDIN_FORMATS = ("csv", "tsv", "arrow")


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Whole numbers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 1000,2000 into [1000, 2000]."""
        if not isinstance(value, str):
            return value
        try:
            return [int(part.replace("_", "")) for part in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is no list of whole numbers such as 1000,2000", param, ctx)


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 512MB into 512000000."""
        if not isinstance(value, str):
            return value
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMG]?I?)B?", value.strip().upper())
        if match is None or match[2] not in _UNITS:
            self.fail(f"{value!r} is no amount of memory such as 512MB or 2GB", param, ctx)
        return int(float(match[1]) * _UNITS[match[2]])


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.find_root().meta["debug"] = value
    ctx.meta["debug"] = value


_READING = [
    click.option("--columns", help="Columns to use, by name or pattern, separated by commas."),
    click.option("--weight", help="Column that holds the weight of a row."),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="What to do with rows that have a missing value.",
    ),
    click.option(
        "--format",
        "stdin_format",
        type=click.Choice(STDIN_FORMATS),
        help="What comes from standard input, if DATA is -.",
    ),
    click.option("--jobs", type=click.IntRange(1), help="Threads; all cores by default."),
    click.option(
        "--memory", type=Bytes(), help="Most memory for rows that are being read, as in 512MB."
    ),
]
_DRAWING = [
    click.option(
        "--method",
        default="lightweight",
        show_default=True,
        type=click.Choice(METHODS),
        help="How rows are drawn.",
    ),
    click.option("--seed", type=click.IntRange(0), help="Seed; the same gives the same result."),
]
_MEASURING = [
    click.option(
        "--divergence",
        type=click.Choice(DIVERGENCES),
        help="What costs are made of.  [default: sqeuclidean; of a coreset, its own]",
    ),
    click.option(
        "--smoothing",
        type=click.FloatRange(0.0, 1.0, max_open=True),
        help="Of kl, kl_simplex and logistic: how far rows go towards the mean.  [default: 0.1]",
    ),
    click.option(
        "--floor",
        type=click.FloatRange(0.0),
        help="Of itakura_saito: the smallest number that counts.",
    ),
    click.option(
        "--standardize", is_flag=True, help="Measure in standard deviations of each column."
    ),
]
_SAYING = [
    click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors."),
    click.option("--json", "as_json", is_flag=True, help="Say the result as JSON."),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_debug,
        help="Show the traceback of an error.",
    ),
]


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which rows to read, and how."""
    return _with(command, _READING)


def drawing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how rows are drawn."""
    return _with(command, _DRAWING)


def measuring(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what distances are."""
    return _with(command, _MEASURING)


def saying(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what to print."""
    return _with(command, _SAYING)


def _with(command: Callable[..., Any], options: list[Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def divergence_of(
    name: str | None, smoothing: float | None, floor: float | None, coreset: Coreset | None = None
) -> Divergence:
    """The divergence that the options name, with the parameters that they give."""
    if coreset is not None and name is None and smoothing is None and floor is None:
        return coreset.divergence
    name = name or SquaredEuclidean.name
    kind = available()[name]
    given = {"smoothing": smoothing, "floor": floor}
    options = {key: value for key, value in given.items() if value is not None}
    for key in options:
        if key not in signature(kind).parameters:
            raise click.UsageError(f"--divergence {name} has no --{key}; leave it out")
    return kind(**options)


def open_rows(
    data: tuple[str, ...],
    *,
    columns: str | list[str] | None,
    weight: str | None,
    missing: str,
    stdin_format: str | None,
    standardize: bool = False,
    quiet: bool = False,
) -> Source:
    """Scan the files that a command was given, or standard input."""
    import lwcs

    options: dict[str, Any] = {
        "columns": columns.split(",") if isinstance(columns, str) else columns,
        "weight": weight,
        "missing": missing,
        "scale": "standard" if standardize else None,
    }
    if data == ("-",):
        from lwcs.sources.pipes import open_pipe

        if stdin_format is None:
            raise click.UsageError(
                f"say what comes from standard input with --format: {', '.join(STDIN_FORMATS)}"
            )
        source = lwcs.scan(open_pipe(sys.stdin.buffer, stdin_format), **options)
    elif not data:
        raise click.UsageError("name some DATA: files, a folder, a glob, or - for standard input")
    else:
        if _is_array(data):
            options = {k: v for k, v in options.items() if v not in (None, "error")}
        source = lwcs.scan(data[0] if len(data) == 1 else list(data), **options)
    skipped = getattr(source, "skipped", ())
    if skipped and not quiet:
        some = ", ".join(map(repr, skipped[:5])) + (", …" if len(skipped) > 5 else "")
        click.echo(f"Left out, since they hold no numbers: {some}", err=True)
    return source


def _is_array(data: tuple[str, ...]) -> bool:
    return all(Path(one).suffix in (".npy", ".npz") for one in data)


def within_memory(source: Source, memory: int | None, jobs: int | None) -> int:
    """Choose threads and read-ahead so that rows in flight fit; return the threads."""
    from lwcs.foundation.parallel import as_threads
    from lwcs.sources.base import PARTITION_ROWS
    from lwcs.sources.sequence import SequenceSource

    threads = as_threads(jobs)
    if memory is None or not isinstance(source, SequenceSource):
        return threads
    partition = PARTITION_ROWS * source.n_features * source.dtype.itemsize
    # One is filled, some wait, and up to two a thread are worked on.
    fitting = memory // partition - 1
    if fitting < 3:
        raise click.UsageError(
            f"--memory {memory / 1e6:.0f}MB is too little for {source.n_features} columns; pass at "
            f"least {4 * partition / 1e6:.0f}MB"
        )
    source.in_flight = 1 if fitting < 6 else 2
    return int(max(1, min(threads, (fitting - source.in_flight) // 2)))


def say(facts: dict[str, Any], sentence: str, *, quiet: bool, as_json: bool) -> None:
    """Tell the result: a sentence for people, JSON for machines."""
    if as_json:
        click.echo(json.dumps(facts))
    elif not quiet:
        click.echo(sentence, err=True)


def check_output(path: str) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    from lwcs.foundation.storage import check_target

    if path == "-":
        return
    try:
        check_target(path)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error


def check_parquet(path: str) -> None:
    """Refuse to write Parquet into a file that is called otherwise."""
    if path.endswith((".csv", ".json", ".txt", ".npy")):
        raise click.UsageError(f"{path!r} would be a Parquet file; call it .parquet")


def write_to(path: str, write: Callable[[str], None]) -> None:
    """Write a file, or standard output for ``-``."""
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
