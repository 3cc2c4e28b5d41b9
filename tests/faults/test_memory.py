"""Memory does not grow with the rows: building, fitting and assigning 5 and 30 million of them."""

from __future__ import annotations

import pytest

from tests.faults.commands import peak_memory, write_rows

LIMIT = 700e6


@pytest.mark.soak
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
