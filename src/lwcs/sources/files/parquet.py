"""Rows in Parquet files: footers read once, row groups cut into parts that are read side by side.

Small row groups are read side by side, also those of the next files, up to a limit in bytes; large
ones one after the other, as a whole or page by page, whichever takes less memory. On a store, the
bytes of the wanted columns are fetched ahead, and count as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lwcs.runtime.parallel import usable_cores
from lwcs.sources.files.parts import (
    Files,
    Part,
    common_schema,
    fragments,
    partition_schema,
    side_by_side,
    with_keys,
)
from lwcs.sources.remote.prefetch import REQUESTS, Piece, WaitingThreads
from lwcs.storage.locations import explaining

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyarrow import fs

    from lwcs.sources.blocks import Budget
    from lwcs.sources.remote.paths import Found
    from lwcs.sources.remote.prefetch import Lane, PrefetchedFile, Store


@dataclass(frozen=True, slots=True)
class _File:
    """What the footer of a file says, and the names of its folders."""

    path: str
    metadata: pq.FileMetaData
    names: list[str]
    keys: dict[str, Any]
    groups: list[int]
    """The row groups that are read; a dataset may have some of them only."""

    def sizes(self, run: range) -> list[int]:
        """Number of rows of some of these row groups."""
        return [self.metadata.row_group(self.groups[i]).num_rows for i in run]

    @property
    def n_rows(self) -> int:
        """Number of rows that are read."""
        return sum(self.sizes(range(len(self.groups))))


class ParquetFiles(Files):
    """Parquet files, with the columns of all of them."""

    n_rows: int = 0

    def __init__(self, filesystem: fs.FileSystem, store: Store | None) -> None:
        self._filesystem, self._store = filesystem, store
        self._files: list[_File] = []
        self.schema, self.keys = pa.schema([]), list[str]()

    @classmethod
    def found(cls, found: Found, store: Store | None) -> ParquetFiles:
        """Files that were found, with the columns of their folders."""
        self = cls(found.filesystem, store)
        footers = self._footers(found.paths)
        own = common_schema(found, {path: schema for path, (_, schema) in footers.items()})
        keys = partition_schema(found, own)
        self._set(pa.schema([*own, *([] if keys is None else keys)]), keys or ())
        for fragment in fragments(found, self.schema, keys):
            metadata, schema = footers[fragment.path]
            self._add(fragment, metadata, schema, range(metadata.num_row_groups))
        return self

    @classmethod
    def of_dataset(
        cls, dataset: ds.FileSystemDataset, keys: list[str], store: Store | None
    ) -> ParquetFiles:
        """The files of a dataset; a column that a file does not have is null there."""
        self = cls(dataset.filesystem, store)
        self._set(dataset.schema, map(dataset.schema.field, keys))
        # Reads what files say of themselves, side by side.
        dataset.count_rows()
        for each in dataset.get_fragments():
            groups = [group.id for group in each.row_groups]
            self._add(each, each.metadata, each.physical_schema, groups)
        return self

    def _set(self, schema: pa.Schema, keys: Iterable[pa.Field]) -> None:
        self.schema, self.keys = schema, [field.name for field in keys]

    def _add(
        self, fragment: Any, metadata: pq.FileMetaData, schema: pa.Schema, groups: Iterable[int]
    ) -> None:
        values = ds.get_partition_keys(fragment.partition_expression)
        file = _File(fragment.path, metadata, schema.names, values, list(groups))
        self._files.append(file)
        self.n_rows += file.n_rows

    def _footers(self, paths: list[str]) -> dict[str, tuple[pq.FileMetaData, pa.Schema]]:
        """Metadata and columns of every file; the first that cannot be read is named."""

        def read(path: str) -> tuple[pq.FileMetaData, pa.Schema]:
            with explaining([path]), self._opened(path) as raw, pq.ParquetFile(raw) as file:
                return file.metadata, file.schema_arrow

        with WaitingThreads(usable_cores() if self._store is None else REQUESTS) as pool:
            return dict(zip(paths, pool.map(read, paths), strict=True))

    def _opened(self, path: str, ahead: PrefetchedFile | None = None) -> Any:
        if self._store is None:
            return self._filesystem.open_input_file(path)
        return pa.PythonFile(ahead or self._store.file(path), "r")

    def open(
        self, columns: list[str], budget: Budget, batch_rows: int | None = None
    ) -> Iterator[Part]:
        """Read every file, in one or more parts."""
        return side_by_side(self._parts(columns, budget, batch_rows), budget.ahead)

    def _parts(self, columns: list[str], budget: Budget, batch_rows: int | None) -> Iterator[Part]:
        for file in self._files:
            with explaining([file.path]):
                yield from self._parts_of(file, columns, budget, batch_rows)

    def reading_bytes(self, columns: list[str], budget: Budget) -> int:
        """Memory that row groups take which are too large to be read before their turn."""
        most = 0
        for file in self._files:
            width = _row_bytes(self.schema, columns, file)
            for group in range(len(file.groups)):
                size = int(file.sizes(range(group, group + 1))[0] * width)
                if size > budget.small:
                    most = max(most, min(_HELD * size, _page_bytes(file, group, columns)))
        return most

    def _parts_of(
        self, file: _File, columns: list[str], budget: Budget, batch_rows: int | None
    ) -> Iterator[Part]:
        """Cut a file: row groups that are small together, or a large one."""
        groups, first = range(len(file.groups)), 0
        width = _row_bytes(self.schema, columns, file)
        paged = batch_rows or max(1, min(int(budget.batch / max(width, 1)), _LONGEST))
        fitting = int(budget.small / max(width, 1))
        for run in _runs(file.sizes(groups), fitting, together=self._store is not None):
            n_rows, ahead, fetched = sum(file.sizes(run)), None, 0
            if self._store is not None:
                lanes = _lanes(file, run, columns, self._store.size(file.path))
                ahead = self._store.file(file.path, lanes, budget.fetched)
                fetched = ahead.most_held
            size = n_rows * width
            small = n_rows <= fitting
            largest = max(file.sizes(run), default=0) * width
            whole = small or _HELD * largest <= _page_bytes(file, run.start, columns)
            cut = [run] if small else [range(i, i + 1) for i in run]
            # What is in memory as a whole is not cut: every batch costs something for every column.
            batch = batch_rows if whole else paged
            rows = self._rows(file, columns, batch, cut, size > _TINY, whole, ahead)
            yield Part(
                file.path, file.names, first, rows, size + fetched if small else None,
                ahead, last=run.stop == groups.stop,
            )  # fmt: skip
            first += n_rows

    def _rows(
        self,
        file: _File,
        columns: list[str],
        batch_rows: int | None,
        runs: list[range],
        threads: bool,
        whole: bool,
        ahead: PrefetchedFile | None,
    ) -> Iterator[pa.RecordBatch]:
        """Read runs of row groups, each as a `whole` or page by page.

        With threads, columns are decoded side by side.
        """
        own = [name for name in columns if name in file.names]
        if ahead is not None:
            ahead.begin()
        with (
            self._opened(file.path, ahead) as raw,
            pq.ParquetFile(
                raw, metadata=file.metadata, pre_buffer=False, buffer_size=_BUFFER
            ) as reader,
        ):
            for run in runs:
                some = [file.groups[i] for i in run]
                if whole:
                    table = reader.read_row_groups(some, own, use_threads=threads)
                    rows = iter(table.to_batches(batch_rows))
                    del table
                else:
                    rows = reader.iter_batches(batch_rows, some, own, use_threads=threads)
                yield from with_keys(rows, self.schema, columns, file.keys)


# To hand the columns of less than this to threads costs more than it gains.
_TINY = 4 * 2**20
# Bytes of a column that are read at once.
_BUFFER = 2**18
# A page, as most programs write them, is read, decompressed and decoded.
_PAGE, _COPIES = 2**20, 3
# Large row groups that are in memory at once: one is used while the next is decoded.
_HELD = 2
# Rows of a batch: every batch costs something, so that longer ones are faster (measured).
_LONGEST = 2**18


def _runs(sizes: list[int], most: int, *, together: bool) -> Iterator[range]:
    """Cut a list into runs of sum at most `most`, or of one number; an empty one is one run.

    Larger numbers may be `together`: then what is fetched ahead does not end with a row group.
    """
    start, total = 0, 0
    for i, size in enumerate(sizes):
        large = together and i > start and total > most and size > most
        if i > start and total + size > most and not large:
            yield range(start, i)
            start, total = i, 0
        total += size
    yield range(start, len(sizes))


def _row_bytes(schema: pa.Schema, columns: list[str], file: _File) -> float:
    """Bytes per row of some columns when they are decoded.

    Where a type does not tell, as for text and lists, all that the row groups say they hold counts.
    """
    known = 0.0
    for kind in (schema.field(name).type for name in columns):
        try:
            known += kind.bit_width / 8
        except ValueError:
            groups = map(file.metadata.row_group, file.groups)
            sizes = (group.total_byte_size / max(group.num_rows, 1) for group in groups)
            return max(sizes, default=0.0)
    return known


def _leaves(file: _File, columns: list[str]) -> list[int]:
    """The chunks that some columns have in a row group: those of lists and structs have several."""
    schema, wanted = file.metadata.schema, tuple(f"{name}." for name in columns)
    return [i for i in range(len(schema)) if f"{schema.column(i).path}.".startswith(wanted)]


def _page_bytes(file: _File, group: int, columns: list[str]) -> int:
    """Memory that one page of every column of a row group takes."""
    own = file.metadata.row_group(file.groups[group])
    chunks = [own.column(leaf) for leaf in _leaves(file, columns)]
    return sum(
        _COPIES * min(chunk.total_uncompressed_size, _PAGE)
        + min(chunk.total_compressed_size, _BUFFER)
        for chunk in chunks
    )


def _lanes(file: _File, groups: range, columns: list[str], size: int) -> list[Lane]:
    """Where the chunks of some columns are in a file of `size` bytes: one lane per column."""
    leaves = _leaves(file, columns)
    lanes: list[Lane] = [[] for _ in leaves]
    for group in (file.metadata.row_group(file.groups[i]) for i in groups):
        for lane, leaf in zip(lanes, leaves, strict=True):
            chunk = group.column(leaf)
            first = chunk.data_page_offset
            if chunk.has_dictionary_page:
                first = min(first, chunk.dictionary_page_offset or first)
            stop = first + chunk.total_compressed_size
            # A footer may say anything; pyarrow will find out.
            if 0 <= first < stop <= size:
                lane.append(Piece(first, stop))
    return lanes
