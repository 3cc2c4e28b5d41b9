"""`lwcs fit`: k-means clustering of files, of standard input, or of a saved coreset."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.options import (
    check_output,
    check_parquet,
    divergence_of,
    drawing,
    measuring,
    open_rows,
    reading,
    say,
    saying,
    within_memory,
    write_to,
)

if TYPE_CHECKING:
    from lwcs.coreset import Coreset


@click.command()
@click.argument("data", nargs=-1)
@click.option("-k", "--clusters", required=True, type=click.IntRange(1), help="Number of clusters.")
@click.option("-o", "--output", required=True, help="Model file (Parquet); - for standard output.")
@click.option(
    "--size",
    type=click.IntRange(1),
    help="Number of draws of the coreset.  [default: 100 × clusters]",
)
@click.option(
    "--n-init",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Number of restarts; the best result is kept.",
)
@click.option(
    "--polish",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Number of Lloyd iterations on all rows after the coreset is clustered.",
)
@click.option(
    "--cost", is_flag=True, help="Measure the cost on all rows, in one more pass over the data."
)
@drawing
@measuring
@reading
@saying
def fit(
    data: tuple[str, ...],
    clusters: int,
    output: str,
    size: int | None,
    method: str,
    divergence: str | None,
    smoothing: float | None,
    floor: float | None,
    n_init: int,
    polish: int,
    cost: bool,
    standardize: bool,
    seed: int | None,
    jobs: int | None,
    memory: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find clusters in DATA by k-means on a coreset.

    DATA are files, a folder, a glob pattern, - for standard input, or coresets written by
    `lwcs build`.

    Example: lwcs fit "events/*.parquet" -k 100 --size 20000 -o model.parquet
    """
    import lwcs

    start = time.perf_counter()
    check_output(output)
    check_parquet(output)
    if size is not None and size < clusters:
        raise click.UsageError(
            f"--size {size} is smaller than -k {clusters}; pass --size {clusters} or more"
        )
    more = {"--standardize": standardize, "--polish": polish}
    coreset = coreset_of(data, options, more)
    measured_by = divergence_of(divergence, smoothing, floor, coreset)
    rows: Any = coreset
    if coreset is None:
        rows = open_rows(data, standardize=standardize, quiet=quiet, **options)
        jobs = within_memory(rows, memory, jobs)
    model = lwcs.CoresetKMeans(
        clusters,
        coreset_size="auto" if size is None else size,
        method=method,
        divergence=measured_by,
        n_init=n_init,
        polish=polish,
        compute_labels=cost,
        random_state=seed,
        n_jobs=jobs,
        verbose=int(not quiet),
    ).fit(rows)
    write_to(output, model.save)
    seconds = time.perf_counter() - start
    measured = cost and coreset is None and rows.rereadable
    facts = {
        "clusters": clusters,
        "divergence": measured_by.name,
        "rows": model.coreset_.n_samples,
        "size": model.coreset_.size,
        "cost": model.inertia_,
        "cost_of": "all rows" if measured else "the coreset, biased low",
        "iterations": model.n_iter_,
        "seconds": round(seconds, 3),
    }
    say(
        facts,
        f"Found {clusters} clusters in {model.coreset_.n_samples:,} rows in {seconds:.1f} s, cost "
        f"{model.inertia_:.6g} on {facts['cost_of']}"
        + ("" if output == "-" else f"; wrote {output}"),
        quiet=quiet,
        as_json=as_json and output != "-",
    )


def coreset_of(
    data: tuple[str, ...], options: dict[str, Any], more: dict[str, Any] | None = None
) -> Coreset | None:
    """Return the union of DATA if they are coresets, and None if they are not.

    Options that a coreset fixes are refused.
    """
    import lwcs
    from lwcs.foundation.storage import is_ours

    if not data or not all(is_ours(one) for one in data):
        return None
    found = [lwcs.load(one) for one in data]
    for one, name in zip(found, data, strict=True):
        if not isinstance(one, lwcs.Coreset):
            raise ValueError(
                f"{name!r} is a saved {type(one).__name__}, not rows or a coreset; pass data "
                "files, or coresets that `lwcs build` wrote"
            )
    whole = found[0]
    for one in found[1:]:
        whole = whole + one
    fixed = {"--columns": options["columns"], "--weight": options["weight"], **(more or {})}
    given = [name for name, value in fixed.items() if value]
    if given:
        raise click.UsageError(
            "DATA is a coreset, whose columns, weights and scale are fixed and whose original rows "
            f"are not available; leave out {', '.join(given)}"
        )
    return whole
