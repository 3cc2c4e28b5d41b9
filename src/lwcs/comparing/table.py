"""Tables in the layout of Table 1 of the paper: error ± 95 % interval, speedup."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lwcs.comparing.methods import FULL, title

if TYPE_CHECKING:
    from rich.table import Table

    from lwcs.comparing.result import Cell, CompareResult


def _columns(result: CompareResult) -> list[int]:
    """Return the sizes of a table's columns; 0 is for methods that use all rows."""
    return sorted({trial.key.size for trial in result.trials})


def _heading(size: int) -> str:
    return f"m = {size:,}" if size else "all rows"


class Line(NamedTuple):
    """One line of a table: a method, its number of seeds, and its cell (or None) per size."""

    title: str
    seeds: str
    cells: list[Cell | None]


def table_lines(result: CompareResult, data: str, k: int, *, holdout: bool) -> list[Line]:
    """Return the lines of the table for one data set and one k."""
    lines: dict[str, dict[int, Cell]] = {}
    for cell in result.cells(data, k, holdout=holdout):
        lines.setdefault(title(cell.key.method, cell.key.polish), {})[cell.key.size] = cell
    return [
        Line(
            name,
            "–".join(map(str, sorted({len(cell.errors) for cell in by_size.values()}))),
            [by_size.get(size) for size in _columns(result)],
        )
        for name, by_size in lines.items()
    ]


def error_text(cell: Cell | None) -> str:
    """Format an error with the half-width of its 95 % interval, such as 18.5 % ± 0.2."""
    if cell is None:
        return ""
    half = "" if np.isnan(cell.interval) else f" ± {100 * cell.interval:.1f}"
    return f"{100 * cell.error:.1f} %{half}"


def speedup_text(cell: Cell | None) -> str:
    """Format a speedup, such as 828×; below ten, with one decimal."""
    if cell is None:
        return ""
    return f"{cell.speedup:,.1f}×" if cell.speedup < 10 else f"{cell.speedup:,.0f}×"


def to_markdown(result: CompareResult, *, holdout: bool = False) -> str:
    """Return one Markdown table per data set and k: first the errors, then the speedups."""
    sizes = [_heading(size) for size in _columns(result)]
    head = ["method", "seeds", *(f"error, {s}" for s in sizes), *(f"speedup, {s}" for s in sizes)]
    parts = []
    for data in result.data:
        for k in result.clusters(data):
            lines = [
                f"**{data}, k = {k}** ({full_text(result, data, k)})",
                "",
                f"| {' | '.join(head)} |",
                f"|---|{'---:|' * (len(head) - 1)}",
            ]
            for line in table_lines(result, data, k, holdout=holdout):
                cells = [*map(error_text, line.cells), *map(speedup_text, line.cells)]
                lines.append(f"| {' | '.join([line.title, line.seeds, *cells])} |")
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def to_tables(result: CompareResult, *, holdout: bool = False) -> list[Table]:
    """Return one table per data set and k for a terminal, with speedups below errors."""
    from rich.table import Table
    from rich.text import Text

    tables = []
    for data in result.data:
        for k in result.clusters(data):
            table = Table(
                # As Text: rich would take a data set [b] for markup.
                title=Text(f"{data}, k = {k} ({full_text(result, data, k)})", style="table.title"),
                caption="error relative to full ± 95 % interval, speedup",
            )
            table.add_column("method (seeds)")
            for size in _columns(result):
                table.add_column(_heading(size), justify="right", no_wrap=True)
            for line in table_lines(result, data, k, holdout=holdout):
                cells = [f"{error_text(cell)}\n{speedup_text(cell)}" for cell in line.cells]
                table.add_row(f"{line.title} ({line.seeds})", *cells)
            tables.append(table)
    return tables


def to_text(result: CompareResult) -> str:
    """Return the tables as plain text."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    console = Console(width=200, file=text)
    for table in to_tables(result):
        console.print(table)
    return text.getvalue()


def full_text(result: CompareResult, data: str, k: int) -> str:
    """Return how long k-means on all rows took."""
    times = [
        f"{title(cell.key.method)} {cell.seconds:.3g} s"
        for cell in result.cells(data, k)
        if cell.key.method in FULL
    ]
    return ", ".join(times)
