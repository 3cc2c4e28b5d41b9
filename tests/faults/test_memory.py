"""Memory does not grow with the rows, nor with threads, and a limit of it holds."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tests.faults.commands import complete, peak_memory, refusal, refused, write_rows

LIMIT = 700e6


pytestmark = pytest.mark.soak


@pytest.mark.parametrize("files", [5, 30])
def test_seven_hundred_megabytes_are_enough(files, tmp_path):
    """A million rows × 32 float32 a file: 0.64 and 3.8 GB."""
    rows, model = write_rows(tmp_path / "rows", files, 1_000_000, 32), str(tmp_path / "m.parquet")
    commands = {
        "build": ["build", rows, "--size", "20000", "-o", str(tmp_path / "c.parquet")],
        "one pass": ["build", rows, "--size", "20000", "--passes", "1", "-o",
                     str(tmp_path / "d.parquet")],
        "fit": ["fit", rows, "-k", "100", "--size", "20000", "-o", model],
        "assign": ["assign", rows, model, "-o", str(tmp_path / "l.parquet")],
    }  # fmt: skip
    peaks = {name: peak_memory(*arguments) for name, arguments in commands.items()}
    print(f"\n{files} M rows:", {name: f"{peak / 1e6:.0f} MB" for name, peak in peaks.items()})
    assert max(peaks.values()) <= LIMIT


@pytest.mark.parametrize("columns", [16, 74])
@pytest.mark.parametrize("rows_per_group", [50_000, 1_000_000], ids=["small", "large"])
def test_a_limit_holds_whatever_the_threads(columns, rows_per_group, tmp_path, monkeypatch):
    """Above what the same command takes for a thousand rows, with the same kernels."""
    monkeypatch.setenv("LWCS_KERNEL", "native")
    few = write_rows(tmp_path / "few", 1, 1_000, columns)
    rows = write_rows(tmp_path / "rows", 3, 600_000, columns, rows_per_group)
    said = refusal("build", rows, "--size", "1000", "-o", "-", "--memory", "20MB")
    least = int(said.split("pass --memory ")[1].split("MB")[0])
    peaks = {}
    for command in (["build", "--size", "1000"], ["build", "--size", "1000", "--passes", "1"]):
        options = [*command[1:], "-o", str(tmp_path / "c.parquet"), "-q"]
        alone = peaks["alone"] = peak_memory(command[0], few, *options)
        for limit in (least, 2 * least, 512):
            for jobs in ("2", "64"):
                own = ["--memory", f"{limit}MB", "--jobs", jobs]
                peak = peak_memory(command[0], rows, *options, *own) - alone
                peaks[" ".join([*command[3:], str(limit), jobs])] = round(peak / 1e6)
                assert peak <= limit * 1e6, peaks
    peaks["alone"] = round(peaks["alone"] / 1e6)
    print(f"\n{columns} columns, MB:", peaks)


LAYOUTS = {
    "16 columns, small row groups": (16, 2_000_000, 20_000),
    "16 columns, large row groups": (16, 2_000_000, 1_000_000),
    "16 columns, CSV": (16, 400_000, None),
    "500 columns, small row groups": (500, 200_000, 5_000),
    "500 columns, large row groups": (500, 200_000, 100_000),
    "500 columns, CSV": (500, 20_000, None),
}
"""Columns, rows, and rows per row group."""
PYTHON, ON_TOP = 250, 250
"""MB that Python and its libraries take at most, and these with what a command returns."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_command_holds_its_limit_or_names_one_that_it_holds(layout, tmp_path, monkeypatch):
    monkeypatch.setenv("LWCS_KERNEL", "native")
    columns, n_rows, group = LAYOUTS[layout]
    data = write_rows(tmp_path / "rows", 1, n_rows, columns, group)
    if group is None:
        table = pq.read_table(data)
        data = str(tmp_path / "rows.csv")
        csv.write_csv(table, data)
        del table
    model = str(tmp_path / "m.parquet")
    complete("fit", data, "-k", "5", "--size", "500", "-o", model)
    commands = {
        "build": ["build", data, "--size", "1000", "-o", str(tmp_path / "c.parquet")],
        "fit": ["fit", data, "-k", "20", "--size", "5000", "-o", str(tmp_path / "n.parquet")],
        "assign": ["assign", data, model, "-o", str(tmp_path / "l.parquet")],
        "keep": ["assign", data, model, "--keep", "x*", "-o", str(tmp_path / "k.parquet")],
    }
    peaks = {}
    few = write_rows(tmp_path / "few", 1, 1_000, columns)
    for name, command in commands.items():
        alone = peak_memory(command[0], few, *command[2:], "-q") / 1e6
        peaks[f"{name} alone"] = round(alone)
        assert alone <= PYTHON, peaks
        # The smallest limit that this command does not refuse, and a larger one.
        least = refused(*command, "--memory", "20MB") or 20
        for limit in sorted({least, max(least, 512)}):
            peak = peak_memory(*command, "-q", "--memory", f"{limit}MB") / 1e6
            peaks[f"{name} {limit}"] = round(peak)
            assert peak <= limit + ON_TOP, peaks
    print(f"\n{layout}, MB:", peaks)
