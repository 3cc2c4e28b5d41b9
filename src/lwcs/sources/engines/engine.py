"""Rows on a cluster: what Dask, Spark and Ray have in common.

An engine only runs a function over its partitions and brings small results back
(`EngineSource.run`). What is done with a partition is written here, once: its rows are cut into the
blocks of the fixed grid, as local rows are (`PartitionReader`). The same rows in the same
partitions therefore give the same coreset to the last bit, whichever engine runs them and however
often.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import row_numbers, stack
from lwcs.kernels import unit_weights
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.sources.arrow_rows import ArrowBatch, as_csr, elements_of, in_form
from lwcs.sources.base import NO_ROWS, Source, without_dropped
from lwcs.sources.blocks import Pass
from lwcs.sources.engines.fingerprints import Fingerprints, PartitionHash
from lwcs.sources.memory.local import open_local
from lwcs.sources.scan_options import Missing, ScanOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lwcs.arrays.types import DenseRows
    from lwcs.sources.base import Block, Task
    from lwcs.sources.blocks import Batch
    from lwcs.sources.columns import Selection

LABEL = "label"
"""Name of the column of labels, where rows are a table."""


@dataclass(frozen=True, slots=True)
class ArrayReader:
    """Reads partitions that are pairs: an array, dense or sparse, and its weights or None."""

    n_features: int
    weighted: bool = False
    drop: bool = False
    selection: ClassVar[None] = None

    def __call__(self, rows: Any, partition: int, first_row: int = 0) -> Iterator[Block]:
        """Yield blocks that are views of the array."""
        del partition, first_row
        array, weights = rows
        missing: Missing = "drop" if self.drop else "error"
        part = open_local(array, ScanOptions(weight=weights, missing=missing))
        if part.n_features != self.n_features:
            raise ValueError(
                f"an array has {part.n_features} columns where {self.n_features} are expected; all "
                "partitions must have the same columns"
            )
        return part.all_blocks()


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """Reads partitions that are Arrow record batches."""

    selection: Selection
    drop: bool = False

    def __call__(
        self, rows: Iterable[pa.RecordBatch], partition: int, first_row: int = 0
    ) -> Iterator[Block]:
        """Yield blocks into which columns are copied; errors number rows from `first_row` on."""
        batches = (batch for batch in rows if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return iter(())
        second = next(batches, None)
        if second is None and (view := self._view(first)) is not None:
            return open_local(view).all_blocks()
        each = chain([first], [] if second is None else [second], batches)
        place = f"partition {partition}"
        return (self._sparse if self.selection.sparse else self._dense)(each, place, first_row)

    def _view(self, batch: pa.RecordBatch) -> DenseRows | None:
        """The rows of one column of vectors without missing values, which need no copy."""
        chosen = self.selection
        if not chosen.is_one_vector or chosen.weight or chosen.sparse or self.drop:
            return None
        vectors = in_form(batch, chosen).column(0)
        values = elements_of(vectors)
        if vectors.null_count or values.null_count:
            return None
        rows: DenseRows = values.to_numpy(zero_copy_only=False).reshape(-1, chosen.n_features)
        return rows if rows.dtype == chosen.dtype else None

    def _dense(
        self, batches: Iterable[pa.RecordBatch], place: str, first_row: int
    ) -> Iterator[Block]:
        """Blocks of dense rows, which are numbered within the partition."""

        def checked() -> Iterator[tuple[str, Batch]]:
            done = first_row
            for batch in batches:
                yield "", ArrowBatch(batch, self.selection, self.drop, place, done)
                done += batch.num_rows

        for pending in Pass(self.selection.n_features, self.selection.dtype).cut(checked()):
            yield replace(pending.block(), first_row=pending.first_of_all)

    def _sparse(
        self, batches: Iterable[pa.RecordBatch], place: str, first_row: int
    ) -> Iterator[Block]:
        """The whole partition as one sparse array, which is cut into blocks."""
        name, done = self.selection.columns[0], first_row
        rows, weights, gaps = [], [], []
        for batch in batches:
            chosen = ArrowBatch(batch, self.selection, self.drop, place, done, sparse=True)
            given = unit_weights(chosen.weights(0, batch.num_rows), batch.num_rows)
            vectors = as_csr(batch.column(name), self.selection.n_features, name, place, done)
            missing = chosen.missing_sparse(vectors)
            vectors.data[missing[row_numbers(vectors)]] = 1.0
            rows.append(vectors)
            weights.append(np.where(missing, 0.0, given))
            gaps.append(missing)
            done += batch.num_rows
        dropped = np.concatenate(gaps)
        weighted = self.selection.weight is not None or dropped.any()
        local = open_local(
            stack(rows), ScanOptions(weight=np.concatenate(weights) if weighted else None)
        )
        for block in local.all_blocks():
            gone = dropped[block.first_row : block.first_row + block.points.shape[0]]
            yield replace(block, dropped=gone if gone.any() else None)


PartitionReader = ArrayReader | ArrowReader
"""Turns the rows of a partition, in the form that its engine passes, into blocks."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the work on a partition, or the error in its rows."""

    result: Any
    dropped: int = 0
    error: Exception | None = None
    identifiers: tuple[str, ...] = ()
    """Columns that look like identifiers, from the first partition alone."""
    fingerprint: PartitionHash | None = None
    """Hash of the partition, if wanted and if the task has read all of its rows."""

    def __add__(self, other: Outcome) -> Outcome:
        """Add up results; the first error is kept."""
        if self.error is not None or other.error is not None:
            return self if self.error is not None else other
        return Outcome(
            self.result + other.result,
            self.dropped + other.dropped,
            identifiers=self.identifiers + other.identifiers,
        )


@dataclass(frozen=True, slots=True)
class Work:
    """Work that an engine runs over a partition; it is sent as bytes, and returns bytes.

    Errors in rows are returned like results: an engine would retry the partition, and hide the
    message in an error of its own.
    """

    reader: PartitionReader
    task: Task[Any]
    fingerprint: bool = False
    """Whether the rows are hashed."""

    def __call__(self, rows: Any, partition: int, item: bytes | None) -> bytes:
        """Run the task with the `item` of this partition, or with its number if there is none."""
        counter = _BlockCounter(self.reader.selection, partition, self.fingerprint)
        try:
            # The engine has given this task one core.
            with single_threaded_blas():
                blocks = counter(self.reader(rows, partition))
                result = self.task(blocks, partition if item is None else pickle.loads(item))
            outcome = Outcome(
                result, counter.dropped, None, counter.identifiers, counter.fingerprint
            )
        except BadValueError as bad:
            outcome = Outcome(None, error=bad)
        except (TypeError, ValueError) as error:
            outcome = Outcome(None, error=_with_partition(error, partition))
        return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)


class _BlockCounter:
    """Counts dropped rows in a stream of blocks, hashes rows, and finds identifiers."""

    def __init__(self, selection: Selection | None, partition: int, fingerprint: bool) -> None:
        self.dropped = 0
        self.fingerprint: PartitionHash | None = None
        """Set once all blocks were read."""
        self._print = PartitionHash() if fingerprint else None
        self.identifiers: tuple[str, ...] = ()
        self._selection = None if partition else selection

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            if self._selection is not None:
                self.identifiers = tuple(self._selection.looking_like_identifiers(block))
                self._selection = None
            if block.dropped is not None:
                self.dropped += int(block.dropped.sum())
            if self._print is not None:
                self._print.take(block)
            yield block
        self.fingerprint = self._print


def pack_error(error: Exception) -> bytes:
    """The result of a partition whose work cannot be done."""
    return pickle.dumps(Outcome(None, error=error), protocol=pickle.HIGHEST_PROTOCOL)


def _with_partition(error: Exception, partition: int) -> Exception:
    """Name the partition in an error, unless it does so already."""
    text = str(error)
    if f"partition {partition}" in text:
        return error
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{text} (in partition {partition})")


def add_results(results: Iterable[bytes]) -> bytes:
    """Add up the results of partitions, on a worker."""
    total = reduce(add, map(pickle.loads, results))
    return pickle.dumps(total, protocol=pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True, slots=True)
class RowWork:
    """Work that an engine runs to compute one value per row."""

    reader: PartitionReader
    task: Callable[[Block], DenseRows]

    def __call__(self, rows: Any, partition: int | None = None, first_row: int = 0) -> DenseRows:
        """Compute the values of a partition, or of a part that begins at its row `first_row`."""
        try:
            with single_threaded_blas():
                blocks = self.reader(rows, partition or 0, first_row)
                values = [without_dropped(self.task(block), block) for block in blocks]
        except BadValueError as bad:
            where = "" if partition is None else f" of partition {partition}"
            selection = self.reader.selection
            names = None if selection is None else selection.feature_names
            raise bad.explained(first_row, where, names) from None
        return np.concatenate(values) if values else np.empty(0, dtype=np.int32)


class EngineSource(Source):
    """Rows on a cluster; subclasses run work over their partitions."""

    on_cluster = True

    def __init__(self, reader: PartitionReader) -> None:
        self.reader = reader
        if isinstance(reader, ArrayReader):
            self.n_features, self.feature_names = reader.n_features, None
            self.weighted = reader.weighted
        else:
            self._use(reader.selection)
            self.dtype = None if reader.selection.sparse else reader.selection.dtype
        self.n_rows: int | None = None
        self.partitions: int | None = None
        """Number of partitions, once it is known."""

    def ask_workers(self) -> None:
        """Ask the workers for their versions, once per cluster; refuse those that do not fit."""

    @abstractmethod
    def run(self, work: Work, items: Sequence[bytes] | None) -> Iterator[bytes]:
        """Run ``work(rows, i, told[i])`` over every partition i; yield the results in order."""

    @abstractmethod
    def run_sums(self, work: Work) -> Iterator[bytes]:
        """Run ``work(rows, i, None)`` over every partition i; yield the sum, if there are any.

        `add_results` is run on the cluster: on groups of `GROUP` results, then on groups of sums,
        until one is left.
        """

    @property
    def known_partitions(self) -> int | None:
        """Number of partitions, once that is known."""
        return self.partitions

    def gather(
        self, task: Task[Any], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[Any]:
        """Run a task over every partition, on the cluster, which does not use `n_jobs`."""
        del n_jobs
        # A generator: whatever takes time is done when results are asked for, in their stage.
        self.ask_workers()
        items = None if items is None else [pickle.dumps(item) for item in items]
        work = Work(self.reader, task, fingerprint=self.fingerprints is None)
        yield from self._results(self.run(work, items))

    def gather_sums(self, task: Task[Any], *, n_jobs: int | None = None) -> Iterator[Any]:
        """Run a task over every partition, and add up the results on the cluster."""
        del n_jobs
        self.ask_workers()
        yield from self._results(self.run_sums(Work(self.reader, task)))

    def _results(self, sent: Iterator[bytes]) -> Iterator[Any]:
        dropped = results = 0
        prints = []
        for results, each in enumerate(sent, 1):  # noqa: B007
            outcome: Outcome = pickle.loads(each)
            if outcome.error is not None:
                raise outcome.error
            dropped += outcome.dropped
            # The first pass reads all rows; later tasks need not.
            self.dropped = max(self.dropped, dropped)
            self.identifiers = self.identifiers or outcome.identifiers
            if outcome.fingerprint is not None:
                prints.append(outcome.fingerprint)
            yield outcome.result
        if not results:
            raise ValueError(NO_ROWS)
        # A task need not read all rows of every partition.
        if len(prints) == results:
            self.fingerprints = Fingerprints.of(prints)

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered within each partition."""
        return 0, f" of partition {partition}"


def refuse_column(name: str, there: Sequence[str], rename: str) -> None:
    """Refuse to write labels over a column of that name."""
    if name.lower() in [each.lower() for each in there]:
        raise ValueError(
            f"there is a column {name!r} already, which is the name of the column of labels; "
            f"rename it first: {rename}"
        )
