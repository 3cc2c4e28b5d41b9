"""Files: the same rows give the same coreset however they are cut; bad files are named."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.sources.files.chunked import ChunkedSource
from tests.sources.parts import ROWS, points, table, write_parts


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize(("dtype", "batch"), [("float32", None), ("float64", 1), ("float32", 50)])
@pytest.mark.parametrize("cuts", [[], [10, 10, 700], list(range(37, 1000, 37))])
@pytest.mark.parametrize("row_group", [7, 64, 5000])
@pytest.mark.parametrize("small_group", [0, 2**25], ids=["paged", "whole groups"])
def test_the_same_rows_in_any_files_give_the_same_coreset(
    dtype, cuts, row_group, batch, small_group, tmp_path, monkeypatch
):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", small_group)
    X = points(dtype)
    folder = write_parts(tmp_path / "p", X, cuts, row_group_size=row_group)
    expected = lwcs.build(table(X), 60, passes=2, random_state=3)
    for jobs in (1, 3):
        source = lwcs.scan(folder, batch_size=batch)
        assert lwcs.build(source, 60, random_state=3, n_jobs=jobs) == expected


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("method", ["lightweight", "uniform"])
@pytest.mark.parametrize("batch", [1, 333])
def test_one_pass_does_not_mind_batches_files_or_threads(method, batch, tmp_path):
    X = points()
    whole = write_parts(tmp_path / "a", X, [])
    parts = write_parts(tmp_path / "b", X, [1, 500, 501], row_group_size=11)
    options = {"passes": 1, "random_state": 3, "method": method}
    expected = lwcs.build(whole, 60, **options)
    for jobs in (1, 3):
        source = lwcs.scan(parts, batch_size=batch)
        assert lwcs.build(source, 60, n_jobs=jobs, **options) == expected


@pytest.mark.usefixtures("small_partitions")
def test_weights_and_scale_work_as_in_memory(tmp_path):
    X, w = points(), np.random.default_rng(1).integers(0, 5, ROWS)
    both = table(X).append_column("w", pa.array(w))
    pq.write_table(both, tmp_path / "x.parquet", row_group_size=30)
    for scale in (None, "standard"):
        source = lwcs.scan(tmp_path / "x.parquet", weight="w", scale=scale)
        memory = lwcs.scan(both, weight="w", scale=scale)
        expected = lwcs.build(memory, 60, passes=2, random_state=3)
        assert lwcs.build(source, 60, random_state=3) == expected


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("method", ["sensitivity", "refined"])
def test_other_samplers_read_files_too(method, tmp_path):
    X = points()
    folder = write_parts(tmp_path / "p", X, [300])
    coreset = lwcs.build(folder, 60, method=method, n_clusters=3, random_state=0)
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])
    pieces = [X[a : a + 64] for a in range(0, ROWS, 64)]
    parts = lwcs.PartitionedSource([table(piece) for piece in pieces])
    same = lwcs.build(parts, 60, method=method, n_clusters=3, random_state=0)
    np.testing.assert_array_equal(same.indices, coreset.indices)


def write(kind: str, path: Path, X: np.ndarray) -> Path:
    if kind == "feather":
        pf.write_feather(table(X), path / "x.feather")
        return path / "x.feather"
    pc.write_csv(table(X), path / "x.csv")
    if kind == "csv":
        return path / "x.csv"
    packed = path / f"x.csv.{kind}"
    if kind == "gz":
        packed.write_bytes(gzip.compress((path / "x.csv").read_bytes()))
    else:
        with pa.CompressedOutputStream(str(packed), "zstd") as out:
            out.write((path / "x.csv").read_bytes())
    return packed


@pytest.mark.parametrize("kind", ["feather", "csv", "gz", "zst"])
def test_other_kinds_of_files(kind, tmp_path):
    X = points("float64")
    path = write(kind, tmp_path, X)
    assert lwcs.build(path, 60, random_state=3) == lwcs.build(
        table(X), 60, passes=2, random_state=3
    )


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "packed"])
def test_arrays_stay_in_their_files(save, tmp_path):
    X = points()
    expected = lwcs.build(X, 60, random_state=3)
    np.save(tmp_path / "x.npy", X)
    save(tmp_path / "x.npz", X)
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(X))
    assert lwcs.build(tmp_path / "x.npy", 60, random_state=3) == expected
    assert lwcs.build(tmp_path / "x.npz", 60, random_state=3) == expected
    assert isinstance(lwcs.scan(tmp_path / "x.npy"), ChunkedSource)
    assert isinstance(lwcs.scan(tmp_path / "x.npz"), ChunkedSource) == (save is np.savez)
    assert lwcs.scan(tmp_path / "s.npz").n_rows == ROWS
    np.savez(tmp_path / "two.npz", a=X, b=X)
    with pytest.raises(ValueError, match="the arrays a, b"):
        lwcs.scan(tmp_path / "two.npz")
    (tmp_path / "no.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read as an array"):
        lwcs.scan(tmp_path / "no.npy")


def test_globs_folders_lists_and_uris_name_files(tmp_path):
    X = points()
    folder = write_parts(tmp_path / "p", X, [300, 600])
    deep = tmp_path / "p" / "deep" / "er"
    deep.mkdir(parents=True)
    shutil.copy(tmp_path / "p" / "000.parquet", deep / "x.parquet")
    (tmp_path / "p" / "_hidden.parquet").write_text("not read")
    (tmp_path / "p" / "notes.txt").write_text("not read")
    for wish, rows in (
        (f"{folder}/*.parquet", ROWS),
        (f"{folder}/00[01].parquet", 600),
        (f"{folder}/**/*.parquet", 1300),
        (f"{folder}/*/*/x.parquet", 300),
        (folder, 1300),
        ([f"{folder}/002.parquet", f"{folder}/000.parquet"], 700),
        (f"file://{folder}/001.parquet", 300),
    ):
        assert lwcs.scan(wish).n_rows == rows, wish
    with pytest.raises(FileNotFoundError, match="no file matches"):
        lwcs.scan(f"{folder}/*.csv")
    with pytest.raises(ValueError, match="no file format that lwcs reads"):
        lwcs.scan(f"{folder}/notes.txt")
    pc.write_csv(table(X), tmp_path / "p" / "x.csv")
    with pytest.raises(ValueError, match="different formats"):
        lwcs.scan(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="has no file that ends in"):
        lwcs.scan(tmp_path / "empty")


def test_a_relative_glob(tmp_path, monkeypatch):
    write_parts(tmp_path / "p", points(), [300])
    monkeypatch.chdir(tmp_path)
    assert lwcs.scan("p/*.parquet").n_rows == ROWS
    monkeypatch.chdir(tmp_path / "p")
    assert lwcs.scan("*.parquet").n_rows == ROWS


@pytest.mark.parametrize("small_group", [0, 2**25], ids=["paged", "whole groups"])
def test_hive_partitions_are_columns_by_name(small_group, tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", small_group)
    rows = pa.table({"year": [2020] * 5 + [2021] * 5, "v": np.arange(10.0)})
    flavor = ds.partitioning(pa.schema([("year", pa.int32())]), flavor="hive")
    ds.write_dataset(rows, tmp_path / "h", format="parquet", partitioning=flavor)
    with pytest.warns(lwcs.ColumnWarning, match=r"'year' \(from the names of folders\)"):
        assert lwcs.scan(tmp_path / "h").feature_names == ("v",)
    coreset = lwcs.build(lwcs.scan(tmp_path / "h", columns=["v", "year"]), 200, random_state=0)
    assert {tuple(p) for p in coreset.points} == {(float(i), 2020.0 + (i > 4)) for i in range(10)}


def test_columns_by_name_pattern_or_all_that_are_numbers(tmp_path):
    X = points("float64")
    mixed = table(X).append_column("word", pa.array(["a"] * ROWS))
    pq.write_table(mixed, tmp_path / "x.parquet")
    path = tmp_path / "x.parquet"
    with pytest.warns(lwcs.ColumnWarning, match=r"'word' \(text\)"):
        source = lwcs.scan(path)
    assert source.feature_names == ("x0", "x1", "x2", "x3")
    assert source.skipped == ("word",)
    assert lwcs.scan(path, columns=["x3", "x[01]"]).feature_names == ("x3", "x0", "x1")
    assert lwcs.scan(path, columns="x2").feature_names == ("x2",)
    with pytest.raises(ValueError, match="did you mean"):
        lwcs.scan(path, columns=["x00"])
    with pytest.raises(ValueError, match="no column matches 'y\\*'"):
        lwcs.scan(path, columns=["y*"])
    with pytest.raises(TypeError, match="'word' holds text"):
        lwcs.scan(path, columns=["word"])
    pq.write_table(mixed.select(["word"]), tmp_path / "w.parquet")
    with pytest.raises(ValueError, match=r"no column of .* holds numbers"):
        lwcs.scan(tmp_path / "w.parquet")


@pytest.mark.parametrize("small_group", [0, 2**25], ids=["paged", "whole groups"])
def test_embeddings_in_a_column_of_lists(small_group, tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", small_group)
    X = points()
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4)
    pq.write_table(pa.table({"id": ["a"] * ROWS, "emb": column}), tmp_path / "x.parquet")
    with pytest.warns(lwcs.ColumnWarning, match=r"'id' \(text\)"):
        source = lwcs.scan(tmp_path / "x.parquet")
    assert source.feature_names == ("emb[0]", "emb[1]", "emb[2]", "emb[3]")
    coreset = lwcs.build(source, 60, random_state=3)
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])


def test_all_kinds_of_numbers(tmp_path):
    from decimal import Decimal

    columns = {
        "half": pa.array(np.arange(4, dtype=np.float16)),
        "small": pa.array([1, 2, 3, 4], pa.int8()),
        "large": pa.array([1, 2, 3, 4], pa.uint64()),
        "flag": pa.array([True, False, True, True]),
        "money": pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("0.5"), Decimal(1)]),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    coreset = lwcs.build(tmp_path / "x.parquet", 200, random_state=0)
    expected = [[0, 1, 1, 1, 1.5], [1, 2, 2, 0, 2.5], [2, 3, 3, 1, 0.5], [3, 4, 4, 1, 1.0]]
    np.testing.assert_array_equal(coreset.points, expected)


def with_gaps(path: Path) -> np.ndarray:
    X = points("float64")
    values = [pa.array(X[:, j]) for j in range(4)]
    values[1] = pa.array([None if i in (5, 700) else float(x) for i, x in enumerate(X[:, 1])])
    X[300, 2] = np.nan
    values[2] = pa.array(X[:, 2])
    rows = pa.table(dict(zip(["x0", "x1", "x2", "x3"], values, strict=True)))
    path.mkdir()
    pq.write_table(rows.slice(0, 200), path / "a.parquet")
    pq.write_table(rows.slice(200), path / "b.parquet")
    return X


@pytest.mark.usefixtures("small_partitions")
def test_missing_values_are_refused_by_file_row_and_column(tmp_path):
    with_gaps(tmp_path / "g")
    with pytest.raises(ValueError, match=r"'x1' has a missing value in row 5 of .*a\.parquet"):
        lwcs.build(tmp_path / "g", 50)
    with pytest.raises(ValueError, match=r"row 100, column 0 \('x2'\) of .*b\.parquet is nan"):
        lwcs.build(lwcs.scan(tmp_path / "g", columns=["x2", "x3"]), 50)


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("passes", [1, 2])
def test_rows_with_missing_values_are_dropped_and_counted(passes, tmp_path):
    X = with_gaps(tmp_path / "g")
    source = lwcs.scan(tmp_path / "g", missing="drop")
    coreset = lwcs.build(source, 400, passes=passes, random_state=0)
    kept = np.setdiff1d(np.arange(ROWS), [5, 300, 700])
    assert coreset.details["dropped"] == 3
    assert coreset.total_weight == ROWS - 3
    np.testing.assert_allclose(coreset.mean, X[kept].mean(axis=0))
    assert not set(coreset.indices) & {5, 300, 700}
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])


def test_a_file_that_changes_between_the_passes_is_noticed(tmp_path, monkeypatch):
    X = points("float64")

    def build_while(change, kind: str) -> None:
        folder = tmp_path / kind
        shutil.rmtree(folder, ignore_errors=True)
        write_parts(folder, X, [400])
        source = lwcs.scan(str(folder))
        passes = []
        read = source.batches

        def batches():
            passes.append(1)
            if len(passes) == 2:
                change(folder / "001.parquet")
            return read()

        source.batches = batches
        lwcs.build(source, 50, random_state=0)

    def shrink(path: Path) -> None:
        pq.write_table(table(X[400:500]), path)

    def grow(path: Path) -> None:
        pq.write_table(table(X), path)

    def alter(path: Path) -> None:
        pq.write_table(table(X[400:][::-1]), path)

    for change in (shrink, grow, alter):
        with pytest.raises(ValueError, match="changed"):
            build_while(change, change.__name__)
    with pytest.raises((ValueError, FileNotFoundError), match=r"changed|vanished"):
        build_while(Path.unlink, "unlink")
    # The same times and sizes, other rows: the sums of the second round tell.
    monkeypatch.setattr("lwcs.sources.files.change_detection.Stamps.check", lambda *_: None)

    def scale(path: Path) -> None:
        pq.write_table(table(1.01 * X[400:]), path)

    with pytest.raises(ValueError, match="changed between two passes"):
        build_while(scale, "scale")


def test_damaged_and_odd_files_are_named(tmp_path):
    X = points()
    folder = Path(write_parts(tmp_path / "p", X, [300, 600]))
    whole = (folder / "001.parquet").read_bytes()
    (folder / "001.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"001\.parquet|more files"):
        lwcs.build(folder, 50)
    pq.write_table(table(X[:100]).drop_columns(["x2"]), folder / "001.parquet")
    with pytest.raises(ValueError, match=r"001\.parquet' has no column 'x2'"):
        lwcs.build(folder, 50)
    # Without the column that it lacks, it is read.
    assert lwcs.build(lwcs.scan(folder, columns=["x0", "x1"]), 50).n_samples == 300 + 100 + 400
    pq.write_table(table(X[:0]), folder / "001.parquet")
    assert lwcs.build(folder, 50).n_samples == 700
    (tmp_path / "none").mkdir()
    pq.write_table(table(X[:0]), tmp_path / "none" / "x.parquet")
    with pytest.raises(ValueError, match="no rows"):
        lwcs.build(tmp_path / "none", 50)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("a,b\n1,2\n" + "3,4\n" * 200_000 + "5,oops\n", "oops"),
        ("a,b\n1,2\n3,\n", "'b' has a missing value in row 1"),
        ("", "no rows"),
        ("a,b\n", "no rows"),
        ("a,b\nx,y\n", "no column of .* holds numbers: 'a' holds text"),
    ],
)
def test_bad_csv_is_explained(text, message, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        lwcs.build(path, 5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = Path(write_parts(tmp_path / "p", points(), [])) / "000.parquet"
    path.chmod(0)
    with pytest.raises(PermissionError):
        lwcs.build(path, 5)


def test_options_that_do_not_go_together(tmp_path):
    path = Path(write_parts(tmp_path / "p", points(), []))
    with pytest.raises(ValueError, match="weights in an array are for rows in memory"):
        lwcs.build(path, 5, sample_weight=np.ones(ROWS))
    with pytest.raises(ValueError, match="did you mean 'drop'"):
        lwcs.scan(path, missing="dorp")
    with pytest.raises(ValueError, match="delimiter= is for text files"):
        lwcs.scan(points(), delimiter=";")
    with pytest.raises(ValueError, match="batch_size"):
        lwcs.scan(path, batch_size=0)


@pytest.mark.usefixtures("small_partitions")
def test_the_estimator_reads_paths(tmp_path):
    X = points()
    folder = write_parts(tmp_path / "p", X, [300])
    model = lwcs.CoresetKMeans(4, coreset_size=200, polish=1, random_state=0).fit(folder)
    parts = [table(X[a : a + 64]) for a in range(0, ROWS, 64)]
    same = lwcs.CoresetKMeans(4, coreset_size=200, polish=1, random_state=0).fit(
        lwcs.PartitionedSource(parts)
    )
    np.testing.assert_array_equal(model.cluster_centers_, same.cluster_centers_)
    assert model.inertia_ == pytest.approx(same.inertia_)
    np.testing.assert_array_equal(model.predict(folder), model.predict(table(X)))
    assert model.score(folder) == pytest.approx(-model.inertia_)
    with pytest.raises(AttributeError, match="predict"):
        _ = model.labels_
