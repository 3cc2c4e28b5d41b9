"""Fixtures of all tests: real data where it is available, kernels, small partitions."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

# Loaded before any fixture changes what they import from each other, or they would keep it.
import lwcs.coreset.streaming_io
import lwcs.sources.memory.sparse  # noqa: F401

# A slow machine is no failure, and every run tries the same examples.
settings.register_profile("lwcs", max_examples=80, deadline=None, derandomize=True)
settings.load_profile("lwcs")

# Started in the background or by nohup, a process ignores these, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# These helpers show the values of a failed assertion as test modules do.
pytest.register_assert_rewrite("tests.statistical.verdicts", "tests.engines.sameness")


@pytest.fixture(autouse=True)
def _close_figures():
    """Close what a test has drawn: matplotlib keeps figures, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def kdd() -> np.ndarray:
    """KDD Cup 2004 protein homology, raw features, 145,751 × 74."""
    return _features("kdd_bio_train.parquet", drop=("block_id", "example_id", "target"))


@pytest.fixture(scope="session")
def mel() -> np.ndarray:
    """Power of spoken digits in 40 mel bands, 77,520 × 40, all > 0."""
    return _features("fsdd_mel40.parquet", drop=("digit", "speaker", "take"))


@pytest.fixture(scope="session")
def news() -> sp.csr_array:
    """Word counts of 20 Newsgroups, 18,846 × 17,780, sparse; 41 rows are empty."""
    return sp.csr_array(sp.load_npz(real_file("news20_counts_csr.npz")))


def real_file(name: str) -> Path:
    folder = os.environ.get("LWCS_DATA")
    if folder is None:
        pytest.skip("LWCS_DATA names no folder of real data")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"{name} is not in the folder that LWCS_DATA names")
    return path


def _features(name: str, drop: tuple[str, ...]) -> np.ndarray:
    import pyarrow.parquet as pq

    table = pq.read_table(real_file(name))
    table = table.drop_columns([column for column in drop if column in table.column_names])
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


@pytest.fixture(params=["numpy", "native"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test once with each kernel."""
    monkeypatch.setenv("LWCS_KERNEL", request.param)
    return request.param


@pytest.fixture
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> int:
    """Cut local rows every 64, so that small data has many partitions."""
    monkeypatch.setattr("lwcs.sources.base.PARTITION_ROWS", 64)
    monkeypatch.setattr("lwcs.sources.memory.sparse.PARTITION_ROWS", 4 * 64)
    return 64
