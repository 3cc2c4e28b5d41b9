"""build(): against one bare read of the data, against textbook code, and in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import lwcs
from benchmarks.measure import Result, interleaved
from lwcs.runtime.parallel import usable_cores

SIZE = 10_000
DENSE = (
    (2_000_000, 74, 1.6, 12.0),
    (8_000_000, 8, 2.5, 6.0),
    (1_000_000, 90, 4.0, 6.0),
    (200_000, 784, 4.0, 6.0),
)


def bare_read(X: np.ndarray) -> None:
    """The limit: `np.max` on the same threads."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(lambda a: X[a : a + 65_536].max(), range(0, len(X), 65_536)))


def textbook(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1 in plain NumPy."""
    mean = X.mean(axis=0)
    distances = ((X - mean) ** 2).sum(axis=1)
    q = 0.5 / len(X) + 0.5 * distances / distances.sum()
    rows = np.random.default_rng(0).choice(len(X), SIZE, p=q / q.sum())
    return X[rows], 1.0 / (SIZE * q[rows])


def textbook_sparse(X: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """Algorithm 1 for CSR rows: ‖x − μ‖² = ‖x‖² − 2x·μ + ‖μ‖²."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    distances = np.asarray(X.power(2).sum(axis=1)).ravel() - 2.0 * (X @ mean) + mean @ mean
    q = 0.5 / X.shape[0] + 0.5 * distances / distances.sum()
    rows = np.random.default_rng(0).choice(X.shape[0], SIZE, p=q / q.sum())
    return X[rows], 1.0 / (SIZE * q[rows])


def benchmarks() -> Iterator[Result]:
    """Every line of this table."""
    for rows, columns, most, least in DENSE:
        X = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
        times = interleaved(
            9,
            ours=lambda X=X: lwcs.build(X, SIZE, random_state=0),
            read=lambda X=X: bare_read(X),
            book=lambda X=X: textbook(X),
        )
        ours, read, book = times["ours"], times["read"], times["book"]
        what = "build of float32"
        yield Result(
            what, rows, columns, ours, "a bare read", read, ours / read, f"≤ {most} ×",
            ours / read <= most,
        )  # fmt: skip
        yield Result(
            what, rows, columns, ours, "textbook NumPy", book, book / ours, f"≥ {least} × faster",
            book / ours >= least,
        )  # fmt: skip
    X = sp.random_array((200_000, 10_000), density=1e-3, rng=np.random.default_rng(0), format="csr")
    times = interleaved(
        9, ours=lambda: lwcs.build(X, SIZE, random_state=0), book=lambda: textbook_sparse(X)
    )
    ours, book = times["ours"], times["book"]
    yield Result(
        "build of CSR, 0.1 %", *X.shape, ours, "textbook scipy", book, book / ours, "≥ 2 × faster",
        book / ours >= 2.0,
    )  # fmt: skip
    yield from memory()


def memory() -> Iterator[Result]:
    """Peak memory beyond the data, in a separate process, and its limit."""
    for rows, columns in ((8_000_000, 8), (2_000_000, 74)):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.build", str(rows), str(columns)],
            capture_output=True,
            text=True,
            check=True,
        )
        above = float(done.stdout)
        allowed = rows + SIZE * (columns * 4 + 24) + 64 * 2**20
        yield Result(
            "peak memory above X, MB", rows, columns, above / 1e6, "allowed", allowed / 1e6,
            above / allowed, "≤ 1 byte a row + coreset + 64 MB", above <= allowed,
        )  # fmt: skip


def _peak_above(rows: int, columns: int) -> int:
    X = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    # Libraries and kernels are loaded before memory is counted; they are not part of a build.
    lwcs.build(X[:100_000], 10, random_state=0)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = _status("VmRSS")
    lwcs.build(X, SIZE, random_state=0)
    return _status("VmHWM") - before


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(key)))


if __name__ == "__main__":
    print(_peak_above(int(sys.argv[1]), int(sys.argv[2])))
