"""`lwcs choose-k`: how many clusters are in files, in standard input, or in a saved coreset."""

from __future__ import annotations

import json
import re
import time
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.commands.mixture import LazyChoice, covariances, families
from lwcs.cli.inputs import coreset_of, given_flags, keywords, open_rows
from lwcs.cli.logs import progress, write, write_result
from lwcs.cli.options import (
    confidence_option,
    divergence_of,
    drawing,
    dropped_words,
    measuring,
    reading,
    saying,
)
from lwcs.cli.outputs import TableOutput, check_with, refuse_input

if TYPE_CHECKING:
    from lwcs.evaluation.k_selection_result import KChoice

_FIGURES = (".svg", ".png", ".pdf")
_MOST = 100_000
_OF_MIXTURES = ("family", "covariance")
_OF_CLUSTERS = ("divergence", "smoothing", "floor", "standardize", "bootstrap", "every_k")


class Counts(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: integers and ranges of them, separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 2-5,8 into [2, 3, 4, 5, 8]."""
        if not isinstance(value, str):
            return value
        found: set[int] = set()
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
            first, last = (int(each or match[1]) for each in match.groups()) if match else (0, 0)
            if not 1 <= first <= last <= _MOST:
                self.fail(
                    f"{value!r} is not a list of numbers of clusters; pass for example 2-50 or "
                    "2,4,8",
                    param,
                    ctx,
                )
            found.update(range(first, last + 1))
        return sorted(found)


@click.command("choose-k")
@click.argument("data", nargs=-1)
@click.option(
    "--k",
    "ks",
    type=Counts(),
    help="IntegerList of clusters to try, for example 2-50 or 2,4,8.  "
    "[default: 2-50, as far as they are below the number of rows]",
)
@click.option(
    "--model",
    default="kmeans",
    show_default=True,
    type=click.Choice(["kmeans", "mixture"]),
    help="What to fit: clusters, or mixtures of distributions.",
)
@click.option(
    "--family",
    default="gaussian",
    show_default=True,
    type=LazyChoice(families),
    help="Distribution of the components of a mixture.",
)
@click.option(
    "--covariance",
    default="full",
    show_default=True,
    type=LazyChoice(covariances),
    help="Covariance type of Gaussian mixtures.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    help="Number of draws of the coreset.  [default: 400 × the largest k, at least 20000]",
)
@click.option(
    "--bootstrap",
    default=5,
    show_default=True,
    type=click.IntRange(0),
    help="Number of bootstrap coresets for the stability of clusters.",
)
@click.option(
    "--every-k", is_flag=True, help="Compute the stability for every k, which takes much longer."
)
@confidence_option("Probability that the interval of a cost has the true one.")
@click.option("-o", "--output", help="File for the table (Parquet, CSV, …); - for standard output.")
@click.option("--figure", help="File for the figure (.svg, .png or .pdf).")
@drawing
@measuring
@reading
@saying
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
    memory: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find out how many clusters DATA has, from one coreset of it.

    DATA are files, a folder, a glob pattern, - for standard input, or coresets written by
    `lwcs build` (or a saved StreamingCoreset).

    Example: lwcs choose-k "events/*.parquet" --k 2-50 --figure elbow.svg

    Prints what is known of every number of clusters, and which one is recommended: the largest one
    whose clusters the data tells apart. The clusters themselves are found by `lwcs fit`.
    """
    import lwcs

    start = time.perf_counter()
    table = None if output is None else TableOutput.of(output, data)
    if figure is not None:
        _check_figure(figure, data)
    _refuse_others(model, family)
    coreset = coreset_of(data, options)
    measured_by: Any = "sqeuclidean"
    if model == "kmeans":
        measured_by = divergence_of(divergence, smoothing, floor, coreset)
    rows: Any = coreset
    if coreset is None:
        rows = open_rows(data, standardize=standardize, memory=memory, **options)
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
        progress=progress(quiet),
    )
    if table is not None:
        found = choice.to_arrow()
        with table.writing(found.schema) as append:
            append(found)
    if figure is not None:
        lwcs.ElbowDisplay.from_choice(choice).save(figure, **keywords(figure))
    wrote = [each for each in (output, figure) if each is not None and each != "-"]
    _say(choice, time.perf_counter() - start, wrote, quiet=quiet, as_json=as_json)


def _refuse_others(model: str, family: str) -> None:
    """Refuse options that are for the other model."""
    given = given_flags(_OF_MIXTURES if model == "kmeans" else _OF_CLUSTERS)
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

    if not figure.lower().endswith(_FIGURES):
        raise click.UsageError(
            f"--figure {figure!r} has an ending that is not drawn; pass a name that ends in "
            f"{', '.join(_FIGURES)}"
        )
    pyplot()
    check_with(check_target, figure)
    refuse_input(figure, data)


def _say(choice: KChoice, seconds: float, wrote: list[str], *, quiet: bool, as_json: bool) -> None:
    """Print the table and the recommendation, or all of it as JSON."""
    dropped = choice.coreset.details.get("dropped", 0)
    if as_json:
        facts = {
            "k": choice.k,
            "reason": choice.reason,
            "runners_up": [{"k": each.k, "why": each.why} for each in choice.runners_up],
            "table": [_plain(row.record()) for row in choice.rows],
            "rows": choice.coreset.n_samples,
            "dropped": dropped,
            "seconds": round(seconds, 3),
        }
        click.echo(json.dumps(facts))
        return
    if quiet:
        return
    from rich.console import Console

    from lwcs.evaluation.k_selection_result import to_rich

    # With -o -, the table is on standard output already, and nothing else may be there.
    piped = click.get_current_context().params["output"] == "-"
    if not piped:
        Console().print(to_rich(choice))
    for line in choice.words().splitlines():
        if piped:
            write(line, event="result")
        else:
            write_result(line)
    tried, n = len(choice.rows), choice.coreset.n_samples
    files = f"; wrote {' and '.join(wrote)}" if wrote else ""
    write(
        f"Tried {tried} number{'s' * (tried != 1)} of clusters on {n:,} row{'s' * (n != 1)} in "
        f"{seconds:.1f} s{dropped_words(dropped)}{files}"
    )


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """A record for JSON, which has no numbers that are not finite."""
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in record.items()
    }
