"""Rows on a cluster: what Dask, Spark and Ray have in common.

An engine only says how to run a function over its partitions and bring small results back
(`EngineSource.run`). What is done with a partition is written here, once: its rows are cut into
the blocks of the fixed grid, as local rows are. The same rows in the same partitions therefore
give the same coreset to the last bit, whoever runs them and however often.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.parallel import single_threaded_blas
from lwcs.kernels import COMPILED_FROM
from lwcs.sources.arrow import ArrowBatch, Selection
from lwcs.sources.base import Source
from lwcs.sources.local import open_local
from lwcs.sources.sequence import SequenceSource, without_dropped
from lwcs.sources.vectors import as_csr, in_form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lwcs.foundation.types import DenseRows
    from lwcs.sources.base import Block, Task
    from lwcs.sources.sequence import Batch

LABEL = "label"
"""Column that labels go into, where rows are a table."""


class Reading(Protocol):
    """How the rows of a partition, as its engine hands them over, become blocks."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns."""

    def __call__(self, rows: Any, partition: int, first_row: int = 0, /) -> Iterator[Block]:
        """Cut rows into blocks; they are numbered from `first_row` where they are found bad."""


@dataclass(frozen=True, slots=True)
class ArrayReading:
    """Rows are an array, dense or sparse, and their weights or None."""

    n_features: int
    feature_names: tuple[str, ...] | None = None

    def __call__(self, rows: Any, partition: int, first_row: int = 0) -> Iterator[Block]:
        """Views of the array."""
        del partition, first_row
        array, weights = rows
        part = open_local(array, sample_weight=weights)
        if part.n_features != self.n_features:
            raise ValueError(
                f"an array has {part.n_features} columns where {self.n_features} are expected"
            )
        return part.all_blocks()


@dataclass(frozen=True, slots=True)
class ArrowReading:
    """Rows are Arrow record batches."""

    selection: Selection
    drop: bool = False
    sparse: bool = False
    """Whether the one column holds sparse vectors."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.selection.feature_names

    def __call__(
        self, rows: Iterable[pa.RecordBatch], partition: int, first_row: int = 0
    ) -> Iterator[Block]:
        """Copy columns into rows."""
        batches = (batch for batch in rows if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return iter(())
        second = next(batches, None)
        if second is None and (view := self._view(first)) is not None:
            return open_local(view).all_blocks()
        each = chain([first], [] if second is None else [second], batches)
        if self.sparse:
            return self._sparse(each, f"partition {partition}", first_row)
        return _Partition(each, self, partition, first_row).blocks()

    def _view(self, batch: pa.RecordBatch) -> DenseRows | None:
        """Vectors without gaps lie in memory as rows: there is nothing to copy."""
        if not self.selection.vector or self.selection.weight is not None:
            return None
        if self.sparse or self.drop:
            return None
        lists = in_form(batch, self.selection).column(0)
        width = lists.type.list_size
        values = lists.values.slice(lists.offset * width, len(lists) * width)
        if lists.null_count or values.null_count:
            return None
        rows: DenseRows = values.to_numpy(zero_copy_only=False).reshape(-1, width)
        return rows if rows.dtype == self.selection.dtype else None

    def _sparse(
        self, batches: Iterable[pa.RecordBatch], place: str, first_row: int
    ) -> Iterator[Block]:
        """The whole partition as one sparse array: that is what the grid of blocks is cut from."""
        import scipy.sparse as sp

        name, done = self.selection.columns[0], first_row
        rows, weights, gaps = [], [], []
        for batch in batches:
            chosen = ArrowBatch(batch, self.selection, self.drop, place, done)
            given = kernels.unit_weights(chosen.weights(0, batch.num_rows), batch.num_rows)
            vectors = as_csr(batch.column(name), len(self.feature_names), name)
            missing = chosen.missing_sparse(vectors)
            vectors.data[np.repeat(missing, np.diff(vectors.indptr))] = 1.0
            rows.append(vectors)
            weights.append(np.where(missing, 0.0, given))
            gaps.append(missing)
            done += batch.num_rows
        dropped = np.concatenate(gaps)
        weighted = self.selection.weight is not None or dropped.any()
        local = open_local(
            sp.vstack(rows, format="csr"),
            sample_weight=np.concatenate(weights) if weighted else None,
        )
        for block in local.all_blocks():
            own = dropped[block.first_row : block.first_row + block.points.shape[0]]
            yield replace(block, dropped=own if own.any() else None)


class _Partition(SequenceSource):
    """The batches of one partition as rows in order."""

    def __init__(
        self, batches: Iterable[pa.RecordBatch], reading: ArrowReading, partition: int, first: int
    ) -> None:
        super().__init__()
        self._given, self._how, self._place = batches, reading, f"partition {partition}"
        self._first = first
        self.n_features, self.dtype = len(reading.feature_names), reading.selection.dtype
        self.n_rows = None

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Check every batch for the columns that were chosen."""
        selection, done = self._how.selection, self._first
        for batch in self._given:
            chosen = in_form(batch, selection)
            yield "", ArrowBatch(chosen, selection, self._how.drop, self._place, done)
            done += batch.num_rows

    def blocks(self) -> Iterator[Block]:
        """Blocks of the grid, numbered through."""
        for each in self.pending():
            yield replace(each.block(), first_row=each.first_of_all)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a partition sends home: a result, or what was wrong with its rows."""

    result: Any
    dropped: int = 0
    error: Exception | None = None

    def __add__(self, other: Outcome) -> Outcome:
        """Add up results; the first error stays."""
        if self.error is not None or other.error is not None:
            return self if self.error is not None else other
        return Outcome(self.result + other.result, self.dropped + other.dropped)


@dataclass(frozen=True, slots=True)
class Work:
    """What an engine runs over a partition. What travels with it and back are bytes.

    Bad rows are a result like any other: an engine would run the partition again and again, and
    hide what is wrong in an error of its own.
    """

    reading: Reading
    task: Task[Any]

    def __call__(self, rows: Any, partition: int, item: bytes | None) -> bytes:
        """Run the task; `item` is what this partition alone is told, else its number."""
        counted = _Counted()
        try:
            # The engine has given this task one core.
            with single_threaded_blas():
                blocks = counted(self.reading(rows, partition))
                result = self.task(blocks, partition if item is None else pickle.loads(item))
            outcome = Outcome(result, counted.dropped)
        except BadValueError as bad:
            outcome = Outcome(None, error=bad)
        except (TypeError, ValueError) as error:
            outcome = Outcome(None, error=_placed(error, partition))
        return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)


class _Counted:
    """Counts the rows that were left out on the way."""

    def __init__(self) -> None:
        self.dropped = 0

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            if block.dropped is not None:
                self.dropped += int(block.dropped.sum())
            yield block


def refused(error: Exception) -> bytes:
    """What a partition sends home that cannot do its work."""
    return pickle.dumps(Outcome(None, error=error), protocol=pickle.HIGHEST_PROTOCOL)


def _placed(error: Exception, partition: int) -> Exception:
    """Say in which partition something was wrong."""
    text = str(error)
    if f"partition {partition}" in text:
        return error
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{text} (in partition {partition})")


def add_results(results: Iterable[bytes]) -> bytes:
    """Add up what partitions sent home, on the cluster."""
    total = reduce(add, map(pickle.loads, results))
    return pickle.dumps(total, protocol=pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True, slots=True)
class RowWork:
    """What an engine runs to compute one value a row."""

    reading: Reading
    task: Callable[[Block], DenseRows]

    def __call__(self, rows: Any, partition: int | None = None, first_row: int = 0) -> DenseRows:
        """Compute the values of a partition, or of a part that begins at its row `first_row`."""
        try:
            with single_threaded_blas():
                blocks = self.reading(rows, partition or 0, first_row)
                values = [without_dropped(self.task(block), block) for block in blocks]
        except BadValueError as bad:
            where = "" if partition is None else f" of partition {partition}"
            raise bad.explained(first_row, where, self.reading.feature_names) from None
        return np.concatenate(values) if values else np.empty(0, dtype=np.int32)


class EngineSource(Source):
    """Rows on a cluster; subclasses run work over their partitions."""

    on_cluster = True

    def __init__(self, reading: Reading, n_features: int) -> None:
        self.reading, self.n_features = reading, n_features
        self.feature_names = reading.feature_names
        self.n_rows: int | None = None
        self.partitions: int | None = None
        """How many there are, once that is known."""

    @abstractmethod
    def run(self, work: Work, told: Sequence[bytes] | None, *, summed: bool) -> Iterator[bytes]:
        """Run ``work(rows, i, told[i])`` over every partition i; yield what it gives, in order.

        If `summed`, yield instead `add_results` of every `GROUP` in a row, taken on the cluster.
        """

    @property
    def n_partitions(self) -> int:
        """How many there are; they are counted if nobody has gone over them yet."""
        if self.partitions is None:
            self.partitions = sum(1 for _ in self.gather(_nothing))
        return self.partitions

    @property
    def known_partitions(self) -> int | None:
        """The same, where it is known."""
        return self.partitions

    @property
    def n_values(self) -> int:
        """Not known; enough for the compiled kernels, so that the engine does not matter."""
        return COMPILED_FROM

    def gather(
        self, task: Task[Any], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[Any]:
        """Run a task over every partition, on the cluster; it has its own idea of `n_jobs`."""
        del n_jobs
        told = None if items is None else [pickle.dumps(item) for item in items]
        return self._results(self.run(Work(self.reading, task), told, summed=False))

    def gather_sums(self, task: Task[Any], *, n_jobs: int | None = None) -> Iterator[Any]:
        """Run a task over every partition, and add up on the cluster."""
        del n_jobs
        return self._results(self.run(Work(self.reading, task), None, summed=True))

    def _results(self, sent: Iterator[bytes]) -> Iterator[Any]:
        dropped = results = 0
        for results, each in enumerate(sent, 1):  # noqa: B007
            outcome: Outcome = pickle.loads(each)
            if outcome.error is not None:
                raise outcome.error
            dropped += outcome.dropped
            # A task need not look at all rows in every pass; the first one does.
            self.dropped = max(self.dropped, dropped)
            yield outcome.result
        if not results:
            raise ValueError("there are no rows; at least one is needed")

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered within each partition."""
        return 0, f" of partition {partition}"


def refuse_sample_weight(sample_weight: Any) -> None:
    """Refuse weights that are not a column, where nothing says which row they belong to."""
    if sample_weight is not None:
        raise ValueError(
            "sample_weight is for rows in memory and on Dask; name the column of weights with "
            "lwcs.scan(…, weight=…)"
        )


def refuse_label(names: Sequence[str], rename: str) -> None:
    """Refuse to write labels over a column of that name."""
    if LABEL in [name.lower() for name in names]:
        raise ValueError(
            f"there is a column {LABEL!r} already, which labels would go into; rename it first: "
            f"{rename}"
        )


def _nothing(blocks: Iterator[Block], partition: int) -> int:
    del blocks
    return partition
