"""Options for how far an answer may be off, and what a command prints about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.options import SEED

if TYPE_CHECKING:
    from collections.abc import Callable


class OrWord(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Parameter type: a number in a range, or one word, which stands for `meaning`."""

    def __init__(self, number: click.ParamType, word: str, meaning: Any) -> None:  # type: ignore[type-arg]
        self._number, self._word, self._meaning = number, word, meaning
        self.name = f"{number.name.removesuffix(' range')}|{word}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn the word into its meaning, anything else into a number."""
        if value in (self._word, self._meaning):
            return self._meaning
        try:
            return self._number.convert(value, param, ctx)
        except click.BadParameter as bad:
            self.fail(f"{bad.message.rstrip('.')}; pass a number or {self._word!r}", param, ctx)


_SIZING = [
    click.option(
        "--target-error",
        default="0.02",
        show_default=True,
        metavar="FLOAT|none",
        type=OrWord(click.FloatRange(0.0, min_open=True), "none", None),
        help="Without --size: how far the answer may be off because of sampling; more rows are "
        "drawn until it is nearer. none: one draw, without an estimate.",
    ),
    click.option(
        "--holdout",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0.0, 0.5),
        help="With --size, or for a coreset: part of the draws that is held back to estimate how "
        "far the answer is off.",
    ),
    click.option(
        "--n-init",
        default="auto",
        show_default=True,
        metavar="INTEGER|auto",
        type=OrWord(click.IntRange(1), "auto", "auto"),
        help="Number of restarts; the best one is kept. auto: several where they are cheap.",
    ),
]


def sizing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --target-error, --holdout and --n-init."""
    for option in reversed(_SIZING):
        command = option(command)
    return command


def judging(size: str, confidence: str) -> Callable[[Any], Any]:
    """Add --confidence, --size and --seed to a command that draws rows, with words of help."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = SEED(command)
        command = click.option("--size", type=click.IntRange(1), help=size)(command)
        return confidence_option(confidence)(command)

    return add


def confidence_option(words: str) -> Callable[[Any], Any]:
    """The option --confidence, a probability that is neither 0 nor 1, with these words of help."""
    return click.option(
        "--confidence",
        default=0.95,
        show_default=True,
        type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
        help=words,
    )
