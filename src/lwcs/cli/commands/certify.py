"""`lwcs certify`: what the centers of a model cost on all rows, with an interval."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli import options
from lwcs.cli.errors import Flags
from lwcs.cli.inputs import coreset_of, given_flags, load_model, open_for
from lwcs.cli.logs import progress
from lwcs.storage.fields import finite_or_none

if TYPE_CHECKING:
    import lwcs
    from lwcs.coreset.coreset import Coreset
    from lwcs.sources import Source


@click.command()
@options.data
@click.argument("model")
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
    fitted = load_model(model, data)
    rows: Any = drawn_coreset(data, reading)
    if rows is None:
        rows = open_in_units_of(fitted, data, **reading)
    found = lwcs.certify(
        rows,
        fitted,
        confidence,
        size=size,
        random_state=seed,
        n_jobs=jobs,
        progress=progress(),
    )
    dropped = rows.details.get("dropped", 0) if isinstance(rows, lwcs.Coreset) else rows.dropped
    facts = {
        **_facts(found),
        "dropped": dropped,
        "seconds": round(time.perf_counter() - start, 3),
    }
    text = Flags(click.get_current_context().command).rewrite(str(found))
    options.print_answer(facts, text.removesuffix(".") + options.dropped_text(dropped))


def drawn_coreset(data: tuple[str, ...], reading: dict[str, Any]) -> Coreset | None:
    """Return DATA as a coreset if it is one, for which no --seed is needed to draw rows."""
    coreset = coreset_of(data, reading)
    if coreset is not None and (given := given_flags(("seed",))):
        raise click.UsageError(f"DATA is a coreset, which has its own draws; leave out {given[0]}")
    return coreset


def open_in_units_of(
    model: lwcs.CoresetKMeans | lwcs.CoresetMixture,
    data: tuple[str, ...],
    **reading: Any,
) -> Source:
    """Open DATA with the columns of a model, scaled if the model is."""
    scaled = getattr(model, "scale_", None) is not None
    return open_for(model, data, standardize=scaled, **reading)


def _facts(found: lwcs.Certificate) -> dict[str, Any]:
    """The certificate as JSON, which has no infinite numbers."""
    return {
        "quantity": found.quantity,
        "estimate": found.estimate,
        "low": finite_or_none(found.low),
        "high": finite_or_none(found.high),
        "confidence": found.confidence,
        "kind": found.kind,
        "bernstein": list(map(finite_or_none, found.bernstein)),
        "reason": found.reason,
        "biased": found.biased,
        "per_row": found.per_row,
        "clusters": found.n_clusters,
        "draws": found.n_draws,
        "rows": found.n_samples,
    }
