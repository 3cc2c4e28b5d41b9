"""Rows in Parquet, Feather and CSV files, larger than memory, through pyarrow.

Files are read in the order of their names, one
batch after the other, with little read ahead, so that memory does not grow with them. What a
file looked like when it was first seen is remembered: one that changed between two passes would
give a wrong coreset without anybody noticing.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv, fs

from lwcs.sources.arrow import ArrowBatch, Selection
from lwcs.sources.paths import Found
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lwcs.sources.sequence import Batch

_BATCH_ROWS = 65_536


class FileSource(SequenceSource):
    """Some columns of Parquet, Feather or CSV files."""

    def __init__(
        self,
        found: Found,
        columns: Sequence[str] | str | None = None,
        weight: str | None = None,
        *,
        drop: bool = False,
        batch_size: int | None = None,
    ) -> None:
        super().__init__()
        self._found, self._drop = found, drop
        self._batch_rows = batch_size or _BATCH_ROWS
        self._stamps = _stamps(found)
        if found.kind == "csv":
            # pyarrow takes an empty file for a damaged one.
            full = [path for path in found.paths if self._stamps[path][0] > 0]
            if not full:
                raise ValueError(f"{found.paths[0]!r} is empty; at least one row is needed")
            self._found = found = Found(found.kind, full, found.filesystem, found.base)
        dataset = _dataset(found, _format(found.kind, found.paths[0]))
        keys = _partition_keys(dataset)
        self._selection = Selection.of(dataset.schema, columns, weight, keys)
        if found.kind == "csv":
            # A column may look whole at first and turn out not to be.
            types = dict.fromkeys(self._selection.needed, pa.float64())
            dataset = _dataset(found, _format("csv", found.paths[0], types))
            self._selection = Selection.of(dataset.schema, self._selection.columns, weight, keys)
        self._dataset, self._keys = dataset, set(keys)
        self.dtype, self.skipped = self._selection.dtype, self._selection.skipped
        self.feature_names = self._selection.feature_names
        self.n_features, self.weighted = len(self.feature_names), weight is not None
        self.n_rows = None
        if found.kind == "parquet":
            with _explaining(found.paths):
                self.n_rows = int(dataset.count_rows())
            if self.n_rows == 0:
                raise ValueError(f"{_some(found.paths)} have no rows; at least one is needed")

    @property
    def selection(self) -> Selection:
        """What is read of every file."""
        return self._selection

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Read the files one after the other, and see whether they are still the same."""
        for fragment in self._dataset.get_fragments():
            path, done = fragment.path, 0
            with _explaining([path]):
                self._check_columns(fragment)
                self._check_unchanged(path)
                for batch in fragment.to_batches(
                    schema=self._dataset.schema,
                    columns=self._selection.needed,
                    batch_size=self._batch_rows,
                    batch_readahead=2,
                    fragment_readahead=1,
                    fragment_scan_options=_scan_options(self._found.kind),
                ):
                    if batch.num_rows:
                        yield path, ArrowBatch(batch, self._selection, self._drop, path, done)
                        done += batch.num_rows
                self._check_unchanged(path)

    def _check_columns(self, fragment: Any) -> None:
        there = set(fragment.physical_schema.names) | self._keys
        for name in self._selection.needed:
            if name not in there:
                raise ValueError(
                    f"{fragment.path!r} has no column {name!r}, which other files have; leave the "
                    "file or the column out"
                )

    def _check_unchanged(self, path: str) -> None:
        if _stamp(self._found.filesystem.get_file_info(path)) != self._stamps[path]:
            raise ValueError(
                f"{path!r} changed while it was read; let its writer finish, and start again"
            )


def _stamps(found: Found) -> dict[str, tuple[int, int]]:
    infos = found.filesystem.get_file_info(found.paths)
    return {info.path: _stamp(info) for info in infos}


def _stamp(info: fs.FileInfo) -> tuple[int, int]:
    return info.size or 0, info.mtime_ns or 0


def _dataset(found: Found, kind: Any) -> ds.Dataset:
    with _explaining(found.paths):
        return ds.dataset(
            found.paths,
            format=kind,
            filesystem=found.filesystem,
            partitioning="hive",
            partition_base_dir=found.base,
        )


def _partition_keys(dataset: ds.Dataset) -> list[str]:
    """Columns that come from the names of folders."""
    partitioning = getattr(dataset, "partitioning", None)
    names = [] if partitioning is None else partitioning.schema.names
    first = next(iter(dataset.get_fragments()), None)
    own = set() if first is None else set(first.physical_schema.names)
    return [name for name in names if name not in own]


def _format(kind: str, path: str, types: dict[str, pa.DataType] | None = None) -> Any:
    if kind != "csv":
        return ds.ParquetFileFormat() if kind == "parquet" else ds.IpcFileFormat()
    tabs = ".tsv" in Path(path).name.lower()
    return ds.CsvFileFormat(
        parse_options=csv.ParseOptions(delimiter="\t" if tabs else ","),
        convert_options=csv.ConvertOptions(column_types=types or {}),
    )


def _scan_options(kind: str) -> Any:
    if kind != "parquet":
        return None
    # Without these, whole row groups pile up in memory.
    return ds.ParquetFragmentScanOptions(
        use_buffered_stream=True, buffer_size=2**20, pre_buffer=False
    )


@contextmanager
def _explaining(paths: list[str]) -> Iterator[None]:
    """Give errors of pyarrow the file's name, and take its vocabulary away."""
    try:
        yield
    except PermissionError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{_some(paths)} vanished while it was to be read") from error
    except (pa.ArrowException, OSError) as error:
        said = str(error).strip().splitlines()[0]
        raise ValueError(
            f"{_some(paths)} cannot be read (truncated, damaged, or not all of its rows are "
            f"alike): {said}"
        ) from error


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
    return f"{paths[0]!r}{more}"
