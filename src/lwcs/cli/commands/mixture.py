"""`lwcs mixture`: a mixture of distributions fitted to files, standard input or a coreset."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.commands.report import (
    check_report,
    command_line,
    reporting,
    seed_to_use,
    write_report,
    wrote_words,
)
from lwcs.cli.inputs import coreset_of, given_flags, open_rows
from lwcs.cli.logs import progress
from lwcs.cli.options import drawing, dropped_words, reading, rows_words, say, saying, sizing
from lwcs.cli.outputs import check_output, write_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class LazyChoice(click.Choice):  # type: ignore[type-arg]
    """A choice whose values are looked up when they are needed, since that imports scipy."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find, self.case_sensitive = find, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The values, as they are at this moment."""
        return tuple(self._find())


def families() -> Iterable[str]:
    """Names of the families of mixtures."""
    from lwcs.solvers import families

    return families.available()


def covariances() -> Iterable[str]:
    """Names of the covariance types."""
    from lwcs.solvers.families.gaussian import COVARIANCES

    return COVARIANCES


@click.command()
@click.argument("data", nargs=-1)
@click.option(
    "-n", "-k", "--components", required=True, type=click.IntRange(1), help="Number of components."
)
@click.option("-o", "--output", required=True, help="Model file (Parquet); - for standard output.")
@click.option(
    "--family",
    default="gaussian",
    show_default=True,
    type=LazyChoice(families),
    help="Distribution of the components.",
)
@click.option(
    "--covariance",
    default="full",
    show_default=True,
    type=LazyChoice(covariances),
    help="Covariance type; Gaussian only.",
)
@click.option(
    "--reg-covar",
    default=1e-6,
    show_default=True,
    type=click.FloatRange(0.0),
    help="Added to the diagonal of every covariance; Gaussian only.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    help="Number of draws of the coreset.  [default: 1000 × components, or as many "
    "as --target-error takes]",
)
@sizing
@click.option(
    "--max-iter",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of iterations per restart.",
)
@click.option(
    "--tol",
    default=1e-3,
    show_default=True,
    type=click.FloatRange(0.0),
    help="Tolerance of convergence.",
)
@reporting
@drawing
@reading
@saying
def mixture(
    data: tuple[str, ...],
    components: int,
    output: str,
    report: str | None,
    family: str,
    covariance: str,
    reg_covar: float,
    size: int | None,
    target_error: float | None,
    holdout: float,
    n_init: int | str,
    max_iter: int,
    tol: float,
    method: str,
    seed: int | None,
    jobs: int | None,
    memory: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a mixture of distributions to DATA through a coreset.

    DATA are files, a folder, a glob pattern, - for standard input, or coresets written by
    `lwcs build` (or a saved StreamingCoreset).

    Example: lwcs mixture "events/*.parquet" -n 10 -o model.parquet

    `lwcs assign` then gives the most likely component and the log-likelihood of every row.
    """
    import lwcs
    from lwcs.estimators.model_io import saved_errors

    start = time.perf_counter()
    check_output(output, data)
    if report is not None:
        check_report(report, (*data, output))
    if family != "gaussian" and (given := given_flags(("covariance", "reg_covar"))):
        raise click.UsageError(
            f"--family {family} does not take {' or '.join(given)}; leave out {' and '.join(given)}"
        )
    if size is not None and size < components:
        raise click.UsageError(
            f"--size {size} is smaller than -n {components}; pass --size {components} or more"
        )
    coreset, seed = coreset_of(data, options), seed_to_use(seed, report)
    rows: Any = coreset
    if coreset is None:
        rows = open_rows(data, memory=memory, **options)
    model = lwcs.CoresetMixture(
        components,
        family=family,
        covariance_type=covariance,
        reg_covar=reg_covar,
        coreset_size="auto" if size is None else size,
        method=method,
        target_error=target_error,
        holdout=holdout,
        n_init=n_init,
        max_iter=max_iter,
        tol=tol,
        random_state=seed,
        n_jobs=jobs,
        verbose=progress(quiet),
    ).fit(rows)
    write_to(output, model.save)
    seconds = time.perf_counter() - start
    if report is not None:
        write_report(
            model, report, data, command=command_line(seed),
            left_out=() if rows is coreset else rows.skipped,
        )  # fmt: skip
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
    say(
        facts,
        f"Fitted {components} components to {rows_words(model.coreset_.n_samples, dropped)} in "
        f"{seconds:.1f} s, mean log-likelihood {model.lower_bound_:.6g} on the coreset"
        + _error_words(model.sampling_error_, model.sampling_error_bound_)
        + dropped_words(dropped)
        + wrote_words(output, report),
        quiet=quiet,
        as_json=as_json,
    )


def _error_words(error: float, bound: float) -> str:
    """How far the mixture is off, if it was fitted on a sample and that is known."""
    if not bound > 0.0:
        return ""
    return (
        f"; log-likelihood about {error:.2g} (at most {bound:.2g}) nats per row below what "
        "fitting all rows would give"
    )
