"""Columns in the names of folders: numbers and text are told apart alike for every format."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import lwcs

WRITERS = {"parquet": pq.write_table, "feather": feather.write_feather, "csv": pc.write_csv}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize(
    ("folders", "column", "values"),
    [
        (["year=2020", "year=2021"], "year", [2020, 2021]),
        (["ts=1700000000", "ts=-2147483648"], "ts", [1_700_000_000, -(2**31)]),
        (["day%20of%20year=7", "day%20of%20year=08"], "day of year", [7, 8]),
    ],
)
def test_numbers_in_names_of_folders_can_be_features(folders, column, values, ending, tmp_path):
    for i, folder in enumerate(folders):
        (tmp_path / folder).mkdir()
        WRITERS[ending](pa.table({"x": [float(i)]}), tmp_path / folder / f"rows.{ending}")
    coreset = lwcs.build(lwcs.scan(tmp_path, columns=["x", column]), 40, random_state=0)
    assert {tuple(point) for point in coreset.points} == {(0.0, values[0]), (1.0, values[1])}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("value", ["2147483648", "2020-01-01", "+3", "1.5"])
def test_anything_else_in_names_of_folders_is_text(value, ending, tmp_path):
    (tmp_path / f"key={value}").mkdir()
    WRITERS[ending](pa.table({"x": np.arange(3.0)}), tmp_path / f"key={value}" / f"rows.{ending}")
    with pytest.raises(TypeError, match="column 'key' holds text"):
        lwcs.build(lwcs.scan(tmp_path, columns=["x", "key"]), 2)
