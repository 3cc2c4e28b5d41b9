"""Rows in Parquet, Feather and CSV files, larger than memory, through pyarrow.

Files give their rows in the order of their names. Memory grows neither with the size of files nor
with that of row groups: `parquet`, `feather` and `csv` read them in parts. The size and
modification time of every file are compared before and after it is read (`change_detection`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lwcs.sources.arrow_rows import ArrowBatch, first_values
from lwcs.sources.base import NO_ROWS
from lwcs.sources.columns import Selection, is_excluded, matched, some_names
from lwcs.sources.files.change_detection import Stamps, stamps_of
from lwcs.sources.files.csv import DelimitedFiles, with_text
from lwcs.sources.files.feather import FeatherFiles
from lwcs.sources.files.parquet import ParquetFiles
from lwcs.sources.files.parts import Files
from lwcs.sources.remote.prefetch import Store
from lwcs.sources.scan_options import check_unique
from lwcs.sources.sequence import SequenceSource
from lwcs.storage.locations import explaining, some

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lwcs.sources.blocks import Batch, Budget
    from lwcs.sources.remote.paths import Found
    from lwcs.sources.scan_options import ScanOptions


class FileSource(SequenceSource):
    """Some columns of Parquet, Feather or CSV files."""

    def __init__(self, found: Found, options: ScanOptions) -> None:
        super().__init__()
        self.found, self._drop, self._exclude = found, options.drop, options.exclude
        self._batch_rows = options.batch_size
        stamps = stamps_of(found)
        store = None if found.is_local else Store(found.filesystem, stamps)
        self._stamps = Stamps(found.filesystem, stamps, store, found.listings)
        self._files: Files
        with explaining(found.paths):
            if found.kind == "csv":
                self._files = DelimitedFiles(
                    found, options.text, store, dates=options.dates is not None
                )
            elif found.kind == "parquet":
                self._files = ParquetFiles.found(found, store)
            else:
                self._files = FeatherFiles(found, store)
            # Names are decoded here, where an error in them names the file.
            _ = self._files.schema.names
        schema, keys = self._files.schema, self._files.keys
        self._use(Selection.of(schema, options, self._look, keys, some(found.paths)))
        self.scale_by(options.scale)
        self.n_rows = self._files.n_rows
        if self.n_rows == 0:
            raise ValueError(f"{NO_ROWS} (in {some(found.paths)})")

    def reading_bytes(self, budget: Budget) -> int:
        """Memory that reading takes however little is read at once."""
        return self._files.reading_bytes(self._columns_to_read(), budget)

    def _named(self) -> str:
        return f", in {some(self.found.paths)}"

    def _look(self, name: str) -> list[Any]:
        """The first values of a column."""
        with explaining(self.found.paths):
            files = self._files.open([name], self.budget, self._batch_rows)
            return first_values((batch for part in files for batch in part.rows), name)

    @property
    def suggested(self) -> Mapping[str, str]:
        """Options of `lwcs.scan` with which columns of text would be numbers."""
        return self._files.suggested if isinstance(self._files, DelimitedFiles) else {}

    def keep(self, columns: Sequence[str]) -> None:
        """Keep columns beside the rows; those of CSV that are not features stay text."""
        assert self.selection is not None
        names = matched(columns, self._files.schema.names, "keep")
        if isinstance(self._files, DelimitedFiles):
            others = [name for name in names if name not in self.selection.columns_to_read]
            self._files.schema = with_text(self._files.schema, others)
        self.kept = pa.schema([self._files.schema.field(name) for name in names])
        if self._memory_limit is not None:
            self.limit_memory(self._memory_limit)

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Read the files in order, and check that they have not changed."""
        selection = self.selection
        assert selection is not None
        pool = pa.default_memory_pool()
        with explaining(self.found.paths):
            files = self._files.open(self._columns_to_read(), self.budget, self._batch_rows)
            for part in files:
                path, done = part.path, part.first_row
                with self._stamps.reading(path):
                    self._check_columns(path, part.names, selection)
                    self._stamps.before(path)
                    for batch in part.rows:
                        # Arrow itself would read past the end of a buffer that is too short.
                        batch.validate()
                        if batch.num_rows:
                            kept = self._beside(batch)
                            yield path, ArrowBatch(batch, selection, self._drop, path, done, kept)
                            done += batch.num_rows
                            # Arrow's allocator keeps what was freed for a while: with several
                            # threads, up to twice what is in use.
                            pool.release_unused()
                    self._stamps.after(path, part.last)
            self._stamps.finish()

    def _check_columns(self, path: str, names: list[str], selection: Selection) -> None:
        check_unique(names, repr(path))
        there = {*names, *self._files.keys}
        for name in self._columns_to_read():
            if name not in there:
                parameter = "columns" if name in selection.columns_to_read else "keep"
                raise ValueError(
                    f"{path!r} has no column {name!r}, but other files have it; its columns are "
                    f"{some_names(names)}: leave out the file, or select other columns with "
                    f"{parameter}=[…]"
                )
        new = self._files.numbers_beyond(path, names) if selection.by_default else []
        if new := [name for name in new if not is_excluded(name, self._exclude)]:
            raise ValueError(
                f"{path!r} has a column {new[0]!r} of numbers, but files before it do not; leave "
                "out the file, or select columns that all files have with columns=[…]"
            )
