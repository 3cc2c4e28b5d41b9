"""Rows in Parquet files: footers read once, row groups cut into parts that are read side by side.

Small row groups are read side by side, also those of the next files, up to a limit in bytes; large
ones one after the other, as a whole or page by page, whichever takes less memory: three copies of a
page of every column are needed, so that wide row groups are read as a whole, 32 columns at a time.

On a store, the chunks of the wanted columns are fetched ahead, and count in the limit. pyarrow's
own `pre_buffer` would hold row groups of any size, and fsspec would also fetch bytes of other
columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lwcs.runtime.parallel import usable_cores
from lwcs.sources.files.parts import (
    Files,
    FolderColumns,
    Part,
    common_schema,
    side_by_side,
    with_keys,
)
from lwcs.sources.remote.prefetch import REQUESTS, Piece, WaitingThreads
from lwcs.storage.locations import explaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.dataset as ds
    from pyarrow import fs

    from lwcs.sources.blocks import Budget
    from lwcs.sources.remote.paths import Found
    from lwcs.sources.remote.prefetch import Lane, PrefetchedFile, Store


@dataclass(frozen=True, slots=True)
class _File:
    """The footer of a file, and the values of columns from the names of its folders."""

    path: str
    metadata: pq.FileMetaData
    names: list[str]
    keys: dict[str, Any]
    groups: list[int]
    """The row groups that are read; a dataset may have only some of them."""

    def sizes(self, run: range) -> list[int]:
        """Number of rows of some of these row groups."""
        return [self.metadata.row_group(self.groups[i]).num_rows for i in run]

    @property
    def n_rows(self) -> int:
        """Number of rows that are read."""
        return sum(self.sizes(range(len(self.groups))))


class ParquetFiles(Files):
    """Parquet files, with the columns of all of them."""

    def __init__(
        self,
        filesystem: fs.FileSystem,
        store: Store | None,
        schema: pa.Schema,
        keys: list[str],
        files: list[_File],
    ) -> None:
        self._filesystem, self._store, self._files = filesystem, store, files
        self.schema, self.keys = schema, keys
        self.n_rows = sum(file.n_rows for file in files)

    @classmethod
    def found(cls, found: Found, store: Store | None) -> ParquetFiles:
        """Files that were found, with the columns of their folders."""
        footers = _footers(found, store)
        own = common_schema(found, {path: schema for path, (_, schema) in footers.items()})
        folders, files = FolderColumns.of(found, own.names), []
        for path in found.paths:
            metadata, columns = footers[path]
            groups = list(range(metadata.num_row_groups))
            files.append(_File(path, metadata, columns.names, folders.values[path], groups))
        schema = pa.schema([*own, *folders.schema], own.metadata)
        return cls(found.filesystem, store, schema, folders.schema.names, files)

    @classmethod
    def of_dataset(
        cls, dataset: ds.FileSystemDataset, keys: list[str], store: Store | None
    ) -> ParquetFiles:
        """The files of a dataset; a column that a file does not have is null there."""
        # Files alone do not need it, and with it comes pandas: 45 MB.
        from pyarrow.dataset import get_partition_keys

        # Reads the footers of all files in parallel.
        dataset.count_rows()
        files = []
        for each in dataset.get_fragments():
            values = get_partition_keys(each.partition_expression)
            groups = [group.id for group in each.row_groups]
            names = each.physical_schema.names
            files.append(_File(each.path, each.metadata, names, values, groups))
        return cls(dataset.filesystem, store, dataset.schema, keys, files)

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
        """Memory of row groups that are too large to be read before their turn."""
        most = 0
        for file in self._files:
            width = _row_bytes(self.schema, columns, file)
            for group in range(len(file.groups)):
                size = int(file.sizes(range(group, group + 1))[0] * width)
                if size > budget.small:
                    most = max(most, _large(file, group, columns, size)[1])
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
            size = n_rows * width
            small = n_rows <= fitting
            largest = max(file.sizes(run), default=0) * width
            whole = small or _large(file, run.start, columns, largest)[0]
            if self._store is not None:
                lanes = _lanes(file, run, columns, self._store.size(file.path))
                ahead = self._store.file(file.path, lanes, budget.fetched, in_turns=not whole)
                fetched = ahead.most_held
            cut = [run] if small else [range(i, i + 1) for i in run]
            # A row group in memory is not cut: each batch has an overhead for each column.
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
            _opened(self._filesystem, file.path, ahead) as raw,
            pq.ParquetFile(
                raw, metadata=file.metadata, pre_buffer=False, buffer_size=_BUFFER
            ) as reader,
        ):
            for run in runs:
                some = [file.groups[i] for i in run]
                if whole:
                    rows = iter(_table(reader, some, own, threads).to_batches(batch_rows))
                else:
                    rows = reader.iter_batches(batch_rows, some, own, use_threads=threads)
                yield from with_keys(rows, self.schema, columns, file.keys)


def _opened(filesystem: fs.FileSystem, path: str, ahead: PrefetchedFile | None) -> Any:
    """A file on this machine, or the bytes of one on a store."""
    return filesystem.open_input_file(path) if ahead is None else pa.PythonFile(ahead, "r")


def _table(reader: Any, groups: list[int], columns: list[str], threads: bool) -> pa.Table:
    """Row groups as a whole: buffers for bytes and pages are held for some columns at a time."""
    if len(columns) <= _TOGETHER:
        return reader.read_row_groups(groups, columns, use_threads=threads)
    cuts = [columns[i : i + _TOGETHER] for i in range(0, len(columns), _TOGETHER)]
    # A column that is called "a.b" also comes where "a" is asked for.
    parts = [reader.read_row_groups(groups, cut, use_threads=threads).select(cut) for cut in cuts]
    schema = pa.schema([field for part in parts for field in part.schema])
    return pa.Table.from_arrays([each for part in parts for each in part.columns], schema=schema)


def _footers(found: Found, store: Store | None) -> dict[str, tuple[pq.FileMetaData, pa.Schema]]:
    """Metadata and columns of every file; the first that cannot be read is named."""

    def read(path: str) -> tuple[pq.FileMetaData, pa.Schema]:
        ahead = None if store is None else store.file(path)
        with (
            explaining([path]),
            _opened(found.filesystem, path, ahead) as raw,
            pq.ParquetFile(raw) as file,
        ):
            return file.metadata, file.schema_arrow

    with WaitingThreads(usable_cores() if store is None else REQUESTS) as pool:
        return dict(zip(found.paths, pool.map(read, found.paths), strict=True))


# Below this size, decoding columns on several threads costs more than it gains.
_TINY = 4 * 2**20
# Bytes of a column that are read at once, and columns of a whole row group.
_BUFFER, _TOGETHER = 2**18, 32
# Usual size of a page, of which there are three copies: as read, decompressed, and decoded.
_PAGE, _COPIES = 2**20, 3
# Large row groups in memory at once: one is used while the next is decoded. Allocators round up,
# and keep what was freed; with 1.25, a build took 1 % more than the limit that it had asked for.
_HELD, _ROUNDING = 2, 1.5
# Maximum number of rows per batch: larger batches have less overhead (measured).
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

    Where a type does not tell, as for text and lists, the sizes of whole row groups count.
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
    """The chunks of some columns in a row group; lists and structs have several."""
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


def _large(file: _File, group: int, columns: list[str], size: float) -> tuple[bool, int]:
    """Whether a row group of `size` bytes is read as a whole, and the memory that it takes."""
    pages = _page_bytes(file, group, columns)
    whole = int(_HELD * _ROUNDING * size + pages * min(1.0, _TOGETHER / max(len(columns), 1)))
    return whole <= pages, min(whole, pages)


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
            # A damaged footer may have any number here; pyarrow will refuse it.
            if 0 <= first < stop <= size:
                lane.append(Piece(first, stop))
    return lanes
