"""`lwcs compare`: the paper's experiment, error and time of each method, on given data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lwcs.cli.options import Numbers, saying

if TYPE_CHECKING:
    from lwcs.comparing import CompareResult
    from lwcs.foundation.types import Rows

_SIZES = "1000,2000,5000,10000,20000"


@click.command(context_settings={"show_default": True})
@click.argument("data", nargs=-1)
@click.option(
    "-k",
    "--clusters",
    multiple=True,
    type=click.IntRange(1),
    help="Number of clusters; can be given several times.  [default: 100]",
)
@click.option("--sizes", default=_SIZES, type=Numbers(), help="Coreset sizes m.")
@click.option("--methods", default=None, help="Comma-separated methods.  [default: all]")
@click.option(
    "--repeats", default=10, type=click.IntRange(1), help="Number of seeds per method and size."
)
@click.option(
    "--full-repeats",
    default=5,
    type=click.IntRange(1),
    help="Number of seeds for the solutions on all rows.",
)
@click.option(
    "--holdout-rows",
    default=0,
    type=click.IntRange(0),
    help="Number of rows to hold out; the error on them is reported too.",
)
@click.option("--paper", is_flag=True, help="DATA are data sets of the paper, given as NAME=PATH.")
@click.option("--seed", default=0, type=click.IntRange(0), help="First random seed.")
@click.option(
    "-o",
    "--output",
    default="comparison",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results, tables and figures.",
)
@saying
def compare(
    data: tuple[str, ...],
    clusters: tuple[int, ...],
    sizes: list[int],
    methods: str | None,
    repeats: int,
    full_repeats: int,
    holdout_rows: int,
    paper: bool,
    seed: int,
    output: Path,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare coresets with k-means on all rows of DATA.

    Reports how long each method takes, and the error of its solution on all rows.

    Example: lwcs compare points.parquet -k 100

    DATA are numeric files (.parquet, .npy, sparse .npz). With --paper, they are data sets of the
    paper, as original files or as Parquet: KDD=bio_train.dat RNA=FOLDER
    SONG=YearPredictionMSD.txt.

    Run an interrupted command again to resume it.
    """
    if not data:
        raise click.UsageError(
            "DATA is missing; pass files, as in: lwcs compare points.parquet -k 100"
        )
    from lwcs.comparing import CompareResult
    from lwcs.comparing import compare as run
    from lwcs.comparing.methods import METHODS

    output.mkdir(parents=True, exist_ok=True)
    result = CompareResult(())
    for name, rows, stem in map(_read_paper if paper else _read, data):
        if not quiet:
            click.echo(f"{name}: {rows.shape[0]:,} × {rows.shape[1]:,}", err=True)
        result += run(
            rows,
            clusters or (100,),
            sizes=sizes,
            methods=METHODS if methods is None else methods.split(","),
            repeats=repeats,
            full_repeats=full_repeats,
            holdout_rows=holdout_rows,
            name=name,
            path=output / f"{stem}.parquet",
            random_state=seed,
            progress=not quiet,
        )
    _report(result, output, holdout=holdout_rows > 0, show=not quiet and not as_json)
    if as_json:
        click.echo(json.dumps([trial.record() for trial in result.trials]))


def _read(path: str) -> tuple[str, Rows, str]:
    from lwcs.comparing.datasets import read_rows

    stem = Path(path).name.split(".")[0]
    return stem, read_rows(path), stem


def _read_paper(pair: str) -> tuple[str, Rows, str]:
    from lwcs.comparing.datasets import KNOWN, read_known

    name, equals, path = pair.partition("=")
    if not equals:
        raise click.UsageError(
            f"with --paper, DATA must be NAME=PATH, not {pair!r}; NAME is one of {', '.join(KNOWN)}"
        )
    return *read_known(name, path), name


def _report(result: CompareResult, output: Path, *, holdout: bool, show: bool) -> None:
    """Write tables and figures, and print the tables."""
    from rich.console import Console

    from lwcs.comparing.table import to_tables
    from lwcs.displays import CompareDisplay
    from lwcs.foundation.storage import replacing

    console = Console(quiet=not show)
    for table in to_tables(result):
        console.print(table)
    markdown = result.to_markdown()
    if holdout:
        console.print("On held-out rows:")
        for table in to_tables(result, holdout=True):
            console.print(table)
        markdown += "\nOn held-out rows:\n\n" + result.to_markdown(holdout=True)
    with replacing(output / "table.md") as temporary:
        temporary.write_text(markdown)
    try:
        for x, stem in (("size", "error_by_size"), ("time", "error_by_time")):
            display = CompareDisplay.from_result(result, x=x, holdout=holdout)  # type: ignore[arg-type]
            display.save(output / f"{stem}.svg", output / f"{stem}.png")
    except ImportError as error:
        click.echo(f"No figures were drawn: {error}", err=True)
    if show:
        click.echo(f"Wrote results, tables and figures to {output}/", err=True)
