"""Rows in this process: one sequence, of which any rows can be fetched by number.

This module has the base class of such sources, the source of NumPy arrays, and `open_local`, which
opens arrays, tables and tensors. Rows are cut every 65,536, which is a partition. Sums run over
blocks whose size depends on the number of columns alone, so that results do not depend on the
number of threads.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import (
    check_weights,
    loses_digits,
    lost_digits_text,
    objects_lose_digits,
    refuse_masked,
)
from lwcs.arrays.device import ArrayOrigin, DeviceArray, followed, library_of, rows_of
from lwcs.arrays.rows import is_missing, is_narrow, is_sparse, pieces, stored_values, with_ones
from lwcs.runtime.parallel import as_threads, ordered_map
from lwcs.runtime.warnings import warn
from lwcs.sources import base
from lwcs.sources.base import ALL_DROPPED, Block, Source, Task, without_dropped
from lwcs.sources.kinds import engine_of, is_query, is_table
from lwcs.sources.scan_options import ScanOptions, check_dtype, check_not_empty, check_shape
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Mask, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources.memory.tensors import DeviceSource

_CELLS_OF_A_BLOCK = 2048
# Stretches are long enough to make the overhead of Python negligible, and short enough for threads
# to end at about the same time, and for an interrupt to be noticed soon.
_STRETCH_VALUES = 2**24
_STRETCHES_PER_THREAD = 4
FEW_ROWS = 512
"""Computing values of this many rows takes less time than asking for threads and limiting those of
BLAS: a service predicts rows one by one."""

R = TypeVar("R")


class LocalSource(Source):
    """One sequence of rows in this process, cut every 65,536; subclasses read and take."""

    n_rows: int
    weights: FloatArray | None = None
    _cut_evenly = True
    gives_views: bool = False
    """Whether `read` returns views, which native kernels read without a conversion."""

    @property
    def can_take(self) -> bool:
        """Rows in this process can be fetched by number."""
        return True

    @abstractmethod
    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Rows:
        """Return rows start … stop, without a copy where the container allows it."""

    def set_weights(self, weights: Any, name: str) -> None:
        """Check one weight per row, and keep them."""
        self.weights = check_weights(weights, self.n_rows, name)
        self.weighted = True

    def take_runs(
        self, starts: IntArray, stops: IntArray, *, views: bool
    ) -> tuple[Block, IntArray]:
        """A block with the rows of several runs start … stop, and where each run starts in it.

        Rows are copied, unless `views` are wanted and possible: then the block has all rows.
        """
        if views and self.gives_views:
            return self._block(slice(0, self.n_rows), 0), starts
        lengths = stops - starts
        first = np.cumsum(lengths) - lengths
        rows = np.arange(int(lengths.sum())) + np.repeat(starts - first, lengths)
        weights = None if self.weights is None else self.weights[rows]
        return Block(self.take(rows), weights, 0), first

    @property
    def block_rows(self) -> int:
        """Number of rows per block of this source."""
        return base.block_rows(self.n_features)

    @property
    def cell_rows(self) -> int:
        """Number of rows per cell, the smallest unit that sums are kept of: a power of two.

        It is at most 32, so that reading all rows of a cell costs about as much as reading one.
        """
        return self._cell_rows(self.block_rows)

    def _jobs(self, n_jobs: int | None) -> int | None:
        """Number of threads that read blocks."""
        return n_jobs

    @staticmethod
    def _cell_rows(block_rows: int) -> int:
        return max(1, block_rows // _CELLS_OF_A_BLOCK)

    def empty(self, dtype: Any) -> Any:
        """An uninitialized array for one number per row."""
        return np.empty(self.n_rows, dtype=dtype)

    def followed(self, values: Any) -> Any:
        """Values per row in the library and on the device of the rows."""
        return followed(values, self.like)

    def stretch_rows(self, n_jobs: int | None, kernel: KernelName = "numpy") -> int:
        """Number of rows, in whole blocks, that a task may be given at once.

        A team of native threads shares each task (`each_block`), which may be long then.
        """
        wide = kernels.named(kernel).shares_calls or self.dtype is None or not is_narrow(self.dtype)
        if not (self.gives_views and wide):
            # Without native kernels, narrow rows are converted as they are read.
            return self.block_rows
        rows = _STRETCH_VALUES // max(1, self.n_features)
        if kernels.named(kernel).shares_calls:
            rows *= as_threads(n_jobs)
        else:
            rows = min(rows, self.n_rows // (_STRETCHES_PER_THREAD * as_threads(n_jobs)))
        return max(1, -(-rows // self.block_rows)) * self.block_rows

    @property
    def known_partitions(self) -> int:
        """Number of partitions."""
        return -(-self.n_rows // base.PARTITION_ROWS)

    def blocks(self, partition: int) -> Iterator[Block]:
        """Yield the blocks of one partition."""
        first = partition * base.PARTITION_ROWS
        n_rows = min(base.PARTITION_ROWS, self.n_rows - first)
        return (self._block(piece, first) for piece in pieces(n_rows, self.block_rows))

    def all_blocks(self, rows: int | None = None) -> Iterator[Block]:
        """Yield the blocks of all partitions, or `rows` rows at a time, numbered among all rows."""
        step = self.block_rows if rows is None else rows
        return (self._block(piece, 0) for piece in pieces(self.n_rows, step))

    def blocks_of_part(self) -> Iterator[Block]:
        """All blocks, for rows that are one partition of many."""
        return self.all_blocks()

    def _block(self, piece: slice, first: int) -> Block:
        """The rows of a piece whose rows are numbered from row `first` on."""
        start, stop = first + piece.start, first + piece.stop
        weights = None if self.weights is None else self.weights[start:stop]
        rows = self.read(start, stop)
        # Rows on a device would be copied to the host; they are no integers of 64 bits.
        if not (self.gives_views or self.lost_digits or isinstance(rows, DeviceArray)):
            self.lost_digits = loses_digits(stored_values(rows))
        return Block(rows, weights, piece.start)

    def each_block(
        self,
        task: Callable[[Block], R],
        *,
        rows: int | None = None,
        n_jobs: int | None = None,
        kernel: KernelName = "numpy",
    ) -> Iterator[R]:
        """Run a task over every block, numbered among all rows, on threads; yield results in order.

        A thread reads the block that it works on. Finer than `gather`, so that few large partitions
        keep all threads busy. A task that cuts rows into blocks by itself may get more `rows` at a
        time (`stretch_rows`); with a native `kernel`, a team of threads shares each of its calls,
        and no Python runs in between.
        """
        cut, n_jobs = pieces(self.n_rows, rows or self.block_rows), self._jobs(n_jobs)
        if rows is None or not self.gives_views or not kernels.named(kernel).shares_calls:
            return ordered_map(lambda piece: task(self._block(piece, 0)), cut, n_jobs)
        return self._each_by_team(task, cut, kernel, as_threads(n_jobs))

    def _each_by_team(
        self, task: Callable[[Block], R], cut: Iterator[slice], kernel: KernelName, threads: int
    ) -> Iterator[R]:
        with kernels.named(kernel).team(threads):
            for piece in cut:
                yield task(self._block(piece, 0))

    def gather(
        self, task: Task[R], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[R]:
        """Run a task over every partition, on threads."""
        partitions = range(self.known_partitions)
        items_or_numbers = partitions if items is None else items
        return ordered_map(
            lambda i: task(self.blocks(i), items_or_numbers[i]), partitions, self._jobs(n_jobs)
        )

    def map_rows(
        self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None
    ) -> DenseRows:
        """Compute one value per row, as an array."""
        if 0 < self.n_rows <= min(FEW_ROWS, self.block_rows):
            block = self._block(slice(0, self.n_rows), 0)
            return self.followed(without_dropped(task(block), block))
        values, done = np.empty(0), 0
        kernel: KernelName = getattr(task, "shared", "numpy")
        rows = self.stretch_rows(n_jobs, kernel) if kernels.named(kernel).shares_calls else None
        # Results are copied while further blocks are computed.
        for part in self.each_block(
            lambda block: without_dropped(task(block), block),
            rows=rows, n_jobs=n_jobs, kernel=kernel,
        ):  # fmt: skip
            if not done:
                values = np.empty((self.n_rows, *part.shape[1:]), dtype=part.dtype)
            values[done : done + len(part)] = part
            done += len(part)
        return self.followed(values)

    def _missing_rows(self) -> Mask:
        """The rows that have a null or NaN."""
        parts = list(self.each_block(lambda block: is_missing(block.points)))
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered through all partitions."""
        return partition * base.PARTITION_ROWS, ""


class DroppingSource(LocalSource):
    """The rows of another source, without those that have a missing value.

    Rows that are dropped keep their numbers, so that the labels of others stay in place; with
    weight 0 they are never drawn, and they get no label.
    """

    def __init__(self, whole: LocalSource) -> None:
        self.whole = whole
        self.n_rows, self.n_features = whole.n_rows, whole.n_features
        self.feature_names, self.skipped = whole.feature_names, whole.skipped
        self.weighted, self.missing = whole.weighted, whole._missing_rows()
        self.dropped = int(self.missing.sum())
        ones = np.ones(self.n_rows) if whole.weights is None else whole.weights
        self.weights = np.where(self.missing, 0.0, ones)

    @property
    def block_rows(self) -> int:
        """Number of rows per block, as in the whole source."""
        return self.whole.block_rows

    def row_bytes(self) -> float:
        """Bytes per row of the whole source."""
        return self.whole.row_bytes()

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of the whole source."""
        self.whole.limit_memory(limit)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start … stop, with ones in those that are dropped."""
        return with_ones(self.whole.read(start, stop), self.missing[start:stop])

    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows."""
        return with_ones(self.whole.take(rows), self.missing[rows])

    def _block(self, piece: slice, first: int) -> Block:
        missing = self.missing[first + piece.start : first + piece.stop]
        return replace(super()._block(piece, first), dropped=missing if missing.any() else None)


class ArraySource(LocalSource):
    """A two-dimensional array; blocks are views of it."""

    feature_names = None

    def __init__(self, array: DenseRows) -> None:
        self.array = array
        self.dtype = array.dtype.newbyteorder("=")
        self.n_rows, self.n_features = array.shape
        computable = array.dtype in (np.float32, np.float64) or is_narrow(array.dtype)
        computable = computable and array.dtype.isnative
        self.gives_views = computable and array.flags.c_contiguous

    def read(self, start: int, stop: int) -> DenseRows:
        """Return a view; a copy only if the byte order is not native."""
        return self.array[start:stop].astype(self.dtype, copy=False)

    def take(self, rows: IntArray) -> DenseRows:
        """Copy the requested rows."""
        if self.gives_views:
            # Faster than indexing, but other arrays would be copied as a whole.
            return np.asarray(self.array).take(rows, axis=0)
        return np.ascontiguousarray(self.array[rows], dtype=self.dtype)


def as_table_of_numbers(data: object) -> DenseRows:
    """Turn an array-like into a two-dimensional array of real numbers, or refuse it."""
    refuse_masked(data, "data")
    try:
        array = np.asarray(data)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                "rows have different lengths; every row must have the same number of columns"
            ) from None
        raise
    if array.dtype == object and array.ndim == 2 and all(_is_number(value) for value in array.flat):
        # Columns of different types, as df.to_numpy() returns them; fit takes them, too.
        if objects_lose_digits(array):
            warn(lost_digits_text())
        array = array.astype(np.float64)
    check_dtype(array.dtype, f" (type {type(data).__name__})")
    check_shape(array.shape)
    return array.view(np.uint8) if array.dtype.kind == "b" else array


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float | np.bool_ | np.integer | np.floating)


def open_rows(data: Any, options: ScanOptions) -> LocalSource:
    """Open rows as the data of `lwcs.scan`, of which there must be some."""
    source = open_local(data, options)
    check_not_empty((source.n_rows, source.n_features))
    if source.dropped == source.n_rows:
        raise ValueError(ALL_DROPPED)
    return source


_DEFAULT = ScanOptions()


def open_local(data: Any, options: ScanOptions = _DEFAULT) -> LocalSource:
    """Open rows that are in this process, or opened already; there may be no rows at all."""
    source = _open(data, options)
    if options.scale is not None:
        from lwcs.sources.memory.scaled import scaled

        source = scaled(source, options.scale)
    if options.weight_array is not None:
        source.set_weights(options.weight_array, "sample_weight")
    if not options.drop or not source.n_rows:
        return source
    if is_on_device(source):
        raise ValueError(
            "missing='drop' is not possible for rows on a device; drop them beforehand: "
            f"{source.dropping}"
        )
    kept = DroppingSource(source)
    return kept if kept.dropped else source


def is_on_device(source: Source) -> TypeGuard[DeviceSource]:
    """Whether the rows of a source are a tensor on a device; loads nothing to find out."""
    return isinstance(getattr(source, "array", None), DeviceArray)


def _open(data: Any, options: ScanOptions) -> LocalSource:
    """Open rows; options are considered except `missing` and weights in an array."""
    if isinstance(data, Tabular):
        raise data._refused_as_rows()
    _refuse_not_in_memory(data)
    if isinstance(data, LocalSource):
        options.refuse_columns("an array")
        return data
    if not is_table(data) and not is_sparse(data) and hasattr(data, "__arrow_c_stream__"):
        import pyarrow as pa

        try:
            data = pa.table(data)
        except pa.ArrowInvalid as error:
            raise TypeError(
                f"data of type {type(data).__name__} is not a table: {error}; pass a table"
            ) from None
    if is_table(data):
        from lwcs.sources.memory.dataframes import TableSource

        return TableSource(data, options)
    options.refuse_columns(f"data of type {type(data).__name__}")
    if isinstance(data, DeviceArray) or library_of(data) is not None:
        return _open_foreign(data)
    if is_sparse(data):
        from lwcs.sources.memory.sparse import SparseSource

        return SparseSource(data)
    return ArraySource(as_table_of_numbers(data))


def _open_foreign(data: Any) -> LocalSource:
    """Open an array of another library; on a device, rows stay there."""
    rows = data if isinstance(data, DeviceArray) else rows_of(data)
    source: LocalSource
    if isinstance(rows, DeviceArray):
        from lwcs.sources.memory.tensors import DeviceSource

        source = DeviceSource(rows)
    else:
        source = ArraySource(as_table_of_numbers(rows))
    source.like = ArrayOrigin.of(rows.tensor if data is rows else data)
    return source


def _refuse_not_in_memory(data: object) -> None:
    """Refuse data whose rows are not in memory, and may not fit into it."""
    path = isinstance(data, (str, os.PathLike))
    if isinstance(data, LocalSource) or not (
        engine_of(data) or path or is_query(data) or isinstance(data, Source)
    ):
        return
    kind = "a path" if path else f"of type {type(data).__module__}.{type(data).__name__}"
    raise TypeError(
        f"data is {kind}, whose rows are not in memory, as is expected here; pass its parts one "
        "after the other, or a coreset of it: stream.update(lwcs.build(data, size))"
    )
