"""Exemplars: the result of `exemplars`, a table of typical rows that is also shown as text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from lwcs.arrays.device import copied
from lwcs.arrays.rows import some_columns, stack
from lwcs.estimators.summary import name_within
from lwcs.runtime.formatting import plain_number, plain_table, shortened
from lwcs.sizing.stability import SHOWN
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    import pyarrow as pa

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.estimators.summary import ClusterSummary

    Kind = Literal["nearest", "farthest"]

KINDS: tuple[Kind, Kind] = ("nearest", "farthest")
SIGNS = (1.0, -1.0)
# Columns of the data beside row and distance in the text, and the longest of their names and texts.
_COLUMNS, _LONGEST, _NAME = 4, 16, 48
DENSITY = "log_density"
"""Name of the quantity for mixtures, and its sign as a distance."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Some rows, with what is known of each."""

    labels: IntArray
    distances: FloatArray
    """Distance from the center; for a mixture, minus the log-density in its component."""
    rows: IntArray
    """Row numbers."""
    points: Rows
    kept: Any = None
    """Columns that are kept beside the rows, as an Arrow table."""

    def __getitem__(self, at: IntArray) -> Chosen:
        """Some of them."""
        kept = None if self.kept is None else self.kept.take(at)
        return Chosen(
            self.labels[at], self.distances[at], self.rows[at], copied(self.points[at]), kept
        )

    def __add__(self, other: Chosen) -> Chosen:
        """These and other rows."""
        kept = self.kept
        if kept is not None:
            import pyarrow as pa

            kept = pa.concat_tables([kept, other.kept])
        return Chosen(
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.distances, other.distances]),
            np.concatenate([self.rows, other.rows]),
            stack([self.points, other.points]),
            kept,
        )

    def best(self, n: int, sign: float) -> IntArray:
        """Places of the n rows of each cluster with the least sign·distance, in this order."""
        order = np.lexsort((self.rows, sign * self.distances, self.labels))
        labels = self.labels[order]
        first = np.searchsorted(labels, labels)
        return order[np.arange(len(order)) - first < n]


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRows:
    """The nearest and the farthest rows of each cluster among some rows."""

    rows: int
    """Number of rows that they were chosen from."""
    sizes: FloatArray
    """Weight of each cluster."""
    nearest: Chosen | None = None
    farthest: Chosen | None = None

    def merged(self, other: ChosenRows, n: int) -> ChosenRows:
        """The nearest and the farthest ones among these and the rows that follow them."""
        parts = []
        for kind, sign in zip(KINDS, SIGNS, strict=True):
            one: Chosen | None = getattr(self, kind)
            two: Chosen | None = getattr(other, kind)
            if two is not None:
                two = replace(two, rows=two.rows + self.rows)
                both = two if one is None else one + two
                one = both[both.best(n, sign)]
            parts.append(one)
        return ChosenRows(self.rows + other.rows, self.sizes + other.sizes, *parts)


@dataclass(frozen=True, eq=False, repr=False)
class Exemplars(Tabular):
    """The rows nearest to each center and the farthest ones of each cluster, by `lwcs.exemplars`.

    pyarrow, polars, pandas and DuckDB take it as a table; ``print(exemplars)`` shows the rows of
    the largest clusters. The columns of the table are `cluster`, which is ordered by size, the
    largest first; `kind`, "nearest" or "farthest"; `rank`, from 1 on; `row`, the row number;
    `distance` from the center (`divergence` from it, or for a mixture `log_density`, that of the
    row in its component); the columns that were kept; and the values of the row.

    Attributes
    ----------
    cluster, row : int arrays
        Cluster and row number of every row that was chosen.
    kind : list of str
        "nearest" or "farthest".
    distance : array
        Its distance from the center, as in the table.
    points : array or CSR array
        The values of these rows, in the units of the data.
    kept : pyarrow Table or None
        The columns that were kept.
    n_rows : int
        Number of rows that they were chosen from.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.array([[0.0], [1.0], [2.0], [7.0], [20.0], [21.0], [22.0]])
    >>> found = lwcs.exemplars(lwcs.CoresetKMeans(2, random_state=0).fit(X), X, n=1)
    >>> found
    <Exemplars: 4 of 7 rows, the 1 nearest and farthest ones of 2 clusters>
    >>> found.to_arrow()["row"].to_pylist()
    [2, 3, 5, 4]
    """

    found: ChosenRows
    n: int
    feature_names: tuple[str, ...] | None
    called: str
    quantity: str
    """Name of the column of distances."""
    order: IntArray
    """The clusters, the largest first."""
    summary: ClusterSummary | None = None
    """Facts about the clusters."""
    columns: Any = None
    """Kept columns of tables in memory, which are looked up by row."""

    _instead_of_rows: ClassVar[str] = "pass rows of data, such as its points"

    @cached_property
    def _chosen(self) -> tuple[Chosen, list[str], IntArray]:
        """The rows in the order of the table, their kinds and their ranks."""
        place = np.argsort(self.order)
        assert self.found.nearest is not None
        assert self.found.farthest is not None
        both = self.found.nearest + self.found.farthest
        kinds = np.repeat([0, 1], [len(self.found.nearest.rows), len(self.found.farthest.rows)])
        order = np.lexsort((kinds, place[both.labels]))
        kinds, labels = kinds[order], both.labels[order]
        starts = np.flatnonzero(np.diff(2 * labels + kinds, prepend=-1))
        ranks = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order))) + 1
        return both[order], [KINDS[each] for each in kinds], ranks

    @property
    def n_rows(self) -> int:
        """Number of rows that they were chosen from."""
        return self.found.rows

    @property
    def cluster(self) -> IntArray:
        """Cluster of every row that was chosen."""
        return self._chosen[0].labels

    @property
    def kind(self) -> list[str]:
        """Whether a row is nearest to the center, or farthest from it."""
        return self._chosen[1]

    @property
    def row(self) -> IntArray:
        """Row numbers."""
        return self._chosen[0].rows

    @property
    def distance(self) -> FloatArray:
        """Distance from the center, a divergence, or a log-density."""
        own = self._chosen[0].distances
        return -own if self.quantity == DENSITY else own

    @property
    def points(self) -> Rows:
        """The values of the rows."""
        return self._chosen[0].points

    @cached_property
    def kept(self) -> pa.Table | None:
        """The columns that were kept."""
        chosen: pa.Table | None = self._chosen[0].kept
        return chosen if self.columns is None else self.columns(self.row)

    def __len__(self) -> int:
        """Number of rows that were chosen."""
        return len(self.row)

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table: one row per row that was chosen."""
        import pyarrow as pa

        from lwcs.storage.arrow_tables import apart_from, point_columns

        values = point_columns(self.points, self.feature_names)
        known = self.kept
        kept = {} if known is None else dict(zip(known.column_names, known, strict=True))
        own = {
            self.called: self.cluster,
            "kind": self.kind,
            "rank": self._chosen[2],
            "row": self.row,
            self.quantity: self.distance,
        }
        table = {name: each for name, each in kept.items() if name not in values} | values
        return pa.table({apart_from(table, n): pa.array(each) for n, each in own.items()} | table)

    def __repr__(self) -> str:
        return (
            f"<Exemplars: {len(self):,} of {self.n_rows:,} rows, the {self.n} nearest and farthest "
            f"ones of {len(self.order):,} {self.called}s>"
        )

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The rows of the largest clusters; tables are no wider than `width` characters."""
        shown = [each for each in self.order if (self.cluster == each).any()]
        heading = (
            f"The {self.n} nearest and the {self.n} farthest of {self.n_rows:,} rows by "
            f"{self.called}, the largest first"
        )
        parts = [heading, *(self._block(each, width) for each in shown[:SHOWN])]
        if len(shown) > SHOWN:
            parts.append(f"and {len(shown) - SHOWN:,} more {self.called}s, which are no larger")
        return "\n\n".join(parts)

    def _block(self, cluster: int, width: int | None) -> str:
        """The rows of a cluster as text, with the columns that tell it apart."""
        name = (
            "" if self.summary is None else f": {name_within(self.summary.names[cluster], _NAME)}"
        )
        cells = [[f"  {first}", *others] for first, *others in self.cells(cluster, _COLUMNS)]
        return "\n".join([f"{self.called} {cluster}{name}", *plain_table(cells, width=width)])

    def cells(self, cluster: int, n_columns: int) -> list[list[str]]:
        """A table of the rows of a cluster as text, with its headings."""
        at = np.flatnonzero(self.cluster == cluster)
        d = int(self.points.shape[1])
        telling = np.arange(d)
        if self.summary is not None:
            telling = np.argsort(-np.abs(self.summary.facts.profile[cluster]), kind="stable")
        columns = telling[:n_columns]
        values = some_columns(self.points[at], columns)
        names = self.feature_names or [f"column {j}" for j in range(d)]
        kept = {} if self.kept is None else self.kept.take(at).to_pydict()
        headings = ["", "row", self.quantity.replace("_", " "), *kept, *(names[j] for j in columns)]
        lines = [[_cell(each) for each in headings]]
        for place, row in enumerate(at):
            lines.append(
                [
                    self.kind[row],
                    f"{self.row[row]:,}",
                    plain_number(float(self.distance[row]), 3),
                    *(_cell(each[place]) for each in kept.values()),
                    *(plain_number(float(each)) for each in values[place]),
                ]
            )
        return lines


def _cell(value: Any) -> str:
    return shortened(" ".join(str(value).split()), _LONGEST)
