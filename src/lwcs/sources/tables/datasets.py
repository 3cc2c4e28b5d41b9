"""Rows of pyarrow datasets and scanners, with their filters and projections.

Parquet without a filter is read as files are, page by page: pyarrow's own scanner holds several
whole row groups in memory. It reads everything else, one file at a time and about two row groups
ahead. A dataset is a fixed list of files, so that all passes see the same ones; if one of them
changes, that is an error.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from lwcs.sources.files.change_detection import Stamps, blaming_changes, listings_of, stamps_at
from lwcs.sources.files.parquet import ParquetFiles
from lwcs.sources.remote.prefetch import Store
from lwcs.sources.streams import Query
from lwcs.storage.locations import explaining, is_local
from lwcs.storage.stores import fsspec_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.sources.blocks import Budget
    from lwcs.sources.scan_options import ScanOptions

_BATCH_ROWS = 65_536


def query_of(data: Any, options: ScanOptions) -> Query:
    """Open a Dataset or a Scanner."""
    if isinstance(data, ds.Scanner):
        return _of_scanner(data)
    parts = [part for part in _parts(data) if isinstance(part, ds.FileSystemDataset)]
    return of_dataset(data, options, "the dataset", [_Files.of(part) for part in parts])


def of_dataset(
    dataset: ds.Dataset,
    options: ScanOptions,
    name: str,
    watched: Sequence[_Files] = (),
    version: str | None = None,
) -> Query:
    """Rows of a dataset; it is an error if `watched` files change."""
    with explaining(name):
        fragments = _fragments(dataset)
        keys = _keys(dataset, fragments)
        files = None
        if _is_plain_parquet(dataset, fragments):
            store = (watched[0] if watched else _Files.of(dataset)).store
            files = ParquetFiles.of_dataset(dataset, keys, store)
        n_rows = None if files is None else files.n_rows

    def run(columns: list[str], budget: Budget) -> Iterator[pa.RecordBatch]:
        with explaining(name), _watching(watched):
            if files is None:
                yield from _scanned(dataset, columns, options.batch_size)
            else:
                for part in files.open(columns, budget, options.batch_size):
                    with explaining([part.path]):
                        yield from part.rows

    reading = _scanned_bytes(fragments) if files is None else files.reading_bytes
    return Query(
        run, dataset.schema, n_rows=n_rows, keys=keys, version=version, name=name,
        reading_bytes=reading,
    )  # fmt: skip


def _scanned_bytes(fragments: list[ds.Fragment]) -> Callable[[list[str], Budget], int]:
    """Memory that pyarrow's scanner takes: about three row groups of Parquet."""

    def most(*_: object) -> int:
        files = (each for each in fragments if isinstance(each, ds.ParquetFileFragment))
        sizes = (group.total_byte_size for each in files for group in each.row_groups)
        return 3 * max(sizes, default=0)

    return most


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a dataset, with their sizes and times of change when it was opened."""

    paths: list[str]
    stamps: Stamps
    store: Store | None
    """None for files on this machine."""

    @classmethod
    def of(cls, dataset: ds.FileSystemDataset) -> _Files:
        """Look up every file."""
        filesystem, paths = dataset.filesystem, dataset.files
        if (handler := fsspec_files(filesystem)) is not None:
            # pyarrow's own handler believes what fsspec has cached.
            filesystem = fs.PyFileSystem(handler)
        listings = listings_of(paths)
        stamps = stamps_at(filesystem, paths, listings)
        store = None if is_local(filesystem) else Store(filesystem, stamps)
        return cls(paths, Stamps(filesystem, stamps, store, listings), store)


@contextmanager
def _watching(watched: Sequence[_Files]) -> Iterator[None]:
    """Raise an error if files change."""
    for files in watched:
        for path in files.paths:
            files.stamps.before(path)
    with blaming_changes(lambda: _check_again(watched)):
        yield
    _check_again(watched)


def _check_again(watched: Sequence[_Files]) -> None:
    """Look up every file again, all of a store at once."""
    for files in watched:
        for path in files.paths:
            files.stamps.after(path, last=True)
    for files in watched:
        files.stamps.finish()


def _scanned(
    dataset: ds.Dataset, columns: list[str], batch_rows: int | None
) -> Iterator[pa.RecordBatch]:
    """Read with pyarrow's scanner, which keeps the order of rows."""
    options = None
    if _is_parquet(dataset) and is_local(dataset.filesystem):
        # Half the memory. On a store, this would make a request per column of a row group.
        options = ds.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=2**18, pre_buffer=False
        )
    batches: Iterator[pa.RecordBatch] = dataset.to_batches(
        columns=columns, batch_size=batch_rows or _BATCH_ROWS, batch_readahead=1,
        fragment_readahead=1, fragment_scan_options=options,
    )  # fmt: skip
    return batches


def _of_scanner(scanner: ds.Scanner) -> Query:
    """Rows of a scanner with the columns that it was made for; some scanners can run only once."""
    with explaining("the scanner"):
        started = scanner.to_batches()
        first = list(islice(started, 1))
        try:
            list(islice(scanner.to_batches(), 1))
        except pa.ArrowInvalid:
            once: Iterator[pa.RecordBatch] | None = chain(first, started)
        else:
            once = None

    def run(*_: object) -> Iterator[pa.RecordBatch]:
        with explaining("the scanner"):
            yield from scanner.to_batches() if once is None else once

    return Query(run, scanner.projected_schema, name="the scanner", rereadable=once is None)


def _parts(dataset: ds.Dataset) -> list[ds.Dataset]:
    """The datasets that a union is made of."""
    if isinstance(dataset, ds.UnionDataset):
        return [part for child in dataset.children for part in _parts(child)]
    return [dataset]


def _fragments(dataset: ds.Dataset) -> list[ds.Fragment]:
    # A dataset with a filter refuses to list its fragments; a union of it alone does not.
    return list(ds.UnionDataset(dataset.schema, [dataset]).get_fragments())


def _keys(dataset: ds.Dataset, fragments: list[ds.Fragment]) -> list[str]:
    """Columns that only the names of folders provide."""
    expressions = [each.partition_expression for each in fragments]
    keys = {name for each in expressions for name in ds.get_partition_keys(each)}
    in_files = set(fragments[0].physical_schema.names) if keys else ()
    return [name for name in dataset.schema.names if name in keys and name not in in_files]


def _is_plain_parquet(dataset: ds.Dataset, fragments: list[ds.Fragment]) -> bool:
    """Whether all rows of Parquet files are wanted, without a filter."""
    if not fragments or not _is_parquet(dataset):
        return False
    with suppress(ValueError):
        # Raised if it has a filter.
        dataset.get_fragments()
        return True
    return False


def _is_parquet(dataset: ds.Dataset) -> bool:
    """Whether files are Parquet, read without options that change their columns."""
    return isinstance(dataset, ds.FileSystemDataset) and dataset.format == ds.ParquetFileFormat()
