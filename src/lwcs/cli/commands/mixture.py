"""`lwcs mixture`: a mixture of distributions fitted to files, standard input or a coreset."""

from __future__ import annotations

import time
from typing import Any

import click

from lwcs.cli import options
from lwcs.cli.commands.report import (
    check_outputs,
    report_fit,
    report_option,
    seed_to_use,
    wrote_text,
)
from lwcs.cli.inputs import coreset_of, given_flags, open_rows
from lwcs.cli.logs import progress
from lwcs.cli.outputs import write_to


@click.command()
@options.data
@click.option(
    "-n", "-k", "--components", required=True, type=click.IntRange(1), help="Number of components."
)
@options.model_output
@options.family("Distribution of the components.", "Covariance type; Gaussian only.")
@options.with_default(
    "--reg-covar",
    default=1e-6,
    type=click.FloatRange(0.0),
    help="Added to the diagonal of every covariance; Gaussian only.",
)
@options.size(
    "Number of draws of the coreset.  [default: 1000 × components, or as many as --target-error "
    "takes]"
)
@options.accuracy
@options.iteration(100, 1e-3, help="Tolerance of convergence.", type=click.FloatRange(0.0))
@report_option
@options.sampling
@options.reading
@options.output
def mixture(
    data: tuple[str, ...],
    components: int,
    output: str,
    report: str | None,
    family: str,
    covariance: str,
    reg_covar: float,
    size: int | None,
    seed: int | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Fit a mixture of distributions to DATA through a coreset.

    DATA are files, a folder, a glob pattern, - for standard input, or coresets written by
    `lwcs build` (or a saved StreamingCoreset).

    Example: lwcs mixture "events/*.parquet" -n 10 -o model.parquet

    `lwcs assign` then gives the most likely component and the log-likelihood of every row.
    """
    import lwcs
    from lwcs.estimators.saved import saved_errors

    start = time.perf_counter()
    check_outputs(output, report, data)
    if family != "gaussian" and (given := given_flags(("covariance", "reg_covar"))):
        raise click.UsageError(
            f"--family {family} does not take {' or '.join(given)}; leave out {' and '.join(given)}"
        )
    coreset_size = options.coreset_size(size, components, "-n")
    parameters = {name: reading.pop(name) for name in options.FIT_PARAMETERS}
    coreset, seed = coreset_of(data, reading), seed_to_use(seed, report)
    rows = open_rows(data, **reading) if coreset is None else coreset
    model = lwcs.CoresetMixture(
        components,
        family=family,
        covariance_type=covariance,
        reg_covar=reg_covar,
        coreset_size=coreset_size,
        random_state=seed,
        n_jobs=jobs,
        verbose=progress(),
        **parameters,
    ).fit(rows)
    write_to(output, model.save)
    seconds = time.perf_counter() - start
    report_fit(model, report, data, seed, rows)
    dropped = model.coreset_.details.get("dropped", 0)
    facts = {
        "components": components,
        "family": family,
        "rows": model.coreset_.n_samples,
        "size": model.coreset_.size,
        "log_likelihood": model.lower_bound_,
        **saved_errors(model),
        "converged": model.converged_,
        "iterations": model.n_iter_,
        "dropped": dropped,
        **({} if report is None else {"report": report}),
        "seconds": round(seconds, 3),
    }
    options.print_summary(
        facts,
        f"Fitted {components} components to "
        f"{options.rows_text(model.coreset_.n_samples, dropped)} in {seconds:.1f} s, "
        f"mean log-likelihood {model.lower_bound_:.6g} on the coreset"
        + _error_text(model.sampling_error_, model.sampling_error_bound_)
        + options.dropped_text(dropped)
        + wrote_text(output, report),
    )


def _error_text(error: float, bound: float) -> str:
    """How far the log-likelihood is off, if the fit was on a sample and this is known."""
    if not bound > 0.0:
        return ""
    return (
        f"; log-likelihood about {error:.2g} (at most {bound:.2g}) nats per row below what "
        "fitting all rows would give"
    )
