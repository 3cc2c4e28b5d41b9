"""`python -m benchmarks.gpu [--quick] [--markdown FILE] [CASE …]`: speed on a GPU, as one table.

Each figure stands beside its limit or its peer, in the same run: they take turns, and the best of
several rounds counts, by the wall clock, Python included. Where something fails or is missing, the
table says so and the other cases go on. `--cpu-smoke` shows on small tensors in host memory that
every case runs; with LWCS_KERNEL=device they take the way of those on a device.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import torch

from benchmarks.gpu_cases import CASES, SMOKE, Rows, Sizes, reason
from benchmarks.gpu_table import HEADINGS, Line, cells, page, versions

DEVICE_TESTS = ("tests/device", "tests/kernels/device")


def tested() -> str:
    """The verdict of the tests that need a GPU."""
    folders = [folder for folder in DEVICE_TESTS if Path(folder).exists()]
    command = ["pytest", "-q", "-m", "gpu", *folders]
    # The shared fixtures of other tests need pyarrow; these tests do not.
    without = [] if importlib.util.find_spec("pyarrow") else ["--noconftest"]
    # Side by side, since most of their time goes into compiling kernels.
    if importlib.util.find_spec("xdist"):
        without += ["-n", "8", "-p", "no:benchmark"]
    done = subprocess.run(
        [sys.executable, "-m", *command, *without], capture_output=True, text=True, check=False
    )
    print(done.stdout[-4000:], done.stderr[-2000:], sep="\n", flush=True)
    verdict = (done.stdout.strip().splitlines() or ["nothing was printed"])[-1].strip("= ")
    return f"Tests that need a GPU: {verdict}, by `{' '.join(command)}`."


def chosen_sizes(options: argparse.Namespace) -> Sizes:
    """The requested sizes, as far as the memory of the device allows."""
    if options.cpu_smoke:
        return SMOKE
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU; pass --cpu-smoke to run every case on the CPU, on few rows")
    sizes = Sizes().by(0.1) if options.quick else Sizes()
    # Textbook torch holds three times the rows.
    room = 0.25 * torch.cuda.get_device_properties(0).total_memory
    needed = 4.0 * sizes.rows * sizes.columns
    return sizes if needed <= room else sizes.by(room / needed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--cpu-smoke", action="store_true", help="few rows, in host memory")
    parser.add_argument("--tests", action="store_true", help="run the tests that need a GPU first")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page there")
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    sizes = chosen_sizes(options)
    verdict = tested() if options.tests else ""
    print(f"{date.today()}, {versions(sizes.device)}", HEADINGS, sep="\n", flush=True)
    rows, lines = Rows(sizes.device), []
    for name in options.cases or CASES:
        for line in _measured(name, sizes, rows):
            lines.append(cells(line, sizes.full))
            print(lines[-1], flush=True)
            # Printed at once: the machine may be available for a few minutes only.
            if options.markdown:
                text = page(lines, sizes.device, _arguments(options), verdict)
                options.markdown.write_text(text, encoding="utf-8")


def _arguments(options: argparse.Namespace) -> str:
    """The arguments that affect the figures, without the file that they are written to."""
    flags = {"--quick": options.quick, "--cpu-smoke": options.cpu_smoke, "--tests": options.tests}
    return " ".join([*(flag for flag, given in flags.items() if given), *options.cases])


def _measured(name: str, sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """The lines of a case; if it fails, one that says so."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from CASES[name](sizes, rows)
    except Exception as error:
        yield Line(name, (sizes.rows, sizes.columns), reason(error))
    print(f"{name}: {time.perf_counter() - start:.1f} s in all", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
