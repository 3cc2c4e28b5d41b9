"""Files: building against reading alone, fitting against MiniBatchKMeans.partial_fit."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import lwcs
from benchmarks.measure import Result, interleaved

COLUMNS, GROUP = 32, 65_536
NAMES = [f"x{j}" for j in range(COLUMNS)]
FILES = int(os.environ.get("LWCS_BENCH_FILES", "30"))


@dataclass(frozen=True, slots=True)
class Kind:
    """How files are written, and the limit of a build of them, in multiples of a bare scan."""

    group: int
    most: float
    compression: str = "snappy"
    texts: int = 0
    """Number of columns of text, which are not read."""

    def __str__(self) -> str:
        """The label of a line of the table."""
        beside = f", {self.texts} unwanted columns of text" if self.texts else ""
        return f"row groups of {self.group:,}, {self.compression}{beside}"


KINDS = (
    Kind(GROUP, 1.3),
    Kind(1_000_000, 1.5),
    Kind(1_000_000, 1.5, "zstd"),
    Kind(1_000_000, 1.5, texts=3),
)


def benchmarks() -> Iterator[Result]:
    """Every line of this table: files of a million rows, in a folder that is removed again."""
    folder = Path(tempfile.mkdtemp(prefix="lwcs-bench-"))
    try:
        for kind in KINDS:
            yield from _reading(written(folder / "rows", 3, kind), kind)
            shutil.rmtree(folder / "rows")
        yield from _fitting(written(folder / "large", FILES, KINDS[0]))
    finally:
        shutil.rmtree(folder)


def written(folder: Path, files: int, kind: Kind) -> str:
    folder.mkdir()
    text = pa.array([f"row {i * 7_919 % 100_003} of a file" for i in range(1_000_000)])
    for i in range(files):
        table = pa.table(dict(zip(NAMES, rows_of(i).T, strict=True)))
        for j in range(kind.texts):
            table = table.append_column(f"text{j}", text)
        pq.write_table(
            table, folder / f"{i:03}.parquet", row_group_size=kind.group,
            compression=kind.compression,
        )  # fmt: skip
    return str(folder)


def bare_scan(folder: str) -> None:
    """The limit: every batch, decoded by pyarrow on its own threads and discarded."""
    for _ in ds.dataset(folder).to_batches(columns=NAMES):
        pass


def rows_of(file: int) -> np.ndarray:
    """Heavy-tailed clusters, a million rows per file."""
    rng = np.random.default_rng(file)
    centers = 6.0 * np.random.default_rng(99).standard_normal((60, COLUMNS), dtype=np.float32)
    shares = 1.0 / np.arange(1, 61)
    own = rng.choice(60, size=1_000_000, p=shares / shares.sum())
    X = rng.standard_normal((1_000_000, COLUMNS), dtype=np.float32)
    X *= np.sqrt(2.5 / rng.chisquare(2.5, size=(len(X), 1))).astype(np.float32)
    X += centers[own]
    return X


def _reading(folder: str, kind: Kind) -> Iterator[Result]:
    def build(passes: int) -> None:
        source = lwcs.scan(folder, columns=NAMES)
        lwcs.build(source, 10_000, passes=passes, random_state=0)

    times = interleaved(
        7,
        two=lambda: build(2),
        one=lambda: build(1),
        read=lambda: bare_scan(folder),
    )
    rows = 3_000_000
    for name, reads, most in (("two", 2, kind.most), ("one", 1, 1.4)):
        limit = reads * times["read"]
        ratio = times[name] / limit
        yield Result(
            f"{name}-pass build of Parquet, {kind}", rows, COLUMNS, times[name],
            f"reading it {reads} × with pyarrow", limit, ratio, f"≤ {most} ×", ratio <= most,
        )  # fmt: skip


def _fitting(folder: str) -> Iterator[Result]:
    from sklearn.cluster import MiniBatchKMeans

    start = time.perf_counter()
    model = lwcs.CoresetKMeans(
        100, coreset_size=20_000, polish=1, compute_labels=False, random_state=0
    ).fit(folder)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    peer = MiniBatchKMeans(100, random_state=0)
    for batch in ds.dataset(folder).to_batches(batch_size=GROUP):
        peer.partial_fit(np.stack([column.to_numpy() for column in batch.columns], axis=1))
    theirs = time.perf_counter() - start
    X = rows_of(0)
    costs = [_cost(X, m.cluster_centers_) for m in (model, peer)]
    rows = FILES * 1_000_000
    yield Result(
        "fit of Parquet, k = 100, polish = 1", rows, COLUMNS, ours,
        "MiniBatchKMeans.partial_fit", theirs, theirs / ours, "≥ 1 × faster", theirs >= ours,
    )  # fmt: skip
    yield Result(
        "its cost on a million rows, 1e6", rows, COLUMNS, costs[0] / 1e6,
        "MiniBatchKMeans.partial_fit", costs[1] / 1e6, costs[1] / costs[0], "lower",
        costs[0] <= costs[1],
    )  # fmt: skip


def _cost(X: np.ndarray, centers: np.ndarray) -> float:
    from lwcs.passes import euclidean_cost

    return euclidean_cost(lwcs.scan(X), centers)
