"""Tables on a terminal of any width: as they are, or with one line per field where they are wider.

A reader such as `head` may close the pipe that a command writes to; the command then ends as other
programs do (SIGPIPE), which `errors` sees to, and not with the exit code that rich gives it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

if TYPE_CHECKING:
    from rich.table import Table

_UNLIMITED = 10**6


class Terminal(Console):
    """Standard output."""

    def on_broken_pipe(self) -> None:
        """Leave a pipe that is closed to the group of commands."""
        raise  # rich calls this where it handles the error

    @property
    def given_width(self) -> int | None:
        """The width of the terminal, or the one that is set by COLUMNS; a file has none."""
        return self.width if self.is_terminal or "COLUMNS" in os.environ else None

    def show(self, table: Table) -> None:
        """Print a table whole: none of its columns is left out, and no cell is cut."""
        wanted = self._natural_width(table)
        if self.given_width is None:
            self.width = max(self.width, wanted)
        if wanted <= self.width:
            self.print(table)
            return
        for text in (table.title, *_records(table), table.caption):
            if text:
                self.print(text)

    def _natural_width(self, table: Table) -> int:
        unlimited = self.options.update(max_width=_UNLIMITED)
        return Measurement.get(self, unlimited, table).maximum


def _records(table: Table) -> list[Text]:
    """The rows of a table, each with one line per field, those after the first one indented."""
    headings = [_in_one_line(str(column.header), " ") for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    records = []
    for row, cells in zip(table.rows, rows, strict=True):
        texts = (_in_one_line(str(cell), ", ") for cell in cells)
        fields = zip(headings, texts, strict=True)
        lines = [f"{name}: {text}" for name, text in fields if text.strip(", ")]
        records.append(Text("\n  ".join(lines), style=row.style or ""))
    return records


def _in_one_line(text: str, between: str) -> str:
    """The lines of a cell; a dash ends one that is joined with the next."""
    return between.join(text.replace("–\n", "–").splitlines())
