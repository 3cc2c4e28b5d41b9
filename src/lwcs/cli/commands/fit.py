"""`lwcs fit` and `lwcs mixture`: a model fitted to files, standard input or a saved coreset."""

from __future__ import annotations

import time
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli import options
from lwcs.cli.commands.report import check_outputs, report_fit, seed_to_use
from lwcs.cli.inputs import ON_ALL_ROWS, coreset_of, given_flags, in_files, open_rows
from lwcs.cli.logs import progress
from lwcs.cli.models import cost_on_all_rows
from lwcs.cli.outputs import write_to
from lwcs.cli.parameter_types import NumberOrWord

if TYPE_CHECKING:
    from lwcs.cli.models import CostOnAllRows


@click.command()
@options.data
@click.option("-k", "--clusters", required=True, type=click.IntRange(1), help="Number of clusters.")
@options.model_output
@options.size("Number of draws of the coreset.  [default: as many as --target-error takes]")
@options.accuracy
@options.iteration(
    300,
    "auto",
    help="Tolerance of convergence; auto: as accurate as the sample.",
    metavar="FLOAT|auto",
    type=NumberOrWord(click.FloatRange(0.0), "auto", "auto"),
)
@options.with_default(
    "--polish",
    default=0,
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
@options.report
@options.auto_sampling
@options.divergence
@options.device
@options.reading
@options.output
def fit(
    data: tuple[str, ...],
    clusters: int,
    output: str,
    report: str | None,
    size: int | None,
    divergence: str | None,
    smoothing: float | None,
    floor: float | None,
    polish: int,
    cost: bool,
    stability: bool,
    standardize: bool,
    seed: int | None,
    device: str | None,
    jobs: int | None,
    **reading: Any,
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
    check_outputs(output, report, data)
    coreset_size = options.coreset_size(size, clusters, "-k")
    _refuse_second_pass(data, reading["format"])
    parameters = {name: reading.pop(name) for name in options.FIT_PARAMETERS}
    coreset, seed = coreset_of(data, reading), seed_to_use(seed, report)
    measured_by = options.divergence_of(divergence, smoothing, floor, coreset)
    rows = open_rows(data, standardize=standardize, **reading) if coreset is None else coreset
    model = lwcs.CoresetKMeans(
        clusters,
        coreset_size=coreset_size,
        divergence=measured_by,
        polish=polish,
        compute_labels=cost,
        random_state=seed,
        n_jobs=jobs,
        verbose=progress(),
        device=device,
        **parameters,
    ).fit(rows)
    if stability:
        model.stability()
    write_to(output, model.save)
    seconds = time.perf_counter() - start
    report_fit(model, report, data, seed, rows)
    known = cost_on_all_rows(model)
    dropped = model.coreset_._n_dropped
    facts = {
        "clusters": clusters,
        "divergence": measured_by.name,
        "rows": model.coreset_._scanned_rows,
        "size": model.coreset_.size,
        "method": model.coreset_.method,
        "cost": model.inertia_,
        "cost_of": "all rows" if model.diagnosis_.on_all_rows else "the coreset",
        "cost_on_all_rows": None if known is None else known._asdict(),
        **saved_errors(model),
        **(clusters_of(model) if stability else {}),
        "iterations": model.n_iter_,
        "dropped": dropped,
        **({} if report is None else {"report": report}),
        "seconds": round(seconds, 3),
    }
    options.print_summary(
        facts,
        "\n".join([
            f"Found {clusters} cluster{'s' * (clusters != 1)} in {_rows(model)} in {seconds:.1f} s"
            f"{_by(model)}{options.dropped_text(dropped)}.",
            _cost_text(model, known),
            *([f"{model.stability_.words()}."] if stability else []),
            *options.wrote_lines(output, report),
        ]),
    )  # fmt: skip


def _rows(model: Any) -> str:
    coreset = model.coreset_
    return options.rows_text(coreset._scanned_rows, coreset._n_dropped)


def _by(model: Any) -> str:
    """Which rows were fitted, where not all were."""
    coreset = model.coreset_
    if coreset.exact:
        return ""
    return f", from {coreset.size:,} picked at random (method {coreset.method})"


def _cost_text(model: Any, known: CostOnAllRows | None) -> str:
    """How good the clusters are: on all rows if that is known, else by an estimate."""
    error, bound = model.sampling_error_, model.sampling_error_bound_
    if known is None:
        return f"Cost {model.inertia_:.6g} on the rows that were picked."
    if model.coreset_.exact:
        return f"Cost {known.value:.6g} on all rows, which were all clustered."
    if model.diagnosis_.on_all_rows:
        return f"Cost {known.value:.6g} on all rows{_error_text(error, bound)}."
    if isfinite(error):
        return f"Cost on all rows {known.words()}{_error_text(error, bound)}."
    unknown = (
        " by chance alone; by how much other rows cost more than those that were picked is not "
        "known, --cost measures it"
    )
    return f"Cost on all rows {known.words(unknown)}."


def _refuse_second_pass(data: tuple[str, ...], kind: str | None) -> None:
    """Refuse options that read all rows again, if DATA can be read only once."""
    given = given_flags(ON_ALL_ROWS)
    if given and in_files(data, kind) == ("-",):
        raise click.UsageError(
            f"{' and '.join(given)} need{'s' * (len(given) == 1)} further passes over the rows, "
            "but standard input can be read only once; write the rows to a file first, or leave "
            f"out {' and '.join(given)}"
        )


def _error_text(error: float, bound: float) -> str:
    """How far the cost is off, if the model was fitted on a sample and this is known."""
    if not 0.0 < bound < inf:
        return ""
    return (
        f", {100 * error:.2g} % (at most {100 * bound:.2g} %) above what clustering all of them "
        "would give"
    )


@click.command()
@options.data
@click.option(
    "-k", "-n", "--components", required=True, type=click.IntRange(1), help="Number of components."
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
@options.report
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

    Example: lwcs mixture "events/*.parquet" -k 10 -o model.parquet

    `lwcs assign` then gives the most likely component and the log-likelihood of every row.
    """
    import lwcs
    from lwcs.estimators.model_io import saved_errors

    start = time.perf_counter()
    check_outputs(output, report, data)
    if family != "gaussian" and (given := given_flags(("covariance", "reg_covar"))):
        raise click.UsageError(
            f"--family {family} does not take {' or '.join(given)}; leave out {' and '.join(given)}"
        )
    coreset_size = options.coreset_size(size, components, "-k")
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
    dropped = model.coreset_._n_dropped
    facts = {
        "components": components,
        "family": family,
        "rows": model.coreset_._scanned_rows,
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
        "\n".join([
            f"Fitted {components} component{'s' * (components != 1)} to {_rows(model)} in "
            f"{seconds:.1f} s{_by(model)}{options.dropped_text(dropped)}.",
            f"Mean log-likelihood {model.lower_bound_:.6g} per row, on the rows that were fitted"
            f"{_nats_text(model.sampling_error_, model.sampling_error_bound_)}.",
            *options.wrote_lines(output, report),
        ]),
    )  # fmt: skip


def _nats_text(error: float, bound: float) -> str:
    """How far the log-likelihood is off, if the fit was on a sample and this is known."""
    if not bound > 0.0:
        return ""
    return (
        f"; on all rows {error:.2g} (at most {bound:.2g}) nats below what fitting all of them "
        "would give"
    )
