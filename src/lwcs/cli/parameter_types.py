"""Types of options and arguments: lists, amounts, files, and names."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from lwcs.arrays.checks import nearest, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Parameter type: the value of a text; `expected` says what a text must be, and an example."""

    def __init__(self, name: str, parse: Callable[[str], Any], expected: str) -> None:
        self.name, self._parse, self._expected = name, parse, expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the text; None or an error means that it is not as expected."""
        if not isinstance(value, str):
            return value
        try:
            parsed = self._parse(value)
        except (ValueError, csv.Error):
            parsed = None
        if parsed is None:
            self.fail(f"{value!r} is not {self._expected}", param, ctx)
        return parsed


class File(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: a path or a URI, which shells complete with the names of files."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Leave it to the shell."""
        del ctx, param
        return [CompletionItem(incomplete, type="file")]


PATH = File()


def _integers(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return next(csv.reader([text], strict=True)) or [""]


INTEGERS = Parsed("numbers", _integers, "a list of integers; pass for example 1000,2000")
BYTES = Parsed("size", parse_bytes, "an amount of memory; pass for example 512MB or 2GB")
NAMES = Parsed(
    "names",
    _names,
    "a list of names; separate them by commas, and put a name that has a comma, a quote or a line "
    "break in double quotes, with its own quotes doubled",
)
"""Names as in a line of a CSV file: a,b or "a,b"."""


class NumberOrWord(click.ParamType):  # type: ignore[type-arg]
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


class Choice(click.Choice):  # type: ignore[type-arg]
    """Parameter type: one of several names; an error suggests the nearest one.

    Names are given, or looked up when they are needed, where that imports scipy.
    """

    def __init__(self, names: Iterable[str] | Callable[[], Iterable[str]]) -> None:
        self._names, self.case_sensitive = names, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names that are allowed."""
        return tuple(self._names() if callable(self._names) else self._names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name itself."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as bad:
            near = nearest(str(value), self.choices)
            hint = f" Did you mean {near!r}?" if near else ""
            self.fail(f"{bad.message}{hint}", param, ctx)
