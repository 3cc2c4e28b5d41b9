"""`lwcs summary` and `lwcs exemplars`: what the clusters of a model are like, for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli import options
from lwcs.cli.inputs import STORAGE_OPTION, refuse_unused
from lwcs.cli.logs import progress
from lwcs.cli.models import in_order, load_model, open_for
from lwcs.cli.outputs import TableOutput
from lwcs.cli.parameter_types import NAMES
from lwcs.storage.fields import finite_or_none

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = "File for the table: .parquet, .feather, .csv or .tsv; - for CSV on standard output."


@click.command()
@options.model
@click.option("-o", "--output", help=_TABLE)
@STORAGE_OPTION
@options.output
def summary(model: str, output: str | None, storage_option: tuple[str, ...]) -> None:
    """Say what the clusters of MODEL are like: one row per cluster, the largest first.

    MODEL is a file written by `lwcs fit` or `lwcs mixture`, or - for standard input.

    Example: lwcs summary model.parquet -o clusters.csv

    Each cluster has its size, share, cost and spread, its nearest cluster, a name such as "high
    amount, low age", and the columns in which it differs most from the mean of all rows: center,
    median and the range from the 10 % to the 90 % quantile. The file of --output has these for all
    columns.
    """
    del storage_option
    refuse_unused()
    target = None if output is None else TableOutput.of(output, (model,))
    fitted = load_model(model, ())
    found = fitted.summary()
    table = found.to_arrow()
    _write(table, target)
    called = found.facts.called
    facts = {f"{called}s": _records(table), "rows": found.facts.n_rows}
    if target is None:
        options.print_answer(facts, str(found))
        return
    s = "s" * (len(found) != 1)
    sentence = f"Summarized {len(found):,} {called}{s}{options.wrote_text(output)}"
    options.print_summary(facts, sentence)


@click.command()
@options.data
@options.model
@options.with_default(
    "-n", "number", default=5, type=click.IntRange(1), help="Rows of each kind per cluster."
)
@click.option(
    "--keep",
    type=NAMES,
    help="Names or patterns of columns of DATA to show beside the rows, such as an id.",
)
@click.option("-o", "--output", help=_TABLE)
@options.reading
@options.output
def exemplars(
    data: tuple[str, ...],
    model: str,
    number: int,
    keep: list[str] | None,
    output: str | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Show typical rows of DATA: those nearest to each center, and the farthest ones.

    DATA are files, a folder, a glob pattern, or - for standard input. MODEL is a file written by
    `lwcs fit` or `lwcs mixture`, or - if that is standard input.

    Example: lwcs exemplars customers.csv model.parquet -n 3 --keep id

    Clusters are in the order of their size, the largest first. Rows are read once, and numbered
    from 0 through all files. For a mixture, a row belongs to its most likely component, and those
    with the highest density in it come first.
    """
    import lwcs

    start = time.perf_counter()
    data, model = in_order(data, model)
    target = None if output is None else TableOutput.of(output, (*data, model))
    fitted = load_model(model, data)
    source = open_for(fitted, data, keep=() if keep is None else keep, **reading)
    found = lwcs.exemplars(fitted, source, number, n_jobs=jobs, progress=progress())
    table = found.to_arrow()
    _write(table, target)
    facts = {
        "exemplars": _records(table),
        "rows": found.n_rows,
        "dropped": source.dropped,
        "seconds": round(time.perf_counter() - start, 3),
    }
    if target is None:
        dropped = options.dropped_text(source.dropped).removeprefix("; ")
        text = found.text(options.width_of_answers())
        options.print_answer(facts, f"{text}\n\n{dropped}" if dropped else text)
        return
    rows = options.rows_text(found.n_rows, source.dropped)
    sentence = f"Chose {len(found):,} of {rows}{options.dropped_text(source.dropped)}"
    options.print_summary(facts, f"{sentence}{options.wrote_text(output)}")


def _write(table: pa.Table, target: TableOutput | None) -> None:
    if target is not None:
        target.format.check(table.schema)
        with target.writing(table.schema) as append:
            append(table)


def _records(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table for JSON, which has neither dates nor infinite numbers."""
    plain = (bool, int, float, str, list, type(None))
    return [
        {n: finite_or_none(v) if isinstance(v, plain) else str(v) for n, v in row.items()}
        for row in table.to_pylist()
    ]
