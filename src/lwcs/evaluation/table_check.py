"""check(): what a table holds, before it is clustered, and the command that would fit it well.

One pass counts what is exact: rows, gaps, ends, means and variances. A sample of rows, drawn by the
same pass with a fixed seed, shows what takes several rows at once: identifiers, tails, columns that
say the same, and what text holds. Each row has a random key, and those with the smallest keys are
the sample, so that it does not depend on how rows arrive.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwcs.arrays.checks import check_count
from lwcs.arrays.rows import as_dense, is_sparse, with_values
from lwcs.evaluation.table_advice import advised
from lwcs.evaluation.table_check_result import Check, ColumnFacts
from lwcs.runtime.journal import Journal
from lwcs.runtime.randomness import Stage, generator
from lwcs.runtime.warnings import ColumnWarning
from lwcs.sources import PARTITION_ROWS, Source, scan
from lwcs.sources.base import gathered, watched
from lwcs.sources.column_types import (
    content_of,
    days_of,
    identifiers_among,
    is_date,
    is_number,
    numbers_of,
    plain_type,
)
from lwcs.sources.files.csv_values import MISSING, date_format
from lwcs.sources.files.files import FileSource
from lwcs.sources.kinds import engine_of, is_path, is_query, is_table
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.runtime.progress import Callback
    from lwcs.sources import Block

_SAMPLED, _SEED = 5_000, 0
_FEWEST, _VALUES = 200, 2**22
_FEW = 100
"""Text with more distinct values than this is not categorical."""
_TAILED = 20
"""Fewer rows say nothing about tails."""


def check(
    data: Any,
    *,
    n_clusters: int = 8,
    n_jobs: int | None = None,
    progress: bool | Callback = False,
) -> Check:
    """Look at data before it is clustered: one pass, and the command that would fit it well.

    It says what each column holds (numbers, dates, categories, text, identifiers), where there are
    gaps, which columns are constant or say the same as another one, how skewed they are, and how
    much each would have in the distances; and it advises how to read and scale the rows.

    Parameters
    ----------
    data : table, path, array, query, stream, or Source
        Whatever `lwcs.scan` accepts. With options, pass ``lwcs.scan(data, …)``. Thousands
        separators of CSV files are recognized from their first rows.
    n_clusters : int, default=8
        Number of clusters in the command; `choose_k` says how many there are.
    n_jobs : int, optional
        Number of threads; by default all cores.
    progress : bool or callable, default=False
        Whether to show progress; see `lwcs.build`.

    Returns
    -------
    Check

    Examples
    --------
    >>> import numpy as np, pandas as pd, lwcs
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({
    ...     "customer_id": np.arange(1_000),
    ...     "age": rng.normal(40, 9, 1_000),
    ...     "income": rng.lognormal(10, 1, 1_000),
    ...     "city": ["Bern", "Basel"] * 500,
    ... })
    >>> found = lwcs.check(people, n_clusters=3)
    >>> found
    Check(1,000 rows × 4 columns, 2 to cluster)
    >>> found.options
    {'columns': ['age', 'income'], 'scale': 'standard'}
    >>> model = lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(people, **found.options))
    """

    def opened(**suggested: Any) -> Source:
        if is_table(data) and not is_query(data) and engine_of(data) is None:
            from lwcs.sources.memory.dataframes import as_arrow

            return scan(as_arrow(data).to_reader(max_chunksize=2**16))
        clustered = engine_of(data) is not None
        return scan(data, missing="drop" if clustered else "error", **suggested)

    paths = data if is_path(data) else None
    fixed = isinstance(data, Source)
    check_count(n_clusters, "n_clusters")
    with without_column_warnings():
        return checked(data if fixed else opened(), opened, paths, n_clusters, n_jobs, progress)


@contextmanager
def without_column_warnings() -> Iterator[None]:
    """Leave out warnings about columns, which a check names itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        yield


def checked(
    source: Source,
    opened: Callable[..., Source],
    paths: Any,
    n_clusters: int,
    n_jobs: int | None = None,
    progress: Any = False,
) -> Check:
    """Check the rows of a source; `opened` opens it again with options that it suggests."""
    suggested = dict(source.suggested) if isinstance(source, FileSource) and paths else {}
    if suggested:
        source = opened(**suggested)
    with source.explaining():
        table = _statistics_of(source, n_jobs, Journal(progress))
    values = {name: table.sample.numbers[:, j] for j, name in enumerate(table.names)}
    return advised(_facts(table, source), table.rows, values, source, paths, n_clusters)


def sampled(width: int) -> int:
    """Number of rows of the sample, fewer where there are very many columns."""
    return min(_SAMPLED, max(_FEWEST, _VALUES // max(width, 1)))


@dataclass(frozen=True, slots=True)
class Sums:
    """Exact sums over rows, by column; values that are missing or infinite are gaps."""

    rows: int
    present: IntArray
    mean: FloatArray
    scatter: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, values: Rows) -> Sums:
        """The sums of some rows."""
        if is_sparse(values):
            return cls._of_sparse(values)
        finite = np.isfinite(values)
        if finite.all() and len(values):
            mean = values.mean(axis=0)
            with np.errstate(over="ignore"):
                scatter = np.square(values - mean).sum(axis=0)
            present = np.full(values.shape[1], len(values))
            return cls(len(values), present, mean, scatter, values.min(axis=0), values.max(axis=0))
        present = finite.sum(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(finite, values, 0.0).sum(axis=0) / np.maximum(present, 1)
            scatter = np.square(np.where(finite, values - mean, 0.0)).sum(axis=0)
        low = np.where(finite, values, np.inf).min(axis=0, initial=np.inf)
        high = np.where(finite, values, -np.inf).max(axis=0, initial=-np.inf)
        return cls(len(values), present, mean, scatter, low, high)

    @classmethod
    def _of_sparse(cls, rows: Any) -> Sums:
        """Sums of sparse rows, whose values are finite or gaps that count as zeros."""
        n = rows.shape[0]
        finite = np.isfinite(rows.data)
        known = with_values(rows, np.where(finite, rows.data, 0.0).astype(np.float64))
        mean = np.asarray(known.sum(axis=0)).ravel() / max(n, 1)
        gone = np.bincount(rows.indices, ~finite, rows.shape[1]).astype(np.int64)
        zeros = n - np.bincount(rows.indices, minlength=rows.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(known.data - mean[rows.indices])
            of_zeros: FloatArray = np.where(zeros > 0, zeros * np.square(mean), 0.0)
            scatter = of_zeros + np.bincount(rows.indices, squares, rows.shape[1])
        low, high = (np.asarray(part.toarray()).ravel() for part in (known.min(0), known.max(0)))
        return cls(n, n - gone, mean, scatter, low, high)

    def __add__(self, other: Sums) -> Sums:
        present = self.present + other.present
        part = other.present / np.maximum(present, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = other.mean - self.mean
            mean = self.mean + delta * part
            scatter = self.scatter + other.scatter + self.present * part * delta**2
        return Sums(
            self.rows + other.rows, present, mean, scatter,
            np.minimum(self.low, other.low), np.maximum(self.high, other.high),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Rows with the smallest keys: their numbers, and their other columns if there are any."""

    keys: FloatArray
    numbers: FloatArray
    others: pa.Table | None = None

    def __add__(self, other: SampledRows) -> SampledRows:
        others = None
        if self.others is not None and other.others is not None:
            others = pa.concat_tables([self.others, other.others])
        keys = np.concatenate([self.keys, other.keys])
        return SampledRows(keys, np.concatenate([self.numbers, other.numbers]), others).smallest()

    def smallest(self) -> SampledRows:
        """The rows that stay in the sample, in the order in which they came."""
        most = sampled(self.numbers.shape[1])
        if len(self.keys) <= most:
            return self
        at = np.sort(np.argpartition(self.keys, most)[:most])
        others = None if self.others is None else self.others.take(pa.array(at))
        return SampledRows(self.keys[at], self.numbers[at], others)


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Exact sums over some rows of a table, and a sample of them."""

    names: tuple[str, ...]
    """Columns of numbers, also those that are no features."""
    sums: Sums
    sample: SampledRows
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    """All columns of a table, with their types."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Missing values of columns that hold no numbers."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.sums.rows

    def __add__(self, other: TableStatistics) -> TableStatistics:
        gaps = {name: n + other.gaps[name] for name, n in self.gaps.items()}
        sums, sample = self.sums + other.sums, self.sample + other.sample
        return replace(self, sums=sums, sample=sample, gaps=gaps)


def _statistics_of(source: Source, n_jobs: int | None, journal: Journal) -> TableStatistics:
    """The statistics of all rows, in one pass."""
    vectors = source.selection is not None and any(source.selection.widths)
    if isinstance(source, SequenceSource) and source.selection is not None and not vectors:
        # All columns come with the rows, whether they are features or not.
        kept = source.kept
        try:
            source.keep(["*"])
            return reduce(add, watched(_of_batches(source), source, journal, "check"))
        finally:
            source.kept = kept
    names = source.feature_names or tuple(f"x{j}" for j in range(source.n_features))
    parts = gathered(source, StatisticsTask(names), "check", journal=journal, n_jobs=n_jobs)
    return reduce(add, parts)


def _of_batches(source: SequenceSource) -> Iterator[TableStatistics]:
    """The statistics of every batch of a table, in order."""
    rng = generator(_SEED, Stage.CHECK)
    schema: pa.Schema = source.kept
    kinds = {each.name: plain_type(each.type) for each in schema}
    names = tuple(n for n, kind in kinds.items() if is_number(kind) or is_date(kind))
    rest = [name for name in kinds if name not in names]
    most = sampled(len(names))
    smallest = np.ones(most)
    for rows in _pieces(source):
        # Columns stay together in memory, which makes sums over rows fast.
        numbers = np.empty((len(rows), len(names)), order="F")
        for j, name in enumerate(names):
            column = rows[name].combine_chunks()
            numbers[:, j] = _floats(column)
            if source.selection is not None and pa.types.is_integer(column.type):
                source.selection.note(name, numbers_of(column))
        keys = rng.random(len(rows))
        smallest = np.partition(np.concatenate([smallest, keys]), most - 1)[:most]
        # Most rows are known not to be in the sample before they are copied.
        at = np.flatnonzero(keys <= smallest.max())
        part = SampledRows(keys[at], numbers[at], rows.select(rest).take(pa.array(at)))
        gaps = {name: _missing(rows[name]) for name in rest}
        yield TableStatistics(names, Sums.of(numbers), part, kinds, gaps)


def _pieces(source: SequenceSource) -> Iterator[pa.Table]:
    """All columns of the rows, a limited number of rows at a time."""
    for _, batch in source.batches():
        whole: pa.RecordBatch = batch.beside
        for start in range(0, whole.num_rows, PARTITION_ROWS):
            yield pa.Table.from_batches([whole.slice(start, PARTITION_ROWS)])


def _missing(column: pa.ChunkedArray) -> int:
    """Number of missing values; those of text files are text."""
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return int(column.null_count)
    gone = pc.sum(pc.is_in(column, pa.array(MISSING, column.type))).as_py()
    return int(column.null_count + (gone or 0))


def _floats(column: pa.Array) -> FloatArray:
    """The numbers of a column, with NaN for missing values."""
    if is_date(column.type):
        column = days_of(column)
    values = np.array(numbers_of(column), dtype=np.float64)
    if column.null_count:
        values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


@dataclass(frozen=True, slots=True)
class StatisticsTask:
    """Task for the statistics of a partition whose rows are nothing but features."""

    names: tuple[str, ...]

    def __call__(self, blocks: Iterator[Block], partition: int) -> TableStatistics:
        """Add up the statistics of the blocks."""
        rng = generator(_SEED, Stage.CHECK, 0, partition)
        none = np.empty((0, len(self.names)))
        table = TableStatistics(self.names, Sums.of(none), SampledRows(np.empty(0), none))
        for block in blocks:
            rows: Any = block.points
            keys = rng.random(rows.shape[0])
            if not is_sparse(rows):
                rows = np.array(rows, dtype=np.float64)
                if block.dropped is not None:
                    rows[block.dropped] = np.nan
            most = sampled(len(self.names))
            at = np.argsort(keys)[:most]
            part = SampledRows(keys[at], as_dense(rows[at]))
            table += TableStatistics(self.names, Sums.of(rows), part)
        return table


def _facts(table: TableStatistics, source: Source) -> list[ColumnFacts]:
    """The facts about every column, in the order of the table."""
    sums, sample = table.sums, table.sample
    own = _numbers(table)
    if not table.kinds:
        return [*own.values(), *(ColumnFacts(str(name), "left out") for name in source.skipped)]
    assert source.selection is not None
    index, weight, facts = source.selection.index, source.selection.weight, []
    for name, kind in table.kinds.items():
        if name in own:
            found = own[name]
        else:
            found = _other(name, kind, sample.others, table.gaps[name] / max(sums.rows, 1))
        if name in index:
            found = replace(found, kind="index")
        elif name == weight:
            found = replace(found, kind="weights")
        elif is_date(kind):
            found = replace(found, kind="dates")
        facts.append(found)
    return facts


def _numbers(table: TableStatistics) -> dict[str, ColumnFacts]:
    """The facts about columns of numbers."""
    sums, rows = table.sums, table.sample.numbers
    values = {name: rows[:, j][np.isfinite(rows[:, j])] for j, name in enumerate(table.names)}
    identifiers = set(identifiers_among({name: each for name, each in values.items() if len(each)}))
    facts = {}
    for j, (name, each) in enumerate(values.items()):
        present = int(sums.present[j])
        kind = "identifiers" if name in identifiers else "numbers"
        low, high = float(sums.low[j]), float(sums.high[j])
        if present and {low, high} <= {0.0, 1.0} and set(np.unique(each).tolist()) <= {0.0, 1.0}:
            kind = "booleans"
        skew, tails = _shape(each)
        facts[name] = ColumnFacts(
            name, kind, gaps=1.0 - present / max(sums.rows, 1),
            low=low if present else None, high=high if present else None,
            mean=float(sums.mean[j]) if present else None,
            deviation=float(np.sqrt(sums.scatter[j] / present)) if present else None,
            skew=skew, kurtosis=tails, distinct=len(np.unique(each)),
        )  # fmt: skip
    return facts


def _shape(values: FloatArray) -> tuple[float | None, float | None]:
    """Skewness and kurtosis of a sample; 0 and 3 for a normal distribution."""
    if len(values) < _TAILED or not (deviation := float(values.std())) or np.isinf(deviation):
        return None, None
    unit = (values - values.mean()) / deviation
    return float((unit**3).mean()), float((unit**4).mean())


def _other(name: str, kind: pa.DataType, sample: pa.Table | None, gaps: float) -> ColumnFacts:
    """The facts about a column that holds no numbers."""
    content = content_of(kind)
    if content not in ("text", "categories") or sample is None:
        return ColumnFacts(name, content, gaps=gaps)
    values = sample[name].cast(pa.string()) if content == "categories" else sample[name]
    texts = [text for text in values.to_pylist() if text is not None and text not in MISSING]
    distinct = len(set(texts))
    if content == "text":
        content = _kind_of_text(texts, distinct)
    return ColumnFacts(name, content, gaps=gaps, distinct=distinct)


def _kind_of_text(texts: Sequence[str], distinct: int) -> str:
    if date_format(texts) is not None:
        return "dates"
    if len(texts) >= _FEW and distinct == len(texts) and not any(" " in text for text in texts):
        return "identifiers"
    return "categories" if 0 < distinct <= min(_FEW, max(len(texts) // 5, 2)) else "text"
