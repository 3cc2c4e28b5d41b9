"""`lwcs check`: what a table holds, and the command that would fit it well."""

from __future__ import annotations

import time
from typing import Any

import click

from lwcs.cli import options
from lwcs.cli.inputs import in_files, open_rows
from lwcs.cli.logs import progress


@click.command()
@options.data
@options.with_default(
    "-k",
    "--clusters",
    default=8,
    type=click.IntRange(1),
    help="Number of clusters in the command; `lwcs choose-k` says how many there are.",
)
@options.reading
@options.output
def check(data: tuple[str, ...], clusters: int, jobs: int | None, **reading: Any) -> None:
    """Look at DATA before it is clustered, and say which command would fit it well.

    DATA are files, a folder, a glob pattern, or - for standard input. One pass over them shows what
    every column holds, gaps, constant columns and columns that say the same, identifiers, dates and
    categories, long tails, and how much each column would have in the distances.

    Example: lwcs check customers.csv
    """
    from lwcs.evaluation.table_check import checked, without_column_warnings

    start = time.perf_counter()

    def opened(**suggested: str) -> Any:
        return open_rows(data, **reading | suggested)

    with without_column_warnings():
        paths = None if in_files(data, reading["format"]) != data or data == ("-",) else data
        found = checked(opened(), opened, paths, clusters, jobs, progress())
    facts = {**found.to_dict(), "seconds": round(time.perf_counter() - start, 3)}
    options.print_answer(facts, found.text(options.width_of_answers()))
