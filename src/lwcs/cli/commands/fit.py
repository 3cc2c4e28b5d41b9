"""`lwcs fit`: k-means clustering of files, of standard input, or of a saved coreset."""

from __future__ import annotations

import time
from math import inf
from typing import Any

import click

from lwcs.cli.commands.report import (
    check_report,
    command_line,
    reporting,
    seed_to_use,
    write_report,
    wrote_words,
)
from lwcs.cli.inputs import ON_ALL_ROWS, coreset_of, given_flags, in_files, open_rows
from lwcs.cli.logs import progress
from lwcs.cli.options import (
    OrWord,
    computing,
    divergence_of,
    drawing_or_auto,
    dropped_words,
    measuring,
    reading,
    rows_words,
    say,
    saying,
    sizing,
)
from lwcs.cli.outputs import check_output, write_to


@click.command()
@click.argument("data", nargs=-1)
@click.option("-k", "--clusters", required=True, type=click.IntRange(1), help="Number of clusters.")
@click.option("-o", "--output", required=True, help="Model file (Parquet); - for standard output.")
@click.option(
    "--size",
    type=click.IntRange(1),
    help="Number of draws of the coreset.  [default: as many as --target-error takes]",
)
@sizing
@click.option(
    "--max-iter",
    default=300,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of iterations per restart.",
)
@click.option(
    "--tol",
    default="auto",
    show_default=True,
    metavar="FLOAT|auto",
    type=OrWord(click.FloatRange(0.0), "auto", "auto"),
    help="Tolerance of convergence; auto: as accurate as the sample.",
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
@click.option(
    "--stability",
    is_flag=True,
    help="Say which clusters are real, by bootstrap coresets; `lwcs inspect` shows it.",
)
@reporting
@drawing_or_auto
@measuring
@computing
@reading
@saying
def fit(
    data: tuple[str, ...],
    clusters: int,
    output: str,
    report: str | None,
    size: int | None,
    method: str,
    divergence: str | None,
    smoothing: float | None,
    floor: float | None,
    target_error: float | None,
    holdout: float,
    n_init: int | str,
    max_iter: int,
    tol: float | str,
    polish: int,
    cost: bool,
    stability: bool,
    standardize: bool,
    seed: int | None,
    device: str | None,
    jobs: int | None,
    memory: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find clusters in DATA by k-means on a coreset.

    DATA are files, a folder, a glob pattern, - for standard input, or coresets written by
    `lwcs build` (or a saved StreamingCoreset).

    Example: lwcs fit "events/*.parquet" -k 100 -o model.parquet
    """
    import lwcs
    from lwcs.cli.commands.inspect import clusters_of
    from lwcs.estimators.model_io import saved_errors

    start = time.perf_counter()
    check_output(output, data)
    if report is not None:
        check_report(report, (*data, output))
    if size is not None and size < clusters:
        raise click.UsageError(
            f"--size {size} is smaller than -k {clusters}; pass --size {clusters} or more"
        )
    _refuse_second_pass(data, options["format"])
    coreset, seed = coreset_of(data, options), seed_to_use(seed, report)
    measured_by = divergence_of(divergence, smoothing, floor, coreset)
    rows: Any = coreset
    if coreset is None:
        rows = open_rows(data, standardize=standardize, memory=memory, **options)
    model = lwcs.CoresetKMeans(
        clusters,
        coreset_size="auto" if size is None else size,
        method=method,
        divergence=measured_by,
        target_error=target_error,
        holdout=holdout,
        n_init=n_init,
        max_iter=max_iter,
        tol=tol,
        polish=polish,
        compute_labels=cost,
        random_state=seed,
        n_jobs=jobs,
        verbose=progress(quiet),
        device=device,
    ).fit(rows)
    if stability:
        model.stability()
    write_to(output, model.save)
    seconds = time.perf_counter() - start
    if report is not None:
        write_report(
            model, report, data, command=command_line(seed),
            left_out=() if rows is coreset else rows.skipped,
        )  # fmt: skip
    on_all = model.diagnosis_.on_all_rows
    cost_of = "all rows" if on_all else "the coreset, biased low"
    dropped = model.coreset_.details.get("dropped", 0)
    facts = {
        "clusters": clusters,
        "divergence": measured_by.name,
        "rows": model.coreset_.n_samples,
        "size": model.coreset_.size,
        "method": model.coreset_.method,
        "cost": model.inertia_,
        "cost_of": cost_of,
        **saved_errors(model),
        **(clusters_of(model) if stability else {}),
        "iterations": model.n_iter_,
        "dropped": dropped,
        **({} if report is None else {"report": report}),
        "seconds": round(seconds, 3),
    }
    say(
        facts,
        f"Found {clusters} cluster{'s' * (clusters != 1)} in "
        f"{rows_words(model.coreset_.n_samples, dropped)} in {seconds:.1f} s, "
        f"cost {model.inertia_:.6g} on {cost_of}"
        + _error_words(model, on_all=on_all)
        + (f"; {model.stability_.words()}" if stability else "")
        + (f"; {model.diagnosis_.choice}" if method == "auto" else "")
        + dropped_words(dropped)
        + wrote_words(output, report),
        quiet=quiet,
        as_json=as_json,
    )


def _error_words(model: Any, *, on_all: bool) -> str:
    """How far the answer is off, if it was fitted on a sample and that is known."""
    error, bound = model.sampling_error_, model.sampling_error_bound_
    if not 0.0 < bound < inf:
        return ""
    return (
        f"{',' if on_all else '; on all rows it is'} about {100 * error:.2g} % "
        f"(at most {100 * bound:.2g} %) above what clustering all rows would give"
    )


def _refuse_second_pass(data: tuple[str, ...], kind: str | None) -> None:
    """Refuse options that read all rows again, if DATA can be read only once."""
    given = given_flags(ON_ALL_ROWS)
    if given and in_files(data, kind) == ("-",):
        raise click.UsageError(
            f"{' and '.join(given)} need{'s' * (len(given) == 1)} further passes over the rows, "
            "but standard input can be read only once; write the rows to a file first, or leave "
            f"out {' and '.join(given)}"
        )
