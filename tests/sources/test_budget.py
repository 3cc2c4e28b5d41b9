"""Memory of rows on their way: bounded by the limit, whatever the threads, with the same bits."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.sources import base
from lwcs.sources.blocks import Budget


@pytest.mark.parametrize("threads", [1, 2, 16, 64])
@pytest.mark.parametrize("size", [1, 10**6, 20 * 10**6, 80 * 10**6])
def test_pieces_on_their_way_fit_into_a_quarter_of_the_limit(threads, size):
    flight = Budget(10**9).flight(size, threads)
    assert flight is not None
    # One more is being cut.
    assert (1 + flight.ahead + flight.at_once) * size <= 250 * 10**6
    assert flight.ahead >= 1
    assert 1 <= flight.at_once <= 2 * threads


def test_pieces_of_which_not_three_fit_are_told():
    assert Budget(120).flight(11, 2) is None
    assert Budget(120).flight(10, 2) is not None
    assert Budget.least(10) == 120


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A file of 20 partitions of 8 blocks each, and its rows."""
    monkeypatch.setattr(base, "PARTITION_ROWS", 512)
    monkeypatch.setattr(base, "_BLOCK_VALUES", 64 * 5)
    X = np.random.default_rng(0).standard_normal((10_000, 5))
    table = pa.table({f"x{j}": X[:, j] for j in range(5)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
    return str(tmp_path / "rows.parquet")


class Watched:
    """A task that notes which threads run it."""

    def __init__(self):
        self.threads = set()

    def __call__(self, blocks, partition):
        del partition
        total = 0.0
        for block in blocks:
            self.threads.add(threading.get_ident())
            total += float(block.points.sum())
        return total


@pytest.mark.parametrize("passes", [1, 2])
def test_any_limit_gives_the_same_coreset(rows, passes):
    expected = lwcs.build(rows, 100, random_state=0, passes=passes, n_jobs=4)
    for limit in (16_000, 70_000, 1_000_000):
        source = lwcs.scan(rows)
        source.budget = Budget(limit)
        assert lwcs.build(source, 100, random_state=0, passes=passes, n_jobs=4) == expected


def test_partitions_that_are_too_large_are_read_block_by_block(rows):
    source, whole = lwcs.scan(rows), lwcs.scan(rows)
    source.budget = Budget(16_000)
    assert source.budget.flight(512 * 5 * 8, 4) is None
    streamed, task = Watched(), Watched()
    assert list(source.gather(streamed, n_jobs=4)) == list(whole.gather(task, n_jobs=4))
    assert len(streamed.threads) == 1


def test_a_reader_ends_with_the_task_that_fails(rows):
    source = lwcs.scan(rows)
    source.budget = Budget(16_000)

    def fail(blocks, partition):
        next(iter(blocks))
        raise RuntimeError(f"in {partition}")

    with pytest.raises(RuntimeError, match="in 0"):
        list(source.gather(fail))
    assert not [t for t in threading.enumerate() if t.name == "lwcs-read"]


def test_too_little_memory_says_how_much_it_takes(rows):
    with pytest.raises(ValueError, match=r"too little to read 5 columns.*pass memory_limit=\d+MB"):
        lwcs.scan(rows, memory_limit="1KB")


@pytest.mark.parametrize("limit", ["much", "12XB", -5, 0, True, 1.5, "", []])
def test_what_is_not_an_amount_of_memory_is_refused(rows, limit):
    with pytest.raises(ValueError, match="is not an amount of memory"):
        lwcs.scan(rows, memory_limit=limit)


def test_wide_row_groups_are_read_whole_some_columns_at_a_time(tmp_path):
    """In the order of the columns, and also where one is called like a field of another."""
    X = np.random.default_rng(0).standard_normal((3_000, 80))
    names = ["a.b", *(f"x{j}" for j in range(78)), "a"]
    table = pa.table(dict(zip(names, X.T, strict=True)))
    pq.write_table(table, tmp_path / "wide.parquet", row_group_size=700)
    source = lwcs.scan(str(tmp_path / "wide.parquet"), memory_limit="200MB")
    rows = np.concatenate([pending.block().points for pending in source.pending()])
    assert np.array_equal(rows, X)


def test_the_limit_that_a_refusal_names_is_accepted(tmp_path):
    X = np.random.default_rng(0).standard_normal((20_000, 60), dtype=np.float32)
    table = pa.table({f"x{j}": X[:, j] for j in range(60)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=10_000)
    with pytest.raises(ValueError, match="pass memory_limit=") as refused:
        lwcs.scan(str(tmp_path / "rows.parquet"), memory_limit="1MB")
    named = str(refused.value).split("pass memory_limit=")[1].split(" ")[0]
    lwcs.scan(str(tmp_path / "rows.parquet"), memory_limit=named)
