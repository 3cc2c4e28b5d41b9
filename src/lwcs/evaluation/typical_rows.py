"""exemplars(): the rows nearest to each center and the farthest ones of each cluster, in one pass.

Every partition sends home the best n of each kind and cluster, which are merged in the order of
partitions. Of equally far rows, those that come first are chosen, so that the result does not
depend on how the rows are cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_count
from lwcs.arrays.device import copied
from lwcs.arrays.rows import some_columns, stack
from lwcs.coreset.coreset import Coreset
from lwcs.estimators.cluster_facts import known_facts
from lwcs.estimators.fitted_models import FittedCenters, as_fitted
from lwcs.estimators.mixture_predict import densities
from lwcs.estimators.summary import Summary
from lwcs.estimators.validation import coreset_of_stream, scan_rows
from lwcs.geometry import Centers
from lwcs.passes import measured
from lwcs.runtime.formatting import plain_number, shortened
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads
from lwcs.sizing.stability import SHOWN
from lwcs.sources.base import gathered
from lwcs.sources.memory.dataframes import TableSource
from lwcs.sources.sequence import SequenceSource
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.estimators.fitted_models import FittedMixture
    from lwcs.runtime.progress import Callback
    from lwcs.solvers.em import Mixture
    from lwcs.sources import Block, Source

    Kind = Literal["nearest", "farthest"]

KINDS: tuple[Kind, Kind] = ("nearest", "farthest")
_SIGNS = (1.0, -1.0)
# Columns of the data beside row and distance in the text, and the longest of their names and texts.
_COLUMNS, _LONGEST = 4, 16


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
        pairs = ((getattr(self, n), getattr(other, n)) for n in ("labels", "distances", "rows"))
        return Chosen(*map(np.concatenate, pairs), stack([self.points, other.points]), kept)

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
        for kind, sign in zip(KINDS, _SIGNS, strict=True):
            one: Chosen | None = getattr(self, kind)
            two: Chosen | None = getattr(other, kind)
            if two is not None:
                two = replace(two, rows=two.rows + self.rows)
                both = two if one is None else one + two
                one = both[both.best(n, sign)]
            parts.append(one)
        return ChosenRows(self.rows + other.rows, self.sizes + other.sizes, *parts)


@dataclass(frozen=True, slots=True)
class ChoosingTask:
    """The nearest and the farthest rows of each cluster in one partition."""

    model: Centers | Mixture
    k: int
    n: int

    def __call__(self, blocks: Iterator[Block], partition: int) -> ChosenRows:
        """Choose from block after block."""
        found = ChosenRows(0, np.zeros(self.k))
        for block in blocks:
            with BadValueError.in_partition(partition):
                found = found.merged(self._of(block), self.n)
        return found

    def _of(self, block: Block) -> ChosenRows:
        labels, distances = self._labelled(block)
        n_rows = len(labels)
        weights = np.ones(n_rows) if block.weights is None else np.asarray(block.weights)
        if block.dropped is not None:
            weights = np.where(block.dropped, 0.0, weights)
        sizes = np.bincount(labels, weights, self.k).astype(np.float64, copy=False)
        used = np.flatnonzero(weights > 0.0)
        if not len(used):
            return ChosenRows(n_rows, sizes)
        # Points are copied only of the rows that are chosen.
        numbers = Chosen(labels[used], distances[used], used, np.empty((len(used), 0)))
        chosen = [used[numbers.best(self.n, sign)] for sign in _SIGNS]
        whole = Chosen(labels, distances, np.arange(n_rows), block.points, block.beside)
        return ChosenRows(n_rows, sizes, *(whole[each] for each in chosen))

    def _labelled(self, block: Block) -> tuple[IntArray, FloatArray]:
        if isinstance(self.model, Centers):
            rows = measured(block, self.model)
            labels, distances = rows.nearest(self.model)
            lengths = rows.geometry.lengths(np.asarray(distances))
            return np.asarray(labels, dtype=np.int64), lengths
        labels, density = densities(self.model, block.points, block.first_row)
        return labels, -density


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
    """

    found: ChosenRows
    n: int
    feature_names: tuple[str, ...] | None
    called: str
    quantity: str
    """What `distance` is called in the table."""
    order: IntArray
    """The clusters, the largest first."""
    summary: Summary | None = None
    """What is known of the clusters."""
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
        return -own if self.quantity == _DENSITY else own

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
        kept = (
            {} if self.kept is None else dict(zip(self.kept.column_names, self.kept, strict=True))
        )
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
            f"<Exemplars: {len(self):,} of {self.n_rows:,} rows, {self.n} nearest and farthest ones "
            f"of {len(self.order):,} {self.called}s>"
        )

    def __str__(self) -> str:
        shown = [each for each in self.order if (self.cluster == each).any()]
        heading = (
            f"The {self.n} nearest and the {self.n} farthest of {self.n_rows:,} rows by "
            f"{self.called}, the largest first"
        )
        parts = [heading, *map(self._block, shown[:SHOWN])]
        if len(shown) > SHOWN:
            parts.append(f"and {len(shown) - SHOWN:,} more {self.called}s, which are no larger")
        return "\n\n".join(parts)

    def _block(self, cluster: int) -> str:
        """The rows of a cluster as text, with the columns that tell it apart."""
        name = "" if self.summary is None else f": {self.summary.names[cluster]}"
        lines = [f"{self.called} {cluster}{name}"]
        cells = self.cells(cluster, _COLUMNS)
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for first, *others in cells:
            right = [each.rjust(width) for each, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join(["", first.ljust(widths[0]), *right]))
        return "\n".join(lines)

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


_DENSITY = "log_density"


def _cell(value: Any) -> str:
    return shortened(" ".join(str(value).split()), _LONGEST)


def exemplars(
    model: Any,
    X: Any,
    n: int = 5,
    *,
    keep: Sequence[str] | str = (),
    n_jobs: int | None = None,
    progress: int | Callback = 0,
) -> Exemplars:
    """Typical rows: those nearest to each center, and the farthest ones of each cluster.

    Rows are read once. Of equally far rows, the first ones are chosen, so that the result does not
    depend on how the rows are cut into partitions.

    Parameters
    ----------
    model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
        Fitted model. For a mixture, a row belongs to its most likely component, and those with the
        highest density in it come first.
    X : array, sparse array, table, path, Source or data of an engine
        Rows: whatever `lwcs.scan` accepts, with the columns that were fitted, which are found by
        name. Rows are numbered through all files and partitions.
    n : int, default=5
        How many rows of each kind to choose per cluster.
    keep : list of str or str, default=()
        Names or patterns of columns to keep beside the rows, such as an id: of files, queries and
        tables in memory.
    n_jobs : int, optional
        Number of threads; by default all cores that the container allows.
    progress : int or callable, default=0
        Whether to show progress on standard error, or a function that is called with a
        `lwcs.Progress`.

    Returns
    -------
    Exemplars
        The rows, as a table and as text.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.array([[0.0], [1.0], [2.0], [7.0], [20.0], [21.0], [22.0]])
    >>> found = lwcs.exemplars(lwcs.CoresetKMeans(2, random_state=0).fit(X), X, n=1)
    >>> found.row.tolist(), found.kind
    ([1, 3, 5, 4], ['nearest', 'farthest', 'nearest', 'farthest'])
    """
    check_count(n, "n")
    judge = as_fitted(model)
    if isinstance(coreset_of_stream(X), Coreset):
        raise TypeError(
            "a coreset has few of the rows, and not their numbers in order; pass the rows "
            "themselves, or coreset.points"
        )
    source, facts = scan_rows(model, X, reset=False), known_facts(model)
    columns = _kept_columns(source, keep)
    found = choose_rows(judge, source, n, as_threads(n_jobs), Journal(progress))
    order = np.argsort(-found.sizes, kind="stable") if facts is None else facts.by_size
    names = getattr(model, "feature_names_in_", source.feature_names)
    return Exemplars(
        found, n, None if names is None else tuple(map(str, names)),
        "component" if judge.soft else "cluster",
        judge.geometry.length_name if isinstance(judge, FittedCenters) else _DENSITY,
        order, None if facts is None else Summary(facts), columns,
    )  # fmt: skip


def choose_rows(
    judge: FittedCenters | FittedMixture, source: Source, n: int, n_jobs: int, journal: Journal
) -> ChosenRows:
    """Choose the nearest and the farthest rows of each cluster, in one pass."""
    given: Centers | Mixture
    if isinstance(judge, FittedCenters):
        geometry = judge.geometry.with_kernel(kernels.choose(source.estimate_values()))
        given = geometry.own_centers(judge.centers)
    else:
        given = judge.mixture
    task = ChoosingTask(given, judge.k, n)
    with source.explaining():
        parts = gathered(source, task, "exemplars", journal=journal, n_jobs=n_jobs)
        return reduce(lambda one, other: one.merged(other, n), parts)


def _kept_columns(source: Source, keep: Sequence[str] | str) -> Any:
    """Keep columns beside the rows; of a table in memory, a function that looks them up by row."""
    names = [keep] if isinstance(keep, str) else list(keep)
    if not names:
        return None
    table = getattr(source, "whole", source)
    if isinstance(source, SequenceSource):
        source.keep(names)
        return None
    if isinstance(table, TableSource):
        table.beside(names, np.empty(0, dtype=np.int64))
        return lambda rows: table.beside(names, rows)
    raise TypeError(
        f"keep={names} names columns, which a {type(source).__name__} cannot keep beside its rows; "
        "pass files, a query or a table in memory, or leave it out and use the row numbers"
    )
