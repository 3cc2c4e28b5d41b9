"""Rows in Parquet, Feather and CSV files, larger than memory, through pyarrow.

Files give their rows in the order of their names. pyarrow decodes small row groups side by side,
and the columns of large ones, page by page; what is decoded ahead has a limit in bytes, so that
memory grows neither with the size of files nor with that of row groups. The size and modification
time of every file are remembered: a file that changed between two passes would silently give a
wrong coreset.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from lwcs.sources.arrow import ArrowBatch, first_values
from lwcs.sources.base import NO_ROWS
from lwcs.sources.checks import check_unique
from lwcs.sources.columns import Selection, is_excluded, matched, some_names
from lwcs.sources.delimited import DelimitedFiles, with_text
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

    def _named(self) -> str:
        return f", in {_some(self._found.paths)}"

    def _look(self, name: str) -> list[Any]:
        """The first values of a column."""
        with _explaining(self._found.paths):
            files = self._files.open([name], self._batch_rows)
            return first_values((batch for _, _, rows in files for batch in rows), name)

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
        """Read the files one after the other, and check that they have not changed."""
        selection = self.selection
        assert selection is not None
        with _explaining(self._found.paths):
            files = self._files.open(self._columns_to_read(selection), self._batch_rows)
            for path, names, rows in files:
                with _explaining([path]):
                    self._check_columns(path, names, selection)
                    self._check_unchanged(path)
                    done = 0
                    for batch in rows:
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

    def open(self, columns: list[str], batch_rows: int | None) -> Iterator[_Opened]:
        """Yield the path, the columns and the batches of every file.

        pyarrow decodes the first batches of a file as soon as it is opened. The next files are
        opened while one is read, as far as their batches fit into `_AHEAD` bytes.
        """
        ahead: deque[_Coming] = deque()
        for fragment in self._dataset.get_fragments():
            ahead.append(self._coming(fragment, columns, batch_rows))
            while sum(each.held for each in ahead) > _AHEAD or len(ahead) > pa.cpu_count():
                yield ahead.popleft().opened.result()
        while ahead:
            yield ahead.popleft().opened.result()

    def _coming(self, fragment: Any, columns: list[str], batch_rows: int | None) -> _Coming:
        """Open a file; an error is raised when it is the file's turn."""
        coming = _Coming()
        try:
            with _explaining([fragment.path]):
                plan = self._plan(fragment, columns, batch_rows)
                names = fragment.physical_schema.names
                rows = (self._whole if plan.whole else self._paged)(fragment, columns, plan)
            coming.held = plan.held
            coming.opened.set_result((fragment.path, names, rows))
        except Exception as error:
            coming.opened.set_exception(error)
        return coming

    def _plan(self, fragment: Any, columns: list[str], batch_rows: int | None) -> _Plan:
        if not self._parquet:
            # How much it will hold is not known, so nothing is opened after it.
            return _Plan(True, batch_rows or _BATCH_ROWS, _LEAST_AHEAD, _AHEAD + 1)
        groups = fragment.row_groups
        width = _row_bytes(self.schema, columns, groups)
        largest = max((group.num_rows for group in groups), default=0)
        if largest * width > _SMALL_GROUP:
            fitting = max(1, int(_SMALL_GROUP / width))
            return _Plan(False, batch_rows or min(fitting, _PAGED_ROWS), 0, 0)
        rows = batch_rows or _BATCH_ROWS
        fitting = int(_AHEAD / (rows * width + 1))
        ahead = max(min(fitting, pa.cpu_count()), _LEAST_AHEAD)
        in_file = sum(group.num_rows for group in groups)
        return _Plan(True, rows, ahead, min(in_file, ahead * rows + largest) * width)

    def _whole(self, fragment: Any, columns: list[str], plan: _Plan) -> Iterator[pa.RecordBatch]:
        """Read whole row groups, several at a time."""
        rows: Iterator[pa.RecordBatch] = fragment.to_batches(
            schema=self.schema,
            columns=columns,
            batch_size=plan.batch_rows,
            batch_readahead=plan.ahead,
            fragment_readahead=1,
            fragment_scan_options=_SCAN if self._parquet else None,
        )
        return rows

    def _paged(self, fragment: Any, columns: list[str], plan: _Plan) -> Iterator[pa.RecordBatch]:
        """Read a Parquet file page by page: a dataset holds several whole row groups in memory."""
        keys = ds.get_partition_keys(fragment.partition_expression)
        own = [name for name in columns if name in fragment.physical_schema.names]
        with (
            self._filesystem.open_input_file(fragment.path) as raw,
            pq.ParquetFile(raw, pre_buffer=False, buffer_size=2**18) as file,
        ):
            for batch in file.iter_batches(batch_size=plan.batch_rows, columns=own):
                for name in columns:
                    if name in keys and name not in own:
                        value = pa.repeat(pa.scalar(keys[name]), batch.num_rows)
                        batch = batch.append_column(name, value)
                yield batch.cast(pa.schema([self.schema.field(n) for n in batch.schema.names]))


_Opened: TypeAlias = "tuple[str, list[str], Iterator[pa.RecordBatch]]"


@dataclass(slots=True)
class _Coming:
    """A file that is opened before its turn, or the error of opening it."""

    opened: Future[_Opened] = field(default_factory=Future)
    held: float = 0.0
    """Bytes of its batches that may be decoded before its turn."""


class _Plan(NamedTuple):
    """How a file is read."""

    whole: bool
    """Whether row groups are read as a whole, or page by page."""
    batch_rows: int
    ahead: int
    """Number of batches that are decoded ahead."""
    held: float
    """Bytes of all of them."""


# Row groups of at most this many bytes, decoded, are read as a whole, which is faster; larger ones
# in batches of at most this many.
_SMALL_GROUP = 32 * 2**20
# Bytes that may be decoded ahead in a file, and as much again in the files after it.
_AHEAD = 64 * 2**20
_LEAST_AHEAD = 2
_BATCH_ROWS = 65_536
# Reading page by page costs something for every batch: longer ones are faster (measured).
_PAGED_ROWS = 4 * _BATCH_ROWS
_SCAN = ds.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=2**20, pre_buffer=False)


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
