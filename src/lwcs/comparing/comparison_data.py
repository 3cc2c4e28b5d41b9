"""Data to compare on: data sets of the paper (and two more) by name, and any source in memory.

`lwcs compare --paper` reads the original files, which are neither tables nor have names of columns.
Features are raw, as in the paper. Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lwcs.arrays.checks import BadValueError, check_choice
from lwcs.arrays.rows import stack, stored_values
from lwcs.runtime.journal import Journal
from lwcs.sources import Block, LocalSource, scan
from lwcs.sources.base import gathered
from lwcs.sources.remote.paths import format_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import DenseRows, Rows
    from lwcs.runtime.progress import Callback
    from lwcs.sources import Source


class PaperDataset(NamedTuple):
    """A data set of the paper: its shape, and which columns are not features."""

    rows: int
    features: int
    others: tuple[str, ...] = ()
    """Columns that are not features, if it is read from a table."""
    first: int = 0
    """Index of the first feature column, if it is read from a text file."""


KNOWN = {
    "KDD": PaperDataset(145_751, 74, ("block_id", "example_id", "target"), 3),
    "CSN": PaperDataset(80_000, 17),
    "SONG": PaperDataset(515_345, 90, ("year",), 1),
    "RNA": PaperDataset(488_565, 8, ("label", "part")),
    "covtype": PaperDataset(581_012, 54, ("cover_type",)),
    "GloVe": PaperDataset(100_000, 100, ("word",)),
}
_RNA_PARTS = ("cod-rna", "cod-rna.t", "cod-rna.r")


def read_known(name: str, path: str | Path) -> tuple[str, Rows]:
    """Read a data set of the paper; return its title, which tells if rows are missing, and rows."""
    check_choice(name, "name", tuple(KNOWN))
    known, file = KNOWN[name], Path(path)
    if name == "RNA" and (file.is_dir() or file.name in _RNA_PARTS):
        rows = _read_rna(file)
    elif file.suffix in (".dat", ".txt", ".csv"):
        rows = _read_text(file)[:, known.first :]
    else:
        rows = _read_table(file, known.others)
    if rows.shape[1] != known.features:
        raise ValueError(
            f"{str(file)!r} has {rows.shape[1]} features, but {name} has {known.features}; "
            "check that it is the right file"
        )
    if rows.shape[0] == known.rows:
        return name, rows
    return f"{name} ({rows.shape[0] / 1000:,.0f}k of {known.rows / 1000:,.0f}k rows)", rows


def _read_table(file: Path, others: tuple[str, ...]) -> Rows:
    columns = None
    if others and format_of(str(file)) == "parquet" and file.is_file():
        import pyarrow.parquet as pq

        columns = [name for name in pq.read_schema(file).names if name not in others]
    rows = read_into_memory(scan(str(file), columns=columns))
    return rows.read(0, rows.n_rows)


def _read_text(file: Path) -> DenseRows:
    """Read a text file of numbers separated by commas or tabs."""
    from pyarrow import csv

    with file.open() as lines:
        delimiter = "," if "," in lines.readline() else "\t"
    table = csv.read_csv(
        file,
        read_options=csv.ReadOptions(autogenerate_column_names=True),
        parse_options=csv.ParseOptions(delimiter=delimiter),
    )
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _read_rna(path: Path) -> DenseRows:
    """Read those of the three LIBSVM files of cod-rna that exist."""
    from sklearn.datasets import load_svmlight_file

    folder = path if path.is_dir() else path.parent
    parts = [folder / name for name in _RNA_PARTS if (folder / name).exists()]
    if not parts:
        raise FileNotFoundError(f"none of {', '.join(_RNA_PARTS)} exists in {str(folder)!r}")
    rows = [load_svmlight_file(str(part), n_features=8)[0].toarray() for part in parts]
    return np.concatenate(rows)


def read_into_memory(
    source: Source, *, n_jobs: int | None = None, progress: bool | Callback = False
) -> LocalSource:
    """Read all rows that are not dropped; `dropped` of the result tells how many were."""
    if isinstance(source, LocalSource) and not source.dropped:
        return source
    parts = gathered(source, _kept, "reading", journal=Journal(progress), n_jobs=n_jobs)
    with source.explaining():
        blocks = [block for part in parts for block in part]
    weights = np.concatenate([each.weights for each in blocks]) if source.weighted else None
    read = scan(stack([each.points for each in blocks]), weight=weights)
    assert isinstance(read, LocalSource)
    read.dropped = source.dropped
    return read


def _kept(blocks: Iterator[Block], partition: int) -> list[Block]:
    """Check the rows of a partition, and leave out those that are dropped."""
    kept = []
    for block in blocks:
        if not np.isfinite(stored_values(block.points)).all():
            raise BadValueError.found_in(block.points, block.first_row, partition)
        if block.dropped is not None:
            rows = np.flatnonzero(~block.dropped)
            weights = None if block.weights is None else block.weights[rows]
            block = Block(block.points[rows], weights, block.first_row)
        kept.append(block)
    return kept
