"""Object storage: building in two passes against two reads by pyarrow, at 30 ms per request.

Objects lie in a local server (`benchmarks.object_store`) in a process of its own, so that neither
side waits for the interpreter of the server.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lwcs
from benchmarks.measure import Result, interleaved
from benchmarks.object_store import BUCKET, Store, serving

LATENCY, MOST = 0.03, 1.3


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of rows in Parquet files."""

    files: int
    groups: int
    rows: int
    """Per row group."""
    columns: int

    def __str__(self) -> str:
        """The label of a line of the table."""
        return f"{self.files} × {self.groups} row groups of {self.rows:,}"

    def write(self, folder: Path) -> None:
        """Write the files."""
        folder.mkdir()
        rng = np.random.default_rng(0)
        for i in range(self.files):
            X = rng.standard_normal((self.groups * self.rows, self.columns))
            table = pa.table({f"x{j}": X[:, j] for j in range(self.columns)})
            pq.write_table(table, folder / f"{i:04}.parquet", row_group_size=self.rows)


LAYOUTS = {
    "few": Layout(2, 4, 5_000, 40),
    "many": Layout(100, 1, 2_000, 10),
    "large": Layout(1, 4, 200_000, 40),
}


def benchmarks() -> Iterator[Result]:
    """Every line of this table; the folder of the objects is removed again."""
    folder = Path(tempfile.mkdtemp(prefix="lwcs-bench-"))
    try:
        for name, layout in LAYOUTS.items():
            layout.write(folder / name)
        with serving(folder, LATENCY) as store:
            for name, layout in LAYOUTS.items():
                for by in ("pyarrow", "fsspec"):
                    yield from _reading(store, name, layout, by)
    finally:
        shutil.rmtree(folder)


def _reading(store: Store, name: str, layout: Layout, by: str) -> Iterator[Result]:
    counts = {}

    def build() -> None:
        store.requests()
        options: dict[str, Any] = {"storage_options": store.storage_options}
        if by == "pyarrow":
            options = {"filesystem": store.filesystem}
        source = lwcs.scan(f"s3://{BUCKET}/{name}", **options)
        lwcs.build(source, 1_000, passes=2, random_state=0)
        counts["ours"] = sum(store.requests().values())

    def read() -> None:
        filesystem: Any = store.filesystem
        if by == "fsspec":
            import s3fs

            # A new instance, without cached listings.
            filesystem = s3fs.S3FileSystem(**store.storage_options, skip_instance_cache=True)
        pq.read_table(f"{BUCKET}/{name}", filesystem=filesystem)
        counts["theirs"] = sum(store.requests().values())

    times = interleaved(5, ours=build, theirs=read)
    limit = 2 * times["theirs"]
    ratio = times["ours"] / limit
    yield Result(
        f"two-pass build of {layout} through {by}, {counts['ours']} requests",
        layout.files * layout.groups * layout.rows, layout.columns, times["ours"],
        f"two reads, {2 * counts['theirs']} requests", limit, ratio, f"≤ {MOST} ×", ratio <= MOST,
    )  # fmt: skip
