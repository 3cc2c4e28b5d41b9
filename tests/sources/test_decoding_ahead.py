"""How much of Parquet files is decoded ahead: a limit in bytes, and errors in their turn."""

from __future__ import annotations

import os
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.sources.files.parquet import ParquetFiles

FILES, ROWS = 6, 3_000


@pytest.fixture
def folder(tmp_path):
    """Files of two columns of numbers, and one of text that is ten times as large."""
    rng = np.random.default_rng(0)
    for i in range(FILES):
        columns = {"a": rng.random(ROWS), "b": rng.random(ROWS)}
        text = pa.array([f"{j:0160}" for j in rng.integers(0, 2**60, ROWS)])
        pq.write_table(pa.table(columns | {"text": text}), tmp_path / f"{i}.parquet")
    return tmp_path


@pytest.fixture
def begun(monkeypatch):
    """Names of the files whose rows are asked for, as they are."""
    names, original = [], ParquetFiles._rows

    def spied(self, fragment, *arguments):
        names.append(fragment.path.rpartition("/")[2])
        yield from original(self, fragment, *arguments)

    monkeypatch.setattr(ParquetFiles, "_rows", spied)
    return names


def first_batch(source, begun, expected):
    """Read the first batch; wait until as many files as expected are begun, and close them."""
    begun.clear()
    batches = source.batches()
    path, _ = next(batches)
    assert path.endswith("0.parquet")
    for _ in range(1_000):
        if len(begun) >= expected:
            break
        time.sleep(0.01)
    batches.close()
    assert sorted(begun) == [f"{i}.parquet" for i in range(expected)]


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (ROWS * 16 * 3, 4), (2**26, FILES)])
def test_files_are_read_ahead_within_the_limit(limit, expected, folder, begun, monkeypatch):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.ahead", limit)
    first_batch(lwcs.scan(folder, columns=["a", "b"]), begun, expected)


def test_text_that_is_not_wanted_does_not_make_row_groups_large(folder, begun, monkeypatch):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", ROWS * 16)
    source = lwcs.scan(folder, columns=["a", "b"])
    first_batch(source, begun, FILES)
    source.keep(["text"])
    first_batch(source, begun, 1)


def test_batches_of_large_row_groups_are_limited_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.batch", 2**16)
    # Page by page, not as a whole.
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", 0)
    monkeypatch.setattr("lwcs.sources.files.parquet._HELD", 10**9)
    X = np.random.default_rng(0).random((2_000, 64))
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(64)}), tmp_path / "x.parquet")
    source = lwcs.scan(tmp_path / "x.parquet")
    assert max(batch.n_rows for _, batch in source.batches()) == 2**16 // (64 * 8)
    given = lwcs.scan(tmp_path / "x.parquet", batch_size=700)
    assert max(batch.n_rows for _, batch in given.batches()) == 700


def test_row_numbers_go_on_from_part_to_part(tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", 8 * 250)
    column = pa.array(np.arange(1_000.0), mask=np.arange(1_000) == 777)
    pq.write_table(pa.table({"a": column}), tmp_path / "x.parquet", row_group_size=100)
    source = lwcs.scan(tmp_path / "x.parquet")
    assert [batch.first_row for _, batch in source.batches()] == list(range(0, 1_000, 200))
    with pytest.raises(ValueError, match="missing value in row 777 of"):
        lwcs.build(source, 10)


def test_the_error_of_a_damaged_file_comes_after_the_rows_before_it(folder):
    source = lwcs.scan(folder, columns=["a", "b"])
    damaged, stamp = folder / "1.parquet", (folder / "1.parquet").stat()
    data = bytearray(damaged.read_bytes())
    data[4:2_000] = b"\xff" * 1_996
    damaged.write_bytes(data)
    os.utime(damaged, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    batches = source.batches()
    assert next(batches)[0].endswith("0.parquet")
    with pytest.raises(ValueError, match=r"/1\.parquet' cannot be read"):
        list(batches)


def test_an_empty_file_is_read_too(tmp_path):
    schema = pa.schema([("a", pa.float64())])
    pq.write_table(schema.empty_table(), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": np.arange(5.0)}), tmp_path / "1.parquet")
    assert lwcs.scan(tmp_path).n_rows == 5
    assert [batch.n_rows for _, batch in lwcs.scan(tmp_path).batches()] == [5]
