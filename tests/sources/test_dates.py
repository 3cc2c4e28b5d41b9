"""Dates as days since 1970, in files and tables, and what is said where they are left out."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.sources.column_types import days_of
from lwcs.sources.files.csv_values import date_format
from tests.cli.running import run
from tests.sources.containers import CONTAINERS

N = 300
RNG = np.random.default_rng(0)
DAYS = RNG.integers(-3_000, 20_000, N)
X = RNG.normal(size=N)
TABLE = pa.table({"x": X, "day": pa.array(DAYS.astype(np.int32)).cast(pa.date32())})


@pytest.mark.parametrize("container", CONTAINERS)
def test_dates_are_days_since_1970_in_every_container(container, tmp_path):
    source = lwcs.scan(CONTAINERS[container](TABLE, tmp_path), dates="days")
    assert source.feature_names == ("x", "day")
    coreset = lwcs.build(source, 50, random_state=0)
    np.testing.assert_array_equal(coreset.points[:, 1], DAYS[coreset.indices])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_the_time_of_day_is_a_fraction(unit, zone):
    noon = datetime.datetime(1970, 1, 3, 12, tzinfo=datetime.UTC)
    column = pa.array([noon, None], pa.timestamp("s", "UTC")).cast(pa.timestamp(unit, zone))
    assert days_of(column).to_pylist() == [2.5, None]


def test_dates_that_are_missing_are_gaps(tmp_path):
    frame = TABLE.to_pandas()
    frame.loc[7, "day"] = None
    kept = lwcs.build(lwcs.scan(frame, dates="days", missing="drop"), 500, random_state=0)
    assert kept.details["dropped"] == 1
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="'day' has a missing value in row 7"):
        lwcs.build(lwcs.scan(tmp_path / "t.csv", dates="days"), 50)


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("%Y-%m-%d", "2024-01-31"),
        ("%Y-%m-%d %H:%M:%S", "2024-01-31"),
        ("%Y-%m-%dT%H:%M:%SZ", "2024-01-31"),
        ("%d.%m.%Y", "31.01.2024"),
        ("%d/%m/%Y", "31/01/2024"),
        ("%m/%d/%Y", "01/31/2024"),
    ],
)
def test_dates_in_csv_files_are_read_as_they_are_written(form, first, tmp_path):
    days = pd.Series(pd.to_datetime("2024-01-31") + pd.to_timedelta(np.arange(N), "D"))
    frame = pd.DataFrame({"x": X, "day": days.dt.strftime(form)})
    assert frame["day"][0].startswith(first)
    frame.to_csv(tmp_path / "t.csv", index=False)
    coreset = lwcs.build(lwcs.scan(tmp_path / "t.csv", dates="days"), 50, random_state=0)
    np.testing.assert_array_equal(coreset.points[:, 1], 19_753.0 + coreset.indices)


@pytest.mark.parametrize(
    "values",
    [
        ["01/02/2024", "03/04/2024"],  # which is the month?
        ["31/01/2024", "01/31/2024"],
        ["2024-01-31", "31.01.2024"],
        ["2024-01-31T10:00Z", "2024-01-31T10:00"],
        ["10:30", "11:45"],
        ["2024-1-5"],
        [""],
    ],
)
def test_a_form_that_is_not_certain_is_not_guessed(values):
    assert date_format(values) is None


@pytest.mark.parametrize("bad", ["soon", "2024-13-01", "31.01.2024"])
def test_a_value_that_is_no_date_is_named_with_its_row(bad, tmp_path):
    text = ["x,day", *(f"{i},2024-01-{i % 28 + 1:02}" for i in range(20_000)), f"1,{bad}"]
    (tmp_path / "t.csv").write_text("\n".join(text))
    with pytest.raises(ValueError, match=rf"'day' holds dates, but '{bad}' in row 20000 of"):
        lwcs.build(lwcs.scan(tmp_path / "t.csv", dates="days"), 50)


def test_what_is_said_of_dates_that_are_left_out_can_be_done(tmp_path):
    pq.write_table(TABLE, tmp_path / "t.parquet")
    TABLE.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        with pytest.warns(lwcs.ColumnWarning, match=r"lwcs.scan\(…, dates='days'\)"):
            lwcs.scan(tmp_path / name)
        with pytest.raises(TypeError, match=r"lwcs.scan\(…, dates='days'\)"):
            lwcs.scan(tmp_path / name, columns=["day"])
        code, _, said = run(
            "build", str(tmp_path / name), "--size", "50", "-o", str(tmp_path / "c.parquet")
        )
        assert code == 0
        assert "days since 1970 with --dates days" in " ".join(said.split())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert lwcs.scan(tmp_path / name, dates="days").n_features == 2


def test_arrays_have_no_dates():
    with pytest.raises(TypeError, match="dates='days' names columns, but"):
        lwcs.scan(np.ones((3, 2)), dates="days")
    with pytest.raises(ValueError, match="dates='weeks' is not"):
        lwcs.scan(TABLE, dates="weeks")
    with pytest.raises(ValueError, match="dates= is given, but data is a Source already"):
        lwcs.scan(lwcs.scan(TABLE, columns="x"), dates="days")
