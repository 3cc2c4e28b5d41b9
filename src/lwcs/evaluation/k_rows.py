"""The rows of the table of `choose_k`: what is known of every number of clusters, and its text."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lwcs.runtime import formatting as markup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and where the value on all rows is likely to be."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class KRow:
    """One number of clusters; what was not computed is None."""

    k: int
    cost: Interval | None = None
    """Cost of all rows, by draws that were not clustered."""
    silhouette: float | None = None
    davies_bouldin: float | None = None
    separated: bool | None = None
    """Whether the data tells all clusters apart from their neighbours."""
    weakest: float | None = None
    """How deep the valley is between the two clusters that are least told apart."""
    smallest: int | None = None
    """How many rows of the smallest cluster were drawn."""
    stability: float | None = None
    """Mean Jaccard overlap of the least stable cluster over bootstrap coresets."""
    log_likelihood: Interval | None = None
    """Mean per row, by draws that were not fitted."""
    bic: float | None = None
    bic_noise: float | None = None
    """Standard error of the difference to the least BIC."""

    def record(self) -> dict[str, Any]:
        """The row with plain values alone."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("cost", "log_likelihood"):
                names = (each.name, f"{each.name}_low", f"{each.name}_high")
                values = (None,) * 3 if value is None else (value.value, value.low, value.high)
                found |= dict(zip(names, values, strict=True))
            else:
                found[each.name] = value
        return found


def to_arrow(rows: Sequence[KRow]) -> pa.Table:
    """All rows as a table; columns that nothing was computed for are empty."""
    import pyarrow as pa

    kinds = {"k": pa.int64(), "separated": pa.bool_(), "smallest": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in rows[0].record()])
    return pa.Table.from_pylist([row.record() for row in rows], schema=schema)


def _cost(cost: Interval) -> str:
    """A cost and how far the end of its interval is away, as a part of it."""
    exact = cost.low == cost.high or not cost.value
    percent = "" if exact else f" ± {100.0 * (cost.high / cost.value - 1.0):.2g} %"
    return f"{cost.value:.5g}{percent}"


def _likelihood(mean: Interval) -> str:
    """A log-likelihood and how far the end of its interval is away."""
    return f"{mean.value:.6g}" + (
        "" if mean.low == mean.high else f" ± {mean.high - mean.value:.2g}"
    )


_COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("k", "k", str),
    ("cost", "cost", _cost),
    ("log_likelihood", "log-likelihood", _likelihood),
    ("bic", "BIC", "{:.6g}".format),
    ("silhouette", "silhouette", "{:.3f}".format),
    ("davies_bouldin", "Davies–\nBouldin", "{:.3f}".format),
    ("separated", "told\napart", lambda value: "yes" if value else "no"),
    ("stability", "stability", "{:.2f}".format),
)


@dataclass(frozen=True, slots=True)
class Text:
    """A table as texts: headings, and one line per number of clusters."""

    headings: list[str]
    lines: list[list[str]]


def to_text(rows: Sequence[KRow]) -> Text:
    """The columns in which anything is known."""
    shown = [
        column for column in _COLUMNS if any(getattr(row, column[0]) is not None for row in rows)
    ]
    lines = []
    for row in rows:
        values = [(getattr(row, name), text) for name, _, text in shown]
        lines.append(["–" if value is None else text(value) for value, text in values])
    return Text([heading for _, heading, _ in shown], lines)


def to_rich(rows: Sequence[KRow], recommended: int | None) -> Table:
    """The table for a terminal; an arrow points at the recommended number of clusters."""
    from rich.table import Table

    text, table = to_text(rows), Table()
    for heading in text.headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row, line in zip(rows, text.lines, strict=True):
        own = row.k == recommended
        table.add_row(*[f"→ {line[0]}" if own else line[0], *line[1:]], style="bold" if own else "")
    return table


def to_html(rows: Sequence[KRow], recommended: int | None) -> str:
    """The table for a notebook; the recommended number of clusters is bold."""
    text = to_text(rows)
    names = [heading.replace("–\n", "–").replace("\n", " ") for heading in text.headings]
    bold = next((number for number, row in enumerate(rows) if row.k == recommended), None)
    return markup.table(names, text.lines, bold=bold)
