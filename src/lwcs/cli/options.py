"""Options that several commands have, and how commands write their result.

Flags about output (--quiet, --json, --debug, --log-json) are not passed to commands: they are in
the context's meta, where `logs.is_set` and the group of commands look them up.
"""

from __future__ import annotations

import json
from inspect import signature
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.inputs import FORMATS, STORAGE_OPTION, pipe_as_input
from lwcs.cli.logs import FLAG, is_set, write, write_result
from lwcs.cli.parameter_types import BYTES, NAMES, PATH, Choice, NumberOrWord
from lwcs.divergences import Mahalanobis, SquaredEuclidean, available
from lwcs.samplers import available as available_samplers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lwcs.coreset.coreset import Coreset
    from lwcs.divergences import Divergence

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _families() -> Iterable[str]:
    from lwcs.solvers import families

    return families.available()


def _covariances() -> Iterable[str]:
    from lwcs.solvers.families.gaussian import COVARIANCES

    return COVARIANCES


def _options(*options: Decorator) -> Decorator:
    """One decorator for several options, in the order in which --help lists them."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def with_default(*names: str, default: Any, **attributes: Any) -> Decorator:
    """An option whose default is shown by --help."""
    return click.option(*names, default=default, show_default=True, **attributes)


def _in_meta(ctx: click.Context, option: click.Parameter, value: bool) -> bool:
    ctx.meta[str(option.name)] = value
    return value


def _output_flag(*names: str, **attributes: Any) -> Decorator:
    """A flag about output, which is in the context's meta."""
    return click.option(
        *names, is_flag=True, expose_value=False, is_eager=True, callback=_in_meta, **attributes
    )


# Decorators of commands, such as @options.device; --help lists options in the order of decorators.
data = click.argument("data", nargs=-1, type=PATH, callback=pipe_as_input)
model = click.argument("model", type=PATH, callback=pipe_as_input)
file = click.argument("file", type=PATH, callback=pipe_as_input)
model_output = click.option(
    "-o", "--output", required=True, type=PATH, help="Model file (Parquet); - for standard output."
)
coreset_output = click.option(
    "-o",
    "--output",
    required=True,
    type=PATH,
    help="Output file (Parquet); - for standard output.",
)
seed = click.option(
    "--seed", type=click.IntRange(0), help="Random seed; the same seed gives the same result."
)
device = click.option(
    "--device",
    help="Device that rows go through, block by block, such as cuda or cuda:1; requires torch.  "
    "[default: none, computed on the CPU]",
)
selection = _options(
    click.option(
        "--columns",
        type=NAMES,
        help="Names or patterns of the columns to use, separated by commas; a name that has a "
        "comma in double quotes.",
    ),
    click.option(
        "--exclude",
        type=NAMES,
        help="Names or patterns of columns not to use, separated by commas.",
    ),
    click.option("--weight", help="Column with the weight of each row."),
    with_default(
        "--missing",
        type=Choice(["error", "drop"]),
        default="error",
        help="Whether a missing value is an error or its row is dropped.",
    ),
    click.option(
        "--dates",
        type=click.Choice(["days"]),
        help="Use columns of dates as numbers: days since 1970.  [default: left out]",
    ),
    click.option("--delimiter", help="Character between values of CSV files.  [default: detected]"),
    click.option("--decimal", help="Decimal separator of CSV files.  [default: detected]"),
    click.option("--thousands", help="Thousands separator of CSV files.  [default: none]"),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether CSV files begin with the names of their columns.  [default: detected]",
    ),
    click.option("--encoding", help="Encoding of CSV files.  [default: detected]"),
    STORAGE_OPTION,
    click.option(
        "--format",
        type=Choice(FORMATS),
        help="Format of files whose names do not say it, or of standard input.  "
        "[default: by the ending; Parquet and Arrow are recognized]",
    ),
)
"""Which columns and rows of files are used, and how the files are written."""
reading = _options(
    selection,
    click.option("--jobs", type=click.IntRange(1), help="Number of threads.  [default: all cores]"),
    click.option(
        "--memory",
        type=BYTES,
        help="Maximum memory for rows that are being read, for example 512MB, on top of about "
        "250MB for Python and its libraries.  [default: 1GB, or 256MB per core]",
    ),
)
_METHODS = list(available_samplers())
sampling = _options(
    with_default("--method", default="lightweight", type=Choice(_METHODS), help="Sampling method."),
    seed,
)
auto_sampling = _options(
    with_default(
        "--method",
        default="auto",
        type=Choice(["auto", *_METHODS]),
        help="Sampling method; auto: chosen by the data.",
    ),
    seed,
)
divergence = _options(
    click.option(
        "--divergence",
        type=Choice([name for name in available() if name != Mahalanobis.name]),
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
)
accuracy = _options(
    with_default(
        "--target-error",
        default="0.02",
        metavar="FLOAT|none",
        type=NumberOrWord(click.FloatRange(0.0, min_open=True), "none", None),
        help="Without --size: how far the answer may be off because of sampling; more rows are "
        "drawn until it is nearer. none: one draw, without an estimate.",
    ),
    with_default(
        "--holdout",
        default=0.0,
        type=click.FloatRange(0.0, 0.5),
        help="With --size, or for a coreset: part of the draws that is held back to estimate how "
        "far the answer is off.",
    ),
    with_default(
        "--n-init",
        default="auto",
        metavar="INTEGER|auto",
        type=NumberOrWord(click.IntRange(1), "auto", "auto"),
        help="Number of restarts; the best one is kept. auto: several where they are cheap.",
    ),
)
report = click.option(
    "--report", type=PATH, help="Also write a report: one HTML file for any browser."
)
log = _output_flag(
    FLAG, help="Log to standard error, one JSON object per line; with --debug, also decisions."
)
output = _options(
    _output_flag("--quiet", "-q", help="Print only errors."),
    _output_flag("--json", "as_json", help="Print the result as JSON."),
    _output_flag("--debug", help="Show the traceback of an error."),
    log,
)


def size(size_help: str) -> Decorator:
    """The option --size, a number of draws."""
    return click.option("--size", type=click.IntRange(1), help=size_help)


def confidence(confidence_help: str) -> Decorator:
    """The option --confidence, a probability that is neither 0 nor 1."""
    return with_default(
        "--confidence",
        default=0.95,
        type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
        help=confidence_help,
    )


def interval(*, size_help: str, confidence_help: str) -> Decorator:
    """Options of estimates with an interval: --confidence, --size and --seed."""
    return _options(confidence(confidence_help), size(size_help), seed)


def iteration(max_iter: int, tol: Any, **attributes: Any) -> Decorator:
    """The options --max-iter and --tol with these defaults; `attributes` are those of --tol."""
    return _options(
        with_default(
            "--max-iter",
            default=max_iter,
            type=click.IntRange(1),
            help="Maximum number of iterations per restart.",
        ),
        with_default("--tol", default=tol, **attributes),
    )


def family(family_help: str, covariance_help: str) -> Decorator:
    """The options --family and --covariance of mixtures."""
    return _options(
        with_default("--family", default="gaussian", type=Choice(_families), help=family_help),
        with_default(
            "--covariance", default="full", type=Choice(_covariances), help=covariance_help
        ),
    )


FIT_PARAMETERS = ("method", "target_error", "holdout", "n_init", "max_iter", "tol")
"""Options of `fit` and `mixture` that are parameters of the models, under the same names."""


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


def coreset_size(draws: int | None, k: int, flag: str) -> int | str:
    """The value of --size as the parameter of a model with `k` clusters, which `flag` gave."""
    if draws is not None and draws < k:
        raise click.UsageError(
            f"--size {draws} is smaller than {flag} {k}; pass --size {k} or more"
        )
    return "auto" if draws is None else draws


def rows_text(rows: int, dropped: int) -> str:
    """How many rows were used, and of how many if some were dropped."""
    return f"{rows - dropped:,} of {rows:,} rows" if dropped else f"{rows:,} row{'s' * (rows != 1)}"


def dropped_text(dropped: int) -> str:
    """The part of a sentence that tells how many rows were dropped."""
    rows = "row with a missing value was" if dropped == 1 else "rows with missing values were"
    return f"; {dropped:,} {rows} dropped" if dropped else ""


def wrote_text(*files: str | None) -> str:
    """The part of a sentence that names the files that were written."""
    written = [each for each in files if each is not None and each != "-"]
    return f"; wrote {' and '.join(written)}" if written else ""


def wrote_lines(*files: str | None) -> list[str]:
    """The line that names the files that were written, if there are any."""
    words = wrote_text(*files).removeprefix("; ")
    return [f"{words[0].upper()}{words[1:]}."] if words else []


def width_of_answers() -> int | None:
    """How wide tables on standard output may be; None for a file or a pipe, which have no width."""
    from lwcs.cli.terminal import Terminal

    return Terminal().given_width


def print_answer(facts: dict[str, Any], text: str) -> None:
    """Print the result on standard output: as text or, with --json, as JSON."""
    if not _printed_as_json(facts):
        write_result(text, result=facts)


def print_summary(facts: dict[str, Any], sentence: str) -> None:
    """Print what a command did: a sentence on standard error or, with --json, JSON."""
    if not _printed_as_json(facts):
        write(sentence, event="result", result=facts)


def _printed_as_json(facts: dict[str, Any]) -> bool:
    """Print JSON with --json; return whether nothing more is to be printed."""
    if is_set("as_json"):
        click.echo(json.dumps(facts))
    return is_set("as_json") or is_set("quiet")
