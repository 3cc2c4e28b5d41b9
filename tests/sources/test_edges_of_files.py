"""Files as they are exported in practice: read rightly, or refused with words."""

from __future__ import annotations

import warnings

import h5py
import numpy as np
import pandas as pd
import pytest

import lwcs
from tests.sources.test_edges_of_columns import rows_of

X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("x,y\n1,2,\n3,4,\n", r"2 values \('x', 'y'\)", "3 values"),
        ("x,y,\n1,2\n3,4\n", "3 values", "2 values"),
        ("# made by hand\nx,y\n1,2\n", r"1 value \('# made by hand'\)", "2 values"),
        ("x\n1,5\n2,5\n", r"1 value \('x'\)", r"2 values \('1', '5'\)"),
    ],
)
def test_a_header_that_does_not_fit_the_rows_is_said(text, first, second, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"first line of .*a.csv' has {first}.* {second}"):
        lwcs.scan(tmp_path / "a.csv")


def test_a_delimiter_at_the_end_of_every_line_is_no_column(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,\n1,2,\n3,4,\n")
    with pytest.warns(lwcs.ColumnWarning, match=r"'' \(no name and no values\)"):
        source = lwcs.scan(tmp_path / "a.csv")
    np.testing.assert_array_equal(rows_of(source), [[1, 2], [3, 4]])


def test_the_index_of_pandas_is_warned_of(tmp_path):
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "a.csv")
    with pytest.warns(lwcs.ColumnWarning, match="column '' looks like an identifier"):
        lwcs.build(tmp_path / "a.csv", 2)


def test_columns_of_numbers_that_only_later_files_have_are_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,y,z,note\n3,4,5,hi\n")
    with pytest.raises(ValueError, match=r"b.csv' has a column 'z' of numbers, but files before"):
        rows_of(lwcs.scan(tmp_path))
    np.testing.assert_array_equal(
        rows_of(lwcs.scan(tmp_path, columns=["x", "y"])), [[1, 2], [3, 4]]
    )
    (tmp_path / "b.csv").write_text("x,y,note\n3,4,hi\n")
    np.testing.assert_array_equal(rows_of(lwcs.scan(tmp_path)), [[1, 2], [3, 4]])


def test_a_file_with_other_columns_is_told_by_its_columns(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x;y\n3;4\n")
    with pytest.raises(ValueError, match=r"b.csv' has no column 'x'.*its columns are 'x;y'"):
        rows_of(lwcs.scan(tmp_path))


def test_several_columns_with_thousands_are_read(tmp_path):
    (tmp_path / "a.csv").write_text('x,t,y\n"1,234",a,"5,000"\n7,b,8\n')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lwcs.ColumnWarning)
        source = lwcs.scan(tmp_path / "a.csv", thousands=",")
    np.testing.assert_array_equal(rows_of(source), [[1234, 5000], [7, 8]])


@pytest.mark.parametrize("name", ["a.npy.gz", "a.parquet.gz", "a.h5.zst"])
def test_only_text_may_be_packed(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match="no file format that lwcs reads"):
        lwcs.scan(tmp_path / name)


def test_files_of_different_formats_are_refused_with_advice(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    np.save(tmp_path / "b.npy", X)
    with pytest.raises(ValueError, match=r"different formats.*pass those of one format"):
        lwcs.scan(tmp_path)


def test_links_in_hdf5_count_once_and_may_lead_nowhere_or_in_a_circle(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/X"] = X
        file["alias"] = h5py.SoftLink("/g/X")
        file["nowhere"] = h5py.SoftLink("/none")
        file["g/circle"] = h5py.SoftLink("/")
    np.testing.assert_array_equal(rows_of(lwcs.scan(tmp_path / "a.h5")), X)


def test_an_empty_dataset_of_hdf5_is_refused_with_words(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = h5py.Empty("f8")
    with pytest.raises(ValueError, match=r"a.h5' cannot be read: data has shape None"):
        lwcs.scan(tmp_path / "a.h5")


def test_nan_in_an_array_may_be_dropped_as_the_error_says():
    rows = np.where(X == 3.0, np.nan, X)
    with pytest.raises(ValueError, match=r"row 1, column 1 is nan.*missing='drop'"):
        lwcs.build(rows, 2)
    assert lwcs.build(lwcs.scan(rows, missing="drop"), 2).total_weight == 2


def test_names_of_folders_are_columns_of_csv_as_of_parquet(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    for year in (2023, 2024):
        for kind in ("csv", "parquet"):
            (tmp_path / kind / f"year={year}").mkdir(parents=True)
        frame.to_csv(tmp_path / "csv" / f"year={year}" / "p.csv", index=False)
        frame.to_parquet(tmp_path / "parquet" / f"year={year}" / "p.parquet")
    for kind in ("csv", "parquet"):
        with pytest.warns(lwcs.ColumnWarning, match=r"'year' \(from the names of folders\)"):
            source = lwcs.scan(tmp_path / kind)
        np.testing.assert_array_equal(rows_of(source), np.vstack([X, X]))
        named = rows_of(lwcs.scan(tmp_path / kind, columns=["year", "b"]))
        np.testing.assert_array_equal(named[:, 0], np.repeat([2023, 2024], 3))
        np.testing.assert_array_equal(named[:, 1], [*X[:, 1], *X[:, 1]])
        alone = rows_of(lwcs.scan(tmp_path / kind, columns="year"))
        np.testing.assert_array_equal(alone[:, 0], np.repeat([2023, 2024], 3))
