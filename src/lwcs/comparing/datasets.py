"""Readers for the data sets of the paper (and two more), and for any numeric table.

Features are raw, as in the paper. Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.foundation.checks import check_choice
from lwcs.sources.array_files import open_array_file

if TYPE_CHECKING:
    import pyarrow as pa

    from lwcs.foundation.types import DenseRows, Rows


class Known(NamedTuple):
    """A data set of the paper: its shape, and which columns are not features."""

    rows: int
    features: int
    others: tuple[str, ...] = ()
    """Columns that are not features, if it is read from a table."""
    first: int = 0
    """Index of the first feature column, if it is read from a text file."""


KNOWN = {
    "KDD": Known(145_751, 74, ("block_id", "example_id", "target"), 3),
    "CSN": Known(80_000, 17),
    "SONG": Known(515_345, 90, ("year",), 1),
    "RNA": Known(488_565, 8, ("label", "part")),
    "covtype": Known(581_012, 54, ("cover_type",)),
    "GloVe": Known(100_000, 100, ("word",)),
}
_RNA_PARTS = ("cod-rna", "cod-rna.t", "cod-rna.r")


def read_known(name: str, path: str | Path) -> tuple[str, Rows]:
    """Read a data set of the paper; return its title, which tells if rows are missing, and rows."""
    check_choice(name, "--paper", tuple(KNOWN))
    known, file = KNOWN[name], Path(path)
    if name == "RNA" and (file.is_dir() or file.name in _RNA_PARTS):
        rows = _read_rna(file)
    elif file.suffix in (".dat", ".txt", ".csv"):
        rows = _read_text(file)[:, known.first :]
    else:
        rows = read_rows(file, known.others)
    if rows.shape[1] != known.features:
        raise ValueError(
            f"{str(file)!r} has {rows.shape[1]} features, but {name} has {known.features}; "
            "check that it is the right file"
        )
    if rows.shape[0] == known.rows:
        return name, rows
    return f"{name} ({rows.shape[0] / 1000:,.0f}k of {known.rows / 1000:,.0f}k rows)", rows


def read_rows(path: str | Path, others: tuple[str, ...] = ()) -> Rows:
    """Read a Parquet, .npy or sparse .npz file; columns that are not numeric are left out."""
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{str(file)!r} does not exist")
    if file.suffix in (".npy", ".npz"):
        return open_array_file(str(file))
    if file.suffix != ".parquet":
        raise ValueError(
            f"{str(file)!r} is not a supported file; pass a .parquet, .npy or sparse .npz file"
        )
    import pyarrow.parquet as pq

    return _numbers(pq.read_table(file), others)


def _numbers(table: pa.Table, others: tuple[str, ...]) -> DenseRows:
    import pyarrow as pa

    def numeric(kind: Any) -> bool:
        return pa.types.is_integer(kind) or pa.types.is_floating(kind)

    kept = [f.name for f in table.schema if numeric(f.type) and f.name not in others]
    if not kept:
        raise ValueError(f"no column is numeric; the columns are {', '.join(table.column_names)}")
    return np.stack([table[name].to_numpy() for name in kept], axis=1)


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
    return _numbers(table, ())


def _read_rna(path: Path) -> DenseRows:
    """Read those of the three LIBSVM files of cod-rna that exist."""
    from sklearn.datasets import load_svmlight_file

    folder = path if path.is_dir() else path.parent
    parts = [folder / name for name in _RNA_PARTS if (folder / name).exists()]
    if not parts:
        raise FileNotFoundError(f"none of {', '.join(_RNA_PARTS)} exists in {str(folder)!r}")
    rows = [load_svmlight_file(str(part), n_features=8)[0].toarray() for part in parts]
    return np.concatenate(rows)
