"""`lwcs warmup`: compile the kernels ahead, for example when an image is built."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import lwcs
from lwcs.cli import options
from lwcs.cli.logs import write_result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from lwcs.arrays.types import DenseRows, FloatArray


@click.command()
@options.log
def warmup() -> None:
    """Compile the kernels, so that no later job waits for it.

    Without this, the first job in a new environment compiles for about 20 seconds. Run it where
    an image is built, as the user who runs the jobs; NUMBA_CACHE_DIR names another folder for what
    is compiled.
    """
    start = time.perf_counter()
    os.environ["LWCS_KERNEL"] = "compiled"  # small data would not load them
    with warnings.catch_warnings(action="ignore"), tempfile.TemporaryDirectory() as folder:
        for data in _every_kind(Path(folder)):
            model = lwcs.CoresetKMeans(3, random_state=0).fit(data)
            lwcs.CoresetKMeans(20, polish=1, coreset_size=1_000, random_state=0).fit(data)
            lwcs.certify(data, model)
            model.predict(data)
            for method in ("lightweight", "sensitivity"):
                lwcs.build(data, 200, method=method, n_clusters=3, random_state=0)
    write_result(
        f"the kernels are ready ({time.perf_counter() - start:.0f} s)",
        seconds=time.perf_counter() - start,
    )


def _every_kind(folder: Path) -> Iterator[Any]:
    """Rows of every kind that kernels distinguish: dense and sparse, arrays and columns."""
    rows: FloatArray = np.random.default_rng(0).standard_normal((3_000, 6)) ** 3
    yield np.tile(rows, (1, 64)).astype(np.float32)
    for dtype in (np.float32, np.float64):
        own: DenseRows = rows.astype(dtype)
        yield own
        yield sp.csr_array(np.where(own > 0, own, 0).astype(dtype))
        file = folder / f"{np.dtype(dtype)}.parquet"
        pq.write_table(pa.table({f"x{j}": own[:, j] for j in range(own.shape[1])}), file)
        yield str(file)
