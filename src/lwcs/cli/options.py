"""Kinds of values that options take: lists of numbers and of names, amounts of memory."""

from __future__ import annotations

import csv
import json
from inspect import signature
from typing import TYPE_CHECKING, Any

import click

from lwcs.arrays.checks import parse_bytes
from lwcs.cli.inputs import FORMATS, STORAGE_OPTION
from lwcs.cli.logs import FLAG, write, write_result
from lwcs.divergences import Mahalanobis, SquaredEuclidean, available
from lwcs.samplers import available as available_samplers

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.coreset.coreset import Coreset
    from lwcs.divergences import Divergence


class IntegerList(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Parameter type: integers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 1000,2000 into [1000, 2000]."""
        if not isinstance(value, str):
            return value
        try:
            return [int(part.replace("_", "")) for part in value.split(",")]
        except ValueError:
            self.fail(
                f"{value!r} is not a list of integers; pass for example 1000,2000", param, ctx
            )


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: an amount of memory."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 512MB into 512000000."""
        if not isinstance(value, str):
            return value
        amount = parse_bytes(value)
        if amount is None:
            self.fail(
                f"{value!r} is not an amount of memory; pass for example 512MB or 2GB", param, ctx
            )
        return amount


class Names(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: names separated by commas, written as in a line of a CSV file."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn a,b into ["a", "b"], and "a,b" in double quotes into ["a,b"]."""
        if not isinstance(value, str):
            return value
        try:
            return next(csv.reader([value], strict=True)) or [""]
        except csv.Error:
            self.fail(
                f"{value!r} is not a list of names; separate them by commas, and put a name that "
                "has a comma, a quote or a line break in double quotes, with its own quotes "
                "doubled",
                param,
                ctx,
            )


DIVERGENCES = tuple(name for name in available() if name != Mahalanobis.name)


def _noted(ctx: click.Context, option: click.Parameter, value: bool) -> bool:
    """Tell the group of commands, which reports errors and warnings."""
    ctx.meta[str(option.name)] = value
    return value


_CHOOSING = [
    click.option(
        "--columns",
        type=Names(),
        help="Names or patterns of the columns to use, separated by commas; a name that has a "
        "comma in double quotes.",
    ),
    click.option(
        "--exclude",
        type=Names(),
        help="Names or patterns of columns not to use, separated by commas.",
    ),
    click.option("--weight", help="Column with the weight of each row."),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="Whether a missing value is an error or its row is dropped.",
    ),
    click.option("--delimiter", help="Character between values of CSV files.  [default: found]"),
    click.option("--decimal", help="Decimal separator of CSV files.  [default: found]"),
    click.option("--thousands", help="Thousands separator of CSV files.  [default: none]"),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether CSV files begin with the names of their columns.  [default: found]",
    ),
    click.option("--encoding", help="Encoding of CSV files.  [default: found]"),
    STORAGE_OPTION,
    click.option(
        "--format",
        type=click.Choice(FORMATS),
        help="Format of files whose names do not say it, or of standard input.  "
        "[default: by the ending; Parquet and Arrow are recognized]",
    ),
]
_READING = [
    *_CHOOSING,
    click.option("--jobs", type=click.IntRange(1), help="Number of threads.  [default: all cores]"),
    click.option(
        "--memory",
        type=Bytes(),
        help="Maximum memory for rows that are being read, for example 512MB, on top of about "
        "250MB for Python and its libraries.  [default: 1GB, or 256MB per core]",
    ),
]
_METHOD = click.option(
    "--method",
    default="lightweight",
    show_default=True,
    type=click.Choice(list(available_samplers())),
    help="Sampling method.",
)
_METHOD_OR_AUTO = click.option(
    "--method",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", *available_samplers()]),
    help="Sampling method; auto: chosen by the data.",
)
_DEVICE = click.option(
    "--device",
    help="Device that rows go through, block by block, such as cuda or cuda:1; requires torch.  "
    "[default: none, computed on the CPU]",
)
SEED = click.option(
    "--seed",
    type=click.IntRange(0),
    help="Random seed; the same seed gives the same result.",
)
_MEASURING = [
    click.option(
        "--divergence",
        type=click.Choice(DIVERGENCES),
        help="Divergence that costs are measured by.  "
        "[default: sqeuclidean; for a coreset, its own]",
    ),
    click.option(
        "--smoothing",
        type=click.FloatRange(0.0, 1.0, max_open=True),
        help="For kl, kl_simplex and logistic: how far rows are moved towards the mean.  "
        "[default: 0.1]",
    ),
    click.option(
        "--floor",
        type=click.FloatRange(0.0),
        help="For itakura_saito: smaller values are replaced by this one.",
    ),
    click.option(
        "--standardize",
        is_flag=True,
        help="Divide each column by its standard deviation when distances are measured.",
    ),
]
_LOGGING = [
    click.option(
        FLAG,
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_noted,
        help="Log to standard error, one JSON object per line; with --debug, also decisions.",
    ),
]
_SAYING = [
    click.option(
        "--quiet", "-q", is_flag=True, is_eager=True, callback=_noted, help="Print only errors."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_noted,
        help="Show the traceback of an error.",
    ),
    *_LOGGING,
]


def choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for which columns and rows of a file to use, and how it is written."""
    return _with(command, _CHOOSING)


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading rows."""
    return _with(command, _READING)


def drawing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for sampling."""
    return _with(command, [_METHOD, SEED])


def drawing_or_auto(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for sampling, where the method may be chosen by the data."""
    return _with(command, [_METHOD_OR_AUTO, SEED])


def measuring(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the divergence and the scale."""
    return _with(command, _MEASURING)


def computing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for the device that computes."""
    return _with(command, [_DEVICE])


def logging(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for logs, which the others for output include."""
    return _with(command, _LOGGING)


def saying(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for output and errors."""
    return _with(command, _SAYING)


def _with(command: Callable[..., Any], options: list[Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def divergence_of(
    name: str | None, smoothing: float | None, floor: float | None, coreset: Coreset | None = None
) -> Divergence:
    """Return the divergence that the options describe; by default, that of the coreset."""
    if coreset is not None and name is None and smoothing is None and floor is None:
        return coreset.divergence
    name = name or SquaredEuclidean.name
    kind = available()[name]
    given = {"smoothing": smoothing, "floor": floor}
    options = {key: value for key, value in given.items() if value is not None}
    for key in options:
        if key not in signature(kind).parameters:
            raise click.UsageError(f"--divergence {name} does not take --{key}; leave it out")
    return kind(**options)


def rows_words(rows: int, dropped: int) -> str:
    """How many rows were used, and of how many if some were dropped."""
    return f"{rows - dropped:,} of {rows:,} rows" if dropped else f"{rows:,} row{'s' * (rows != 1)}"


def dropped_words(dropped: int) -> str:
    """The part of a sentence that tells how many rows were dropped."""
    rows = "row with a missing value was" if dropped == 1 else "rows with missing values were"
    return f"; {dropped:,} {rows} dropped" if dropped else ""


def answer(facts: dict[str, Any], words: str, *, quiet: bool, as_json: bool) -> None:
    """Print what a command has found out: on standard output, in words or as JSON."""
    if as_json:
        click.echo(json.dumps(facts))
    elif not quiet:
        write_result(words, result=facts)


def say(facts: dict[str, Any], sentence: str, *, quiet: bool, as_json: bool) -> None:
    """Print the result: JSON on standard output, or a sentence on standard error."""
    if as_json:
        click.echo(json.dumps(facts))
    elif not quiet:
        write(sentence, event="result", result=facts)


class OrWord(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Parameter type: a number in a range, or one word, which stands for `meaning`."""

    def __init__(self, number: click.ParamType, word: str, meaning: Any) -> None:  # type: ignore[type-arg]
        self._number, self._word, self._meaning = number, word, meaning
        self.name = f"{number.name.removesuffix(' range')}|{word}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn the word into its meaning, anything else into a number."""
        if value in (self._word, self._meaning):
            return self._meaning
        try:
            return self._number.convert(value, param, ctx)
        except click.BadParameter as bad:
            self.fail(f"{bad.message.rstrip('.')}; pass a number or {self._word!r}", param, ctx)


_SIZING = [
    click.option(
        "--target-error",
        default="0.02",
        show_default=True,
        metavar="FLOAT|none",
        type=OrWord(click.FloatRange(0.0, min_open=True), "none", None),
        help="Without --size: how far the answer may be off because of sampling; more rows are "
        "drawn until it is nearer. none: one draw, without an estimate.",
    ),
    click.option(
        "--holdout",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0.0, 0.5),
        help="With --size, or for a coreset: part of the draws that is held back to estimate how "
        "far the answer is off.",
    ),
    click.option(
        "--n-init",
        default="auto",
        show_default=True,
        metavar="INTEGER|auto",
        type=OrWord(click.IntRange(1), "auto", "auto"),
        help="Number of restarts; the best one is kept. auto: several where they are cheap.",
    ),
]


def sizing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --target-error, --holdout and --n-init."""
    for option in reversed(_SIZING):
        command = option(command)
    return command


def judging(size: str, confidence: str) -> Callable[[Any], Any]:
    """Add --confidence, --size and --seed to a command that draws rows, with words of help."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = SEED(command)
        command = click.option("--size", type=click.IntRange(1), help=size)(command)
        return confidence_option(confidence)(command)

    return add


def confidence_option(words: str) -> Callable[[Any], Any]:
    """The option --confidence, a probability that is neither 0 nor 1, with these words of help."""
    return click.option(
        "--confidence",
        default=0.95,
        show_default=True,
        type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
        help=words,
    )
