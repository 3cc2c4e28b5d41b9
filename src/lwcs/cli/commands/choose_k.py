"""`lwcs choose-k`: how many clusters are in files, in standard input, or in a saved coreset."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli import options
from lwcs.cli.inputs import coreset_of, given_flags, keywords, open_rows
from lwcs.cli.logs import is_set, progress, write, write_result
from lwcs.cli.outputs import TableOutput, check_with, refuse_input
from lwcs.cli.parameter_types import PATH, Choice, Parsed
from lwcs.storage.fields import finite_or_none

if TYPE_CHECKING:
    from lwcs.evaluation.k_selection_result import KChoice

_FIGURE_ENDINGS = (".svg", ".png", ".pdf")
_LARGEST_K = 100_000
_FOR_MIXTURES = ("family", "covariance")
_FOR_KMEANS = ("divergence", "smoothing", "floor", "standardize", "bootstrap", "every_k")


def _counts(text: str) -> list[int] | None:
    """Turn 2-5,8 into [2, 3, 4, 5, 8]."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        first, last = (int(each or match[1]) for each in match.groups()) if match else (0, 0)
        if not 1 <= first <= last <= _LARGEST_K:
            return None
        numbers.update(range(first, last + 1))
    return sorted(numbers)


_COUNTS = Parsed(
    "numbers", _counts, "a list of numbers of clusters; pass for example 2-50 or 2,4,8"
)


@click.command("choose-k")
@options.data
@click.option(
    "-k",
    "--clusters",
    "ks",
    type=_COUNTS,
    help="Numbers of clusters to try, for example 2-50 or 2,4,8.  "
    "[default: 2-50, as far as they are below the number of rows]",
)
@options.with_default(
    "--model",
    default="kmeans",
    type=Choice(["kmeans", "mixture"]),
    help="What to fit: clusters, or mixtures of distributions.",
)
@options.family(
    "Distribution of the components of a mixture.", "Covariance type of Gaussian mixtures."
)
@options.size("Number of draws of the coreset.  [default: 400 × the largest k, at least 20000]")
@options.with_default(
    "--bootstrap",
    default=5,
    type=click.IntRange(0),
    help="Number of bootstrap coresets for the stability of clusters.",
)
@click.option(
    "--every-k", is_flag=True, help="Compute the stability for every k, which takes much longer."
)
@options.confidence("Probability that the interval of a cost has the true one.")
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="File for the table (Parquet, CSV, …); - for standard output.",
)
@click.option("--figure", type=PATH, help="File for the figure (.svg, .png or .pdf).")
@options.sampling
@options.divergence
@options.reading
@options.output
def choose_k(
    data: tuple[str, ...],
    ks: list[int] | None,
    model: str,
    family: str,
    covariance: str,
    size: int | None,
    bootstrap: int,
    every_k: bool,
    confidence: float,
    output: str | None,
    figure: str | None,
    method: str,
    divergence: str | None,
    smoothing: float | None,
    floor: float | None,
    standardize: bool,
    seed: int | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Find out how many clusters DATA has, from one coreset of it.

    DATA are files, a folder, a glob pattern, - for standard input, or coresets written by
    `lwcs build` (or a saved StreamingCoreset).

    Example: lwcs choose-k "events/*.parquet" -k 2-50 --figure elbow.svg

    Prints what is known of every number of clusters, and which one is recommended: the largest one
    whose clusters the data tells apart, in most of 25 resamples of the draws. Also says how often
    each was chosen, and why the others are not recommended. The clusters themselves are found by
    `lwcs fit`.
    """
    import lwcs

    start = time.perf_counter()
    table = None if output is None else TableOutput.of(output, data)
    if figure is not None:
        _check_figure(figure, data)
    _refuse_options_of_other_model(model, family)
    coreset = coreset_of(data, reading)
    measured_by: Any = "sqeuclidean"
    if model == "kmeans":
        measured_by = options.divergence_of(divergence, smoothing, floor, coreset)
    rows = open_rows(data, standardize=standardize, **reading) if coreset is None else coreset
    choice = lwcs.choose_k(
        rows,
        ks,
        model=model,  # type: ignore[arg-type]
        divergence=measured_by,
        family=family,
        covariance_type=covariance,
        method=method,
        size="auto" if size is None else size,
        n_bootstrap=bootstrap,
        every_k=every_k,
        confidence=confidence,
        random_state=seed,
        n_jobs=jobs,
        progress=progress(),
    )
    if table is not None:
        lines = choice.to_arrow()
        with table.writing(lines.schema) as append:
            append(lines)
    if figure is not None:
        lwcs.ElbowDisplay.from_choice(choice).save(figure, **keywords(figure))
    _print(choice, time.perf_counter() - start, output, figure)


def _refuse_options_of_other_model(model: str, family: str) -> None:
    given = given_flags(_FOR_MIXTURES if model == "kmeans" else _FOR_KMEANS)
    if given:
        other = "mixture" if model == "kmeans" else "kmeans"
        raise click.UsageError(
            f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for --model {other}; "
            f"leave out {' and '.join(given)}, or pass --model {other}"
        )
    if family != "gaussian" and (given := given_flags(("covariance",))):
        raise click.UsageError(f"--family {family} does not take {given[0]}; leave it out")


def _check_figure(figure: str, data: tuple[str, ...]) -> None:
    """Check where the figure is written to, before any work is done."""
    from lwcs.plotting.style import pyplot
    from lwcs.storage.atomic_write import check_target

    if not figure.lower().endswith(_FIGURE_ENDINGS):
        raise click.UsageError(
            f"--figure {figure!r} has an ending that is not drawn; pass a name that ends in "
            f"{', '.join(_FIGURE_ENDINGS)}"
        )
    pyplot()
    check_with(check_target, figure)
    refuse_input(figure, data)


def _print(choice: KChoice, seconds: float, output: str | None, figure: str | None) -> None:
    """Print the table and the recommendation, or all of it as JSON."""
    dropped = choice.coreset._n_dropped
    if is_set("as_json"):
        facts = {
            "k": choice.k,
            "outcome": choice.outcome,
            "reason": choice.reason,
            "resamples": [{"k": k, "share": share} for k, share in choice.resamples.items()],
            "runners_up": [{"k": each.k, "why": each.why} for each in choice.runners_up],
            "table": [
                {name: finite_or_none(value) for name, value in row.record().items()}
                for row in choice.rows
            ],
            "rows": choice.coreset._scanned_rows,
            "dropped": dropped,
            "seconds": round(seconds, 3),
        }
        click.echo(json.dumps(facts))
        return
    if is_set("quiet"):
        return
    from lwcs.cli.terminal import Terminal
    from lwcs.evaluation.k_selection_result import to_rich

    # With -o -, the table is on standard output already, and nothing else may be there.
    if output != "-":
        Terminal().show(to_rich(choice))
    for line in choice.words().splitlines():
        if output == "-":
            write(line, event="result")
        else:
            write_result(line)
    tried, n = len(choice.rows), choice.coreset.n_samples
    write(
        f"Tried {tried} number{'s' * (tried != 1)} of clusters on {n:,} row{'s' * (n != 1)} in "
        f"{seconds:.1f} s{options.dropped_text(dropped)}{options.wrote_text(output, figure)}"
    )
