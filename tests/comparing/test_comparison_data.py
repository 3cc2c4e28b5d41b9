"""Loaders of the paper's original files: the right columns, and a word where rows are missing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

import lwcs
from lwcs.comparing.comparison_data import KNOWN, read_into_memory, read_known


def test_kdd_from_its_original_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 74)).round(2)
    lines = ["\t".join([str(i // 10), str(i), "0", *map(str, row)]) for i, row in enumerate(X)]
    (tmp_path / "bio_train.dat").write_text("\n".join(lines) + "\n")
    title, rows = read_known("KDD", tmp_path / "bio_train.dat")
    np.testing.assert_array_equal(rows, X)
    assert title == "KDD (0k of 146k rows)"


def test_song_from_its_original_file_without_the_year(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 90)).round(3)
    lines = [",".join(["2001", *map(str, row)]) for row in X]
    (tmp_path / "YearPredictionMSD.txt").write_text("\n".join(lines) + "\n")
    np.testing.assert_array_equal(read_known("SONG", tmp_path / "YearPredictionMSD.txt")[1], X)


def test_rna_from_its_three_libsvm_files(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 8)).round(4)
    X[:, 7] = 0.0  # a column without a number in any line
    for name, part in (("cod-rna", X[:20]), ("cod-rna.t", X[20:50]), ("cod-rna.r", X[50:])):
        dump_svmlight_file(part, np.ones(len(part)), str(tmp_path / name), zero_based=False)
    for path in (tmp_path, tmp_path / "cod-rna"):
        np.testing.assert_allclose(read_known("RNA", path)[1], X)
    (tmp_path / "cod-rna.r").unlink()
    np.testing.assert_allclose(read_known("RNA", tmp_path)[1], X[:50])


def test_a_table_leaves_out_what_is_no_feature(tmp_path):
    table = {f"x{i}": np.arange(5.0) + i for i in range(8)} | {"label": [1] * 5, "part": ["a"] * 5}
    pq.write_table(pa.table(table), tmp_path / "rna.parquet")
    title, rows = read_known("RNA", tmp_path / "rna.parquet")
    assert rows.shape == (5, 8)
    assert "of 489k rows" in title


def test_all_rows_need_no_remark(tmp_path, monkeypatch):
    monkeypatch.setitem(KNOWN, "CSN", KNOWN["CSN"]._replace(rows=3))
    np.save(tmp_path / "csn.npy", np.zeros((3, 17)))
    assert read_known("CSN", tmp_path / "csn.npy")[0] == "CSN"


def test_other_files_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 5)))
    with pytest.raises(ValueError, match="the right file"):
        read_known("KDD", tmp_path / "x.npy")
    with pytest.raises(ValueError, match="did you mean 'KDD'"):
        read_known("KDDD", tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_known("KDD", tmp_path / "nowhere.parquet")
    with pytest.raises(FileNotFoundError, match="none of cod-rna"):
        read_known("RNA", tmp_path)


def test_rows_in_memory_are_those_that_are_not_dropped(tmp_path, small_partitions):
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[[5, 70], 1] = np.nan
    weights = np.arange(300.0)
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "w": weights})
    pq.write_table(table, tmp_path / "x.parquet")
    features, there = ["x", "y"], np.isfinite(X[:, 1])
    source = lwcs.scan(tmp_path / "x.parquet", columns=features, weight="w", missing="drop")
    rows = read_into_memory(source)
    np.testing.assert_array_equal(rows.read(0, rows.n_rows), X[there])
    np.testing.assert_array_equal(rows.weights, weights[there])
    assert rows.dropped == 2
    source = lwcs.scan(tmp_path / "x.parquet", columns=features, missing="drop")
    assert read_into_memory(source).weights is None
    with pytest.raises(ValueError, match=r"row 5, column 1 \('y'\) of .*x.parquet is nan"):
        read_into_memory(lwcs.scan(tmp_path / "x.parquet", columns=features))
