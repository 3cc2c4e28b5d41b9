"""Check: what `lwcs.check` found in a table, in numbers and in plain words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lwcs.runtime import formatting as markup
from lwcs.runtime.formatting import plain_percent, shortened
from lwcs.storage.fields import finite_or_none
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

_SHOWN = 60
_LONGEST = 24
_NUMBERS = ("gaps", "low", "high", "mean", "deviation", "share", "skew", "kurtosis")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Facts about a column; None where one does not apply."""

    name: str
    kind: str
    """Numbers, booleans, dates, categories, text, identifiers, index, weights, or its type."""
    why: str | None = None
    """Why it should not be used; None if it should."""
    gaps: float | None = None
    """Share of rows in which it is missing, or not finite."""
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    deviation: float | None = None
    """Standard deviation."""
    share: float | None = None
    """Share of squared distances between rows, among the columns to use, as they are."""
    skew: float | None = None
    kurtosis: float | None = None
    distinct: int | None = None
    """Number of different values in the sample."""


@dataclass(frozen=True, eq=False, repr=False)
class Check(Tabular):
    """What a table holds, and how to cluster it; made by `lwcs.check`.

    ``print(check)`` says it in words; pyarrow, polars, pandas and DuckDB take it as a table with
    one row per column.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    columns : tuple of ColumnFacts
        What every column holds: `name`, `kind`, `why` it should not be used (None if it should),
        the share of `gaps`, `low`, `high`, `mean`, `deviation`, the `share` of squared distances,
        and, from the sample, `skew`, `kurtosis` and the number of `distinct` values.
    features : tuple of str
        The columns to cluster by.
    findings : tuple of str
        What is noteworthy, one sentence per kind.
    options : dict
        How to read and scale the rows: keywords for `lwcs.scan`.
    command : str or None
        The command that fits the file well; None for data that is not in files.
    code : str
        The same in Python.
    n_sampled : int
        Number of rows of the sample.

    Examples
    --------
    >>> import numpy as np, pandas as pd, lwcs
    >>> frame = pd.DataFrame({"x": np.arange(50.0) ** 2, "one": 1.0, "name": ["a", "b"] * 25})
    >>> found = lwcs.check(frame)
    >>> {column.name: column.why for column in found.columns}
    {'x': None, 'one': 'constant', 'name': 'categories'}
    >>> print(found.findings[0])
    Constant, so that it tells no rows apart: 'one'.
    """

    n_rows: int
    columns: tuple[ColumnFacts, ...]
    features: tuple[str, ...]
    findings: tuple[str, ...]
    options: Mapping[str, Any]
    command: str | None
    code: str
    n_sampled: int = field(default=0)

    _instead_of_rows = "pass the data that was checked"

    def __repr__(self) -> str:
        return (
            f"Check({self.n_rows:,} row{'s' * (self.n_rows != 1)} × {len(self.columns):,} columns, "
            f"{len(self.features):,} to cluster)"
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON."""
        columns = [
            {key: finite_or_none(value) for key, value in asdict(column).items()}
            for column in self.columns
        ]
        return {
            "rows": self.n_rows,
            "columns": columns,
            "features": list(self.features),
            "findings": list(self.findings),
            "options": dict(self.options),
            "command": self.command,
            "code": self.code,
            "sampled": self.n_sampled,
        }

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table with one row per column."""
        import pyarrow as pa

        texts = [(name, pa.string()) for name in ("name", "kind", "why")]
        numbers = [(name, pa.float64()) for name in _NUMBERS]
        schema = pa.schema([*texts, *numbers, ("distinct", pa.int64())])
        return pa.Table.from_pylist([asdict(column) for column in self.columns], schema=schema)

    def to_pandas(self) -> Any:
        """Convert to a pandas DataFrame with one row per column."""
        return self.to_arrow().to_pandas()

    def words(self) -> list[str]:
        """The findings, and what to do, one line each."""
        lines = [*self.findings]
        if self.n_sampled < self.n_rows:
            lines.append(
                "Kinds of text, identifiers, tails and correlations are estimated from a sample of "
                f"{self.n_sampled:,} rows, always the same; all other figures are of all rows."
            )
        if not self.features:
            return [*lines, "There is no column to cluster by."]
        return [*lines, "This fits it well; the number of clusters is yours to choose:"]

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """All of it in words; tables are no wider than `width` characters."""
        headings, table = self._table()
        rules = ["─" * max(map(len, column)) for column in zip(headings, *table, strict=True)]
        last = len(headings) - 1
        lines = markup.plain_table([headings, rules, *table], left=(0, 1, last), width=width)
        if len(self.columns) > _SHOWN:
            lines.append(f"… and {len(self.columns) - _SHOWN:,} more columns")
        how = [] if not self.features else ["", f"    {self.command or self.code}"]
        s = "s" * (len(self.columns) != 1)
        title = f"{self.n_rows:,} rows, {len(self.columns):,} column{s}{self._kinds()}"
        return "\n".join([title, "", *lines, "", *self.words(), *how])

    def _repr_html_(self) -> str:
        headings, table = self._table()
        how = [self.command or self.code] if self.features else []
        return markup.table(headings, table) + markup.paragraphs([*self.words(), *how])

    def _kinds(self) -> str:
        """How many columns there are of every kind."""
        counts: dict[str, int] = {}
        for column in self.columns:
            counts[column.kind] = counts.get(column.kind, 0) + 1
        return ": " + ", ".join(f"{kind} {n}" for kind, n in counts.items()) if counts else ""

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Headings, and the lines of the first columns."""
        headings = ["column", "holds", "gaps", "from", "to", "mean", "distances", "leave out"]
        return headings, [
            [
                shortened(" ".join(column.name.split()), _LONGEST),
                column.kind,
                plain_percent(column.gaps, 2) if column.gaps else "",
                *map(_number, (column.low, column.high, column.mean)),
                _share(column.share),
                (column.why or "").removeprefix("says the "),
            ]
            for column in self.columns[:_SHOWN]
        ]


def _share(share: float | None) -> str:
    if share is None or share >= 1e-4:
        return "" if share is None else plain_percent(share)
    return "< 0.01 %"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
