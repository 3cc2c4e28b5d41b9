"""A kill or a full disk leaves the old file or none, never half of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.faults.commands import complete, kill_at, start, write_rows


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    write_rows(folder / "rows", 4, 100_000, 16)
    rows = str(folder / "rows")
    complete(
        "fit", rows, "-k", "50", "--size", "2000", "--seed", "1", "-o", str(folder / "m.parquet")
    )
    return folder


def commands(work: Path, out: Path) -> dict[str, list[str]]:
    rows = str(work / "rows")
    return {
        "build": ["build", rows, "--size", "2000", "--seed", "1", "-o", str(out)],
        "fit": ["fit", rows, "-k", "50", "--size", "2000", "--seed", "1", "--polish", "1", "-o",
                str(out)],
        "assign": ["assign", rows, str(work / "m.parquet"), "-o", str(out)],
    }  # fmt: skip


def kills(work: Path, out: Path, name: str, times: int) -> int:
    """Kill a command at random moments; each time the old file is whole. Return how many hit."""
    arguments = commands(work, out)[name]
    lasts = complete(*arguments)
    before, hits = pq.read_table(out), 0
    rng = np.random.default_rng(0)
    for _ in range(times):
        hits += kill_at(float(rng.uniform(0.0, lasts)), *arguments)
        # The rows: timings in the metadata differ from run to run.
        assert pq.read_table(out).equals(before)
    out.unlink()
    for _ in range(times):
        hits += kill_at(float(rng.uniform(0.0, lasts)), *arguments)
        if out.exists():
            assert pq.read_table(out).equals(before)
            out.unlink()
    complete(*arguments)
    assert pq.read_table(out).equals(before)
    return hits


def test_killed_it_leaves_the_old_file_or_none(work, tmp_path):
    # `assign` writes while it reads, for the longest time; the soak test kills every command.
    assert kills(work, tmp_path / "out.parquet", "assign", 1) >= 1


@pytest.mark.soak
@pytest.mark.parametrize("name", ["build", "fit", "assign"])
def test_killed_at_fifty_random_moments(work, name, tmp_path):
    hits = kills(work, tmp_path / "out.parquet", name, 35)
    print(f"\n{name}: killed while it ran {hits} times of 70")
    assert hits >= 50


@pytest.mark.parametrize("name", ["build", "fit", "assign"])
def test_a_full_disk_leaves_the_old_file(work, name, tmp_path):
    out = tmp_path / "out.parquet"
    arguments = commands(work, out)[name]
    out.write_text("old")
    child = start(*arguments, most_bytes=2_000)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 1, said
    assert "Traceback" not in said
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.soak
def test_ten_thousand_small_files(tmp_path):
    write_rows(tmp_path / "many", 10_000, 20, 4)
    complete("build", str(tmp_path / "many"), "--size", "1000", "--seed", "1", "-o",
             str(tmp_path / "c.parquet"))  # fmt: skip
    X = np.vstack([pq.read_table(p).to_pandas() for p in sorted((tmp_path / "many").iterdir())])
    found = lwcs.load(tmp_path / "c.parquet")
    assert found.n_samples == 200_000
    expected = lwcs.build(X, 1000, passes=2, random_state=1)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.weights, expected.weights)
