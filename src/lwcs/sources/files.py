"""Rows in Parquet, Feather and CSV files, larger than memory, through pyarrow.

Files give their rows in the order of their names. Small row groups of Parquet are read side by
side, also those of the next files, at most 64 MB ahead, or 16 MB per core; large ones page by
page, their columns side by side, in batches of at most 32 MB: memory grows neither with the size of
files nor with that of row groups. The size and modification time of every file are remembered: a
file that changed between two passes would silently give a wrong coreset.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from lwcs.foundation.cores import usable_cores
from lwcs.sources.arrow import ArrowBatch, first_values
from lwcs.sources.base import NO_ROWS
from lwcs.sources.checks import check_unique
from lwcs.sources.columns import Selection, is_excluded, matched, some_names
from lwcs.sources.delimited import DelimitedFiles, with_text
from lwcs.sources.parts import Part, side_by_side
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lwcs.sources.batches import Batch
    from lwcs.sources.options import ScanOptions
    from lwcs.sources.paths import Found


class FileSource(SequenceSource):
    """Some columns of Parquet, Feather or CSV files."""

    def __init__(self, found: Found, options: ScanOptions) -> None:
        super().__init__()
        self._found, self._drop, self._exclude = found, options.drop, options.exclude
        self._batch_rows = options.batch_size
        self._stamps = _stamps(found)
        with _explaining(found.paths):
            if found.kind == "csv":
                self._files: DelimitedFiles | DatasetFiles = DelimitedFiles(found, options.dialect)
            else:
                self._files = DatasetFiles(found)
            # Names are decoded here, where an error in them names the file.
            _ = self._files.schema.names
        self.use(
            Selection.of(
                self._files.schema, options, self._look, self._files.keys, _some(found.paths)
            )
        )
        self.n_rows = self._files.n_rows
        if self.n_rows == 0:
            raise ValueError(f"{NO_ROWS} (in {_some(found.paths)})")

    @property
    def found(self) -> Found:
        """The files."""
        return self._found

    def _named(self) -> str:
        return f", in {_some(self._found.paths)}"

    def _look(self, name: str) -> list[Any]:
        """The first values of a column."""
        with _explaining(self._found.paths):
            files = self._files.open([name], self._batch_rows)
            return first_values((batch for part in files for batch in part.rows), name)

    def keep(self, columns: Sequence[str]) -> None:
        """Keep columns beside the rows; those of CSV that are no features stay text."""
        assert self.selection is not None
        names = matched(columns, self._files.schema.names, "keep")
        if isinstance(self._files, DelimitedFiles):
            others = [name for name in names if name not in self.selection.columns_to_read]
            self._files.schema = with_text(self._files.schema, others)
        self.kept = pa.schema([self._files.schema.field(name) for name in names])

    def _columns_to_read(self, selection: Selection) -> list[str]:
        kept = [] if self.kept is None else self.kept.names
        return list(dict.fromkeys([*selection.columns_to_read, *kept]))

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Read the files in order, and check that they have not changed."""
        selection = self.selection
        assert selection is not None
        with _explaining(self._found.paths):
            files = self._files.open(self._columns_to_read(selection), self._batch_rows)
            for part in files:
                path, done = part.path, part.first_row
                with _explaining([path]):
                    self._check_columns(path, part.names, selection)
                    self._check_unchanged(path)
                    for batch in part.rows:
                        # Arrow itself would read past the end of a buffer that is too short.
                        batch.validate()
                        if batch.num_rows:
                            beside = self._beside(batch)
                            yield (
                                path,
                                ArrowBatch.of(batch, selection, self._drop, path, done, beside),
                            )
                            done += batch.num_rows
                    self._check_unchanged(path)

    def _check_columns(self, path: str, names: list[str], selection: Selection) -> None:
        check_unique(names, repr(path))
        there = {*names, *self._files.keys}
        for name in self._columns_to_read(selection):
            if name not in there:
                wish = "columns" if name in selection.columns_to_read else "keep"
                raise ValueError(
                    f"{path!r} has no column {name!r}, but other files have it; its columns are "
                    f"{some_names(names)}: leave out the file, or select other columns with "
                    f"{wish}=[…]"
                )
        new = self._files.numbers_beyond(path, names) if selection.by_default else []
        if new := [name for name in new if not is_excluded(name, self._exclude)]:
            raise ValueError(
                f"{path!r} has a column {new[0]!r} of numbers, but files before it do not; leave "
                "out the file, or select columns that all files have with columns=[…]"
            )

    def _check_unchanged(self, path: str) -> None:
        if _stamp(self._found.filesystem.get_file_info(path)) != self._stamps[path]:
            raise ValueError(
                f"{path!r} changed while it was being read; wait until it is complete, and build "
                "again"
            )


def _stamps(found: Found) -> dict[str, tuple[int, int]]:
    infos = found.filesystem.get_file_info(found.paths)
    return {info.path: _stamp(info) for info in infos}


def _stamp(info: fs.FileInfo) -> tuple[int, int]:
    return info.size or 0, info.mtime_ns or 0


class DatasetFiles:
    """Parquet and Feather files, as a pyarrow dataset."""

    def __init__(self, found: Found) -> None:
        self._parquet, self._filesystem = found.kind == "parquet", found.filesystem
        # Without a schema, pyarrow would merge the columns first, and refuse some without a name.
        own = _common_schema(found, _dataset(found, pa.schema([]), None))
        keys = _partition_schema(found, own)
        self.keys = [] if keys is None else keys.names
        self.schema = pa.schema([*own, *([] if keys is None else keys)])
        self._dataset = _dataset(found, self.schema, keys)
        self.n_rows = int(self._dataset.count_rows()) if self._parquet else None

    def numbers_beyond(self, path: str, names: list[str]) -> list[str]:
        """Columns of numbers of a file that the schema does not have: it has those of all files."""
        del path, names
        return []

    def open(self, columns: list[str], batch_rows: int | None) -> Iterator[Part]:
        """Read every file, in one or more parts."""
        if self._parquet:
            return side_by_side(self._parts(columns, batch_rows), _AHEAD)
        return self._feather(columns, batch_rows or _FEATHER_ROWS)

    def _feather(self, columns: list[str], batch_rows: int) -> Iterator[Part]:
        for fragment in self._dataset.get_fragments():
            rows = fragment.to_batches(
                schema=self.schema,
                columns=columns,
                batch_size=batch_rows,
                batch_readahead=2,
                fragment_readahead=1,
            )
            yield Part(fragment.path, fragment.physical_schema.names, 0, rows)

    def _parts(self, columns: list[str], batch_rows: int | None) -> Iterator[Part]:
        for fragment in self._dataset.get_fragments():
            with _explaining([fragment.path]):
                yield from self._parts_of(fragment, columns, batch_rows)

    def _parts_of(
        self, fragment: Any, columns: list[str], batch_rows: int | None
    ) -> Iterator[Part]:
        """Cut a Parquet file: row groups that are small together, or a large one."""
        groups, names, first = fragment.row_groups, fragment.physical_schema.names, 0
        width = _row_bytes(self.schema, columns, groups)
        batch_rows = batch_rows or max(1, min(int(_BATCH / max(width, 1)), _LONGEST))
        fitting = int(_SMALL_GROUP / max(width, 1))
        for run in _runs([group.num_rows for group in groups], fitting):
            n_rows = sum(groups[i].num_rows for i in run)
            size = n_rows * width
            rows = self._rows(fragment, columns, batch_rows, run, size > _TINY)
            yield Part(fragment.path, names, first, rows, size if n_rows <= fitting else None)
            first += n_rows

    def _rows(
        self, fragment: Any, columns: list[str], batch_rows: int, groups: range, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read row groups page by page; with threads, columns are decoded side by side."""
        keys = ds.get_partition_keys(fragment.partition_expression)
        own = [name for name in columns if name in fragment.physical_schema.names]
        with (
            self._filesystem.open_input_file(fragment.path) as raw,
            pq.ParquetFile(
                raw, metadata=fragment.metadata, pre_buffer=False, buffer_size=2**18
            ) as file,
        ):
            for batch in file.iter_batches(batch_rows, groups, own, use_threads=threads):
                for name in columns:
                    if name in keys and name not in own:
                        value = pa.repeat(pa.scalar(keys[name]), batch.num_rows)
                        batch = batch.append_column(name, value)
                wanted = pa.schema([self.schema.field(name) for name in batch.schema.names])
                yield batch if batch.schema.equals(wanted) else batch.cast(wanted)


# Row groups that hold at most this many bytes together, decoded, are one part of a file.
_SMALL_GROUP = 32 * 2**20
# To hand the columns of less than this to threads costs more than it gains.
_TINY = 4 * 2**20
# Most bytes of a batch.
_BATCH = 32 * 2**20
# Bytes of small parts that are decoded ahead: more where more cores wait for them.
_AHEAD = 16 * 2**20 * max(4, usable_cores())
# Rows of a batch: every batch costs something, so that longer ones are faster (measured).
_LONGEST = 2**18
_FEATHER_ROWS = 65_536


def _runs(sizes: list[int], most: int) -> Iterator[range]:
    """Cut a list into runs of sum at most `most`, or of one number; an empty one is one run."""
    start, total = 0, 0
    for i, size in enumerate(sizes):
        if i > start and total + size > most:
            yield range(start, i)
            start, total = i, 0
        total += size
    yield range(start, len(sizes))


def _row_bytes(schema: pa.Schema, columns: list[str], groups: Any) -> float:
    """Bytes per row of some columns when they are decoded.

    Where a type does not tell, as for text and lists, all that the row groups say they hold counts.
    """
    known = 0.0
    for kind in (schema.field(name).type for name in columns):
        try:
            known += kind.bit_width / 8
        except ValueError:
            sizes = (group.total_byte_size / max(group.num_rows, 1) for group in groups)
            return max(sizes, default=0.0)
    return known


def _dataset(found: Found, schema: pa.Schema, keys: pa.Schema | None) -> ds.Dataset:
    return ds.dataset(
        found.paths,
        schema=schema,
        format=ds.ParquetFileFormat() if found.kind == "parquet" else ds.IpcFileFormat(),
        filesystem=found.filesystem,
        partitioning=None if keys is None else ds.partitioning(keys, flavor="hive"),
        partition_base_dir=found.base,
    )


def _common_schema(found: Found, dataset: ds.Dataset) -> pa.Schema:
    """The columns of all files, with types that hold the values of every file."""
    schemas = []
    for fragment in dataset.get_fragments():
        with _explaining([fragment.path]):
            schema = fragment.physical_schema
        if _OURS in (schema.metadata or {}):
            raise ValueError(
                f"{fragment.path!r} was saved by lwcs and is not a table of rows; open it with "
                "lwcs.load"
            )
        check_unique(schema.names, repr(fragment.path))
        schemas.append(schema.remove_metadata())
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise ValueError(
            f"the columns of {_some(found.paths)} have types that do not go together: {error}"
        ) from error


def _partition_schema(found: Found, own: pa.Schema) -> pa.Schema | None:
    """Columns that only the names of hive folders provide, or None."""
    if not any("=" in path for path in found.paths):
        return None
    try:
        whole = ds.dataset(
            found.paths,
            format=found.kind,
            filesystem=found.filesystem,
            partitioning="hive",
            partition_base_dir=found.base,
        ).schema
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        # A folder has the name of a column of the files; the values in the files are used.
        return None
    kept = [field for field in whole if field.name not in own.names]
    return pa.schema(kept) if kept else None


_OURS = b"lwcs"


@contextmanager
def _explaining(paths: list[str]) -> Iterator[None]:
    """Turn errors of pyarrow into errors that name the file."""
    try:
        yield
    except PermissionError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{_some(paths)} vanished before all rows were read") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        said = str(error).strip().splitlines()[0]
        raise ValueError(
            f"{_some(paths)} cannot be read (it may be truncated, corrupted, or have rows that "
            f"differ in their columns): {said}"
        ) from error


def _some(paths: list[str]) -> str:
    others = len(paths) - 1
    more = f" and {others} more file{'s' * (others > 1)}" if others else ""
    return f"{paths[0]!r}{more}"
