"""Rows that tests of commands share."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa

import lwcs

ROWS = 1_000


def rows_of(n: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) + 10 * rng.integers(0, 3, (n, 1))
    return pa.table(
        {
            "id": 2**60 + np.arange(n),
            "x": X[:, 0],
            "name": [f"n{i}" for i in range(n)],
            "y": X[:, 1],
        }
    )


def numbers(path: str) -> lwcs.Source:
    return lwcs.scan(path, columns=["x", "y"])


def arrow_stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    return sink.getvalue()
