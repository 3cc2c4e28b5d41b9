"""`lwcs mixture`: a mixture of distributions fitted to files, standard input or a coreset."""

from __future__ import annotations

import time
from typing import Any

import click

from lwcs.cli.fit import coreset_of
from lwcs.cli.options import (
    check_output,
    check_parquet,
    drawing,
    open_rows,
    reading,
    say,
    saying,
    within_memory,
    write_to,
)

# Named here, since what defines them loads scikit-learn.
FAMILIES = ("gaussian", "poisson", "multinomial", "bernoulli", "exponential", "gamma")
COVARIANCES = ("full", "tied", "diag", "spherical")


@click.command()
@click.argument("data", nargs=-1)
@click.option("-n", "--components", required=True, type=click.IntRange(1), help="Components.")
@click.option("-o", "--output", required=True, help="Where to write the model; - for stdout.")
@click.option(
    "--family",
    default="gaussian",
    show_default=True,
    type=click.Choice(FAMILIES),
    help="What components are.",
)
@click.option(
    "--covariance",
    default="full",
    show_default=True,
    type=click.Choice(COVARIANCES),
    help="Of Gaussians.",
)
@click.option("--size", type=click.IntRange(1), help="Draws of the coreset.  [default: 1000 n]")
@click.option("--n-init", default=1, show_default=True, type=click.IntRange(1), help="Restarts.")
@drawing
@reading
@saying
def mixture(
    data: tuple[str, ...],
    components: int,
    output: str,
    family: str,
    covariance: str,
    size: int | None,
    n_init: int,
    method: str,
    seed: int | None,
    jobs: int | None,
    memory: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a mixture to DATA: files, a folder, a glob, - for standard input, or a coreset.

    lwcs mixture "events/*.parquet" -n 10 -o model.parquet

    `lwcs assign` then gives the likeliest component of every row, and its log-likelihood.
    """
    import lwcs

    start = time.perf_counter()
    check_output(output)
    check_parquet(output)
    if size is not None and size < components:
        raise click.UsageError(f"--size {size} is smaller than -n {components}; pass at least that")
    rows: Any = coreset_of(data, options)
    if rows is None:
        rows = open_rows(data, quiet=quiet, **options)
        jobs = within_memory(rows, memory, jobs)
    model = lwcs.CoresetMixture(
        components,
        family=family,
        covariance_type=covariance,
        coreset_size="auto" if size is None else size,
        method=method,
        n_init=n_init,
        random_state=seed,
        n_jobs=jobs,
        verbose=int(not quiet),
    ).fit(rows)
    write_to(output, model.save)
    seconds = time.perf_counter() - start
    facts = {
        "components": components,
        "family": family,
        "rows": model.coreset_.n_samples,
        "size": model.coreset_.size,
        "log_likelihood": model.lower_bound_,
        "converged": model.converged_,
        "iterations": model.n_iter_,
        "seconds": round(seconds, 3),
    }
    say(
        facts,
        f"{components} components of {model.coreset_.n_samples:,} rows in {seconds:.1f} s, mean "
        f"log-likelihood {model.lower_bound_:.6g} on the coreset"
        + ("" if output == "-" else f": {output}"),
        quiet=quiet,
        as_json=as_json and output != "-",
    )
