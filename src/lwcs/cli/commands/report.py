"""`lwcs report`: an HTML page about a model that was saved."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.errors import ARGUMENTS, without_passwords, without_queries
from lwcs.cli.inputs import access_to, coreset_of, given_flags, load_model, open_for
from lwcs.cli.logs import progress
from lwcs.cli.options import dropped_words, judging, reading, rows_words, say, saying
from lwcs.cli.outputs import check_with, refuse_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import lwcs
    from lwcs.coreset.coreset import Coreset
    from lwcs.evaluation.certification_targets import Target
    from lwcs.statistics.certificate import Certificate


MODEL_FIRST = "pass a file that `lwcs fit` or `lwcs mixture` wrote first, and then DATA"


@click.command()
@click.argument("model")
@click.argument("data", nargs=-1)
@click.option(
    "-o", "--output", default="report.html", show_default=True, help="HTML file to write."
)
@click.option("--title", help="Title of the report.  [default: the name of DATA]")
@judging(
    size="Number of draws, if DATA are rows; all of them if there are no more.  [default: 20000]",
    confidence="Probability that the interval of the certificate has the true cost.",
)
@reading
@saying
def report(
    model: str,
    data: tuple[str, ...],
    output: str,
    title: str | None,
    confidence: float,
    size: int | None,
    seed: int | None,
    columns: list[str] | None,
    jobs: int | None,
    memory: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a report about the clusters of MODEL: one HTML file for any browser.

    MODEL is a file written by `lwcs fit` or `lwcs mixture`. DATA is the coreset that describes its
    rows, written by `lwcs build` (or a saved StreamingCoreset); or the rows themselves, as files, a
    folder, a glob pattern or - for standard input, which are then drawn from.

    Example: lwcs report model.parquet coreset.parquet -o report.html

    If the coreset or the rows know nothing of the fit, the report has a certificate of the cost.
    """
    from lwcs.evaluation.certification import drawn_and_certified
    from lwcs.evaluation.certification_targets import as_target

    start = time.perf_counter()
    check_report(output, (model, *data), "--output")
    if not data:
        raise click.UsageError(
            "DATA is missing, and MODEL has no rows to describe its clusters by; pass a coreset "
            "that `lwcs build` wrote, or the rows"
        )
    fitted = load_model(model, data, MODEL_FIRST)
    target = as_target(fitted, None)
    rows: Any = coreset_of(data, {"columns": columns, **options})
    left_out: tuple[str, ...] = ()
    if rows is not None:
        if given := given_flags(("seed",)):
            raise click.UsageError(
                f"DATA is a coreset, which has its own draws; leave out {given[0]}"
            )
        coreset, certificate = rows, _certificate(rows, target, confidence)
    else:
        seed = seed_to_use(seed, output)
        scaled = getattr(fitted, "scale_", None) is not None
        rows = open_for(fitted, data, columns, standardize=scaled, memory=memory, **options)
        coreset, certificate = drawn_and_certified(
            rows,
            target,
            confidence,
            size=size,
            random_state=seed,
            n_jobs=jobs,
            progress=progress(quiet),
        )
        left_out = tuple(rows.skipped)
    write_report(
        fitted, output, data, coreset=coreset, certificate=certificate, title=title,
        rewriting=command_line(seed), left_out=left_out,
    )  # fmt: skip
    called = "component" if hasattr(fitted, "mixture_") else "cluster"
    dropped = coreset.details.get("dropped", 0)
    facts = {
        "clusters": target.k,
        "rows": coreset.n_samples,
        "size": coreset.size,
        "certified": certificate is not None,
        "dropped": dropped,
        "report": output,
        "seconds": round(time.perf_counter() - start, 3),
    }
    say(
        facts,
        f"Described {target.k:,} {called}{'s' * (target.k != 1)} by {coreset.size:,} draws of "
        f"{rows_words(coreset.n_samples, dropped)}{dropped_words(dropped)}; wrote {output}",
        quiet=quiet,
        as_json=as_json,
    )


def _certificate(
    coreset: lwcs.Coreset, target: Target, confidence: float
) -> lwcs.Certificate | None:
    """A certificate by a coreset; none if the model was fitted on it."""
    from lwcs.evaluation.certification import drawn_and_certified
    from lwcs.evaluation.certification_targets import NotIndependentError

    try:
        _, found = drawn_and_certified(coreset, target, confidence)
    except NotIndependentError:
        return None
    return None if found.biased else found


_SECRET = "--storage-option"
_SEEDS = 2**32


def reporting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for a report."""
    return click.option(
        "--report", metavar="FILE", help="Also write a report: one HTML file for any browser."
    )(command)


def check_report(path: str, inputs: Iterable[str], flag: str = "--report") -> None:
    """Check where a report is written to, and that it can be made, before any work is done."""
    from lwcs.reporting.figures import bokeh
    from lwcs.reporting.page import check_ending
    from lwcs.storage.atomic_write import check_target

    try:
        check_ending(path)
    except ValueError as error:
        raise click.UsageError(str(error).replace("path=", f"{flag} ")) from None
    check_with(check_target, path)
    refuse_input(path, inputs, flag)
    bokeh()


def write_report(
    model: Any,
    path: str,
    data: tuple[str, ...],
    *,
    coreset: Coreset | None = None,
    certificate: Certificate | None = None,
    title: str | None = None,
    command: str | None = None,
    rewriting: str | None = None,
    left_out: Iterable[str] = (),
) -> None:
    """Write the report of a model that was fitted to DATA."""
    from lwcs.reporting.facts import Origin
    from lwcs.reporting.page import write_report as write

    origin = Origin(title or _named(data), command, rewriting, tuple(map(str, left_out)))
    write(model, path, coreset, origin, certificate, access_to(path))


def wrote_words(output: str, report: str | None) -> str:
    """The part of a sentence that tells which files were written."""
    written = [each for each in (output, report) if each not in ("-", None)]
    return f"; wrote {' and '.join(map(str, written))}" if written else ""


def _named(data: tuple[str, ...]) -> str:
    """What the data is called: by the name of its file, without folders."""
    if data == ("-",):
        return "Rows of standard input"
    name = without_passwords(without_queries(data[0])).rstrip("/")
    first = name.rsplit("/", 1)[-1] or name or data[0]
    return first if len(data) == 1 else f"{first} and {len(data) - 1} more"


def seed_to_use(seed: int | None, report: str | None) -> int | None:
    """The seed that was given; one is drawn for a report, which says how to repeat the fit."""
    from lwcs.runtime.randomness import as_seed

    # Short enough to be typed.
    return as_seed(None) % _SEEDS if seed is None and report is not None else seed


def command_line(seed: int | None) -> str:
    """The command that runs, as it is typed in a shell, without secrets and with its seed."""
    ctx = click.get_current_context()
    words = [without_passwords(without_queries(word)) for word in ctx.meta[ARGUMENTS]]
    for place, word in enumerate(words):
        if word == _SECRET and place + 1 < len(words):
            words[place + 1] = _masked(words[place + 1])
        elif word.startswith(f"{_SECRET}="):
            words[place] = f"{_SECRET}={_masked(word.removeprefix(f'{_SECRET}='))}"
    if seed is not None and ctx.params.get("seed") is None:
        # Directly after the name of the command, as words after -- are not options.
        place = words.index(str(ctx.command.name)) + 1
        words[place:place] = ["--seed", str(seed)]
    return shlex.join(["lwcs", *words])


def _masked(option: str) -> str:
    """An option of a store without its value, which may be a key."""
    return f"{option.partition('=')[0]}=…"
