"""`lwcs report`: an HTML page about a model that was saved."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli import options
from lwcs.cli.commands.evaluate import drawn_coreset, open_in_units_of
from lwcs.cli.errors import ARGUMENTS, without_passwords, without_queries
from lwcs.cli.inputs import access_to
from lwcs.cli.logs import progress
from lwcs.cli.models import in_order, load_model
from lwcs.cli.outputs import check_output, check_with, refuse_input
from lwcs.cli.parameter_types import PATH

if TYPE_CHECKING:
    from collections.abc import Iterable

    import lwcs
    from lwcs.coreset.coreset import Coreset
    from lwcs.evaluation.certification_targets import Target
    from lwcs.statistics.certificate import Certificate


@click.command()
@options.data
@options.model
@options.with_default(
    "-o", "--output", default="report.html", type=PATH, help="HTML file to write."
)
@click.option("--title", help="Title of the report.  [default: the name of DATA]")
@options.interval(
    size_help="Number of draws, if DATA are rows; all of them if there are no more.  "
    "[default: 20000]",
    confidence_help="Probability that the interval of the certificate has the true cost.",
)
@options.reading
@options.output
def report(
    data: tuple[str, ...],
    model: str,
    output: str,
    title: str | None,
    confidence: float,
    size: int | None,
    seed: int | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Write a report about the clusters of MODEL: one HTML file for any browser.

    DATA is the coreset that describes the rows of MODEL, written by `lwcs build` (or a saved
    StreamingCoreset); or the rows themselves, as files, a folder, a glob pattern or - for standard
    input, which are then drawn from. MODEL is a file written by `lwcs fit` or `lwcs mixture`.

    Example: lwcs report coreset.parquet model.parquet -o report.html

    If the coreset or the rows know nothing of the fit, the report has a certificate of the cost.
    """
    from lwcs.evaluation.certification import drawn_and_certified
    from lwcs.evaluation.certification_targets import as_target

    start = time.perf_counter()
    check_report(output, (*data, model), "--output")
    data, model = in_order(data, model)
    fitted = load_model(model, data)
    if not data:
        raise click.UsageError(
            "DATA is missing, and MODEL has no rows to describe its clusters by; pass a coreset "
            "that `lwcs build` wrote, or the rows"
        )
    target = as_target(fitted, None)
    rows: Any = drawn_coreset(data, reading)
    left_out: tuple[str, ...] = ()
    if rows is not None:
        coreset, certificate = rows, _certificate(rows, target, confidence)
    else:
        seed = seed_to_use(seed, output)
        rows = open_in_units_of(fitted, data, **reading)
        coreset, certificate = drawn_and_certified(
            rows, target, confidence, size=size, random_state=seed, n_jobs=jobs, progress=progress()
        )
        left_out = tuple(map(str, rows.skipped))
    write_report(
        fitted, output, data, coreset=coreset, certificate=certificate, title=title,
        rewriting=command_line(seed), left_out=left_out,
    )  # fmt: skip
    called = "component" if hasattr(fitted, "mixture_") else "cluster"
    dropped = coreset._n_dropped
    facts = {
        "clusters": target.k,
        "rows": coreset._scanned_rows,
        "size": coreset.size,
        "certified": certificate is not None,
        "dropped": dropped,
        "report": output,
        "seconds": round(time.perf_counter() - start, 3),
    }
    options.print_summary(
        facts,
        f"Described {target.k:,} {called}{'s' * (target.k != 1)} by {coreset.size:,} draws of "
        f"{options.rows_text(coreset._scanned_rows, dropped)}{options.dropped_text(dropped)}"
        f"{options.wrote_text(output)}",
    )


def _certificate(
    coreset: lwcs.Coreset, target: Target, confidence: float
) -> lwcs.Certificate | None:
    """Return a certificate by a coreset, or None if the model was fitted on it."""
    from lwcs.evaluation.certification import drawn_and_certified
    from lwcs.evaluation.certification_targets import NotIndependentError

    try:
        _, found = drawn_and_certified(coreset, target, confidence)
    except NotIndependentError:
        return None
    return None if found.biased else found


_SECRET = "--storage-option"
# Seeds of as many digits can be typed.
_SEEDS = 2**32


def check_outputs(output: str, report: str | None, data: tuple[str, ...]) -> None:
    """Check where a model and its report are written to, before any work is done."""
    check_output(output, data)
    if report is not None:
        check_report(report, (*data, output))


def check_report(path: str, inputs: Iterable[str], flag: str = "--report") -> None:
    """Check where a report is written to, and that it can be made, before any work is done."""
    from lwcs.reporting import check_ending
    from lwcs.reporting.figures import bokeh
    from lwcs.storage.atomic_write import check_target

    try:
        check_ending(path)
    except ValueError as error:
        raise click.UsageError(str(error).replace("path=", f"{flag} ")) from None
    check_with(check_target, path)
    refuse_input(path, inputs, flag)
    bokeh()


def report_fit(
    model: Any, path: str | None, data: tuple[str, ...], seed: int | None, rows: Any
) -> None:
    """Write the report of a model that was fitted to DATA, if --report asks for one."""
    if path is not None:
        left_out = tuple(map(str, getattr(rows, "skipped", ())))
        write_report(model, path, data, command=command_line(seed), left_out=left_out)


def write_report(
    model: Any,
    path: str,
    data: tuple[str, ...],
    *,
    coreset: Coreset | None = None,
    certificate: Certificate | None = None,
    title: str | None = None,
    **origin: Any,
) -> None:
    """Write a report, with what the command knows of the origin of the model."""
    from lwcs.reporting import write_report as write
    from lwcs.reporting.facts import Origin

    write(
        model,
        path,
        coreset,
        Origin(title or _name_of(data), **origin),
        certificate,
        access_to(path),
    )


def _name_of(data: tuple[str, ...]) -> str:
    """A name for the data: that of its first file, without folders."""
    if data == ("-",):
        return "Rows of standard input"
    name = without_passwords(without_queries(data[0])).rstrip("/")
    first = name.rsplit("/", 1)[-1] or name or data[0]
    return first if len(data) == 1 else f"{first} and {len(data) - 1} more"


def seed_to_use(seed: int | None, report: str | None) -> int | None:
    """Return the given seed, or draw one for a report, which says how to repeat the fit."""
    from lwcs.runtime.randomness import as_seed

    return as_seed(None) % _SEEDS if seed is None and report is not None else seed


def command_line(seed: int | None) -> str:
    """The running command as it is typed in a shell, without secrets and with its seed."""
    ctx = click.get_current_context()
    words = [without_passwords(without_queries(word)) for word in ctx.meta[ARGUMENTS]]
    for i, word in enumerate(words):
        if word == _SECRET and i + 1 < len(words):
            words[i + 1] = _masked(words[i + 1])
        elif word.startswith(f"{_SECRET}="):
            words[i] = f"{_SECRET}={_masked(word.removeprefix(f'{_SECRET}='))}"
    if seed is not None and ctx.params.get("seed") is None:
        # Directly after the name of the command, as words after -- are not options.
        i = words.index(str(ctx.command.name)) + 1
        words[i:i] = ["--seed", str(seed)]
    return shlex.join(["lwcs", *words])


def _masked(option: str) -> str:
    """An option of a store without its value, which may be a key."""
    return f"{option.partition('=')[0]}=…"
