"""`--report FILE`: the report of a model that a command has fitted, and how to repeat it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.errors import ARGUMENTS, without_passwords, without_queries
from lwcs.cli.inputs import access_to
from lwcs.cli.outputs import check_with, refuse_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lwcs.coreset.coreset import Coreset
    from lwcs.statistics.certificate import Certificate

_SECRET = "--storage-option"
_SEEDS = 2**32


def reporting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for a report."""
    return click.option(
        "--report", metavar="FILE", help="Also write a report: one HTML file for any browser."
    )(command)


def check_report(path: str, inputs: Iterable[str], flag: str = "--report") -> None:
    """Check where a report is written to, and that it can be made, before any work is done."""
    from lwcs.reporting.figures import bokeh
    from lwcs.reporting.page import check_ending
    from lwcs.storage.atomic_write import check_target

    try:
        check_ending(path)
    except ValueError as error:
        raise click.UsageError(str(error).replace("path=", f"{flag} ")) from None
    check_with(check_target, path)
    refuse_input(path, inputs, flag)
    bokeh()


def write_report(
    model: Any,
    path: str,
    data: tuple[str, ...],
    *,
    coreset: Coreset | None = None,
    certificate: Certificate | None = None,
    title: str | None = None,
    command: str | None = None,
    rewriting: str | None = None,
    left_out: Iterable[str] = (),
) -> None:
    """Write the report of a model that was fitted to DATA."""
    from lwcs.reporting.facts import Origin
    from lwcs.reporting.page import write_report as write

    origin = Origin(title or _named(data), command, rewriting, tuple(map(str, left_out)))
    write(model, path, coreset, origin, certificate, access_to(path))


def wrote_words(output: str, report: str | None) -> str:
    """The part of a sentence that tells which files were written."""
    written = [each for each in (output, report) if each not in ("-", None)]
    return f"; wrote {' and '.join(map(str, written))}" if written else ""


def _named(data: tuple[str, ...]) -> str:
    """What the data is called: by the name of its file, without folders."""
    if data == ("-",):
        return "Rows of standard input"
    name = without_passwords(without_queries(data[0])).rstrip("/")
    first = name.rsplit("/", 1)[-1] or name or data[0]
    return first if len(data) == 1 else f"{first} and {len(data) - 1} more"


def seed_to_use(seed: int | None, report: str | None) -> int | None:
    """The seed that was given; one is drawn for a report, which says how to repeat the fit."""
    from lwcs.runtime.randomness import as_seed

    # Short enough to be typed.
    return as_seed(None) % _SEEDS if seed is None and report is not None else seed


def command_line(seed: int | None) -> str:
    """The command that runs, as it is typed in a shell, without secrets and with its seed."""
    ctx = click.get_current_context()
    words = [without_passwords(without_queries(word)) for word in ctx.meta[ARGUMENTS]]
    for place, word in enumerate(words):
        if word == _SECRET and place + 1 < len(words):
            words[place + 1] = _masked(words[place + 1])
        elif word.startswith(f"{_SECRET}="):
            words[place] = f"{_SECRET}={_masked(word.removeprefix(f'{_SECRET}='))}"
    if seed is not None and ctx.params.get("seed") is None:
        # Directly after the name of the command, as words after -- are not options.
        place = words.index(str(ctx.command.name)) + 1
        words[place:place] = ["--seed", str(seed)]
    return shlex.join(["lwcs", *words])


def _masked(option: str) -> str:
    """An option of a store without its value, which may be a key."""
    return f"{option.partition('=')[0]}=…"
