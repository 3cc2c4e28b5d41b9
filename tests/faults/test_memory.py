"""Memory does not grow with the rows, nor with threads, and a limit of it holds."""

from __future__ import annotations

import pytest

from tests.faults.commands import peak_memory, refusal, write_rows

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
    monkeypatch.setenv("LWCS_KERNEL", "compiled")
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
