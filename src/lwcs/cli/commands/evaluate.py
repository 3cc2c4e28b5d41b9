"""`lwcs certify` and `lwcs drift`: a saved model evaluated on rows that it was not fitted on."""

from __future__ import annotations

import time
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli import options
from lwcs.cli.errors import Flags
from lwcs.cli.inputs import coreset_of, given_flags
from lwcs.cli.logs import progress
from lwcs.cli.models import in_order, load_model, open_for
from lwcs.storage.fields import finite_or_none

if TYPE_CHECKING:
    import lwcs
    from lwcs.coreset.coreset import Coreset
    from lwcs.evaluation.drift_detection import Drift
    from lwcs.sources import Source

WORSE = 3
"""Exit code of `lwcs drift` if the regret is above --fail-above, and only then."""


@click.command()
@options.data
@options.model
@options.interval(
    size_help="Number of draws; DATA with no more rows are measured as a whole.  [default: 20000]",
    confidence_help="Probability that the interval has the true cost.",
)
@options.reading
@options.output
def certify(
    data: tuple[str, ...],
    model: str,
    confidence: float,
    size: int | None,
    seed: int | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Estimate what the centers of MODEL cost on all rows of DATA, with an interval.

    DATA are files, a folder, a glob pattern, - for standard input, or coresets written by
    `lwcs build` (or a saved StreamingCoreset) that MODEL was not fitted on. MODEL is a file written
    by `lwcs fit`, or by `lwcs mixture`, whose log-likelihood is estimated; or - if that is standard
    input.

    Example: lwcs certify "events/*.parquet" model.parquet

    Rows are drawn independently of those that MODEL was fitted on, also with the same --seed.
    """
    import lwcs

    start = time.perf_counter()
    data, model = in_order(data, model)
    fitted = load_model(model, data)
    rows: Any = drawn_coreset(data, reading)
    if rows is None:
        rows = open_in_units_of(fitted, data, **reading)
    certificate = lwcs.certify(
        rows, fitted, confidence, size=size, random_state=seed, n_jobs=jobs, progress=progress()
    )
    dropped = rows._n_dropped if isinstance(rows, lwcs.Coreset) else rows.dropped
    facts = {
        **_certificate_facts(certificate),
        "dropped": dropped,
        "seconds": round(time.perf_counter() - start, 3),
    }
    text = Flags(click.get_current_context().command).rewrite(str(certificate))
    options.print_answer(facts, text.removesuffix(".") + options.dropped_text(dropped))


def drawn_coreset(data: tuple[str, ...], reading: dict[str, Any]) -> Coreset | None:
    """Return DATA as a coreset if it is one, for which no --seed is needed to draw rows."""
    coreset = coreset_of(data, reading)
    if coreset is not None and (given := given_flags(("seed",))):
        raise click.UsageError(f"DATA is a coreset, which has its own draws; leave out {given[0]}")
    return coreset


def open_in_units_of(
    model: lwcs.CoresetKMeans | lwcs.CoresetMixture, data: tuple[str, ...], **reading: Any
) -> Source:
    """Open DATA with the columns of a model, scaled if the model is."""
    scaled = getattr(model, "scale_", None) is not None
    return open_for(model, data, standardize=scaled, **reading)


def _certificate_facts(certificate: lwcs.Certificate) -> dict[str, Any]:
    """The certificate as JSON, which has no infinite numbers."""
    return {
        "quantity": certificate.quantity,
        "estimate": certificate.estimate,
        "low": finite_or_none(certificate.low),
        "high": finite_or_none(certificate.high),
        "confidence": certificate.confidence,
        "kind": certificate.kind,
        "bernstein": list(map(finite_or_none, certificate.bernstein)),
        "reason": certificate.reason,
        "biased": certificate.biased,
        "per_row": certificate.per_row,
        "clusters": certificate.n_clusters,
        "draws": certificate.n_draws,
        "rows": certificate.n_samples,
    }


@click.command()
@options.data
@options.model
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
    data: tuple[str, ...],
    model: str,
    fail_above: float | None,
    confidence: float,
    size: int | None,
    seed: int | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Tell whether MODEL is still good for the rows of DATA.

    DATA are new rows: files, a folder, a glob pattern, - for standard input, a coreset written by
    `lwcs build`, or a saved StreamingCoreset of rows. MODEL is a file written by `lwcs fit` or
    `lwcs mixture`.

    Example: lwcs drift "today/*.parquet" model.parquet --fail-above 0.1

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
    data, model = in_order(data, model)
    fitted = load_model(model, data)
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
