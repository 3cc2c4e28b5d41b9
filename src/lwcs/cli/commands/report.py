"""`lwcs report`: an HTML page about a model that was saved."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.commands.assign import load_model, open_for
from lwcs.cli.commands.fit import coreset_of
from lwcs.cli.logs import progress
from lwcs.cli.options import dropped_words, given_flags, reading, rows_words, say, saying
from lwcs.cli.report_option import check_report, command_line, seed_to_use, write_report
from lwcs.cli.sizing import judging

if TYPE_CHECKING:
    import lwcs
    from lwcs.evaluation.certified import Target

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
    from lwcs.evaluation.certified import as_target
    from lwcs.evaluation.certify import drawn_and_certified

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
    from lwcs.evaluation.certified import NotIndependentError
    from lwcs.evaluation.certify import drawn_and_certified

    try:
        _, found = drawn_and_certified(coreset, target, confidence)
    except NotIndependentError:
        return None
    return None if found.biased else found
