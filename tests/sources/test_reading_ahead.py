"""How much of Parquet files is decoded ahead: a limit in bytes, and errors in their turn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.sources.files import DatasetFiles

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


def opened(monkeypatch, way):
    """Names of the files that have been opened in a way, as they are."""
    names, original = [], getattr(DatasetFiles, way)

    def spied(self, fragment, *arguments):
        names.append(fragment.path.rpartition("/")[2])
        return original(self, fragment, *arguments)

    monkeypatch.setattr(DatasetFiles, way, spied)
    return names


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (2**26, pa.cpu_count() + 1)])
def test_files_are_opened_ahead_within_the_limit(limit, expected, folder, monkeypatch):
    monkeypatch.setattr("lwcs.sources.files._AHEAD", limit)
    names = opened(monkeypatch, "_whole")
    batches = lwcs.scan(folder, columns=["a", "b"]).batches()
    path, _ = next(batches)
    assert path.endswith("0.parquet")
    assert len(names) == min(expected, FILES)
    batches.close()


def test_text_that_is_not_wanted_does_not_make_row_groups_large(folder, monkeypatch):
    monkeypatch.setattr("lwcs.sources.files._SMALL_GROUP", ROWS * 16)
    paged = opened(monkeypatch, "_paged")
    source = lwcs.scan(folder, columns=["a", "b"])
    assert sum(batch.n_rows for _, batch in source.batches()) == FILES * ROWS
    assert not paged
    source.keep(["text"])
    assert sum(batch.n_rows for _, batch in source.batches()) == FILES * ROWS
    assert len(paged) == FILES


def test_batches_of_large_row_groups_are_limited_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.files._SMALL_GROUP", 2**16)
    X = np.random.default_rng(0).random((2_000, 64))
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(64)}), tmp_path / "x.parquet")
    source = lwcs.scan(tmp_path / "x.parquet")
    assert max(batch.n_rows for _, batch in source.batches()) == 2**16 // (64 * 8)
    given = lwcs.scan(tmp_path / "x.parquet", batch_size=700)
    assert max(batch.n_rows for _, batch in given.batches()) == 700


def test_an_error_of_opening_comes_after_the_rows_before_it(folder, monkeypatch):
    original = DatasetFiles._plan

    def broken(self, fragment, *arguments):
        if fragment.path.endswith("1.parquet"):
            raise OSError("the disk is gone")
        return original(self, fragment, *arguments)

    source = lwcs.scan(folder, columns=["a", "b"])
    monkeypatch.setattr(DatasetFiles, "_plan", broken)
    batches = source.batches()
    assert next(batches)[0].endswith("0.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet' cannot be read.*the disk is gone"):
        list(batches)
