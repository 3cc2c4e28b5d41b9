"""`lwcs drift`: is a model still good for new rows? An exit code for schedulers says so."""

from __future__ import annotations

import time
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli import options
from lwcs.cli.commands.report import MODEL_FIRST
from lwcs.cli.inputs import coreset_of, load_model, open_for
from lwcs.cli.logs import progress

if TYPE_CHECKING:
    from lwcs.evaluation.drift_detection import Drift

WORSE = 3
"""Exit code if the regret is above --fail-above, and only then."""


@click.command()
@click.argument("model")
@options.data
@click.option(
    "--fail-above",
    type=click.FloatRange(0.0),
    metavar="REGRET",
    help="End with exit code 3 if the regret is certainly larger: if the low end of its interval "
    "is above this number, for example 0.1 for 10 % (nats per row for a mixture).",
)
@options.interval(
    size_help="Number of draws.  [default: 800 per cluster, at least 40,000]",
    confidence_help="Confidence of intervals, and of no alarm if nothing has changed.",
)
@options.reading
@options.output
def drift(
    model: str,
    data: tuple[str, ...],
    fail_above: float | None,
    confidence: float,
    size: int | None,
    seed: int | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Tell whether MODEL is still good for the rows of DATA.

    MODEL is a file written by `lwcs fit` or `lwcs mixture`. DATA are new rows: files, a folder, a
    glob pattern, - for standard input, a coreset written by `lwcs build`, or a saved
    StreamingCoreset of rows.

    Example: lwcs drift model.parquet "today/*.parquet" --fail-above 0.1

    Prints the cost per row at fit and now, the regret (how much more MODEL costs than a fresh fit
    of DATA with as many clusters), and an alarm if the cost or the shares of clusters have changed
    by more than chance.

    Exit codes: 0 if the comparison was made, 3 if the regret is above --fail-above, 1 for bad data
    and 2 for bad usage. An alarm alone does not change the exit code.
    """
    import lwcs

    if fail_above is not None and not isfinite(fail_above):
        raise click.UsageError(
            f"--fail-above {fail_above:g} is never exceeded; pass a finite number such as 0.1"
        )
    start = time.perf_counter()
    fitted = load_model(model, data, MODEL_FIRST)
    rows: Any = coreset_of(data, reading)
    if rows is None:
        rows = open_for(fitted, data, **reading)
        if rows.rereadable and getattr(fitted, "scale_", None) is not None:
            # Draws in the units of the model have less noise; their scale takes a pass of its own.
            rows.scale = "standard"
    found = lwcs.drift(
        fitted,
        rows,
        confidence=confidence,
        size="auto" if size is None else size,
        random_state=seed,
        n_jobs=jobs,
        progress=progress(),
    )
    # A regret without bounds is larger than any number.
    failed = fail_above is not None and found.regret.low > fail_above
    dropped = getattr(rows, "dropped", 0)
    facts = {
        **found.to_dict(),
        "fail_above": fail_above,
        "failed": failed,
        "dropped": dropped,
        "seconds": round(time.perf_counter() - start, 3),
    }
    options.print_answer(facts, _sentences(found, fail_above, failed, dropped))
    if failed:
        raise click.exceptions.Exit(WORSE)


def _sentences(found: Drift, fail_above: float | None, failed: bool, dropped: int) -> str:
    """The result in words, and whether it is above --fail-above."""
    lines = [str(found)]
    if dropped:
        lines.append(f"Note: {found.n_samples:,} rows were read{options.dropped_text(dropped)}.")
    if fail_above is not None:
        judgement = "is above" if failed else "is not above"
        lines.append(
            f"The low end of the regret, {found.regret.low:.3g}, {judgement} {fail_above:g}"
            f"{f': exit code {WORSE}' * failed}."
        )
    return "\n".join(lines)
