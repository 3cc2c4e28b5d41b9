"""The same rows in any number of Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 1_000


def points(dtype: str = "float32", rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(0).standard_t(3, size=(rows, 4)).astype(dtype)


def table(X: np.ndarray) -> pa.Table:
    return pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})


def write_parts(folder: Path, X: np.ndarray, cuts: list[int], **options: object) -> str:
    folder.mkdir()
    for i, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(X)], strict=True)):
        pq.write_table(table(X[a:b]), folder / f"{i:03}.parquet", **options)
    return str(folder)
