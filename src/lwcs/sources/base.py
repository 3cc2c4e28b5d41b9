"""The contract of every source of rows: blocks, partitions, tasks that run over them, and passes.

Samplers, passes and solvers are written once against `Source`. Functions at the end run a pass as a
stage of a journal, which reports its progress.

With ``scale="standard"``, rows keep their units and distances are divided by the scale: centering,
which k-means does not need, would make sparse data dense, and centers would lose their units.
Standard deviations are known after a pass, so such a build makes two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from lwcs.arrays.checks import BadValueError, lost_digits_text, translating
from lwcs.runtime.journal import Journal
from lwcs.runtime.warnings import warn
from lwcs.sources.sums import GROUP, add_groups, add_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lwcs.arrays.device import ArrayOrigin
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Mask, Rows
    from lwcs.sources.columns import Selection
    from lwcs.sources.engines.fingerprints import Fingerprints
    from lwcs.sources.scan_options import ScanOptions


PARTITION_ROWS = 65_536
_BLOCK_VALUES = 2**21

NO_ROWS = "the data has no rows; at least one row is required"
ALL_DROPPED = "every row has a missing value; select other columns, or fill the missing values"
ROWS_CHANGED = "the rows changed between two passes over them"

ScaleName = Literal["standard"]
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of a partition."""

    points: Rows
    weights: FloatArray | None
    first_row: int
    """Number of the first row: in its partition, or among all rows (`each_block`)."""
    dropped: Mask | None = None
    """Rows that were dropped for a missing value: their weight is 0, and they get no label."""
    beside: Any = None
    """Columns that are kept beside the rows (`SequenceSource.keep`), as an Arrow table."""


class Task(Protocol[R_co]):
    """A function over a partition; it holds what all partitions share, and must pickle."""

    def __call__(self, blocks: Iterator[Block], item: Any, /) -> R_co:
        """Fold over the blocks of one partition; `item` is the input of this partition alone."""


def block_rows(n_features: int) -> int:
    """Number of rows per block: a power of two, at least 64, usually at most 16 MB in float64.

    It depends on the number of columns only, so that sums are taken over the same rows, and are
    identical to the last bit, whatever the container, the batches or the number of threads.
    """
    fitting = max(1, _BLOCK_VALUES // max(1, n_features))
    return int(min(PARTITION_ROWS, max(64, 2 ** (fitting.bit_length() - 1))))


class Source(ABC):
    """Rows of a data set, wherever they are stored, cut into partitions.

    A subclass that defines `accepts` and `open` is registered when its class is defined:
    `lwcs.scan`, `lwcs.build` and the estimators then take the objects that it accepts.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> from lwcs.sources import LocalSource
    >>> class Grades(dict):
    ...     "Columns by name."
    >>> class GradesSource(LocalSource):
    ...     def __init__(self, grades):
    ...         self.rows = np.stack(list(grades.values()), axis=1)
    ...         self.feature_names = tuple(grades)
    ...         self.n_rows, self.n_features = self.rows.shape
    ...     @classmethod
    ...     def accepts(cls, data):
    ...         return isinstance(data, Grades)
    ...     @classmethod
    ...     def open(cls, data, options):
    ...         options.refuse_weight_array()
    ...         return cls(data)
    ...     def read(self, start, stop):
    ...         return self.rows[start:stop]
    ...     def take(self, rows):
    ...         return self.rows[rows]
    >>> lwcs.scan(Grades(math=np.arange(5.0), art=np.ones(5)))
    GradesSource(5 × 2, 1 partition)
    >>> lwcs.Source.registered.remove(GradesSource)  # no longer accepted
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    n_rows: int | None
    """Number of rows, where that is known without reading them."""
    scale: ScaleName | None = None
    weighted: bool = False
    dtype: np.dtype[Any] | None = None
    """Type of the values of dense rows, where that is known without reading them."""
    rereadable: bool = True
    """Whether the rows can be read more than once."""
    on_cluster: bool = False
    """Whether a pass is a job for other machines."""
    skipped: tuple[str, ...] = ()
    """Columns of a table that are not used."""
    selection: Selection | None = None
    """The columns that are used, if rows come from a table."""
    identifiers: tuple[str, ...] = ()
    """Columns that look like identifiers to the passes so far."""
    lost_digits: bool = False
    """Whether whole numbers of columns without names have lost digits in the passes so far."""
    version: str | None = None
    """Version of the table that rows are read from, if it has versions."""
    dropped: int = 0
    """Number of rows that the passes so far have dropped for a missing value."""
    dropping: ClassVar[str] = "lwcs.scan(…, missing='drop')"
    """Advice on how to drop rows with missing values, for messages."""
    like: ArrayOrigin | None = None
    """The library and device that results per row are given back in; None for NumPy's."""
    reading: Mapping[str, Any] = MappingProxyType({})
    """Options of `lwcs.scan` that files of the same kind are read with again, by models."""
    fingerprints: Fingerprints | None = None
    """Fingerprints of the partitions, once a pass over data of an engine has taken them."""

    _cut_evenly: bool = False
    """Whether every partition but the last has `PARTITION_ROWS` rows."""

    registered: ClassVar[list[type[Source]]] = []
    """The classes that define `accepts`, the latest first."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a class that defines `accepts`; a class of the same name is replaced."""
        super().__init_subclass__(**options)
        if "accepts" not in vars(cls):
            return
        if cls.open.__func__ is Source.open.__func__:  # type: ignore[attr-defined]
            raise TypeError(
                f"{cls.__name__} defines accepts() but not open(); define the class method "
                "open(cls, data, options), which returns the source"
            )
        own = cls.__module__, cls.__qualname__
        others = [c for c in Source.registered if (c.__module__, c.__qualname__) != own]
        Source.registered[:] = [cls, *others]

    @classmethod
    def accepts(cls, data: object) -> bool:
        """Whether `lwcs.scan` opens `data` with this class. It must not read any data."""
        del data
        return False

    @classmethod
    def open(cls, data: Any, options: ScanOptions) -> Source:
        """Open what `accepts` accepts; refuse the options that make no sense for it."""
        del data, options
        raise TypeError(f"{cls.__name__} does not open data for lwcs.scan")

    @property
    @abstractmethod
    def known_partitions(self) -> int | None:
        """Number of partitions, where that is known without reading; used by progress bars."""

    def count_partitions(self) -> int:
        """Number of partitions; where that is not known, the rows are read once to count them."""
        if self.known_partitions is not None:
            return self.known_partitions
        if not self.rereadable:
            raise ValueError(
                "the number of partitions is not known before the rows are read, and these rows "
                "can be read only once"
            )
        return sum(1 for _ in self.gather(_number))

    def look_ahead(self) -> None:  # noqa: B027  most sources know
        """Find out the number of rows where there are few and it is not known; some may be read."""

    def row_bytes(self) -> float:
        """Average number of bytes per row, or 0 where that is not known."""
        return 0.0 if self.dtype is None else float(self.n_features * self.dtype.itemsize)

    @abstractmethod
    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run ``task(blocks, items[i])`` over every partition i; yield the results in order.

        Without `items`, a task gets the number of its partition. Items and results are small.
        """

    def gather_sums(self, task: Task[R], *, n_jobs: int | None = None) -> Iterator[R]:
        """Run a task over every partition; yield sums of results, which `add_up` adds up.

        They are those of every 32 results. A cluster adds up all levels on its workers, and yields
        a single sum: the memory of the driver does not grow with the number of partitions. The
        groups are the same everywhere, so that sums are identical to the last bit.
        """
        return add_groups(self.gather(task, n_jobs=n_jobs))

    @abstractmethod
    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value per row, in a container like that of the rows."""

    def take(self, rows: IntArray) -> Rows:
        """Fetch rows by number; only some sources can (`can_take`)."""
        raise TypeError(
            f"{type(self).__name__} cannot fetch {len(rows)} rows by number; use passes=2"
        )

    @property
    def can_take(self) -> bool:
        """Whether rows can be fetched by number, as those of a LocalSource can."""
        return False

    def on_host(self) -> Source:
        """The source, with rows on a device copied to the host where NumPy can read them."""
        return self

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of rows that are being read, where this process reads them."""
        del limit

    @abstractmethod
    def locate(self, partition: int) -> tuple[int, str]:
        """Number of the first row of a partition, and its name, for messages about bad data."""

    def warn_of_identifiers(self) -> None:
        """Warn of columns that passes have found to look like identifiers, once."""
        names, self.identifiers = self.identifiers, ()
        if self.selection is not None:
            self.selection.warn_of_identifiers(names)

    def warn_of_lost_digits(self) -> None:
        """Warn of whole numbers that passes have found to differ from those in float64, once."""
        lost = set() if self.selection is None else self.selection.lost
        if lost or self.lost_digits:
            warn(lost_digits_text(sorted(lost)))
        lost.clear()
        self.lost_digits = False

    def explaining(self) -> AbstractContextManager[None]:
        """Name the row and column of a bad value that a task within this context finds."""
        return translating(
            lambda error: self.explain(error) if isinstance(error, BadValueError) else None
        )

    def explain(self, bad: BadValueError) -> ValueError:
        """Name the row and the column of a bad value, as rows are numbered in this source."""
        first_row, where = self.locate(bad.partition)
        return bad.explained(first_row, where, self.feature_names, self.dropping)

    def explain_row(self, bad: BadValueError) -> ValueError:
        """Name the row and the column of a bad value in a row counted through all partitions."""
        return bad.explained(0, "", self.feature_names, self.dropping)

    def _use(self, selection: Selection) -> None:
        """Use these columns of a table."""
        self.selection, self.dtype, self.skipped = selection, selection.dtype, selection.skipped
        self.feature_names, self.n_features = selection.feature_names, selection.n_features
        self.weighted = selection.weight is not None

    def __repr__(self) -> str:
        rows = "?" if self.n_rows is None else f"{self.n_rows:,}"
        parts = self.known_partitions
        return (
            f"{type(self).__name__}({rows} × {self.n_features:,}"
            f"{'' if parts is None else f', {parts} partition' + 's' * (parts != 1)}"
            f"{', weighted' * self.weighted}{f', scale={self.scale!r}' if self.scale else ''})"
        )


def without_dropped(values: DenseRows, block: Block) -> DenseRows:
    """Mark dropped rows of a block in values per row: the label −1, or NaN for other values."""
    if block.dropped is not None:
        values[block.dropped] = -1 if values.dtype.kind == "i" else np.nan
    return values


def _number(blocks: Iterator[Block], partition: int) -> int:
    """A task that reads no row."""
    del blocks
    return partition


def watched(
    results: Iterable[R],
    source: Source,
    journal: Journal,
    stage: str,
    *,
    together: int = 1,
    note: str = "",
) -> Iterator[R]:
    """Yield the results of a pass whose results stand for `together` partitions each."""
    parts = source.known_partitions
    total = None if parts is None else -(-parts // together)
    rows = _RowCounter(source, journal, total, together * PARTITION_ROWS)
    bytes_ = source.row_bytes()
    yield from journal.watch(results, stage, total, rows=rows, row_bytes=bytes_, note=note)


def gathered(
    source: Source,
    task: Task[R],
    stage: str,
    *,
    journal: Journal | None = None,
    n_jobs: int | None = None,
) -> Iterator[R]:
    """Run a task over all partitions as a stage of a journal; without one, nothing is reported."""
    journal = Journal() if journal is None else journal
    return watched(source.gather(task, n_jobs=n_jobs), source, journal, stage)


def summed(
    source: Source, task: Task[R], stage: str, *, journal: Journal, n_jobs: int | None = None
) -> R:
    """The sum of what a task gives over all partitions, as a stage of a journal."""
    together = GROUP if not source.on_cluster else max(source.known_partitions or 1, 1)
    sums = source.gather_sums(task, n_jobs=n_jobs)
    return add_up(watched(sums, source, journal, stage, together=together))


def watched_blocks(
    results: Iterable[R], source: Source, journal: Journal, stage: str, rows: int
) -> Iterator[R]:
    """Yield the results of a pass over blocks of `rows` rows each."""
    total = None if source.n_rows is None else -(-source.n_rows // rows)
    counted = _RowCounter(source, journal, total, rows)
    bytes_ = source.row_bytes()
    yield from journal.watch(results, stage, total, rows=counted, row_bytes=bytes_)


@contextmanager
def whole_pass(source: Source, journal: Journal, stage: str) -> Iterator[None]:
    """Run a pass that yields no results in between, such as `map_rows`, as a stage of a journal."""
    if source.on_cluster:
        # Results of a cluster are lazy: nothing has been read when the call returns.
        yield
        return
    with journal.stage(stage, 1, kind="pass", row_bytes=source.row_bytes()) as running:
        yield
        running.step(source.n_rows or 0)


class _RowCounter:
    """Number of rows behind the first results of a pass, for its progress.

    Results that count their rows have an attribute `rows`. Others are taken to stand for equally
    many rows each, until the source knows its number of rows.
    """

    def __init__(self, source: Source, journal: Journal, total: int | None, each: int) -> None:
        self._source, self._journal = source, journal
        self._each = each if source._cut_evenly else 0
        self._total, self._counted = total, 0

    def after(self, done: int, result: Any) -> int:
        """Number of rows after the first `done` results, of which this is the last."""
        rows = getattr(result, "rows", None)
        self._counted += rows if isinstance(rows, int) else 0
        known = self._known()
        if known is None:
            return self._counted or done * self._each
        return known * done // self._total if self._total else min(done * self._each, known)

    def at_end(self, done: int) -> int:
        """Number of rows after all results."""
        if self._source.n_rows is None and self._counted:
            # Later passes over the same rows need not count them.
            self._journal.n_rows = self._counted
        known = self._known()
        return done * self._each if known is None else known

    def _known(self) -> int | None:
        return self._journal.n_rows if self._source.n_rows is None else self._source.n_rows
