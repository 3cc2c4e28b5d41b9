"""`lwcs build`: build a coreset from files or from standard input."""

from __future__ import annotations

import time
from typing import Any, Literal

import click

from lwcs.cli import options
from lwcs.cli.inputs import open_rows
from lwcs.cli.logs import progress
from lwcs.cli.outputs import check_output, write_to
from lwcs.samplers import as_sampler


def _as_passes(_: object, __: object, value: str) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is not 'auto' or an integer such as 1 or 2.")
    return int(value)


@click.command()
@options.data
@click.option("--size", required=True, type=click.IntRange(1), help="Number of draws.")
@options.coreset_output
@click.option(
    "-k",
    "--clusters",
    type=click.IntRange(1),
    help="Number of clusters; required by the methods sensitivity and refined.",
)
@options.with_default(
    "--passes",
    callback=_as_passes,
    metavar="auto|INTEGER",
    default="auto",
    help="Number of passes over the data.",
)
@options.sampling
@options.divergence
@options.device
@options.reading
@options.output
def build(
    data: tuple[str, ...],
    size: int,
    output: str,
    method: str,
    divergence: str | None,
    smoothing: float | None,
    floor: float | None,
    clusters: int | None,
    passes: int | Literal["auto"],
    standardize: bool,
    seed: int | None,
    device: str | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Build a coreset of DATA.

    DATA are files, a folder, a glob pattern, or - for standard input.

    Example: lwcs build "events/*.parquet" --size 10000 -o events.coreset.parquet
    """
    import lwcs

    start = time.perf_counter()
    check_output(output, data)
    if clusters is not None and not as_sampler(method, clusters).solves_first:
        raise click.UsageError(
            f"--method {method} does not take --clusters; leave out --clusters, or pass --method "
            "sensitivity or --method refined"
        )
    source = open_rows(data, standardize=standardize, **reading)
    coreset = lwcs.build(
        source,
        size,
        method=method,
        divergence=options.divergence_of(divergence, smoothing, floor),
        n_clusters=clusters,
        passes=passes,
        random_state=seed,
        n_jobs=jobs,
        progress=progress(),
        device=device,
    )
    write_to(output, coreset.save)
    seconds = time.perf_counter() - start
    dropped = coreset._n_dropped
    facts = {
        "rows": coreset._scanned_rows,
        "size": coreset.size,
        "method": coreset.method,
        "divergence": coreset.divergence.name,
        "seed": coreset.seed,
        "seconds": round(seconds, 3),
        "dropped": dropped,
        **coreset.details,
    }
    options.print_summary(
        facts,
        f"Built a coreset of {coreset.size:,} draws from "
        f"{options.rows_text(coreset._scanned_rows, dropped)} in {seconds:.1f} s"
        + options.dropped_text(dropped)
        + options.wrote_text(output),
    )
