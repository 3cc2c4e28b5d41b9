"""Odd files: types that differ, vectors with gaps, headers of spreadsheets, globs, coresets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.sources.parts import ROWS, points, write_parts


@pytest.mark.parametrize("small_group", [0, 2**25], ids=["paged", "whole groups"])
def test_types_that_differ_between_files_are_widened(small_group, tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", small_group)
    pq.write_table(pa.table({"x": [1, 2, 3], "y": pa.nulls(3)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [0.5, 1.5], "y": [1e300, 2.0]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"'y' has a missing value in row 0 of .*a\.parquet"):
        lwcs.build(tmp_path, 50)
    coreset = lwcs.build(lwcs.scan(tmp_path, columns=["x"]), 500, random_state=0)
    assert set(coreset.points.ravel()) == {0.5, 1.0, 1.5, 2.0, 3.0}
    assert coreset.mean[0] == pytest.approx(1.6)
    pq.write_table(pa.table({"x": ["word"]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="types that do not go together"):
        lwcs.build(tmp_path, 50)


def test_vectors_with_gaps_are_dropped_or_named(tmp_path):
    rows = [[1.0, 2.0] for _ in range(10)]
    rows[3], rows[7], rows[5] = None, [None, 5.0], [float("nan"), 1.0]
    for kind in (pa.float64(), pa.decimal128(10, 2)):
        values = rows if kind == pa.float64() else [*rows[:5], [1.0, 1.0], *rows[6:]]
        if kind != pa.float64():
            from decimal import Decimal

            values = [
                v if v is None else [None if x is None else Decimal(str(x)) for x in v]
                for v in values
            ]
        column = pa.array(values, pa.list_(kind, 2))
        pq.write_table(pa.table({"v": column}), tmp_path / "v.parquet")
        with pytest.raises(ValueError, match="'v' has a missing value in row 3"):
            lwcs.build(tmp_path / "v.parquet", 5)
        source = lwcs.scan(tmp_path / "v.parquet", missing="drop")
        coreset = lwcs.build(source, 400, random_state=0)
        gone = {3, 7, 5} if kind == pa.float64() else {3, 7}
        assert coreset.details["dropped"] == len(gone)
        assert not set(coreset.indices) & gone


def test_rows_are_counted_in_their_file_whatever_the_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.base.block_rows", lambda _: 64)
    rows = [[1.0, 2.0]] * 1000
    rows[777] = None
    pq.write_table(
        pa.table({"v": pa.array(rows, pa.list_(pa.float64(), 2))}), tmp_path / "v.parquet"
    )
    with pytest.raises(ValueError, match="in row 777 of"):
        lwcs.build(tmp_path / "v.parquet", 5)
    w = np.ones(1000)
    w[500] = -1.0
    pq.write_table(pa.table({"x": np.arange(1000.0), "w": w}), tmp_path / "w.parquet")
    with pytest.raises(ValueError, match=r"weight in row 500, column 'w' of .*w\.parquet is -1"):
        lwcs.build(lwcs.scan(tmp_path / "w.parquet", weight="w"), 5)


def test_bad_values_are_named_by_every_method(tmp_path):
    X = points("float64", 20)
    X[15, 1] = np.nan
    folder = write_parts(tmp_path / "p", X, [10])
    for build in (
        lambda: lwcs.build(folder, 500, method="uniform", random_state=0),
        lambda: lwcs.CoresetKMeans(2).fit(folder),
        lambda: lwcs.build(folder, 50, passes=1, random_state=0),
    ):
        with pytest.raises(ValueError, match=r"row 5, column 1 \('x1'\) of .*001\.parquet is nan"):
            build()


def test_dropped_rows_are_predicted_as_no_cluster(tmp_path):
    table = pa.table({"x": [1.0, None, 2.0, 3.0]})
    pq.write_table(table, tmp_path / "x.parquet")
    source = lwcs.scan(tmp_path / "x.parquet", missing="drop")
    model = lwcs.CoresetKMeans(1, random_state=0).fit(source)
    assert model.predict(source).tolist() == [0, -1, 0, 0]
    pq.write_table(pa.table({"x": pa.nulls(3, pa.float64())}), tmp_path / "n.parquet")
    with pytest.raises(ValueError, match="every row has a missing value"):
        lwcs.build(lwcs.scan(tmp_path / "n.parquet", missing="drop"), 5)


def test_headers_as_spreadsheets_write_them(tmp_path):
    for text in (b"\xef\xbb\xbfx,y\n1,2\n3,4\n", b'"a,b",c\n1,2\n3,4\n', b"x, y\n1,2\n3,4\n"):
        (tmp_path / "x.csv").write_bytes(text)
        assert lwcs.build(tmp_path / "x.csv", 5).n_samples == 2


def test_globs_with_dots_slashes_and_folders(tmp_path, monkeypatch):
    write_parts(tmp_path / "p", points(), [300])
    flavor = ds.partitioning(pa.schema([("y", pa.int32())]), flavor="hive")
    rows = pa.table({"y": [1, 1, 2], "v": [1.0, 2.0, 3.0]})
    ds.write_dataset(rows, tmp_path / "h", format="parquet", partitioning=flavor)
    monkeypatch.chdir(tmp_path)
    for wish in ("./p/*.parquet", "p//*.parquet", "././p/*.parquet"):
        assert lwcs.scan(wish).n_rows == ROWS
    assert lwcs.scan("h/y=*", exclude="y").n_rows == 3
    # A folder that is called like a column of its files does not get in its way.
    (tmp_path / "x=word").mkdir()
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "x=word" / "a.parquet")
    assert lwcs.scan("x=word/a.parquet").feature_names == ("x",)


def test_what_lwcs_saved_is_no_table_of_rows(tmp_path):
    lwcs.build(points(), 10, random_state=0).save(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"open it with lwcs\.load"):
        lwcs.scan(tmp_path / "c.parquet")


def test_whole_numbers_that_turn_into_fractions(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,2\n" * 300_000 + "1.5,2.5\n")
    coreset = lwcs.build(path, 2_000, random_state=0)
    assert coreset.n_samples == 300_001
    assert [1.5, 2.5] in coreset.points.tolist()


def test_an_empty_csv_among_full_ones(tmp_path):
    for name, text in (("a", "x\n1\n2\n"), ("b", ""), ("c", "x\n5\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    assert lwcs.build(tmp_path, 5).n_samples == 3
