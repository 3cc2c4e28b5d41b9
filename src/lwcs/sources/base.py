"""Where rows live, and the three things that the rest of the library asks of such a place.

Two rounds, sensitivities, assignment and polish are written once, on `gather`,
`map_rows` and `take`; a new place for data implements these and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.parallel import ordered_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Mask, Rows

PARTITION_ROWS = 65_536
_BLOCK_VALUES = 2**21
GROUP = 32
"""Partitions whose results are added up first, where results are added up."""

ScaleName = Literal["standard"]
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows of a partition."""

    points: Rows
    weights: FloatArray | None
    first_row: int
    """Row number of the first of them: in its partition, or in all (`each_block`)."""
    dropped: Mask | None = None
    """Rows that were left out for a missing value: they have no weight, and get no label."""


class Task(Protocol[R_co]):
    """What runs over a partition. It carries what all partitions share, and must pickle."""

    def __call__(self, blocks: Iterator[Block], item: Any, /) -> R_co:
        """Fold over the blocks of one partition; `item` is what this partition alone is told."""


def block_rows(n_features: int) -> int:
    """Rows of a block: a power of two, at least 64, in general no more than 16 MB in float64.

    It depends on nothing but the number of columns, so that sums are taken over the same
    rows, and come out the same to the last bit, whatever the container, batches or threads.
    """
    fitting = max(1, _BLOCK_VALUES // max(1, n_features))
    return int(min(PARTITION_ROWS, max(64, 2 ** (fitting.bit_length() - 1))))


def add_groups(results: Iterable[R]) -> Iterator[R]:
    """Add up every 32 results, from left to right."""
    remaining = iter(results)
    while group := list(islice(remaining, GROUP)):
        yield reduce(add, group)


class Source(ABC):
    """Rows in some place, cut into partitions."""

    n_features: int
    feature_names: tuple[str, ...] | None
    n_rows: int | None
    """How many rows there are, where that is known without reading them."""
    scale: ScaleName | None = None
    weighted: bool = False
    rereadable: bool = True
    """Whether the rows can be read more than once."""
    on_cluster: bool = False
    """Whether a pass is a job for other machines."""
    dropped: int = 0
    """Rows that the last pass left out for a missing value."""

    @property
    @abstractmethod
    def n_partitions(self) -> int:
        """How many partitions the rows are cut into."""

    @property
    def known_partitions(self) -> int | None:
        """The same, where it is known without reading; for progress bars."""
        return self.n_partitions

    @property
    @abstractmethod
    def n_values(self) -> int:
        """How many numbers there are to read, about: it chooses the kernel."""

    @abstractmethod
    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run ``task(blocks, items[i])`` over every partition i; yield results in their order.

        Without `items`, a task is told the number of its partition. Items and results are small.
        """

    def gather_sums(self, task: Task[R], *, n_jobs: int | None = None) -> Iterator[R]:
        """Run a task over every partition; yield the sum of every 32 results.

        A cluster adds them up where they are. The groups are the same everywhere, so that the
        sums come out the same to the last bit.
        """
        return add_groups(self.gather(task, n_jobs=n_jobs))

    @abstractmethod
    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value a row, in this source's own kind of container."""

    def take(self, rows: IntArray) -> Rows:
        """Fetch rows by number; only some sources can (`can_take`)."""
        raise TypeError(
            f"{type(self).__name__} cannot fetch {len(rows)} rows by number; use passes=2"
        )

    @property
    def can_take(self) -> bool:
        """Whether rows can be fetched by number, as those of a LocalSource can."""
        return False

    @abstractmethod
    def locate(self, partition: int) -> tuple[int, str]:
        """Tell a partition's first row number and its name, to point at bad data."""

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Say which row and column a bad value is in, if a task inside comes upon one."""
        try:
            yield
        except BadValueError as bad:
            raise self.explain(bad) from None

    def explain(self, bad: BadValueError) -> ValueError:
        """Name the row and the column of a bad value, by this source's way of counting."""
        first_row, where = self.locate(bad.partition)
        return bad.explained(first_row, where, self.feature_names)

    def explain_row(self, bad: BadValueError) -> ValueError:
        """The same where rows are counted through all partitions."""
        return bad.explained(0, "", self.feature_names)

    def __repr__(self) -> str:
        rows = "?" if self.n_rows is None else f"{self.n_rows:,}"
        parts = self.known_partitions
        return (
            f"{type(self).__name__}({rows} × {self.n_features:,}"
            f"{'' if parts is None else f', {parts} partition' + 's' * (parts != 1)}"
            f"{', weighted' * self.weighted}{f', scale={self.scale!r}' if self.scale else ''})"
        )


class LocalSource(Source):
    """One sequence of rows in this process, cut every 65,536; subclasses read and take."""

    n_rows: int
    weights: FloatArray | None = None

    @property
    def can_take(self) -> bool:
        """Rows in this process can be fetched by number."""
        return True

    @abstractmethod
    def take(self, rows: IntArray) -> Rows:
        """Copy the rows asked for."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Rows:
        """Give rows start … stop, without a copy where the container allows it."""

    @property
    def block_rows(self) -> int:
        """Rows of a block of this source."""
        return block_rows(self.n_features)

    @property
    def n_partitions(self) -> int:
        """How many partitions the rows are cut into."""
        return -(-self.n_rows // PARTITION_ROWS)

    @property
    def n_values(self) -> int:
        """Rows times columns."""
        return self.n_rows * self.n_features

    def blocks(self, partition: int) -> Iterator[Block]:
        """Yield the blocks of one partition."""
        first = partition * PARTITION_ROWS
        last = min(first + PARTITION_ROWS, self.n_rows)
        for start in range(first, last, self.block_rows):
            yield self._block(start, start - first)

    def _block(self, start: int, first_row: int) -> Block:
        # A block is a power of two of rows, and so never crosses a partition's end.
        stop = min(start + self.block_rows, self.n_rows)
        weights = None if self.weights is None else self.weights[start:stop]
        return Block(self.read(start, stop), weights, first_row)

    def all_blocks(self) -> Iterator[Block]:
        """Yield the blocks of all partitions, numbered through."""
        return (self._block(start, start) for start in range(0, self.n_rows, self.block_rows))

    def each_block(self, task: Callable[[Block], R], *, n_jobs: int | None = None) -> Iterator[R]:
        """Run a task over every block, numbered through, on threads; results in order.

        Finer than `gather`, so that few large partitions keep all threads busy.
        """
        return ordered_map(task, self.all_blocks(), n_jobs)

    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every partition, on threads."""
        told = range(self.n_partitions) if items is None else items
        return ordered_map(
            lambda i: task(self.blocks(i), told[i]), range(self.n_partitions), n_jobs
        )

    def map_rows(
        self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None
    ) -> DenseRows:
        """Compute one value a row, as an array."""
        values = list(self.each_block(task, n_jobs=n_jobs))
        return np.concatenate(values) if values else np.empty(0)

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered through."""
        return partition * PARTITION_ROWS, ""
