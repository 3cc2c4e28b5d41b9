"""HTML for notebooks: tables and paragraphs, in which every text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(
    headings: Sequence[object], lines: Iterable[Sequence[object]], *, bold: int | None = None
) -> str:
    """A table with one row per line; the line with the number `bold` is emphasised."""
    head = "".join(f"<th>{_text(name)}</th>" for name in headings)
    rows = []
    for number, line in enumerate(lines):
        start, end = ("<td><b>", "</b></td>") if number == bold else ("<td>", "</td>")
        rows.append(f"<tr>{''.join(f'{start}{_text(cell)}{end}' for cell in line)}</tr>")
    body = "".join(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """A table of two columns: what, and its value."""
    rows = (
        f'<tr><th scope="row" style="text-align: left">{_text(name)}</th>'
        f'<td style="text-align: left">{_text(value)}</td></tr>'
        for name, value in pairs
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def paragraphs(lines: Iterable[object]) -> str:
    """One paragraph per line."""
    return "".join(f"<p>{_text(line)}</p>" for line in lines)


def _text(value: object) -> str:
    return escape(str(value))
