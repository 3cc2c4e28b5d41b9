"""`lwcs compare`: the paper's experiment, error and time of each method, on given data."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from lwcs.cli import options
from lwcs.cli.inputs import access_to, given_flags, keywords, open_rows
from lwcs.cli.logs import is_set, progress, write
from lwcs.cli.outputs import check_with, refuse_input
from lwcs.cli.parameter_types import INTEGERS, NAMES, PATH
from lwcs.storage.locations import is_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.comparing import CompareResult
    from lwcs.sources import LocalSource

_SIZES = "1000,2000,5000,10000,20000"


@click.command(context_settings={"show_default": True})
@options.data
@click.option(
    "-k",
    "--clusters",
    multiple=True,
    type=click.IntRange(1),
    help="Number of clusters; can be given several times.  [default: 100]",
)
@click.option("--sizes", default=_SIZES, type=INTEGERS, help="Coreset sizes m.")
@click.option(
    "--methods", type=NAMES, help="Names of methods, separated by commas.  [default: all]"
)
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
    type=PATH,
    help="Folder for results, tables and figures.",
)
@options.reading
@options.output
def compare(
    data: tuple[str, ...],
    clusters: tuple[int, ...],
    sizes: list[int],
    methods: list[str] | None,
    repeats: int,
    full_repeats: int,
    holdout_rows: int,
    paper: bool,
    seed: int,
    output: str,
    jobs: int | None,
    memory: int | None,
    **reading: Any,
) -> None:
    """Compare coresets with k-means on all rows of DATA.

    Reports how long each method takes, and the error of its solution on all rows.

    Example: lwcs compare points.parquet -k 100

    DATA are files, folders or glob patterns, each a data set of its own, or - for standard input;
    their rows are read into memory. With --paper, they are data sets of the paper, as original
    files or as Parquet: KDD=bio_train.dat RNA=FOLDER SONG=YearPredictionMSD.txt.

    Run an interrupted command again to resume it.
    """
    if not data:
        raise click.UsageError(
            "DATA is missing; pass files, as in: lwcs compare points.parquet -k 100"
        )
    from lwcs.comparing import CompareResult, Settings
    from lwcs.comparing import compare as run
    from lwcs.comparing.methods import METHODS

    settings: dict[str, Any] = {
        "n_clusters": clusters or (100,),
        "sizes": sizes,
        "methods": METHODS if methods is None else methods,
        "repeats": repeats,
        "full_repeats": full_repeats,
        "holdout_rows": holdout_rows,
        "random_state": seed,
    }
    Settings.of(**settings)
    if paper:
        _refuse_reading(reading)
    output = output.rstrip("/") or "/"
    names = _names_by_path(data, output, paper=paper)
    reader = _read_paper if paper else _reader(names, jobs, memory=memory, **reading)
    _make_folder(output)
    result, dropped = CompareResult(()), {}
    with _saying_what_is_kept([f"{output}/{stem}.parquet" for stem in names.values()]):
        for path, stem in names.items():
            name, rows = reader(path, stem)
            dropped[name] = rows.dropped
            if not is_set("quiet"):
                shape = f"{rows.n_rows:,} × {rows.n_features:,}"
                write(f"{name}: {shape}{options.dropped_text(rows.dropped)}")
            result += run(
                rows,
                **settings,
                name=name,
                path=f"{output}/{stem}.parquet",
                **keywords(output),
                n_jobs=jobs,
                progress=progress(),
            )
    _report(result, output, holdout=holdout_rows > 0)
    if is_set("as_json"):
        records = [trial.record() for trial in result.trials]
        click.echo(json.dumps([{**each, "dropped": dropped[each["data"]]} for each in records]))


@contextmanager
def _saying_what_is_kept(files: Sequence[str]) -> Iterator[None]:
    """After an interrupt, say which files have the solutions so far, and what they are for."""
    try:
        yield
    except KeyboardInterrupt as stop:
        found = [each for each in files if access_to(each).place(each).exists()]
        if found:
            stop.add_note(
                f"the solutions found so far are kept in {' and '.join(found)}, so that the same "
                "command goes on from there; remove the file to begin anew"
            )
        raise


def _make_folder(output: str) -> None:
    """Make the folder of the results, or refuse one that cannot be made."""
    from lwcs.storage.atomic_write import check_target

    if is_uri(output):
        check_with(check_target, f"{output}/table.md")
        return
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(
            f"--output {output!r} is the folder of the results, which cannot be made: "
            f"{error.strerror}; pass another name"
        ) from error


def _refuse_reading(reading: dict[str, Any]) -> None:
    """Refuse options for reading: the paper says which columns of its data sets are used."""
    for flag in given_flags(reading):
        raise click.UsageError(
            f"{flag} is not for data sets of the paper, whose columns are known; leave out {flag} "
            "or --paper"
        )


def _names_by_path(data: tuple[str, ...], output: str, *, paper: bool) -> dict[str, str]:
    """Names of the data sets by their paths; refuse names and results that collide."""
    from lwcs.comparing.comparison_data import KNOWN

    names: dict[str, str] = {}
    for one in data:
        name, equals, path = one.partition("=") if paper else (_stem(one), "=", one)
        if not equals:
            raise click.UsageError(
                f"with --paper, DATA must be NAME=PATH, not {one!r}; NAME is one of "
                f"{', '.join(KNOWN)}"
            )
        if name in names.values() or path in names:
            raise click.UsageError(
                f"DATA has two data sets called {name!r}, whose results would be written to one "
                "file; compare them in folders of their own"
            )
        refuse_input(f"{output}/{name}.parquet", [path])
        names[path] = name
    return names


def _stem(path: str) -> str:
    """The name of a data set: that of its file or folder, without endings and patterns."""
    if path == "-":
        return "standard-input"
    parts = [part for part in Path(path).parts if not any(sign in part for sign in "*?[")]
    stem = Path(*parts).resolve().name.split(".")[0] if parts else ""
    return stem or Path.cwd().name


def _reader(
    paths: Iterable[str], jobs: int | None, **reading: Any
) -> Callable[[str, str], tuple[str, LocalSource]]:
    """Open all data sets, so that errors are found at once; return a function that reads one."""
    from lwcs.comparing.comparison_data import read_into_memory

    opened = {path: open_rows((path,), **reading) for path in paths}

    def read(path: str, stem: str) -> tuple[str, LocalSource]:
        source = opened.pop(path)
        return stem, read_into_memory(source, n_jobs=jobs, progress=progress())

    return read


def _read_paper(path: str, name: str) -> tuple[str, LocalSource]:
    import lwcs
    from lwcs.comparing.comparison_data import read_known

    title, rows = read_known(name, path)
    return title, cast("LocalSource", lwcs.scan(rows))


def _report(result: CompareResult, output: str, *, holdout: bool) -> None:
    """Write tables and figures, and print the tables."""
    from lwcs.cli.terminal import Terminal
    from lwcs.comparing.result import to_rich
    from lwcs.plotting.curves import CompareDisplay
    from lwcs.storage.atomic_write import explaining, replacing

    show = not (is_set("quiet") or is_set("as_json"))
    console = Terminal(quiet=not show)
    for table in to_rich(result):
        console.show(table)
    markdown = result.to_markdown()
    if holdout:
        console.print("On held-out rows:")
        for table in to_rich(result, holdout=True):
            console.show(table)
        markdown += "\nOn held-out rows:\n\n" + result.to_markdown(holdout=True)
    file = f"{output}/table.md"
    access = access_to(file)
    with replacing(file, access) as temporary, explaining(access.place(file)):
        temporary.write_text(markdown)
    try:
        for x, stem in (("size", "error_by_size"), ("time", "error_by_time")):
            display = CompareDisplay.from_result(result, x=x, holdout=holdout)  # type: ignore[arg-type]
            files = [f"{output}/{stem}.{ending}" for ending in ("svg", "png")]
            display.save(*files, **keywords(output))
    except ImportError as error:
        write(f"No figures were drawn: {error}", level=logging.WARNING, event="warning")
    if show:
        write(f"Wrote results, tables and figures to {output}/", event="result")
